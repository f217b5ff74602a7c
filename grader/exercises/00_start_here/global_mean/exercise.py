"""The mean over all ranks' numbers, where some ranks have none: mend a version that crashes on one rank."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain

import torch

from grader.exercises.shared.start_inputs import in_groups
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, only_calls
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import deadlocked, raised, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank

PAIR_BYTES = 16  # a sum and a count, 8 bytes each


def _mean(numbers: list[float]) -> float:
    return sum(numbers) / len(numbers)


def _joined(look: Look, rank: int) -> list[float]:
    return list(chain(*look.case.peers_inputs(rank, "numbers")))


def _cases(draw: Draw, grading: bool) -> list[Case]:
    lengths = [(4,), (2, 5), (3, 1, 4), (3, 2, 1, 0), (0, 4, 0, 2)] + [(5, 0, 1, 2, 3), (0, 1)] * grading
    cases = [_case(draw, shares) for shares in lengths]
    return [*cases, in_groups(lambda n: [{"numbers": draw.tensor(size + 1).tolist()} for size in range(n)])]


def _case(draw: Draw, lengths: tuple[int, ...]) -> Case:
    name = f"{', '.join(map(str, lengths))} numbers on {len(lengths)} rank{'s' * (len(lengths) > 1)}"
    return Case(name, tuple({"numbers": draw.tensor(length).tolist()} for length in lengths))


def _gives(wrong: Callable[[Look, int], float]) -> Callable[[Look], bool]:
    """True where every wrong rank returned wrong(look, rank)."""
    return wrong_ranks(lambda look, rank, found, _: same(found, wrong(look, rank)))


def _mean_of_means(look: Look, rank: int) -> float:
    return _mean([_mean(share) for share in look.case.peers_inputs(rank, "numbers") if share])


def _mean_of_means_with_zeros(look: Look, rank: int) -> float:
    return _mean([_mean(share) if share else 0.0 for share in look.case.peers_inputs(rank, "numbers")])


def _count_at_least_one_each(look: Look, rank: int) -> int:
    return sum(max(1, len(share)) for share in look.case.peers_inputs(rank, "numbers"))


EXERCISE = Exercise(
    title="The mean over all ranks",
    parameters=("numbers", "group"),
    make_cases=_cases,
    oracle=lambda case: [_mean([*chain(*case.peers_inputs(r, "numbers"))]) for r in range(case.world_size)],
    tolerance=1e-5,  # float32 division
    technique=Technique(
        demands=(
        replace(only_calls("all_reduce", id="not an all-reduce", hint=(
            "The mean is right, but by another road: one all-reduce of [sum, count] is enough.")), gate=False),
        bytes_sent(lambda look, r: bytes_sent_per_rank("all_reduce", PAIR_BYTES, group_size(look, r)),
                   "sends two numbers", "The mean is right, but more than two numbers a rank travel: reduce your own "
                   "numbers to a sum and a count first."),
    ),
        symptoms=(
        Symptom("mean of means", "This is the mean of the ranks' means. It gives a rank with one number as much "
                "weight as a rank with five: all-reduce sums and counts, then divide once.",
                lambda look: _gives(_mean_of_means)(look) or _gives(_mean_of_means_with_zeros)(look)),
        Symptom("own numbers only", "Each rank returns the mean of its own numbers: use what all_reduce brought.",
                _gives(lambda look, rank: _mean(look.case.inputs[rank]["numbers"] or [0.0]))),
        Symptom("divided by ranks", "The sum over all ranks is divided by the number of ranks; it must be divided by "
                "the number of numbers.", _gives(lambda look, rank: sum(_joined(look, rank)) / group_size(look, rank))),
        Symptom("empty counted", "A rank without numbers has the count 0; here it counts as 1.",
                _gives(lambda look, rank: sum(_joined(look, rank)) / _count_at_least_one_each(look, rank))),
        Symptom("own count", "The sum is over all ranks, the count is this rank's own: both must be all-reduced.",
                _gives(lambda look, rank: sum(_joined(look, rank)) / max(1, len(look.case.inputs[rank]["numbers"])))),
        Symptom("not divided", "This is the sum: divide it by the count of all numbers.",
                _gives(lambda look, rank: sum(_joined(look, rank)))),
        Symptom("ignores the group", "Right for the whole world, wrong in a group: pass group=group to all_reduce.",
                _gives(lambda look, rank: _mean([*chain(*(one["numbers"] for one in look.case.inputs))]))),
        Symptom("tensor returned", "The result is a tensor: return a plain number, tensor.item().",
                wrong_ranks(lambda _, rank, found, expected: same(float(found), expected, 1e-5)
                            and isinstance(found, torch.Tensor))),
        raised("ZeroDivisionError", "A rank without numbers divides by its own count, 0. It still has something true "
               "to say: sum 0, count 0. Divide after the all-reduce.", "empty share"),
        raised("NoneType", "dist.all_reduce changes the tensor that it is given and returns nothing: do not assign its "
               "result.", "result of all_reduce used"),
        deadlocked("dtype differs", "sum([]) is the whole number 0, so a rank without numbers makes a tensor of whole "
                   "numbers where the others make floats: give torch.tensor a dtype."),
        deadlocked("size differs", "All-reduce adds tensors of one shape, but the shares have different lengths: make "
                   "a sum and a count of your own numbers first."),
        deadlocked("rank", "A rank without numbers leaves before all_reduce, and the others wait for it for ever: "
                   "every member of a group must make every collective call.", "left before the call"),
    ),
    ),
)
