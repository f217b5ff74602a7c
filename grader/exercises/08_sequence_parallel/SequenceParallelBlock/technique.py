"""How SequenceParallelBlock must be done, and how it can fail."""

from grader.calling.weighing import BETWEEN_PASSES
from grader.exercises.technique.sequences import (
    cut_weights_summed,
    first_wrong_is,
    kept_at_most,
    no_all_reduce_left,
    not_refused,
    numbers_at_most,
    whole_bytes,
)
from grader.exercises.technique.sharding import gathered_again, gathered_and_reduced, gathers_and_reductions
from grader.exercises.technique.splitting import work_divided
from grader.exercises.technique.weights import weighs_at_most
from grader.judging.demands import bytes_sent, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import group_ignored, unwaited
from utils.costs.formulas import bytes_sent_per_rank

GATHERS, REDUCTIONS = 6, 4  # forward: 2 and 2; backward: 2 and 2, and each gathered input once more


def _sent(look: Look, rank: int) -> float:
    inputs, n = look.case.inputs[rank], look.case.group_size(rank)
    small = bytes_sent_per_rank("all_reduce", 6 * inputs["dim"] * inputs["x"].itemsize, n)
    return gathers_and_reductions(look, rank, whole_bytes(look, rank), GATHERS, REDUCTIONS) + small


def _kept(look: Look, rank: int) -> float:
    """16 shards of x (34 bytes of 2 without masks), the scores' two, LayerNorm's means; and half a whole x to spare."""
    n, inputs = look.case.group_size(rank), look.case.inputs[rank]
    (s, b, _), size, masks = inputs["x"].shape, inputs["x"].itemsize, inputs["training"] and inputs["p"] > 0
    weights = inputs["heads"] // n * (n * s) ** 2 * b
    pieces = (17 + 2 * masks) * inputs["x"].nbytes
    return pieces + (1 + 2 * masks) * weights * size + 4 * s * b * size + 0.4 * whole_bytes(look, rank)


def _weight(look: Look, rank: int) -> float:
    """The rank's part of the block, the plain one that it is cut from, what is kept for backward, half of y."""
    whole = 12 * look.case.inputs[rank]["dim"] ** 2 * look.case.inputs[rank]["x"].itemsize
    return whole * (1 + 1 / look.case.group_size(rank)) + _kept(look, rank) + 0.6 * whole_bytes(look, rank)


def _share(look: Look, rank: int) -> int:
    dim, n = look.case.inputs[rank]["dim"], look.case.group_size(rank)
    return 12 * dim * dim // n + 7 * dim // n + 6 * dim


def _forward_flops(look: Look, rank: int) -> list[float]:
    """The products with the block's 12·dim² weights, and the scores and their sums."""
    dim, (s, b, _) = look.case.inputs[rank]["dim"], look.case.inputs[rank]["x"].shape
    whole = s * look.case.group_size(rank)
    return [24.0 * whole * b * dim * dim + 4.0 * b * whole * whole * dim]


def _drops(look: Look) -> bool:
    return look.case.inputs[0]["p"] > 0 and look.case.inputs[0]["training"]


TECHNIQUE = Technique(
    demands=(
        gathered_and_reduced(whole_bytes, REDUCTIONS, REDUCTIONS),
        no_all_reduce_left(),
        numbers_at_most(_share),
        work_divided(_forward_flops),
        kept_at_most(_kept, "34 sbh/t and 5as²b/t, with this case's bytes for each element"),
        gathered_again(lambda look, rank: GATHERS * look.case.inputs[rank]["x"].nbytes),
        *weighs_at_most({BETWEEN_PASSES: _weight}),
        bytes_sent(_sent, "10(n−1)/n of x's bytes, and one small all-reduce"),
        results_waited(),
    ),
    symptoms=(
        group_ignored(),
        unwaited(),
        Symptom("heads of all", lambda look: not numbers_at_most(_share).judge(look)[0]),
        not_refused(),
    ),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("drops in eval mode", lambda look: not look.case.inputs[0]["training"] and first_wrong_is("y")(look),
                alone=True),
        Symptom("wrong dropout", lambda look: _drops(look) and first_wrong_is("y")(look), alone=True),
        Symptom("wrong y", first_wrong_is("y")),
        Symptom("wrong dx", first_wrong_is("dx")),
        cut_weights_summed(),
        Symptom("wrong gradients", first_wrong_is("gradients")),
    ),
)
