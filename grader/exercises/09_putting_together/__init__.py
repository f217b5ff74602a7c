"""Unit 09: a mesh of ranks, experts, a planner, and programs with a bug."""

ORDER = ()
