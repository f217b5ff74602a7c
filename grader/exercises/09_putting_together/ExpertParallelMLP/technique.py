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
from grader.judging.symptoms import deadlocked, group_ignored, raised, unwaited, wrong_ranks

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


_EMPTY = ("A rank waits in an all-to-all that another one never makes. Where no row comes to an expert, or to a rank, the "
          "empty rows must still go through expert and exchange: what leaves the graph is never called in backward.")
_COUNTS = ("What a rank sends and what another expects differ: counts_ne must count the very rows that are sent, those "
           "that are kept.")
_BYTES = "The result is right, but more is sent than the kept rows{} that go to other ranks."

TECHNIQUE = Technique(
    demands=(
        needs(each_way(lambda look, r: (1 + look.case.inputs[r]["x_needs_gradient"]) * _rows(look, r))),
        only_calls("all_to_all", hint=(
            "Rows go to those who compute with them, and back: all-to-alls only. No rank gathers everybody's tokens, and "
            "whoever trains sums the router's gradient.")),
        Demand("more calls", "two all-to-alls of rows each way, two of numbers", "The result is right, but there are more "
               "all-to-alls: two exchanges in forward, whose backward takes two.", on_each_rank(_more_calls)),
        sent_at_most(FORWARD, _rows_and_numbers, "forward: kept rows, there and back, and numbers",
                     _BYTES.format(" and numbers"), "too many bytes"),
        sent_at_most(BACKWARD, _rows, "backward: kept rows, there and back", _BYTES.format("' gradients"),
                     "too many bytes back"),
        *share_only(),
        *weighs_at_most({END: shares(3, _experts)}),  # with their gradients, and room
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: give group to every exchange, and ask it for rank and size."),
        *(deadlocked(kind, _EMPTY, "empty rank left out") for kind in (
            "rank returned early", "rank never calls", "member does not join")),
        IN_GROUPS_ONLY,
        raised("Split sizes", _COUNTS, "counts of other rows"),
        deadlocked("splits", _COUNTS, "counts of other rows"),
        unwaited(),
        other_dtype(),
        part_missing("A part is not there: they are called router and experts."),
        raised("expected a non-empty list", _EMPTY, "nothing to join"),
        raised("split_with_sizes", "The rows are cut by other numbers than came: came_ne.sum(0) has those of each expert.",
               "rows cut otherwise"),
    ),
    fallbacks=(
        Symptom("no gradient", "The router has no gradient: y must be made with the weights that route gives, and they of "
                               "self.router(x_TD).", wrong_ranks(_missing)),
        Symptom("more parameters", "There are parameters that the contract does not have: the layer has its router and this "
                                   "rank's E/n experts, no others.",
                wrong_ranks(lambda look, rank, found, right: "gradients" in found and "gradients" in right and bool(
                    found["gradients"].keys() - right["gradients"].keys()))),
        Symptom("wrong y", "y is wrong: follow one row, there and back, with two ranks and one token each.",
                first_wrong_is("y")),
        Symptom("wrong dx", "y is right, dx is not: it comes back through the experts and through the router.",
                first_wrong_is("dx")),
        Symptom("wrong gradients", "y and dx are right, a parameter's gradient is not: an expert's is a sum over all rows "
                                   "that came, the router's of own tokens. And rank r has experts r·E/n to (r+1)·E/n − 1, "
                                   "in this order.", first_wrong_is("gradients")),
        sizes_taken("no error", "A number of experts that n does not divide must be refused: raise a ValueError that names "
                                "both."),
    ),
    reading=_read,
)
