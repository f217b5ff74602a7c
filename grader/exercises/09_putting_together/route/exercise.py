"""Top-k routing: each token's experts and their weights, and which choices find a place with their expert."""

from collections.abc import Sequence

import torch
from torch import Tensor

from grader.exercises.shared.routing import routed
from grader.judging.exercise import VALUES, Case, Draw, Exercise


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


EXERCISE = Exercise(
    title="Which experts, and who gets in",
    parameters=("logits", "k", "capacity"),
    make_cases=_cases,
    oracle=_right,
    points={VALUES: 2},
    tolerance=1e-9,
)
