"""How a case can end: words that whoever reads a record needs, too, and that need no torch."""

RETURNED, RAISED, DEADLOCKED, TIMED_OUT = "returned", "raised", "deadlocked", "timed out"
