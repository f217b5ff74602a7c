"""Unit 00: start here."""

ORDER = ("hello_rank", "speak_in_order", "global_mean", "pass_right")
