"""`python -m utils.planner`: the command line of command.py."""

import sys

from utils.planner.command import main

if __name__ == "__main__":
    sys.exit(main())
