"""A GPT whose ranks each have a piece of every sequence: trained to the plain one's losses and parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from grader.calling.sequences import BACKWARD, FORWARD, make_gpt
from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.sequence_inputs import cut_by_name, gradients_of, numbers_at_most, only_within
from grader.judging.compare import same
from grader.judging.demands import bytes_sent, group_size, results_waited
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import group_ignored, raised, unwaited, wrong_ranks
from utils.costs.formulas import bytes_sent_per_rank
from utils.models.sequence_shards import CUT_DIMS
from utils.models.tiny import VOCABULARY, next_byte_loss

from ..SequenceParallelBlock.exercise import GATHERS, REDUCTIONS

STEPS, LR = 2, 0.1


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(n: int, s: int, b: int, dim: int, layers: int, heads: int) -> tuple[dict[str, Any], ...]:
        tokens = [[draw.tensor(s, b, dtype=torch.int64).abs() for _ in range(STEPS)] for _ in range(2)]
        common = {"dim": dim, "heads": heads, "layers": layers, "length": s + 1, "model_seed": draw.integer(0, 9999),
                  "lr": LR, "tokens": tokens[0], "targets": tokens[1]}
        return (common,) * n

    sizes = [(1, 5, 2, 4, 1, 2), (2, 6, draw.integer(1, 3), 8, 2, 2), (4, 8, 2, 12, 1, 4)] + [(3, 9, 2, 6, 2, 3)] * grading
    cases = [Case(f"{ranks(n)}, {s} positions, {layers} layer{'s' * (layers > 1)}", inputs(n, s, b, dim, layers, heads))
             for n, s, b, dim, layers, heads in sizes]
    of_group = {n: inputs(n, 6, 1, 12, 1, 6) for n in (2, 3)}
    cases.append(Case("2 ranks, 5 positions: refused", inputs(2, 5, 1, 4, 1, 2)))
    cases.append(group_case(lambda n: of_group[n], "6 positions"))
    return cases


def _plain(case: Case, rank: int, factor: float = 1.0, local_positions: bool = False) -> dict[str, Any]:
    """One process with whole sequences; each rank's loss is the part of its positions. Wrong ways: gradients times factor;
    every rank counting its positions from 0."""
    inputs, n, r = case.inputs[rank], len(case.members(rank)), case.group_rank(rank)
    length = len(inputs["tokens"][0])
    if length % n:
        return {"refused": True}
    model = make_gpt(inputs)
    if local_positions:
        rows = model.positions.weight.data
        rows[:length] = rows[:length // n].repeat(n, 1)
    losses, first = [], {}
    optimizer = torch.optim.SGD(model.parameters(), lr=inputs["lr"])
    for tokens, targets in zip(inputs["tokens"], inputs["targets"], strict=True):
        optimizer.zero_grad()
        rows = next_byte_loss(model(tokens), targets)
        (rows.mean() * factor).backward()
        losses.append(rows.detach().chunk(n)[r].sum() / length)
        first = first or {name: g.clone() for name, g in gradients_of(model).items()}
        optimizer.step()
    return {"losses": losses, "gradients": cut_by_name(case, rank, first),
            "parameters": cut_by_name(case, rank, {name: p.detach() for name, p in model.named_parameters()})}


def _loss_as(factor: Callable[[Look, int], float]) -> Callable[[Look], bool]:
    return wrong_ranks(lambda look, r, found, expected: factor(look, r) != 1 and same(
        found["losses"][0], expected["losses"][0] * factor(look, r)))


def _whole_loss(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """Every rank returns the mean over all positions."""
    whole = sum(look.right[member]["losses"][0] for member in look.case.members(rank))
    return group_size(look, rank) > 1 and same(found["losses"][0], whole)


def _from_0(look: Look) -> bool:
    """The first losses are wrong somewhere, and everywhere those of positions counted from 0."""
    pairs = [(found["losses"][0], expected["losses"][0], _plain(look.case, r, local_positions=True)["losses"][0])
             for r, found, expected in look.pairs()]
    return any(not same(f, e) for f, e, _ in pairs) and all(same(f, other) for f, _, other in pairs)


def _wrong_names(look: Look, rank: int) -> set[str]:
    found, expected = look.outputs[rank]["gradients"], look.right[rank]["gradients"]
    return {name for name in expected if not same(found[name], expected[name])}


def _only(*layers: str) -> Callable[[Look], bool]:
    """The losses are right, and wrong gradients are of these layers only."""
    def test(look: Look, rank: int, found: Any, expected: Any) -> bool:
        wrong = _wrong_names(look, rank)
        return same(found["losses"][0], expected["losses"][0]) and bool(wrong) and all(
            name.split(".")[-2] in layers for name in wrong)

    return wrong_ranks(test)


def _first_losses_right(look: Look) -> bool:
    """Before any update."""
    return all(same(found["losses"][0], expected["losses"][0]) for _, found, expected in look.pairs())


def _divided(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """All gradients, cut ones too, are n times too small or too large."""
    n = group_size(look, rank)
    return any(same(found["gradients"], {name: g * f for name, g in expected["gradients"].items()}) for f in (n, 1 / n))


def _whole_ones(look: Look, rank: int, found: Any, expected: Any) -> bool:
    """The cut weights' gradients are right; wrong ones are among those that every rank has whole."""
    return bool(_wrong_names(look, rank)) and not any(
        ".".join(name.split(".")[-2:]) in CUT_DIMS for name in _wrong_names(look, rank))


