"""Unit 10: programs with a bug."""

ORDER = (
    "case_1", "case_2", "case_3", "case_4", "case_5", "case_6", "case_7", "case_8", "case_9", "case_10",
)
