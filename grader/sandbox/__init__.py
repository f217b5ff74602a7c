"""Runs students' code shut off and watched.

bubblewrap: a program that sees nothing but what it is given. programs, entering: how it begins there. hiding: of what is
forbidden it is given names only. watch, cgroup: what it may use up. accept: takes what leaves the sandbox. Inside it: cells,
kernel: runs a notebook's cells. hidden: what stands for a hidden module. hand_over: takes the functions over. collect: runs
them on ranks, writes evidence. isolation, apart: a rank in namespaces of its own. witness, streams, holders, weighing: read
the network, and the ranks' memory, from outside them.
"""

FUNCTIONS = "GRADER_FUNCTIONS"  # where cells leave functions; exercises.json in it: exercise -> its parameters
CHECK, END = "check", "end"  # versions of a function: at its released check cell, in the end; others have numbers
ENDED_KERNEL = "the kernel ended"  # the remark by which is known that the cell that began last is to blame
NOT_DEFINED = "no function"  # how the reason begins where nothing stood at a check cell
