"""Checks functions with the checks of the bundle that PYTHONPATH names, and prints the verdicts as JSON.

Arguments: of each function the exercise and a file in which it is pickled.
"""

import json
import sys
from pathlib import Path

import cloudpickle

from grader.checks import verdict_on
from grader.exercises import EXERCISES


def main() -> None:
    verdicts = {}
    for exercise, file in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        one = verdict_on(EXERCISES[exercise], cloudpickle.loads(Path(file).read_bytes()))
        verdicts[file] = {"points": one.points, "passed": one.passed, "hints": one.hint_ids, "text": str(one)}
    ours = {name: module.__file__ for name, module in sys.modules.items() if name.split(".")[0] in ("grader", "utils")
            and module.__file__}
    print(json.dumps({"verdicts": verdicts, "modules": ours}))


if __name__ == "__main__":
    main()
