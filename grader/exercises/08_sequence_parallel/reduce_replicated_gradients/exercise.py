"""Gradients of what every rank has whole but has used on its own positions only: summed, in one message."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.exercises.shared.cases import each_rank, group_case, ranks, total
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls, results_waited
from grader.judging.exercise import Case, Demand, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, *shapes: tuple[int, ...], frozen: int | None = None) -> tuple[dict[str, Any], ...]:
        return tuple({"shapes": list(shapes), "gradients": [
            None if number == frozen else draw.tensor(*shape, dtype=torch.float64) for number, shape in enumerate(shapes)]}
            for _ in range(n))

    width = draw.integer(2, 9)
    cases = [Case(ranks(1), inputs(1, (5,), (5,))),
             Case(f"{ranks(2)}, five tensors of {width}", inputs(2, *[(width,)] * 5)),
             Case(f"{ranks(3)}, one without a gradient", inputs(3, (3,), (4,), (3, 2), frozen=1)),
             Case(f"{ranks(4)}, of several shapes", inputs(4, (7,), (3, 5), (), (1, 4))),
             group_case(lambda n: inputs(n, (3,), (5,)), "two tensors")]
    return cases + [Case(f"{ranks(5)}, one tensor", inputs(5, (3,)))] * grading


def _plain(case: Case, rank: int, of: Callable = total) -> list[Any]:
    return [None if parts[0] is None else of(parts) for parts in zip(*case.peers_inputs(rank, "gradients"), strict=True)]


def _own_bytes(look: Look, rank: int) -> int:
    return sum(one.nbytes for one in look.case.inputs[rank]["gradients"] if one is not None)


def _one_message(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        count = len(look.evidence.trace.of(rank))
        if count > 1:
            return False, f"rank {rank} made {count} calls"
    return True, ""


def _first_only(look: Look) -> bool:
    """The first gradient is right, and every other wrong one is the rank's own."""
    pairs = [(found, expected, look.case.inputs[r]["gradients"]) for r, found, expected in look.pairs()]
    return len(pairs) > 1 and all(same(f[0], e[0]) and same(f[1:], own[1:]) for f, e, own in pairs) and any(
        len(f) > 1 for f, _, _ in pairs)


EXERCISE = Exercise(
    title="The gradients that nobody has whole",
    parameters=("parameters", "group"),
    make_cases=_cases,
    oracle=each_rank(_plain),
    tolerance=1e-9,
    technique=Technique(
        demands=(
        only_calls("all_reduce", hint="One all-reduce of all gradients together does it: each rank needs the whole sum, "
                                      "because each has the whole parameter."),
        Demand("too many messages", "one message for all gradients",
               "Right, but every small tensor travels alone: put them into one flat row, reduce it once, and cut it again.",
               _one_message),
        bytes_sent(lambda look, rank: bytes_sent_per_rank("all_reduce", _own_bytes(look, rank), group_size(look, rank)),
                   "2(n−1)/n of the gradients' bytes", "Right, but more was sent than one all-reduce of the gradients."),
        results_waited(),
    ),
        symptoms=(
        group_ignored("The ranks of other groups are touched: pass group=group to the all-reduce."),
        unwaited(),
        raised("NoneType", "Some parameters have no gradient: leave them out.", "no gradient"),
        raised("Expected all tensors", "Some parameters have no gradient: leave them out.", "none in the row"),
        Symptom("nothing reduced", "The gradients are as they were: each rank still has those of its own positions. Write "
                                   "the sum back into p.grad.",
                wrong_ranks(lambda look, r, found, _: same(found, look.case.inputs[r]["gradients"]))),
        Symptom("mean for sum", "The gradients are n times too small. In data parallelism each rank has a loss of its "
                                "own, and "
                                "the mean is wanted; here all ranks compute parts of one loss.",
                wrong_ranks(lambda look, r, found, _: same(
                    found, _plain(look.case, r, lambda parts: total(parts) / len(parts))))),
        Symptom("only the first", "Only the first gradient is summed.", _first_only),
        Symptom("invented gradient", "A parameter without a gradient must stay without one.", wrong_ranks(
            lambda look, r, found, expected: any(e is None and f is not None
                                                 for f, e in zip(found, expected, strict=True)))),
        Symptom("pieces mixed up", "The sums are there, but in other places: cut the row in the order in which you joined "
                                   "it.",
                wrong_ranks(lambda look, r, found, expected: same(*(torch.cat([
                    one.flatten() for one in each if one is not None]).sort().values for each in (found, expected))))),
    ),
    ),
)
