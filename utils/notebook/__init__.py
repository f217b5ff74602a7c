"""What belongs to a notebook alone.

magic: %%ranks. cell_body: a cell's code as a function. other_units: what the reader wrote in another unit.
predictions: questions before a result is seen, and guesses beside it. fields: where a guess is typed. record: what the
reader has checked and guessed, in a file.
beside: a program's notes beside one plain process. timing: times of several ways of doing one thing.
"""
