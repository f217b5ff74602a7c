"""The command line for instructors and authors: `python -m grader COMMAND`; a command's module has add_arguments and run."""

import argparse
import sys
from collections.abc import Sequence

from grader.course import batch, scaffold
from grader.report import command as report

COMMANDS = {
    "autograde": batch,
    "report": report,
    "new": scaffold,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit code. A command's help is the first line of its module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m grader", description="Marks for a whole class, and new exercises.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.__doc__.splitlines()[0], description=module.__doc__)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    arguments = parser.parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a student's name still gets the rest
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
