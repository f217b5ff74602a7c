"""Begin a program of a sandbox: `python -m grader.sandbox cells 60`, or `collect`, with `--isolated` or without."""

import gc
import importlib
import sys

gc.disable()  # nothing of what is imported goes again: to look for it takes a seventh of the time
program = importlib.import_module(f"grader.sandbox.{sys.argv[1]}")
gc.freeze()
gc.enable()
program.main(sys.argv[2:])
