"""How SequenceParallelGPT must be done, and how it can fail."""

from typing import Any

from grader.exercises.technique.sequences import (
    cut_weights_summed,
    no_all_reduce_left,
    not_refused,
    numbers_at_most,
    only_in_groups,
    to_be_refused,
)
from grader.exercises.technique.sharding import gathers_and_reductions
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank
from utils.models.shards import cut_dim
from utils.models.tiny import VOCABULARY

GATHERS, REDUCTIONS = 6, 4  # of each block, forward and backward together


def _whole_numbers(inputs: dict[str, Any]) -> int:
    """Of parameters that every rank has whole: norms and biases of each block, embeddings, last norm and head."""
    return 6 * inputs["layers"] * inputs["dim"] + inputs["dim"] * (2 * VOCABULARY + inputs["length"] + 2)


def _sent(look: Look, rank: int) -> float:
    if to_be_refused(look):
        return 0
    inputs, n = look.case.inputs[rank], look.case.group_size(rank)
    (s, b), layers = inputs["tokens"][0].shape, inputs["layers"]
    of_a_layer = gathers_and_reductions(look, rank, 8 * s * b * inputs["dim"], GATHERS, REDUCTIONS)
    small = bytes_sent_per_rank("all_reduce", 8 * _whole_numbers(inputs), n)
    return len(inputs["tokens"]) * (layers * of_a_layer + small)


def _share(look: Look, rank: int) -> int:
    inputs, n = look.case.inputs[rank], look.case.group_size(rank)
    dim = inputs["dim"]
    return inputs["layers"] * (12 * dim * dim // n + 7 * dim // n) + _whole_numbers(inputs)


def _whole_ones(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """The cut weights' gradients are right; wrong ones are among those that every rank has whole."""
    wrong = [name for name, gradient in expected["gradients"].items() if not same(found["gradients"][name], gradient)]
    return bool(wrong) and not any(cut_dim(name) is not None for name in wrong)


def _first_losses_right(look: Look) -> bool:
    """Before any update."""
    return all(same(found["losses"][0], expected["losses"][0]) for _, found, expected in look.pairs())


TECHNIQUE = Technique(
    demands=(
        no_all_reduce_left(
            "In forward and backward only the blocks' all-gathers and reduce-scatters are left: no logits and no losses are "
            "gathered, and gradients are reduced in reduce_gradients()."),
        numbers_at_most(_share),
        bytes_sent(_sent, "10(n−1)/n of x's bytes a layer, and one all-reduce of what is whole",
                   "Right, but more was sent: embedding, norm and head work on this rank's positions alone."),
        results_waited(),
    ),
    symptoms=(
        group_ignored("The ranks of other groups are touched: pass the group to every block and function."),
        unwaited(),
        raised("'loss'", "The method loss(tokens, targets) is missing.", "no loss"),
        raised("'reduce_gradients'", "The method reduce_gradients() is missing.", "no reduce_gradients"),
        not_refused("A sequence that the ranks do not divide must raise a ValueError naming both: piece does."),
    ),
    fallbacks=(
        only_in_groups(),
        cut_weights_summed(),
        Symptom("replicated gradients", "The cut weights' gradients are right; of those that every rank has whole, some are "
                                        "not the sum over ranks, once.", wrong_ranks(_whole_ones)),
        Symptom("wrong losses", "The losses are not those of the plain model on this rank's positions.",
                lambda look: not _first_losses_right(look)),
        Symptom("wrong gradients", "The first loss is right, the gradients are not: a backward pass goes wrong in a "
                                   "function that the blocks use, or a sum over ranks is missing.", _first_losses_right),
    ),
)
