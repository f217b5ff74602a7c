"""Checks functions with the checks of the bundle that PYTHONPATH names, and prints the verdicts as JSON.

Arguments: names such as "solutions/reduce", "notebooks/reduce" (the skeleton) and "mutants/reduce/3" (the fourth).
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from grader.checks import verdict_on
from grader.exercises import EXERCISES

sys.path.append(str(Path(__file__).resolve().parent.parent))  # at the end: for the tests' own modules, not for grader
from tests.mutants import mutants_of
from tests.notebooks import functions_of


def function_of(kind: str, exercise: str, number: str = "") -> Callable:
    """A reference, a skeleton or a mutant."""
    unit = EXERCISES[exercise].unit
    if kind != "mutants":
        return functions_of(kind, unit)[exercise]
    return mutants_of(unit, exercise)[int(number)].make()


def main() -> None:
    verdicts = {}
    for name in sys.argv[1:]:
        one = verdict_on(EXERCISES[name.split("/")[1]], function_of(*name.split("/")))
        verdicts[name] = {"points": one.points, "passed": one.passed, "hints": one.hint_ids, "text": str(one)}
    ours = {name: module.__file__ for name, module in sys.modules.items() if name.split(".")[0] in ("grader", "utils")
            and module.__file__}
    print(json.dumps({"verdicts": verdicts, "modules": ours}))


if __name__ == "__main__":
    main()
