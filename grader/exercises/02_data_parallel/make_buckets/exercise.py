"""Make buckets: parameters in the order in which their gradients come, cut into pieces of a given size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Symptom, Technique
from grader.judging.symptoms import raised, wrong_ranks


def buckets(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """From the last index to the first; a new bucket when the next one would not fit."""
    found: list[list[int]] = []
    held = 0
    for index in reversed(range(len(sizes))):
        if not found or held + sizes[index] > limit:
            found.append([])
            held = 0
        found[-1].append(index)
        held += sizes[index]
    return found


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def of(name: str, sizes: list[int], limit: int) -> Case:
        return Case(name, ({"sizes_bytes": sizes, "bucket_bytes": limit},))

    mixed = [draw.integer(1, 9) * 100 for _ in range(draw.integer(8, 12))]
    cases = [
        of("all fit into one", [400, 100, 200], 1000),
        of("each fills one", [100, 100, 100], 100),
        of("one larger than a bucket", [100, 5000, 200, 300], 1000),
        of("of many sizes", mixed, 1000),
        of("none", [], 1000),
    ]
    return cases + [of("of many sizes, small buckets", mixed, 700)] * grading


def _each(test: Callable[[list, list, list[int], int], bool]) -> Callable:
    """test(found, expected, sizes, limit) on buckets that are wrong."""
    return wrong_ranks(lambda look, r, found, expected: test(found, expected, *look.case.inputs[r].values()))


def _order(found: list[list[int]]) -> list[int]:
    return [index for bucket in found for index in bucket]


def _filled(found: list[list[int]], sizes: list[int]) -> list[int]:
    """The bytes in each bucket."""
    return [sum(sizes[index] for index in bucket) for bucket in found]


def _never_full(found: list[list[int]], expected: list[list[int]], sizes: list[int], limit: int) -> bool:
    """The order is right, and all that is wrong is that a bucket was closed before what would have filled it exactly."""
    open_for = [held + sizes[following[0]] for held, following in zip(_filled(found, sizes), found[1:], strict=False)]
    return _order(found) == _order(expected) and limit in open_for and min(open_for) >= limit


EXERCISE = Exercise(
    title="Make buckets",
    parameters=("sizes_bytes", "bucket_bytes"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: buckets(case.inputs[r]["sizes_bytes"], case.inputs[r]["bucket_bytes"])),
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("forward order", "The buckets begin with the first parameter, whose gradient comes last: go from the last "
                                 "parameter to the first.",
                _each(lambda found, _, sizes, __: len(found) > 1 and _order(found) == list(range(len(sizes))))),
        Symptom("reversed within", "The buckets are right, but each lists its parameters in forward order: gradients come "
                                   "from the last parameter to the first.",
                _each(lambda found, expected, *_: found == [bucket[::-1] for bucket in expected])),
        Symptom("overfull", "A bucket is closed only after it is too full: look before you put the next one in. Only a "
                            "parameter that is larger than a bucket by itself may exceed it.",
                _each(lambda found, _, sizes, limit: any(held > limit and len(bucket) > 1 for held, bucket in zip(
                    _filled(found, sizes), found, strict=True)))),
        Symptom("last bucket lost", "The parameters that are left at the end are in no bucket: keep the one you were "
                                    "filling.", _each(lambda found, expected, *_: found == expected[:-1])),
        Symptom("empty bucket", "There is an empty bucket: open one only for a parameter that goes into it.",
                _each(lambda found, *_: [] in found)),
        Symptom("one each", "Every parameter has a bucket of its own: put the next one into the same as long as it fits.",
                _each(lambda found, expected, *_: found == [[index] for index in _order(expected)])),
        Symptom("too early", "Buckets that are exactly full are not allowed to be: bucket_bytes is what may be in it.",
                _each(_never_full)),
        raised("index out of range", "It stops where there are no parameters: the answer is then no bucket.", "none"),
    ),
    ),
)
