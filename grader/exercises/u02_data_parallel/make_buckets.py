"""Make buckets: parameters in the order in which their gradients come, cut into pieces of a given size."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from grader.demands import only_calls
from grader.exercise import VALUES, Case, Draw, Exercise, Symptom
from grader.exercises.u01_collectives.inputs import each_rank
from grader.symptoms import raised, wrong_ranks


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


def _forward(sizes: Sequence[int], limit: int) -> list[list[int]]:
    last = len(sizes) - 1
    return [[last - index for index in bucket] for bucket in buckets(sizes[::-1], limit)]


def _overfull(sizes: Sequence[int], limit: int) -> list[list[int]]:
    found, held = [[]], 0
    for index in reversed(range(len(sizes))):
        found[-1].append(index)
        held += sizes[index]
        if held >= limit:
            found.append([])
            held = 0
    return [bucket for bucket in found if bucket]


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


def _as(make: Callable[[Sequence[int], int], list]) -> Callable:
    def test(look, rank, found, _) -> bool:
        inputs = look.case.inputs[rank]
        return found == make(inputs["sizes_bytes"], inputs["bucket_bytes"])

    return wrong_ranks(test)


def _several_as(make: Callable[[Sequence[int], int], list]) -> Callable:
    """Where there is more than one bucket."""
    matches = _as(make)
    return lambda look: len(look.expected[0]) > 1 and matches(look)


EXERCISE = Exercise(
    id="make_buckets",
    unit="02_data_parallel",
    title="Make buckets",
    parameters=("sizes_bytes", "bucket_bytes"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: buckets(case.inputs[r]["sizes_bytes"], case.inputs[r]["bucket_bytes"])),
    adapter="call_plain",
    points={VALUES: 2},
    demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
    symptoms=(
        Symptom("forward order", "The buckets begin with the first parameter, whose gradient comes last: go from the last "
                                 "parameter to the first.", _several_as(_forward)),
        Symptom("reversed within", "The buckets are right, but each lists its parameters in forward order: gradients come "
                                   "from the last parameter to the first.",
                _as(lambda sizes, limit: [bucket[::-1] for bucket in buckets(sizes, limit)])),
        Symptom("overfull", "A bucket is closed only after it is too full: look before you put the next one in. Only a "
                            "parameter that is larger than a bucket by itself may exceed it.", _as(_overfull)),
        Symptom("last bucket lost", "The parameters that are left at the end are in no bucket: keep the one you were "
                                    "filling.", _as(lambda sizes, limit: buckets(sizes, limit)[:-1])),
        Symptom("empty bucket", "There is an empty bucket: open one only for a parameter that goes into it.",
                wrong_ranks(lambda look, r, found, _: isinstance(found, list) and [] in found)),
        Symptom("too early", "Buckets that are exactly full are not allowed to be: bucket_bytes is what may be in it.",
                _as(lambda sizes, limit: buckets(sizes, limit - 1))),
        Symptom("one each", "Every parameter has a bucket of its own: put the next one into the same as long as it fits.",
                _as(lambda sizes, limit: [[index] for index in reversed(range(len(sizes)))])),
        raised("index out of range", "It stops where there are no parameters: the answer is then no bucket.", "none"),
    ),
)
