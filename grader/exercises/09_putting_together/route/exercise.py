"""Top-k routing: each token's experts and their weights, and which choices find a place with their expert."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.routing import Pair, choices_first, routed, taken
from grader.exercises.shared.sequence_inputs import wrong_from
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def case(name: str, n_tokens: int, n_experts: int, k: int, capacity: int, favour: float = 0.0,
             dtype: torch.dtype = torch.float64) -> Case:
        """favour: how much more of the second expert; the numbers are all different, so no choice is in doubt."""
        numbers = list(range(n_tokens * n_experts))
        draw.numbers.shuffle(numbers)
        logits = torch.tensor(numbers, dtype=torch.float64).view(n_tokens, n_experts) * 6 / len(numbers) - 3
        logits += logits ** 2 / 30  # so that no two differences, and no two weights, are equal either
        logits[:, 1] += favour
        return Case(name, ({"logits": logits.to(dtype), "k": k, "capacity": capacity,
                            "factors": draw.tensor(n_tokens, k, dtype=dtype) / 7},))

    cases = [case("10 tokens, 4 experts, k = 2, capacity 4", 10, 4, 2, 4),
             case("8 tokens, 3 experts, k = 1, capacity 2", 8, 3, 1, 2),
             case("5 tokens, k = 3 of 3 experts, room for all", 5, 3, 3, 99),
             case("12 tokens, 5 experts, k = 3, capacity 5, a favourite, float32", 12, 5, 3, 5, 2.0001, torch.float32),
             case("6 tokens, 4 experts, k = 2, capacity 1", 6, 4, 2, 1),
             # the favourite has more choices than bfloat16 can count; there is nothing to round with k = 1
             case("400 tokens, 2 experts, k = 1, capacity 300, a favourite, bfloat16", 400, 2, 1, 300, 8.0, torch.bfloat16),
             case("3 tokens, 8 experts, k = 2, capacity 1, a favourite", 3, 8, 2, 1, 3.0001)]
    n_tokens, capacity = draw.integer(9, 20), draw.integer(3, 6)
    drawn = case(f"{n_tokens} tokens, 6 experts, k = 2, capacity {capacity}, a favourite", n_tokens, 6, 2, capacity, 1.0001)
    return [*cases, drawn] if grading else cases


def _right(case: Case) -> list[dict[str, Tensor]]:
    inputs = case.inputs[0]
    logits = inputs["logits"].clone().requires_grad_()
    experts, weights, kept = routed(logits, inputs["k"], inputs["capacity"])
    (weights * inputs["factors"]).sum().backward()
    return [{"experts": experts, "weights": weights.detach(), "kept": kept, "dlogits": logits.grad}]


# ── slips ──


def _part(id: str, part: str, hint: str, wrong: Callable[[dict[str, Any], dict[str, Tensor]], Tensor]) -> Slip:
    """`part` is wrong(inputs, the right parts), what stands before it is right, the rest may be anything."""
    return Slip(id, hint, lambda case, rank, right: wrong_from(right[0], part, wrong(case.inputs[0], right[0])))


def _served(id: str, hint: str, queue: Callable[[Tensor], Iterable[Pair]]) -> Slip:
    """The choices are served in another order."""
    return _part(id, "kept", hint, lambda inputs, right: taken(right["experts"], inputs["capacity"],
                                                               queue(right["experts"])))


def _with_capacity(id: str, hint: str, capacity: Callable[[dict[str, Any], Tensor], int]) -> Slip:
    """Every expert has another capacity."""
    return _part(id, "kept", hint, lambda inputs, right: taken(
        right["experts"], capacity(inputs, right["experts"]), choices_first(right["experts"])))


def _probabilities(inputs: dict[str, Any], right: dict[str, Tensor]) -> Tensor:
    return inputs["logits"].softmax(1).gather(1, right["experts"])


def _each_choice_by_itself(inputs: dict[str, Any], right: dict[str, Tensor]) -> Tensor:
    experts = right["experts"]
    return torch.cat([taken(column, inputs["capacity"], choices_first(column)) for column in experts.split(1, 1)], 1)


def _by_weight(inputs: dict[str, Any], right: dict[str, Tensor]) -> Tensor:
    pairs = sorted(choices_first(right["experts"]), key=lambda pair: -float(right["weights"][pair]))
    return taken(right["experts"], inputs["capacity"], pairs)


def _whole_tokens(inputs: dict[str, Any], right: dict[str, Tensor]) -> Tensor:
    return right["kept"].all(1, keepdim=True).expand_as(right["kept"]).clone()


def _of_kept(inputs: dict[str, Any], right: dict[str, Tensor]) -> Tensor:
    """Weights over what is kept; 0 where nothing is."""
    return inputs["logits"].gather(1, right["experts"]).masked_fill(~right["kept"], -torch.inf).softmax(1).nan_to_num()


def _sigmoids(inputs: dict[str, Any], right: dict[str, Tensor]) -> Tensor:
    scores = inputs["logits"].gather(1, right["experts"]).sigmoid()
    return scores / scores.sum(1, keepdim=True)


EXERCISE = Exercise(
    title="Which experts, and who gets in",
    parameters=("logits", "k", "capacity"),
    make_cases=_cases,
    oracle=_right,
    points={VALUES: 2},
    tolerance=1e-9,
    slips=(
        _part("smallest chosen", "experts", "These are the experts with the smallest logits: the largest are asked.",
              lambda inputs, right: (-inputs["logits"]).argsort(1, descending=True)[:, :inputs["k"]]),
        _part("smallest first", "experts", "The experts are right, but the least of them comes first: the first choice is "
              "the one with the largest logit.", lambda inputs, right: right["experts"].flip(1)),
        _part("by number", "experts", "The experts are right, but sorted by their numbers: first comes the one with the "
              "largest logit. The order decides who is served first.",
              lambda inputs, right: right["experts"].sort(1).values),
        _part("softmax over all", "weights", "The weights are the softmax over all experts, so those of a token do not add "
              "up to 1: take the softmax over the k chosen logits alone.", _probabilities),
        _part("logits as weights", "weights", "The weights are the logits themselves: put them through a softmax.",
              lambda inputs, right: inputs["logits"].gather(1, right["experts"])),
        _part("softmax over tokens", "weights", "The softmax runs along the tokens: each token's own k weights add up to 1.",
              lambda inputs, right: inputs["logits"].gather(1, right["experts"]).softmax(0)),
        _part("sigmoid", "weights", "The weights are sigmoids, divided by their sum: here it is the softmax of the k "
              "logits.", _sigmoids),
        _part("weights dropped", "weights", "The weights of dropped choices are 0: leave them as they are here, kept says "
              "what counts.", lambda inputs, right: right["weights"] * right["kept"]),
        _part("weights of the kept", "weights", "The weights are spread anew over what is kept: the softmax is over all k "
              "choices of a token, and a dropped one's share is lost.", _of_kept),
        _served("tokens first", "The queue goes token by token, with all choices of a token at once: all tokens' first "
                "choices come before any second choice.",
                lambda experts: [(t, j) for t in range(experts.shape[0]) for j in range(experts.shape[1])]),
        _served("last tokens first", "The last tokens are served first: a place goes to the earlier token.",
                lambda experts: [(t, j) for j in range(experts.shape[1]) for t in reversed(range(experts.shape[0]))]),
        _served("last choices first", "Last choices are served before first ones: begin with the first choices.",
                lambda experts: [(t, j) for j in reversed(range(experts.shape[1])) for t in range(experts.shape[0])]),
        _part("largest weights first", "kept", "Large weights are served before small ones: a place goes to first choices "
              "before second ones, and among them to the earlier token, whatever the weights.", _by_weight),
        _part("each choice by itself", "kept", "First and second choices are counted apart, so an expert takes up to k "
              "times its capacity: all share one queue for each expert.", _each_choice_by_itself),
        _with_capacity("one too many", "An expert takes one too many: with `cumsum` the first in its queue is number 1, so "
                       "who has a number up to the capacity is kept.", lambda inputs, experts: inputs["capacity"] + 1),
        _with_capacity("one too few", "An expert takes one too few: count whether a running number begins with 0 or 1.",
                       lambda inputs, experts: inputs["capacity"] - 1),
        _with_capacity("capacity ignored", "Everything is kept: an expert takes no more than its capacity.",
                       lambda inputs, experts: experts.numel()),
        _part("kept and dropped exchanged", "kept", "It is the other way round: True is for those who are kept.",
              lambda inputs, right: ~right["kept"]),
        _part("whole tokens dropped", "kept", "A token loses all its choices where one is dropped: each choice is kept or "
              "dropped by itself.", _whole_tokens),
    ),
)
