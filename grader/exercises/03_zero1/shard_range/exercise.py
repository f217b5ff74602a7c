"""Flat ranges: which part of a flat array of parameters is whose, when all parts but the last ones are equally long."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.evidence.evidence import RETURNED
from grader.exercises.shared.cases import each_rank, ranks
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import every_rank


def shard(n_elements: int, n_ranks: int, rank: int) -> tuple[int, int]:
    length = -(-n_elements // n_ranks)
    return min(rank * length, n_elements), min((rank + 1) * length, n_elements)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(12, 4), (10, 4), (5, 4), (3, 4), (0, 2), (7, 1), (draw.integer(20, 40) * 3 + 1, 3)]
    return [Case(f"{n_elements} number{'s' * (n_elements != 1)} on {ranks(n)}", tuple(
        {"n_elements": n_elements, "n_ranks": n, "rank": rank} for rank in range(n))) for n_elements, n in sizes]


# ── other rules, each a misconception: (n_elements, n_ranks, rank, the right range) -> range ──

Range = tuple[int, int]


def _down(n_elements: int, n_ranks: int, rank: int, right: Range) -> Range:
    return rank * (n_elements // n_ranks), (rank + 1) * (n_elements // n_ranks)


def _split(n_elements: int, n_ranks: int, rank: int, right: Range) -> Range:
    length, more = divmod(n_elements, n_ranks)
    start = rank * length + min(rank, more)
    return start, start + length + (rank < more)


def _uncut(n_elements: int, n_ranks: int, rank: int, right: Range) -> Range:
    length = (n_elements + n_ranks - 1) // n_ranks
    return rank * length, (rank + 1) * length


def _stop_cut(n_elements: int, n_ranks: int, rank: int, right: Range) -> Range:
    return _uncut(n_elements, n_ranks, rank, right)[0], right[1]


def _length(n_elements: int, n_ranks: int, rank: int, right: Range) -> Range:
    return right[0], right[1] - right[0]


def _inclusive(n_elements: int, n_ranks: int, rank: int, right: Range) -> Range:
    return right[0], right[1] - 1


RULES = (_down, _split, _uncut, _stop_cut, _length, _inclusive)


def _all(look: Look, rule: Callable[..., Range]) -> list[Range]:
    return [rule(*inputs.values(), right) for inputs, right in zip(look.case.inputs, look.right, strict=True)]


def _by(rule: Callable[..., Range]) -> Callable[[Look], bool]:
    """All ranges are this rule's, in a case where no other rule gives the same ones."""

    def matches(look: Look) -> bool:
        alone = sum(_all(look, other) == _all(look, rule) for other in RULES) == 1
        return alone and look.evidence.ending == RETURNED and list(map(tuple, look.outputs)) == _all(look, rule)

    return matches


EXERCISE = Exercise(
    title="Whose part of the flat array",
    parameters=("n_elements", "n_ranks", "rank"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: shard(**case.inputs[r])),
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("tail lost", "Rounding down, n_elements // n_ranks, leaves the last elements to nobody: round up.",
                _by(_down)),
        Symptom("lengths differ by one", "Balanced, but a reduce-scatter needs parts of one length: all have "
                                         "⌈n_elements/n_ranks⌉ elements, only the last ones are cut short.", _by(_split)),
        Symptom("beyond the end", "A range ends beyond the array: cut it at n_elements.", _by(_uncut)),
        Symptom("start beyond the end", "Some ranks have nothing left, and their range starts beyond the array: then start "
                                        "and stop are both n_elements.", _by(_stop_cut)),
        Symptom("length for stop", "The second number is where the range ends, not its length.", _by(_length)),
        Symptom("last included", "stop is the first element that is no longer part of the range.", _by(_inclusive)),
        Symptom("elements", "Returned are the elements themselves: wanted are two numbers, where the range starts and where "
                            "it stops.", every_rank(lambda look, r, found, _: not isinstance(found, (tuple, list)) or (
                                len(found) != 2))),
    ),
    ),
)
