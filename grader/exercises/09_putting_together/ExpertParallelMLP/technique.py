"""How ExpertParallelMLP must be done, and how it can fail."""

from typing import Any

import torch

from grader.calling.splitting import BACKWARD, FORWARD
from grader.calling.weighing import END
from grader.evidence.case import REFUSED, Case
from grader.exercises.technique.rank_by_rank import on_each_rank
from grader.exercises.technique.sequences import first_wrong_is
from grader.exercises.technique.splitting import (
    calls_in,
    other_dtype,
    part_missing,
    sent_at_most,
    share_only,
    sizes_taken,
)
from grader.exercises.technique.weights import shares, weighs_at_most
from grader.judging.demands import only_calls, results_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import each_way, needs
from grader.judging.symptoms import deadlocked, group_ignored, raised, wrong_ranks

COUNT_BYTES = 8
MOST_CALLS = {FORWARD: 4, BACKWARD: 2}


def _read(case: Case, found: dict[str, Any]) -> dict[str, Any]:
    """An expert to which no row came has a gradient of zeros, or none."""
    if REFUSED in found:
        return found
    inputs = case.inputs[0]
    dim, inner, each = inputs["x"].shape[1], inputs["inner"], inputs["n_experts"] // case.group_size(0)
    shapes = {"up.weight": (inner, dim), "up.bias": (inner,), "down.weight": (dim, inner), "down.bias": (dim,)}
    zeros = {f"experts.{number}.{name}": torch.zeros(shape, dtype=inputs["x"].dtype)
             for number in range(each) for name, shape in shapes.items()}
    if inputs["k"] == 1:  # the weight is always 1, so the router's gradient is zeros
        zeros["router.weight"] = torch.zeros(inputs["n_experts"], dim, dtype=inputs["x"].dtype)
    return found | {"gradients": zeros | found["gradients"]}


def _rows(look: Look, rank: int) -> float:
    """Bytes of the rows out to the experts, and home again."""
    inputs = look.case.inputs[rank]
    return 0 if look.refused else (inputs["rows_out"] + inputs["rows_in"]) * inputs["x"].shape[1] * inputs["x"].itemsize


def _rows_and_numbers(look: Look, rank: int) -> float:
    n = look.case.group_size(rank)
    return _rows(look, rank) + 2 * COUNT_BYTES * look.case.inputs[rank]["n_experts"] * (n - 1) / n


def _experts(look: Look, rank: int) -> int:
    """Bytes of all experts' weights."""
    inputs = look.case.inputs[rank]
    return 2 * inputs["n_experts"] * inputs["inner"] * inputs["x"].shape[1] * inputs["x"].itemsize


def _more_calls(look: Look, rank: int) -> str:
    for phase, most in MOST_CALLS.items() if not look.refused else ():
        if len(calls := calls_in(look, rank, phase)) > most:
            return f"rank {rank}, {phase}: {len(calls)} all-to-alls, wanted {most} at most"
    return ""


def _missing(look: Look, rank: int, found: Any, right: Any) -> bool:
    return "gradients" in found and "router.weight" not in found["gradients"]


def _more_parameters(look: Look, rank: int, found: Any, right: Any) -> bool:
    return "gradients" in found and "gradients" in right and bool(found["gradients"].keys() - right["gradients"].keys())


def _alone_or_one_each(look: Look) -> bool:
    """Rows come sorted by expert already."""
    n = look.case.group_size(look.working[0])
    return n == 1 or look.case.inputs[look.working[0]]["n_experts"] == n


TECHNIQUE = Technique(
    demands=(
        needs(each_way(lambda look, r: (1 + look.case.inputs[r]["x_needs_gradient"]) * _rows(look, r))),
        only_calls("all_to_all"),
        Demand("more calls", "two all-to-alls of rows each way, two of numbers", on_each_rank(_more_calls)),
        sent_at_most(FORWARD, _rows_and_numbers, "forward: kept rows, there and back, and numbers", "too many bytes"),
        sent_at_most(BACKWARD, _rows, "backward: kept rows, there and back", "too many bytes back"),
        *share_only(),
        *weighs_at_most({END: shares(3, _experts)}),  # with their gradients, and room
        results_waited(),
    ),
    symptoms=(
        group_ignored(),
        *(deadlocked(kind, "empty rank left out") for kind in (
            "rank returned early", "rank never calls", "member does not join")),
        IN_GROUPS_ONLY,
        raised("Split sizes", "counts of other rows"),
        deadlocked("splits", "counts of other rows"),
        other_dtype(),
        part_missing(),
        raised("expected a non-empty list", "empty rank left out"),
        raised("split_with_sizes", "rows cut otherwise"),
    ),
    fallbacks=(
        Symptom("no gradient", wrong_ranks(_missing)),
        Symptom("more parameters", wrong_ranks(_more_parameters)),
        Symptom("order not restored", first_wrong_is("y"), refuted=_alone_or_one_each),
        Symptom("wrong y", first_wrong_is("y")),
        Symptom("wrong dx", first_wrong_is("dx")),
        Symptom("wrong gradients", first_wrong_is("gradients")),
        sizes_taken("no error"),
    ),
    reading=_read,
)
