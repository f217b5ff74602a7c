"""How RingAttention must be done, and how it can fail."""

from grader.calling.rings import FLOPS, LARGEST, RESULTS
from grader.calling.sequences import KEPT
from grader.calling.weighing import END
from grader.exercises.technique.sequences import first_wrong_is, gradient_symptoms, marked_at_most, not_refused
from grader.exercises.technique.weights import weighs_at_most
from grader.judging.demands import bytes_sent, only_calls, results_waited, ring_neighbours, sends_waited, unchanged_under_way
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import each_way, needs
from grader.judging.symptoms import group_ignored, raised, unwaited

FLOPS_A_PAIR = 16  # times K: 2 products forward, at most 6 backward, a multiplication and an addition each
SLACK = 1.02


def _sent(look: Look, rank: int) -> float:
    """K and V n − 1 times forward, n − 1 times backward; their gradients n times."""
    n, k_bytes = look.case.group_size(rank), look.case.inputs[rank]["k"].nbytes
    return 2.0 * k_bytes * (3 * n - 2) if n > 1 else 0.0


def _needed(look: Look, rank: int) -> float:
    """Of each other rank's K and V the earlier half, which some of one's own queries see; and its gradient's part."""
    return look.case.group_size(rank) * look.case.inputs[rank]["k"].nbytes


def _work(look: Look, rank: int) -> float:
    """Two of four blocks of each other rank's, all four of one's own."""
    batch, heads, rows, size = look.case.inputs[rank]["q"].shape
    return FLOPS_A_PAIR * batch * heads * size * (rows / 2) ** 2 * (2 * look.case.group_size(rank) + 2) * SLACK


def _largest(look: Look, rank: int) -> int:
    """Twice the scores of a rank's rows, or K, V and their gradients in one tensor."""
    q = look.case.inputs[rank]["q"]
    return max(2 * q.numel() // q.shape[-1] * q.shape[2], 4 * q.numel())


def _kept(look: Look, rank: int) -> int:
    return RESULTS * look.case.inputs[rank]["q"].nbytes + 1000


TECHNIQUE = Technique(
    demands=(
        needs(each_way(_needed)),
        only_calls("send", "recv", id="whole gather"),
        Demand("hidden blocks computed", "no work on chunks that no query may see",
               marked_at_most(_work, FLOPS, "count", "rank {rank} did {amount:,} FLOPs, allowed {allowed:,.0f}")),
        Demand("products by hand", "scores by matrix products",
               marked_at_most(_largest, LARGEST, "count", "rank {rank} made {amount:,} at once, allowed {allowed:,}"),
               gate=True),
        Demand("others' keys kept", "q, k, v, o and lse are kept between forward and backward",
               marked_at_most(_kept, KEPT, "bytes",
                              "rank {rank} held {amount:,} B more after the forward pass, allowed {allowed:,} B")),
        ring_neighbours(),
        bytes_sent(_sent, "K and V 2(n−1) times, their gradients n times"),
        *weighs_at_most({END: lambda look, rank: (RESULTS + 3) * look.case.inputs[rank]["q"].nbytes}),  # q, k, v themselves
        results_waited(),
        sends_waited(),
        unchanged_under_way(),
    ),
    symptoms=(
        group_ignored(),
        IN_GROUPS_ONLY,
        *gradient_symptoms(),
        raised("itself: skip the exchange", "one rank"),
        raised("must be the same stretch", "causal everywhere"),
        unwaited(),
    ),
    fallbacks=(
        Symptom("wrong output", first_wrong_is("o")),
        Symptom("wrong dq", first_wrong_is("dq")),
        Symptom("wrong dk or dv", first_wrong_is("dk", "dv")),
        not_refused(),
    ),
)
