"""How MeshTrainer must be done, and how it can fail."""

from typing import Any

from grader.evidence.evidence import RETURNED
from grader.exercises.technique.meshes import line_in, numbers_left, only_along
from grader.exercises.technique.rank_by_rank import on_each_rank, spans_if_any
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, results_waited, sends_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.needs import A_NUMBER_BYTES, needs
from grader.judging.symptoms import deadlocked, unwaited, wrong_ranks

from .call import NORM, PART, REDUCE, RUN

NUMBER_BYTES, A_FEW_NUMBERS = 8, 64  # the loss, in whatever way it is summed


def _called(look: Look, rank: int) -> list[str]:
    return [span.facts["part"] for span in spans_if_any(look, rank, PART)]


def _not_its_parts(look: Look, rank: int) -> str:
    """In each step the passes, the reduction, then the norm; that may be asked for again."""
    inputs, called = look.case.inputs[rank], _called(look, rank)
    once = [name for name, before in zip(called, [None, *called], strict=False) if (name, before) != (NORM, NORM)]
    if once != [RUN, REDUCE, NORM] * len(inputs["tokens"]):
        return f"rank {rank} called {', '.join(called[:4]) or 'none of the three'} …"
    other = [span.facts["rows"] for span in spans_if_any(look, rank, PART) if not span.facts.get("whole", True)]
    return f"rank {rank} handed {other[0]} rows to passes.run, not the batch of {len(inputs['tokens'][0])}" if other else ""


def _clipped_too_early(look: Look) -> bool:
    called = [_called(look, rank)[:3] for rank in look.working]
    return look.evidence.ending == RETURNED and all(
        NORM in names and REDUCE in names and names.index(NORM) < names.index(REDUCE) for names in called)


def _needed(look: Look, rank: int) -> list[tuple[str, float]]:
    """A loss must come to each rank that does not know it."""
    knows = line_in(look, rank, "pp")[-1] == rank and len(line_in(look, rank, "dp")) == 1
    return [] if knows else [("recv", len(look.case.inputs[rank]["tokens"]) * A_NUMBER_BYTES)]


def _sent(look: Look, rank: int) -> float:
    return len(look.case.inputs[rank]["tokens"]) * A_FEW_NUMBERS * NUMBER_BYTES


def _first_losses_right(look: Look) -> bool:
    return all(same(found["losses"][0], right["losses"][0], 1e-9) for _, found, right in look.pairs())


def _nothing_updated(look: Look, rank: int, found: Any, right: Any) -> bool:
    return not found["gradients"]


def _first_step_right(look: Look, rank: int, found: Any, right: Any) -> bool:
    return same(found["losses"][0], right["losses"][0], 1e-9) and same(found["gradients"], right["gradients"], 1e-6)


TECHNIQUE = Technique(
    demands=(
        needs(_needed),
        Demand("parts", "passes, reduction and norm, once a step, in this order", on_each_rank(_not_its_parts), gate=True,
               for_right_values=True),
        only_along(("dp", "pp", "tp")),
        bytes_sent(_sent, "a few numbers"),
        results_waited(),
        sends_waited(),
        numbers_left(),
    ),
    symptoms=(
        deadlocked("", "ranks differ"),
        unwaited(),
        Symptom("no update", wrong_ranks(_nothing_updated)),
        Symptom("clipped too early", _clipped_too_early),
    ),
    fallbacks=(
        Symptom("wrong update", wrong_ranks(_first_step_right)),
        Symptom("wrong gradients", lambda look: look.evidence.ending == RETURNED and _first_losses_right(look)),
        Symptom("wrong losses", lambda look: look.evidence.ending == RETURNED and not _first_losses_right(look)),
    ),
)
