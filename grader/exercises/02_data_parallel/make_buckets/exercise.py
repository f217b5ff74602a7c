"""Make buckets: parameters in the order in which their gradients come, cut into pieces of a given size."""

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip


def _buckets(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """From the last index to the first; a new bucket when the next one would not fit."""
    buckets: list[list[int]] = []
    held = 0
    for index in reversed(range(len(sizes))):
        if not buckets or held + sizes[index] > limit:
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += sizes[index]
    return buckets


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def of(name: str, sizes: list[int], limit: int) -> Case:
        return Case(name, ({"sizes_bytes": sizes, "bucket_bytes": limit},))

    mixed = [draw.integer(1, 9) * 100 for _ in range(draw.integer(8, 12))]
    return [
        of("all fit into one", [400, 100, 200], 1000),
        of("each fills one", [100, 100, 100], 100),
        of("one larger than a bucket", [100, 5000, 200, 300], 1000),
        of("of many sizes", mixed, 1000),
        of("none", [], 1000),
        *([of("of many sizes, small buckets", mixed, 700)] if grading else []),
    ]


def _from_the_first(sizes: Sequence[int], limit: int) -> list[list[int]]:
    return [[len(sizes) - 1 - index for index in bucket] for bucket in _buckets(sizes[::-1], limit)]


def _cut_by(id: str, hint: str, wrong: Callable[[Sequence[int], int], list[list[int]]]) -> Slip:
    """The result is wrong(sizes, limit)."""
    return Slip(id, hint, lambda case, r, right: wrong(*case.inputs[r].values()))


EXERCISE = Exercise(
    title="Make buckets",
    parameters=("sizes_bytes", "bucket_bytes"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _buckets(*case.inputs[r].values())),
    points={VALUES: 2},
    slips=(
        _cut_by("forward order", "The buckets begin with the first parameter, whose gradient comes last: go from the last "
                                 "parameter to the first.", _from_the_first),
        Slip("reversed within", "The buckets are right, but each lists its parameters in forward order: gradients come "
                                "from the last parameter to the first.",
             lambda case, r, right: [bucket[::-1] for bucket in right[r]]),
        Slip("last bucket lost", "The parameters that are left at the end are in no bucket: keep the one you were filling.",
             lambda case, r, right: right[r][:-1]),
        _cut_by("one each", "Every parameter has a bucket of its own: put the next one into the same as long as it fits.",
                lambda sizes, limit: _buckets(sizes, 0)),
        _cut_by("too early", "Buckets that are exactly full are not allowed to be: bucket_bytes is what may be in it.",
                lambda sizes, limit: _buckets(sizes, limit - 1)),
    ),
)
