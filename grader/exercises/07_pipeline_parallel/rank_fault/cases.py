"""Lists of one rank's steps for rank_fault: a right one, and what can be wrong with it."""

from collections.abc import Sequence

from grader.exercises.shared import right_orders
from grader.judging.exercise import Case, Draw
from utils.schedules.schedule import Shape, Step


def _case(draw: Draw, rank: int, shape: Shape, right: list[Step]) -> Case:
    """The right list, and one list for each way to spoil it."""
    last, some = shape.kinds[-1], draw.integer(0, len(right) - 1)
    first = right[0]
    other = first._replace(stage=(rank + 1) % shape.n_ranks if shape.n_ranks > 1 else shape.n_stages)
    backward = next(i for i, step in enumerate(right) if step.kind == last)
    early = [*right]
    forward = right.index(right[backward]._replace(kind="F"))
    early[forward], early[backward] = early[backward], early[forward]
    lists = {
        "in order": right,
        "nothing at all": [],
        "one left out": right[:some] + right[some + 1:],
        "the last left out": right[:-1],
        "one twice": right[:some + 1] + right[some:],
        "the last again": right + right[-1:],
        "unknown kind": [*right, Step("X", 0, rank)],
        "kind of another schedule": [*right, Step("B" if shape.kinds == "FIW" else "W", 0, rank)],
        "a micro-batch too many": [*right, Step("F", shape.n_micro, rank)],
        "a negative micro-batch": [Step(last, -1, rank), *right],
        "the stage of another": [*right[:some], other, *right[some:]],
        "a stage too many": [*right, Step("F", 0, rank + shape.n_stages)],
        "backward first": early,
        "one twice, one missing": right[:1] + right[:-1],
        "too early, and one missing": early[:-1],
        "twice, and impossible later": [*right[:1], *right, Step("F", shape.n_micro + 1, rank)],
    }
    if shape.kinds == "FIW":
        swapped = [step._replace(kind={"I": "W", "W": "I"}.get(step.kind, "F")) for step in right]
        lists["weights before input"] = swapped
    if shape.n_stages > shape.n_ranks:
        lists["chunks in the wrong order"] = sorted(right, key=lambda step: (step.kind != "F", -step.stage))
    return Case(f"rank {rank} of {shape.n_ranks}, {shape.n_stages} stages, {shape.n_micro} micro-batches",
                ({"lists": {name: [tuple(step) for step in steps] for name, steps in lists.items()}, "rank": rank,
                  "shape": tuple(shape)},))


def make_cases(draw: Draw, grading: bool) -> Sequence[Case]:
    m = draw.integer(3, 5)
    cases = [_case(draw, 0, Shape(3, 3, m), right_orders.one_f_one_b(3, m)[0]),
             _case(draw, 3, Shape(4, 4, m), right_orders.gpipe(4, m)[3]),
             _case(draw, 1, Shape(2, 4, 4), right_orders.interleaved(2, 2, 4)[1]),
             _case(draw, 1, Shape(3, 3, m, "FIW"), right_orders.zero_bubble(3, m)[1])]
    if grading:
        cases.append(_case(draw, 0, Shape(1, 1, 2), right_orders.gpipe(1, 2)[0]))
    return cases
