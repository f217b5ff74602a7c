"""The loss that keeps a router fair, over the tokens of all ranks: E·Σ f·P, whose f has no gradient."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.judging.exercise import Case, Draw, Exercise


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def inputs(tokens: Sequence[int], n_experts: int, k: int, dtype: torch.dtype = torch.float64) -> list[dict[str, Any]]:
        """One rank for each number of tokens; all have the same gradient of the loss."""
        factor, found = draw.integer(2, 9) / 4, []
        for rank, n_tokens in enumerate(tokens):
            logits = draw.tensor(n_tokens, n_experts, dtype=torch.float64) / 25
            logits[:, rank % n_experts] += 1.5  # every rank has another favourite
            found.append({"probabilities": logits.softmax(1).to(dtype), "experts": logits.topk(k).indices, "factor": factor})
        return found

    cases = [Case(f"{ranks(1)}, k = 2", tuple(inputs([7], 5, 2))),
             Case(f"{ranks(2)}, k = 1", tuple(inputs([6, 6], 4, 1))),
             Case(f"{ranks(3)} with 4, 9 and no tokens, k = 2", tuple(inputs([4, 9, 0], 6, 2))),
             Case(f"{ranks(4)}, k = 3, float32", tuple(inputs([5, 5, 5, 5], 8, 3, torch.float32)))]
    more = draw.integer(3, 12)  # drawn always: what follows is the same
    if grading:
        cases.append(Case(f"{ranks(4)} with up to {more} tokens", tuple(inputs([more, 1, 5, 3], 7, 2))))
    return [*cases, group_case(lambda n: inputs([3 + 2 * r for r in range(n)], 4, 2), "k = 2")]


def _right(case: Case, rank: int) -> dict[str, Tensor]:
    """All ranks' tokens on one process, in float64; of the gradient this rank's rows."""
    inputs, probabilities = case.inputs[rank], case.peers_inputs(rank, "probabilities")
    whole = torch.cat(probabilities).double().requires_grad_()
    experts, n_experts, dtype = torch.cat(case.peers_inputs(rank, "experts")), whole.shape[1], inputs["probabilities"].dtype
    shares = torch.stack([(experts == number).sum() for number in range(n_experts)]).double() / experts.numel()
    loss = n_experts * (shares * whole.mean(0)).sum()
    (loss * inputs["factor"]).backward()
    gradient = whole.grad.split([len(p) for p in probabilities])[case.group_rank(rank)]
    return {"loss": loss.detach().to(dtype), "dprobabilities": gradient.to(dtype)}


EXERCISE = Exercise(
    title="A loss for fairness",
    parameters=("probabilities", "experts", "group"),
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=1e-9,
)
