"""How reduce_gradients must be done, and how it can fail."""

from grader.calling.meshes import EMBEDDING, HEAD
from grader.evidence.evidence import RETURNED
from grader.exercises.technique.meshes import line_in, only_along
from grader.judging.demands import bytes_sent, results_waited, sends_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.needs import each_way, needs
from grader.judging.symptoms import deadlocked, forgotten_send, raised, unwaited
from utils.costs.formulas import bytes_sent_per_rank

A_FEW_BYTES = 64


def _of_all(look: Look, rank: int) -> int:
    return sum(gradient.nbytes for gradient in look.right[rank].values())


def _of_tied(look: Look, rank: int) -> int:
    """0 where nobody else has it."""
    several = len(line_in(look, rank, "pp")) > 1
    return several * sum(look.right[rank][name].nbytes for name in (EMBEDDING, HEAD) if name in look.right[rank])


def _needed(look: Look, rank: int) -> int:
    return _of_all(look, rank) * (len(line_in(look, rank, "dp")) > 1) + _of_tied(look, rank)


def _sent(look: Look, rank: int) -> float:
    n = len(line_in(look, rank, "dp"))
    return bytes_sent_per_rank("all_reduce", _of_all(look, rank), n) + _of_tied(look, rank) + A_FEW_BYTES


TECHNIQUE = Technique(
    demands=(
        needs(each_way(_needed)),
        only_along(("dp", "pp")),
        bytes_sent(_sent, "each gradient once along dp, the tied weight's once along pp"),
        results_waited(),
        sends_waited(),
    ),
    symptoms=(
        raised("NoneType", "no tied weight"),
        forgotten_send(),
        deadlocked("cycle of sends"),
        deadlocked("cycle of receives"),
        deadlocked("", "messages do not fit"),
        unwaited(),
    ),
    fallbacks=(
        Symptom("wrong gradients", lambda look: look.evidence.ending == RETURNED),
    ),
)
