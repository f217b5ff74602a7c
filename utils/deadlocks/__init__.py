"""Who waits for whom, in words.

waits: whether anyone can still move. verdicts: the words for a deadlock. errors: the exceptions that runs end in.
"""
