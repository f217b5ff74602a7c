"""Make buckets: parameters in the order in which their gradients come, cut into pieces of a given size."""

from grader.exercises.shared.formula_cases import single
from grader.judging.exercise import VALUES, Case, Draw, Exercise


def _buckets(sizes_bytes: list[int], bucket_bytes: int) -> list[list[int]]:
    """From the last index to the first; a new bucket when the next one would not fit."""
    buckets: list[list[int]] = []
    held = 0
    for index in reversed(range(len(sizes_bytes))):
        if not buckets or held + sizes_bytes[index] > bucket_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += sizes_bytes[index]
    return buckets


def _cases(draw: Draw, grading: bool) -> list[Case]:
    mixed = [draw.integer(1, 9) * 100 for _ in range(draw.integer(8, 12))]
    wanted = [
        ("all fit into one", [400, 100, 200], 1000),
        ("each fills one", [100, 100, 100], 100),
        ("one larger than a bucket", [100, 5000, 200, 300], 1000),
        ("the last one larger than a bucket", [300, 200, 5000], 1000),
        ("of many sizes", mixed, 1000),
        ("none", [], 1000),
        ("two bytes each", [2, 2, 2], 6),
    ]
    if grading:
        wanted.append(("of many sizes, small buckets", mixed, 700))
    return [single(name, sizes_bytes=sizes, bucket_bytes=limit) for name, sizes, limit in wanted]


EXERCISE = Exercise(
    title="Make buckets",
    parameters=("sizes_bytes", "bucket_bytes"),
    make_cases=_cases,
    oracle=lambda case: [_buckets(**case.inputs[0])],
    points={VALUES: 2},
)
