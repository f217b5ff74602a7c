"""The command line for instructors and authors: `python -m grader COMMAND`; a command's module has add_arguments and run."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

COMMANDS = {
    "assign": "grader.course.assign",
    "autograde": "grader.course.batch",
    "collect": "grader.course.collect",
    "handback": "grader.course.handback",
    "points": "grader.course.points",
    "report": "grader.report.command",
    "new": "grader.course.scaffold",
    "translate": "grader.translation.command",
    "try": "grader.course.try_one",
}

# What marking needs besides what the course needs, and `make lab` doesn't install.
MARKING = {"nbgrader", "nbclient", "nbconvert", "jupyter_client", "sqlalchemy", "pygments", "psutil", "psycopg"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    try:
        return _run(argv)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in MARKING:
            raise
        print(f"{error.name} isn't installed here: `make install` installs what marking needs.", file=sys.stderr)
        return 1


def _run(argv: Sequence[str] | None) -> int:
    """A command's help is the first line of its module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m grader", description="Marks for a whole class, and new exercises.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    argv = sys.argv[1:] if argv is None else list(argv)
    for name in argv[:1] if argv and argv[0] in COMMANDS else COMMANDS:  # of the others nothing needs to be imported
        module = import_module(COMMANDS[name])
        command = commands.add_parser(name, help=module.__doc__.splitlines()[0], description=module.__doc__)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    arguments = parser.parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a student's name still gets the rest
    try:
        return arguments.run(arguments)
    except BrokenPipeError:  # whoever read the output has seen enough (`| head`)
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  else Python complains when it closes it
        return 0


if __name__ == "__main__":
    sys.exit(main())
