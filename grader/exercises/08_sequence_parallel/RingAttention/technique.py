"""How RingAttention must be done, and how it can fail."""

from grader.calling.rings import FLOPS, LARGEST, RESULTS
from grader.calling.sequences import KEPT
from grader.calling.weighing import END
from grader.exercises.technique.sequences import (
    first_wrong_is,
    gradient_symptoms,
    marked_at_most,
    not_refused,
)
from grader.exercises.technique.weights import weighs_at_most
from grader.judging.demands import bytes_sent, only_calls, results_waited, ring_neighbours, sends_waited
from grader.judging.exercise import Demand, Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.needs import each_way, needs
from grader.judging.symptoms import deadlocked, forgotten_send, group_ignored, raised, unwaited

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
        only_calls("send", "recv", id="whole gather", hint=(
            "Keys and values pass round the ring, rank to rank: only sends and receives, so that no rank ever holds the "
            "whole sequence.")),
        Demand("hidden blocks computed", "no work on chunks that no query may see",
               "Right, but a rank multiplies chunks that the causal mask then hides. From an earlier rank only its first "
               "half is seen, by all rows; from a later rank all is seen, by the second half of the rows.",
               marked_at_most(_work, FLOPS, "count", "rank {rank} did {amount:,} FLOPs, allowed {allowed:,.0f}")),
        Demand("products by hand", "scores by matrix products",
               "Right, but somewhere a tensor has a number for each query, key and feature: multiply with @ (or einsum), "
               "which never makes one.",
               marked_at_most(_largest, LARGEST, "count", "rank {rank} made {amount:,} at once, allowed {allowed:,}"),
               gate=True),
        Demand("others' keys kept", "q, k, v, o and lse are kept between forward and backward",
               "Right, but other ranks' keys and values, or the probabilities, are kept from forward to backward: save only "
               "your own q, k, v, o and lse, and let K and V go round again.",
               marked_at_most(_kept, KEPT, "bytes",
                              "rank {rank} held {amount:,} B more after the forward pass, allowed {allowed:,} B")),
        ring_neighbours(),
        bytes_sent(_sent, "K and V 2(n−1) times, their gradients n times",
                   "Right, but more was sent than K and V n − 1 times each way, and dK and dV n times."),
        *weighs_at_most({END: lambda look, rank: (RESULTS + 3) * look.case.inputs[rank]["q"].nbytes}),  # q, k, v themselves
        results_waited(),
        sends_waited(),
    ),
    symptoms=(
        group_ignored(),
        IN_GROUPS_ONLY,
        *gradient_symptoms("dq, dk, dv and None"),
        forgotten_send(),
        raised("itself: skip the exchange", "With one rank there is nobody to send to: skip the exchange.", "one rank"),
        raised("must be the same stretch", "causal=True is for your own queries and your own keys. Of another rank's, the "
               "rows and keys that see each other at all see each other whole: causal=False.", "causal everywhere"),
        deadlocked("", "Every rank waits in a send or a receive: start the send with isend, then receive, then wait.",
                   "ring stands"),
        unwaited(),
    ),
    fallbacks=(
        Symptom("wrong output", "o is wrong: start from zeros and lse = −inf, and merge in, for each step, the rows and "
                                "keys that see each other.", first_wrong_is("o")),
        Symptom("wrong dq", "o is right, dq is not: sum attend_backward's dq over all steps, with the o and lse merged "
                            "from all blocks (for dk, dv too), and "
                            "causal=True for your own keys.",
                first_wrong_is("dq")),
        Symptom("wrong dk", "o and dq are right, dk is not: add each step's dk to the part of the travelling gradient that "
                            "belongs to the keys used.", first_wrong_is("dk")),
        Symptom("wrong dv", "o, dq and dk are right, dv is not: add attend_backward's third result to the part of the "
                            "travelling gradient that belongs to the keys used, as with dk.", first_wrong_is("dv")),
        not_refused("Chunks r and 2n−1−r are as long as each other, so the rows of a rank must be even: raise a ValueError "
                    "that says how many there are, before anything is sent."),
    ),
)
