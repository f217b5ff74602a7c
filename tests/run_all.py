"""Run all tests; a few that failed are run once more, alone: a busy machine may have been why. Both results are printed.

Many failures are no accident, and neither is a test that fails twice.  Usage: python -m tests.run_all [pytest's arguments]
"""

import json
import os
import subprocess
import sys
from pathlib import Path

FEW = 3
SOME_FAILED = 1  # pytest's exit status where all tests ran
LAST_FAILED = Path(__file__).parents[1] / ".pytest_cache" / "v" / "cache" / "lastfailed"


def main() -> int:
    LAST_FAILED.unlink(missing_ok=True)
    status = subprocess.run(["pytest", *sys.argv[1:]]).returncode
    failed = [_without_group(name) for name in json.loads(LAST_FAILED.read_text())] if status == SOME_FAILED else []
    if not 0 < len(failed) <= FEW:
        return status
    print(f"\n{len(failed)} failed. Once more, alone, with nothing beside:\n  " + "\n  ".join(failed), flush=True)
    without_workers = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return subprocess.run(["pytest", "-q", "-rfEs", *failed], env=without_workers).returncode


def _without_group(name: str) -> str:
    """A test's id as pytest takes it: under pytest-xdist it may end with @ and the group that it belongs to."""
    test, _, group = name.rpartition("@")
    return test if test and "]" not in group else name


if __name__ == "__main__":
    sys.exit(main())
