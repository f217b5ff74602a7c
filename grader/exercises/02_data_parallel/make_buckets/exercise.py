"""Make buckets: parameters in the order in which their gradients come, cut into pieces of a given size."""

from grader.exercises.shared.formula_cases import formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip


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


def _from_the_first(sizes_bytes: list[int], bucket_bytes: int) -> list[list[int]]:
    last = len(sizes_bytes) - 1
    return [[last - index for index in bucket] for bucket in _buckets(sizes_bytes[::-1], bucket_bytes)]


def _cut_from_the_first(sizes_bytes: list[int], bucket_bytes: int) -> list[list[int]]:
    """In the right order, but filled from the other end."""
    return [bucket[::-1] for bucket in _from_the_first(sizes_bytes, bucket_bytes)[::-1]]


def _first_not_counted(sizes_bytes: list[int], bucket_bytes: int) -> list[list[int]]:
    buckets: list[list[int]] = []
    held = 0
    for index in reversed(range(len(sizes_bytes))):
        if buckets and held + sizes_bytes[index] <= bucket_bytes:
            buckets[-1].append(index)
            held += sizes_bytes[index]
        else:
            buckets.append([index])
            held = 0
    return buckets


def _room_left_by_the_one_before(sizes_bytes: list[int], bucket_bytes: int) -> list[list[int]]:
    """One larger than a bucket has its own, and what comes next joins it if the bucket before had room."""
    buckets: list[list[int]] = []
    held = bucket_bytes
    for index in reversed(range(len(sizes_bytes))):
        size = sizes_bytes[index]
        if size > bucket_bytes:
            buckets.append([index])
            continue
        if not buckets or held + size > bucket_bytes:
            buckets.append([])
            held = 0
        buckets[-1].append(index)
        held += size
    return buckets


EXERCISE = Exercise(
    title="Make buckets",
    parameters=("sizes_bytes", "bucket_bytes"),
    make_cases=_cases,
    oracle=lambda case: [_buckets(**case.inputs[0])],
    points={VALUES: 2},
    slips=(
        formula("forward order", lambda inputs: _from_the_first(**inputs),
                "The buckets begin with the first parameter, whose gradient comes last: go from the last parameter to the "
                "first."),
        Slip("reversed within", "The buckets are right, but each lists its parameters in forward order: gradients come "
                                "from the last parameter to the first.",
             lambda case, r, right: [bucket[::-1] for bucket in right[r]]),
        Slip("last bucket lost", "The parameters that are left at the end are in no bucket: keep the one you were filling.",
             lambda case, r, right: right[r][:-1]),
        formula("cut from the first", lambda inputs: _cut_from_the_first(**inputs),
                "The order is right, the cuts are not: fill the buckets in the order in which gradients come, from the last "
                "parameter; what is left over are the first ones."),
        formula("joins the large one", lambda inputs: _room_left_by_the_one_before(**inputs),
                "A parameter joins one that is larger than a bucket: such a bucket is full, so the next parameter opens "
                "another one."),
        formula("first not counted", lambda inputs: _first_not_counted(**inputs),
                "A new bucket is not empty: the parameter that opens it counts towards bucket_bytes too."),
        formula("one each", lambda inputs: _buckets(inputs["sizes_bytes"], 0),
                "Every parameter has a bucket of its own: put the next one into the same as long as it fits."),
        formula("too early", lambda inputs: _buckets(inputs["sizes_bytes"], inputs["bucket_bytes"] - 1),
                "Buckets that are exactly full are not allowed to be: bucket_bytes is what may be in it."),
    ),
)