def _sent(look: Look, rank: int) -> float:
    inputs, n = look.case.inputs[rank], group_size(look, rank)
    if "refused" in look.right[rank]:
        return 0
    (s, b), dim, layers = inputs["tokens"][0].shape, inputs["dim"], inputs["layers"]
    whole, small = 8 * s * b * dim, 8 * sum(
        g.numel() for name, g in look.right[rank]["gradients"].items() if ".".join(name.split(".")[-2:]) not in CUT_DIMS)
    return len(inputs["tokens"]) * (layers * (GATHERS + REDUCTIONS) * bytes_sent_per_rank("all_gather", whole, n)
                                    + bytes_sent_per_rank("all_reduce", small, n))


def _share(look: Look, rank: int) -> int:
    inputs, n = look.case.inputs[rank], group_size(look, rank)
    dim = inputs["dim"]
    return inputs["layers"] * (12 * dim * dim // n + 7 * dim // n + 6 * dim) + dim * (2 * VOCABULARY + inputs["length"] + 2)


EXERCISE = Exercise(
    title="A GPT in pieces",
    parameters=("model", "group"),
    make_cases=_cases,
    oracle=each_rank(_plain),
    trains=True,
    tolerance=1e-6,
    points={"values": 4, "technique": 4},
    technique=Technique(
        demands=(
        only_within((FORWARD, BACKWARD), "all_gather", "reduce_scatter", id="all-reduce left", hint=(
            "In forward and backward only the blocks' all-gathers and reduce-scatters are left: no logits and no losses are "
            "gathered, and gradients are reduced in reduce_gradients().")),
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
        Symptom("not refused", "A sequence that the ranks do not divide must raise a ValueError naming both: piece does.",
                lambda look: any("refused" in expected for expected in look.right)),
        Symptom("whole loss", "Every rank returns the loss of all positions: it has the logits of its own only, and its "
                              "loss is their sum over the number of all positions. The ranks' parts add up to the mean.",
                wrong_ranks(_whole_loss)),
        Symptom("mean of the piece", "Each rank's loss is the mean over its own positions, n times too large: divide the "
                                     "sum by the number of all positions, so that the ranks' parts add up to the mean.",
                _loss_as(lambda look, r: float(group_size(look, r)))),
        Symptom("positions from 0", "Every rank counts its positions from 0: rank r's piece begins at r·S/n.", _from_0),
        Symptom("blocks not reduced", "The embedding's, the last norm's and the head's gradients are right, the blocks' own "
                                      "norms and biases are not: call each block's reduce_gradients, or reduce them all "
                                      "here.",
                _only("attention_norm", "mlp_norm", "out", "down")),
        Symptom("embedding not reduced", "The blocks are right; embedding, positions, last norm and head, whole on every "
                                         "rank and used on its positions only, have gradients that must be summed too.",
                _only("embedding", "positions", "norm", "head")),
        Symptom("gradients scaled", "Every gradient is n times too large or too small.", wrong_ranks(_divided)),
        Symptom("replicated gradients", "The cut weights' gradients are right; of those that every rank has whole, some are "
                                        "not the sum over ranks, once.", wrong_ranks(_whole_ones)),
        Symptom("wrong losses", "The losses are not those of the plain model on this rank's positions.",
                lambda look: not _first_losses_right(look)),
        Symptom("wrong gradients", "The first loss is right, the gradients are not: a backward pass goes wrong in a "
                                   "function that the blocks use, or a sum over ranks is missing.", _first_losses_right),
    ),
    ),
)
