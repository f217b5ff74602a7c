"""How mesh_gradient_norm must be done, and how it can fail."""

from typing import Any

from grader.evidence.evidence import DEADLOCKED, RETURNED
from grader.exercises.technique.meshes import line_in, only_along
from grader.exercises.technique.training import FEW_DIGITS
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, not_far_more_bytes, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.needs import A_NUMBER_BYTES, each_way, needs
from grader.judging.symptoms import deadlocked, raised, unwaited, wrong_ranks

NUMBER_BYTES = 8
NUMBERS = 4  # along each axis: a few sums, where one is enough


def _sent(look: Look, rank: int) -> float:
    """Two numbers a partner are enough for any way to sum one."""
    return NUMBERS * 2 * NUMBER_BYTES * sum(len(line_in(look, rank, axis)) - 1 for axis in ("tp", "pp"))


def _needed(look: Look, rank: int) -> int:
    return A_NUMBER_BYTES * any(len(line_in(look, rank, axis)) > 1 for axis in ("tp", "pp"))


def _middle_stays_out(look: Look) -> bool:
    return look.evidence.ending == DEADLOCKED and look.case.inputs[0]["sizes"]["pp"] > 1


def _only_gradients(look: Look, rank: int, found: Any, right: Any) -> bool:
    return same(found["norm"], right["norm"], 1e-9)


def _different(look: Look) -> bool:
    norms = [found["norm"] for _, found, _ in look.pairs()] if look.evidence.ending == RETURNED else []
    return any(not same(norm, norms[0], 1e-9) for norm in norms)


GATHERED = ("The norm is right, but gradients travel: each rank can square and sum its own, and send one number along tp "
            "and one along pp.")

TECHNIQUE = Technique(
    demands=(
        needs(each_way(_needed)),
        not_far_more_bytes(_sent, GATHERED, id="gradients sent"),
        bytes_sent(_sent, "a few numbers along tp and pp", GATHERED),
        only_along(("tp", "pp"), "The norm is right, but ranks are asked that have nothing to add: pieces lie along tp, "
                                 "stages along pp; replicas, along dp, know the same."),
        results_waited(),
    ),
    symptoms=(
        unwaited(),
        Symptom("gradients changed", "The norm is right, but gradients were changed on the way: this function only "
                "measures. Does something work in place, such as p.grad.square_()?", wrong_ranks(_only_gradients)),
        raised("NoneType", "Something is None: stages between the ends have no tied weight (stage.tied_weight is None); "
               "every parameter of the stage itself has a gradient.", "no tied weight"),
        Symptom("ranks left out", "Some rank waits in a sum that others never make: every rank of a line takes part in its "
                "sum, also one that has nothing to add (then it adds 0).", _middle_stays_out),
        deadlocked("", "Ranks of a line do not make the same calls: all of them take part in every sum, in the same order.",
                   "ranks differ"),
    ),
    fallbacks=(
        FEW_DIGITS,
        Symptom("norms differ", "The ranks come to different norms, but the model's gradient has one. Where a rank decides "
                "what it counts, its place along an axis tells, dist.get_rank(mesh[\"pp\"]), not its number in the world; "
                "and every sum goes to all ranks of its line.", _different),
    ),
)
