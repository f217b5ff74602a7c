"""How average_gradients must be done, and how it can fail."""

import torch
from torch import Tensor

from grader.exercises.technique.training import dtypes_of, gradient_bytes_once, own_dtypes
from grader.judging.compare import same
from grader.judging.demands import only_calls, results_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks


def _few_calls(look: Look) -> tuple[bool, str]:
    for rank in look.working:
        count, allowed = len(look.evidence.trace.of(rank, "all_reduce")), dtypes_of(look, rank)
        if look.case.group_size(rank) > 1 and count > allowed:
            return False, f"rank {rank} called all_reduce {count} times, allowed {allowed}"
    return True, ""


def _numbers(gradients: dict[str, Tensor | None]) -> Tensor:
    """All numbers of all gradients, by size."""
    return torch.cat([g.double().flatten() for g in gradients.values() if g is not None]).sort().values


TECHNIQUE = Technique(
    demands=(
        only_calls("all_reduce", hint="dist.all_reduce is all the communication that this exercise needs."),
        own_dtypes(),
        gradient_bytes_once(),
        Demand("a call each", "one all-reduce for each dtype",
               "The mean is right, but every parameter costs a call of its own, and each call its latency α: copy all "
               "gradients of one dtype into one flat tensor, all-reduce that, copy back.", _few_calls),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The mean runs over ranks that are not in the group: pass group=group, and divide by the group's "
                      "size."),
        unwaited(),
        raised("NoneType", "A parameter that took no part, or is frozen, has p.grad None: leave it out, on all ranks.",
               "no gradient"),
    ),
    fallbacks=(
        Symptom("pieces misplaced", "The right numbers, in the wrong places: cut the flat tensor in the order in which you "
                                    "put it together.",
                wrong_ranks(lambda _, rank, found, right: same(_numbers(found), _numbers(right), 1e-5))),
    ),
)
