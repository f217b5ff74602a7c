"""Print what of environment.yml's pip list `pip install -r` should install, so that conda and pip install one list.

Usage: python tools/requirements.py [everything | cluster]
What the course needs; with `everything` the whole list, as conda installs it; with `cluster` that extra of pyproject.toml.
"""

import sys
import tomllib
from pathlib import Path

PART = "\n      # "  # begins a part of the list


def pip_list(environment: str) -> list[str]:
    """The entries below "- pip:", which is the last thing in the file, without their comments."""
    _, below = environment.split("- pip:\n")
    entries = [line.split("#")[0].strip() for line in below.splitlines()]
    return [entry.removeprefix("- ") for entry in entries if entry]


def of_the_course(environment: str) -> str:
    """The file without the parts that the course itself doesn't need."""
    before, course, *others = environment.split(PART)
    return PART.join([before, course, *others[-1:]])


if __name__ == "__main__":
    extra, environment = sys.argv[1:], Path("environment.yml").read_text(encoding="utf-8")
    if extra in ([], ["everything"]):
        print("\n".join(pip_list(environment if extra else of_the_course(environment))))
    else:
        project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
        print("\n".join(project["optional-dependencies"][extra[0]]))
