"""Print environment.yml's pip list for `pip install -r`, so that conda and pip install one list; or one of our extras.

Usage: python tools/requirements.py [cluster]
"""

import sys
import tomllib
from pathlib import Path


def pip_list(environment: str) -> list[str]:
    """The entries below "- pip:", which is the last thing in the file, without their comments."""
    _, below = environment.split("- pip:\n")
    entries = [line.split("#")[0].strip() for line in below.splitlines()]
    return [entry.removeprefix("- ") for entry in entries if entry]


if __name__ == "__main__" and sys.argv[1:]:
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    print("\n".join(project["optional-dependencies"][sys.argv[1]]))
elif __name__ == "__main__":
    print("\n".join(pip_list(Path("environment.yml").read_text(encoding="utf-8"))))
