"""Unit 01: collectives."""

ORDER = ("ring_all_reduce",)
