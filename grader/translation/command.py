"""Write the catalogues of a language, or bring them up to date, and say what waits for a translator."""

import argparse
import sys

from babel.core import Locale, UnknownLocaleError
from babel.messages.pofile import PoFileError

from grader.translation.catalogues import file_of, state_of, text_of, updated
from grader.translation.sentences import GENERAL, SOURCES

MISUSED = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("language", help='its code, such as "zh", "de" or "pt_BR"')
    parser.add_argument("catalogues", nargs="*", metavar="CATALOGUE",
                        help=f"units, such as 01_collectives, or {GENERAL}: those that there are, unless named")
    parser.add_argument("--check", action="store_true", help="change nothing; fail if anything is to be done")


def run(arguments: argparse.Namespace) -> int:
    """0: in order, or written. 1: --check found something. 2: refused."""
    language, asked = arguments.language, arguments.catalogues
    if unknown := sorted(set(asked) - SOURCES.keys()):
        return _refuse(f"there is no catalogue {', '.join(unknown)}; expected some of {', '.join(SOURCES)}")
    try:
        Locale.parse(language)
    except (UnknownLocaleError, ValueError):
        return _refuse(f"{language!r} is no code of a language; expected one like \"zh\" or \"pt_BR\"")
    names = [name for name in SOURCES if name in asked or name == GENERAL or file_of(language, name).exists()]
    in_order = True
    for name in names:
        try:
            catalogue = updated(language, name)
        except PoFileError as error:
            return _refuse(f"{file_of(language, name)} cannot be read: {error}")
        state, file = state_of(name, catalogue), file_of(language, name)
        in_order &= state.in_order and file.exists()
        if not arguments.check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text_of(catalogue))
        print("\n".join(state.lines()))
    return 1 if arguments.check and not in_order else 0


def _refuse(words: str) -> int:
    print(f"Nothing was changed: {words}", file=sys.stderr)
    return MISUSED
