"""How data_parallel_step must be done, and how it can fail."""

from typing import Any

import torch

from grader.evidence.evidence import DEADLOCKED
from grader.exercises.technique.models import model_seen
from grader.exercises.technique.rank_by_rank import on_each_rank
from grader.exercises.technique.splitting import work_divided
from grader.exercises.technique.training import gradient_bytes_once, gradients_needed, left_out, reduced_less
from grader.judging.compare import same
from grader.judging.demands import only_calls, results_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.flops import FlopCounter

STEPS = 3


def _forward_flops(look: Look, rank: int) -> list[float]:
    """Of each step, as if all ranks had this one's rows; one at least, for whoever sends a row of zeros through."""
    a_row = next(inputs["xs"][0][:1] for inputs in look.case.inputs if len(inputs["xs"][0]))
    steps = []
    for x in look.case.inputs[rank]["xs"]:
        with torch.no_grad(), FlopCounter() as counter:
            model_seen(look.case, rank)(x if len(x) else a_row)
        steps.append(float(counter.total * look.case.group_size(rank)))
    return steps


def _nan(look: Look, rank: int, found: Any, right: Any) -> bool:
    numbers = [*found["losses"], *found["parameters"].values()]
    return look.case.group_size(rank) > 1 and any(bool(x.isnan().any()) for x in numbers if isinstance(x, torch.Tensor))


def _without_rows(look: Look) -> bool:
    """Ranks do not meet where one has no rows."""
    return look.evidence.ending == DEADLOCKED and not all(len(inputs["xs"][0]) for inputs in look.case.inputs)


def _no_tensor(look: Look, rank: int, found: Any, right: Any) -> bool:
    same_parameters = same(found["parameters"], right["parameters"])
    return same_parameters and not any(isinstance(loss, torch.Tensor) for loss in found["losses"])


def _only_others(found: Any, right: Any) -> bool:
    """Nothing is wrong but gradients of parameters that the optimizer does not hold; the loss may be attached."""
    return same({**found, "detached": True, "others": right["others"]}, right)


def _some_left_out(look: Look, rank: int) -> str:
    """Who is alone need not send any."""
    return reduced_less(look, rank, STEPS) if look.case.group_size(rank) > 1 else ""


TECHNIQUE = Technique(
    demands=(
        gradients_needed(STEPS),
        only_calls("all_reduce"),
        Demand("by the optimizer", "each gradient of the model is all-reduced, whoever steps on its parameter",
               on_each_rank(_some_left_out)),
        gradient_bytes_once(STEPS),
        work_divided(_forward_flops),
        results_waited(),
    ),
    symptoms=(
        group_ignored(),
        unwaited(),
        Symptom("not a number", wrong_ranks(_nan)),
        Symptom("stopped without rows", _without_rows),
        raised("NoneType", "no gradient"),
    ),
    fallbacks=(
        Symptom("by the optimizer", wrong_ranks(
            lambda look, rank, found, right: bool(_some_left_out(look, rank)) and _only_others(found, right))),
        Symptom("loss attached", wrong_ranks(lambda _, rank, found, right: same({**found, "detached": True}, right))),
        Symptom("loss not a tensor", wrong_ranks(_no_tensor)),
        Symptom("loss of another type", wrong_ranks(
                    lambda _, rank, found, right: same(found["parameters"], right["parameters"]) and all(
                        loss.dtype != wanted.dtype and same(loss.to(wanted.dtype), wanted, 1e-5)
                        for loss, wanted in zip(found["losses"], right["losses"], strict=True)))),
        Symptom("own loss returned",
                wrong_ranks(lambda look, rank, found, right: same(found["parameters"], right["parameters"])
                            and same(found["others"], right["others"]) and not _nan(look, rank, found, right))),
        left_out(STEPS),
    ),
)
