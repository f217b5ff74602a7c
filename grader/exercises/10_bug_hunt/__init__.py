"""Unit 10: programs with a bug."""

ORDER = ("case_3", "case_1", "case_4", "HuntedTrainer", "case_6", "case_9")
