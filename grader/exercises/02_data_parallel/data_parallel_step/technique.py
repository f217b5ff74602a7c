"""How data_parallel_step must be done, and how it can fail."""

from typing import Any

import torch

from grader.exercises.technique.training import gradient_bytes_once
from grader.judging.compare import same
from grader.judging.demands import only_calls, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks

STEPS = 3


def _nan(look: Look, rank: int, found: Any, right: Any) -> bool:
    numbers = [*found["losses"], *found["parameters"].values()]
    return look.case.group_size(rank) > 1 and any(bool(x.isnan().any()) for x in numbers if isinstance(x, torch.Tensor))


TECHNIQUE = Technique(
    demands=(
        only_calls("all_reduce", hint="dist.all_reduce is all the communication that this exercise needs."),
        gradient_bytes_once(STEPS),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The sum runs over ranks that are not in the group: pass group=group."),
        unwaited(),
        Symptom("not a number", "A rank without rows has a loss of nan: the mean of nothing. Sum the rows' losses and "
                                "divide by batch_size.", wrong_ranks(_nan)),
        raised("NoneType", "A parameter that took no part, or is frozen, has p.grad None: leave it out, on all ranks.",
               "no gradient"),
    ),
    fallbacks=(
        Symptom("own loss returned", "The parameters are right, the loss is that of this rank's rows: sum it over the ranks "
                                     "as well, detached.",
                wrong_ranks(lambda _, rank, found, right: same(found["parameters"], right["parameters"]))),
    ),
)
