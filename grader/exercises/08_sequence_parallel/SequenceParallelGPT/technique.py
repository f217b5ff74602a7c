"""How SequenceParallelGPT must be done, and how it can fail."""

from collections.abc import Callable
from typing import Any

from grader.exercises.technique.sequences import (
    cut_weights_summed,
    kept_at_most,
    no_all_reduce_left,
    not_refused,
    numbers_at_most,
)
from grader.exercises.technique.sharding import gathered_again, gathered_and_reduced, gathers_and_reductions
from grader.exercises.technique.splitting import work_divided
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, results_waited
from grader.judging.exercise import Look, Symptom, Technique
from grader.judging.general import IN_GROUPS_ONLY
from grader.judging.symptoms import group_ignored, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank
from utils.models.shards import cut_dim
from utils.models.tiny import VOCABULARY

GATHERS, REDUCTIONS = 6, 4  # of each block, forward and backward together


def _whole_numbers(inputs: dict[str, Any]) -> int:
    """Of parameters that every rank has whole: norms and biases of each block, embeddings, last norm and head."""
    return 6 * inputs["layers"] * inputs["dim"] + inputs["dim"] * (2 * VOCABULARY + inputs["length"] + 2)


def _activations(look: Look, rank: int) -> int:
    """Of all blocks and steps, one of each."""
    if look.refused:
        return 0
    inputs = look.case.inputs[rank]
    return 8 * sum(tokens.numel() for tokens in inputs["tokens"]) * inputs["dim"] * inputs["layers"]


def _kept(look: Look, rank: int) -> float:
    """Of each block 17 shards of x, the scores' two, LayerNorm's means; of the end 3 shards and two of the logits; and half
    a whole x to spare."""
    inputs, n = look.case.inputs[rank], look.case.group_size(rank)
    (s, b), dim, number = inputs["tokens"][0].shape, inputs["dim"], 8
    whole, weights = s * b * dim * number, inputs["heads"] // n * s * s * b * number
    blocks = inputs["layers"] * (17 * whole / n + 2 * weights + 4 * s * b * number)
    return blocks + (3 * whole + 2 * s * b * VOCABULARY * number) / n + whole / 2


def _sent(look: Look, rank: int) -> float:
    if look.refused:
        return 0
    inputs, n = look.case.inputs[rank], look.case.group_size(rank)
    of_layers = gathers_and_reductions(look, rank, _activations(look, rank), GATHERS, REDUCTIONS)
    small = bytes_sent_per_rank("all_reduce", 8 * _whole_numbers(inputs), n)
    return of_layers + len(inputs["tokens"]) * small


def _forward_flops(look: Look, rank: int) -> list[float]:
    """Of each step: the products with each block's 12·dim² weights, scores and their sums, and the head's."""
    inputs = look.case.inputs[rank]
    dim = inputs["dim"]
    return [inputs["layers"] * (24.0 * s * b * dim * dim + 4.0 * b * s * s * dim) + 2.0 * s * b * dim * VOCABULARY
            for s, b in (tokens.shape for tokens in inputs["tokens"])]


def _share(look: Look, rank: int) -> int:
    inputs, n = look.case.inputs[rank], look.case.group_size(rank)
    dim = inputs["dim"]
    return inputs["layers"] * (12 * dim * dim // n + 7 * dim // n) + _whole_numbers(inputs)


def _whole_ones(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """The cut weights' gradients are right; wrong ones are among those that every rank has whole."""
    wrong = _wrong_gradients(found, expected)
    return bool(wrong) and not any(cut_dim(name) is not None for name in wrong)


def _wrong_gradients(found: Any, expected: Any) -> list[str]:
    return [name for name, gradient in expected["gradients"].items() if not same(found["gradients"][name], gradient)]


def _whole_ones_times(factor: Callable[[int], float]) -> Callable[[Look], bool]:
    """Those of them that are wrong are all so many times too large."""

    def matches(look: Look, rank: int, found: Any, expected: Any) -> bool:
        times = factor(look.case.group_size(rank))
        return _whole_ones(look, rank, found, expected) and all(
            look.same(found["gradients"][name], times * expected["gradients"][name])
            for name in _wrong_gradients(found, expected))

    return wrong_ranks(matches)


def _is_alone(look: Look) -> bool:
    """A rank has the whole sequence."""
    return look.case.group_size(look.working[0]) == 1


def _first_losses_right(look: Look) -> bool:
    """Before any update."""
    return all(same(found["losses"][0], expected["losses"][0]) for _, found, expected in look.pairs())


@wrong_ranks
def _has_no_gradient(look: Look, rank: int, found: Any, expected: Any) -> bool:
    return any(found["gradients"].get(name) is None for name in expected["gradients"])


TECHNIQUE = Technique(
    demands=(
        gathered_and_reduced(_activations, REDUCTIONS, REDUCTIONS),
        no_all_reduce_left(),
        numbers_at_most(_share),
        work_divided(_forward_flops),
        kept_at_most(_kept, "each rank keeps its positions only"),
        gathered_again(lambda look, r: GATHERS * _activations(look, r) / look.case.group_size(r)),
        bytes_sent(_sent, "10(n−1)/n of x's bytes a block, and each whole parameter's gradient once"),
        results_waited(),
    ),
    symptoms=(group_ignored(), unwaited()),
    fallbacks=(
        IN_GROUPS_ONLY,
        Symptom("wrong pieces", lambda look: not _first_losses_right(look), refuted=_is_alone),
        Symptom("wrong losses", lambda look: not _first_losses_right(look)),
        Symptom("no gradient", _has_no_gradient),
        cut_weights_summed(),
        Symptom("sums averaged", _whole_ones_times(lambda n: 1 / n)),
        Symptom("summed twice", _whole_ones_times(lambda n: n)),
        Symptom("replicated gradients", wrong_ranks(_whole_ones)),
        Symptom("wrong backward", _first_losses_right, refuted=_is_alone),
        Symptom("wrong gradients", _first_losses_right),
        not_refused(),
    ),
)
