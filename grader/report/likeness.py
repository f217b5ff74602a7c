"""Solutions that are nearly the same: what two students wrote and few others did, whatever they called their variables."""

import builtins
import keyword
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

GRAM = 9  # tokens that stand side by side
COMMON_SHARE, COMMON_FROM = 1 / 3, 3  # of the class, and more than so many: what is common is nobody's own
ENOUGH = 120  # grams that a pair must share: four or five short exercises
ALIKE = 0.8  # of the grams of the shorter of the two
MAX_CHARACTERS = 100_000  # of a source: more is not written by hand

Sources = Mapping[str, str]  # exercise -> what the student wrote in its solution cell

_TOKEN = re.compile(r"""
    (?P<comment>\#[^\n]*|^[ \t]*[%!][^\n]*)
  | (?P<text>[rRbBuUfF]{0,2}(?:'{3}.*?'{3}|"{3}.*?"{3}|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"))
  | (?P<name>[^\W\d]\w*)
  | (?P<number>\d[\w.]*)
  | (?P<sign>\*\*=?|//=?|<<=?|>>=?|->|:=|[-+*/%@&|^=<>!]=|\S)
""", re.VERBOSE | re.DOTALL | re.MULTILINE)
_KEPT = frozenset(keyword.kwlist) | frozenset(dir(builtins))


@dataclass(frozen=True)
class Pair:
    """Two students whose texts are alike. share: of the shorter text's grams; exercises: where."""

    students: tuple[str, str]
    share: float
    exercises: tuple[str, ...]


def near_identical(written: Mapping[str, Sources], released: Iterable[str]) -> list[Pair]:
    """Pairs of students who wrote nearly the same, the most alike first.

    written: student -> exercise -> source; released: the sources of the students' version, which count for nobody.
    Only a hint to look: short exercises have few honest solutions.
    """
    known = set().union(*map(grams, released))
    by_exercise = {student: {name: grams(source) - known for name, source in sources.items()}
                   for student, sources in written.items()}
    own = {student: frozenset().union(*parts.values()) for student, parts in by_exercise.items()}
    holders = Counter(gram for held in own.values() for gram in held)
    writers = sum(map(bool, own.values()))
    common = {gram for gram, count in holders.items() if count > max(COMMON_FROM, COMMON_SHARE * writers)}
    rare = {student: held - common for student, held in own.items()}
    held_by_two = {student: {gram for gram in held if holders[gram] > 1} for student, held in rare.items()}
    pairs = []
    for a, b in combinations(sorted(own), 2):
        n_shared = len(held_by_two[a] & held_by_two[b])
        shorter = min(len(rare[a]), len(rare[b]))
        if n_shared >= ENOUGH and n_shared >= ALIKE * shorter:
            exercises = tuple(name for name, held in by_exercise[a].items()
                              if _alike(held - common, by_exercise[b].get(name, frozenset()) - common))
            pairs.append(Pair((a, b), n_shared / shorter, exercises))
    return sorted(pairs, key=lambda pair: (-pair.share, pair.students))


def _alike(a: frozenset[int], b: frozenset[int]) -> bool:
    return bool(a and b) and len(a & b) >= ALIKE * min(len(a), len(b))


def grams(source: str) -> frozenset[int]:
    """Every run of GRAM tokens, as a number that is the same for the same run under other names."""
    found = tokens(source[:MAX_CHARACTERS])
    return frozenset(hash(_renamed(found[i:i + GRAM])) for i in range(len(found) - GRAM + 1))


def tokens(source: str) -> list[str]:
    """The text without layout, comments and docstrings; a name that the student chose begins with a blank."""
    found: list[str] = []
    for match in _TOKEN.finditer(source):
        kind, text = match.lastgroup, match.group()
        if kind == "text" and not source[source.rfind("\n", 0, match.start()) + 1:match.start()].strip():
            continue  # a docstring
        if kind == "name" and text not in _KEPT and found[-1:] != ["."]:
            text = " " + text
        if kind != "comment":
            found.append("''" if kind == "text" else text)
    return found


def _renamed(run: list[str]) -> tuple[str | int, ...]:
    """Names by the order in which they occur in this run: a line put in before it changes nothing."""
    numbers: dict[str, int] = {}
    return tuple(numbers.setdefault(token, len(numbers)) if token[0] == " " else token for token in run)
