"""How VocabularyParallelCrossEntropy must be done, and how it can fail."""

from torch import Tensor

from grader.calling.splitting import BACKWARD
from grader.exercises.technique.splitting import all_reduced, calls_in, first_wrong, other_dtype, sums_needed, within_group
from grader.judging.demands import bytes_sent, not_far_more_bytes, only_calls, results_waited, tensor_bytes
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import group_ignored, raised, too_few_gradients


def _reduced_bytes(look: Look, rank: int) -> int:
    """Three numbers a row, where sums of a short type may be kept in a longer one."""
    inputs = look.case.inputs[rank]
    return 3 * inputs["weights"].nbytes * max(1, 4 // inputs["logits"].itemsize)


def _silent_backward(look: Look) -> tuple[bool, str]:
    for rank in () if look.refused else look.working:
        if calls := calls_in(look, rank, BACKWARD):
            return False, f"rank {rank} called {calls[0].op} in backward"
    return True, ""


def _overflowed(look: Look, rank: int, losses: Tensor) -> bool:
    """Not finite, or absurd, with logits of which exp is."""
    return _absurd(look, rank, losses) and bool((look.case.inputs[rank]["logits"].abs() > LARGE).any())


def _absurd(look: Look, rank: int, losses: Tensor) -> bool:
    return not bool((losses.abs() < FAR).any()) or not bool(losses.isfinite().all())


def _logarithm_of_0(look: Look, rank: int, losses: Tensor) -> bool:
    """Infinite where the right loss is large, and nowhere else."""
    right = look.right[rank]["losses"]
    return losses.shape == right.shape and bool(losses.isinf().any()) and bool((losses.isinf() == (right > LARGE)).all())


LARGE, FAR = 80.0, 200.0  # a logit whose exp no float32 holds; a loss that no case has

TECHNIQUE = Technique(
    demands=(
        sums_needed(lambda look, r: tensor_bytes(look, r, "weights")),
        only_calls("all_reduce"),
        not_far_more_bytes(all_reduced(_reduced_bytes)),
        Demand("sent in backward", "nothing sent in backward", _silent_backward),
        within_group(),
        bytes_sent(all_reduced(_reduced_bytes), "three all-reduces of (B,)"),
        results_waited(),
    ),
    symptoms=(
        raised("index", "targets not shifted"),
        group_ignored(),
        IN_GROUPS_ONLY,
        other_dtype(),
        too_few_gradients(),
        Symptom("log of 0", first_wrong("losses", _logarithm_of_0)),
        Symptom("overflow", first_wrong("losses", _overflowed)),
        Symptom("foreign targets not 0", first_wrong("losses", _absurd)),
    ),
    fallbacks=(
        Symptom("wrong losses", first_wrong("losses")),
        Symptom("wrong dlogits", first_wrong("dlogits")),
    ),
)
