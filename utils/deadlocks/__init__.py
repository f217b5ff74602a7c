"""Who waits for whom, in words.

waits: whether anyone can still move. verdicts: the words for a deadlock. errors: the exceptions that runs end in. advice:
what to do about errors of torch in programs that were written for a launcher. oversights: mistakes that a run survives.
"""
