"""What enters the sandbox beside utils: runs the cells, takes the functions over, runs them on ranks, writes evidence.

Nothing here knows an exercise's cases, oracle or points.
"""

FUNCTIONS = "GRADER_FUNCTIONS"  # where cells leave functions; exercises.json in it: exercise -> its parameters
