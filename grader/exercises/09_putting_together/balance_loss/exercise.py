"""The loss that keeps a router fair, over the tokens of all ranks: E·Σ f·P, whose f has no gradient."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import each_rank, group_case, ranks
from grader.exercises.shared.split_inputs import first_wrong_slip
from grader.judging.compare import ANYTHING
from grader.judging.exercise import Case, Draw, Exercise, Slip


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


def _counts(experts: Tensor, n_experts: int) -> Tensor:
    return torch.stack([(experts == number).sum() for number in range(n_experts)]).double()


def _whole(case: Case, rank: int) -> tuple[list[Tensor], list[Tensor]]:
    """Probabilities in float64, and experts, of each member."""
    return [p.double() for p in case.peers_inputs(rank, "probabilities")], case.peers_inputs(rank, "experts")


def _shares(experts: Sequence[Tensor], n_experts: int) -> Tensor:
    """f, of these ranks' choices."""
    counts = _counts(torch.cat(list(experts)), n_experts)
    return counts / counts.sum()


def _right(case: Case, rank: int) -> dict[str, Tensor]:
    """All ranks' tokens on one process; of the gradient this rank's rows."""
    own = case.inputs[rank]["probabilities"]
    probabilities, experts = _whole(case, rank)
    n_experts = own.shape[1]
    whole = torch.cat(probabilities).requires_grad_()
    loss = n_experts * (_shares(experts, n_experts) * whole.mean(0)).sum()
    (loss * case.inputs[rank]["factor"]).backward()
    gradient = whole.grad.split([len(p) for p in probabilities])[case.group_rank(rank)]
    return {"loss": loss.detach().to(own.dtype), "dprobabilities": gradient.to(own.dtype)}


# ── slips ──


def _loss(id: str, hint: str, wrong: Callable[[Case, int, list[Tensor], list[Tensor], int], Tensor]) -> Slip:
    """The loss is wrong(case, rank, probabilities of each member, experts of each member, E)."""

    def value(case: Case, rank: int, right: Tensor) -> Tensor:
        probabilities, experts = _whole(case, rank)
        return wrong(case, rank, probabilities, experts, probabilities[0].shape[1]).to(right.dtype)

    return first_wrong_slip(id, hint, "loss", value)


def _gradient(id: str, hint: str, wrong: Callable[[Case, int, Tensor], Tensor]) -> Slip:
    """The loss is right, its gradient is wrong(case, rank, the right one); a rank without tokens may divide by none."""
    return Slip(id, hint, lambda case, rank, right: {
        "loss": right[rank]["loss"] if len(case.inputs[rank]["probabilities"]) else ANYTHING,
        "dprobabilities": wrong(case, rank, right[rank]["dprobabilities"])})


def _of_one(probabilities: Tensor, experts: Tensor, n_experts: int) -> Tensor:
    return n_experts * (_shares([experts], n_experts) * probabilities.mean(0)).sum()


def _own(case: Case, rank: int, probabilities: list[Tensor], experts: list[Tensor], n_experts: int) -> Tensor:
    r = case.group_rank(rank)
    return _of_one(probabilities[r], experts[r], n_experts)


def _mean_of_losses(case: Case, rank: int, probabilities: list[Tensor], experts: list[Tensor], n_experts: int) -> Tensor:
    pairs = zip(probabilities, experts, strict=True)
    return torch.stack([_of_one(p, chosen, n_experts) for p, chosen in pairs]).mean()


def _means_of_means(case: Case, rank: int, probabilities: list[Tensor], experts: list[Tensor], n_experts: int) -> Tensor:
    shares = torch.stack([_shares([chosen], n_experts) for chosen in experts]).mean(0)
    return n_experts * (shares * torch.stack([p.mean(0) for p in probabilities]).mean(0)).sum()


def _own_mean(case: Case, rank: int, probabilities: list[Tensor], experts: list[Tensor], n_experts: int) -> Tensor:
    """f of all ranks, P of this rank's tokens."""
    return n_experts * (_shares(experts, n_experts) * probabilities[case.group_rank(rank)].mean(0)).sum()


def _tokens(case: Case, rank: int) -> int:
    """Of all ranks."""
    return sum(len(p) for p in case.peers_inputs(rank, "probabilities"))


_TIMES = ("The loss is right, its gradient is n times too large: torch's differentiable all-reduce, or a factor, sums the n "
          "ranks' gradients of one and the same loss. Each rank has the whole loss; nothing is summed in backward.")

EXERCISE = Exercise(
    title="A loss for fairness",
    parameters=("probabilities", "experts", "group"),
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=1e-9,
    slips=(
        _loss("own tokens only", "The loss is that of this rank's own tokens: f and P are shares and means over the tokens "
              "of all ranks.", _own),
        _loss("mean of losses", "This is the mean of the ranks' own losses. f·P is a product: average f and P over all "
              "tokens first, then multiply, or ranks that are unfair in opposite ways look unfair together.",
              _mean_of_losses),
        _loss("mean of means", "Ranks with few tokens count as much as those with many: sum counts, probabilities and "
              "tokens over ranks, and divide then.", _means_of_means),
        _loss("own mean", "f is of all ranks, but P of this rank's tokens only: sum the probabilities over ranks too.",
              _own_mean),
        _loss("E forgotten", "The loss is E times too small: the factor E makes it 1 where all is even, for any E.",
              lambda case, rank, p, chosen, e: _right(case, rank)["loss"].double() / e),
        _loss("k not divided", "The loss is k times too large: f is a share of all choices, of which a token has k. The "
              "shares add up to 1.",
              lambda case, rank, p, chosen, e: _right(case, rank)["loss"].double() * chosen[0].shape[1]),
        _loss("first choices only", "f counts first choices only: every column of experts counts.",
              lambda case, rank, p, chosen, e: e * (
                  _shares([own[:, :1] for own in chosen], e) * torch.cat(p).mean(0)).sum()),
        _loss("f from probabilities", "f is what was chosen, counted from experts: this is the mean probability twice.",
              lambda case, rank, p, chosen, e: e * (torch.cat(p).mean(0) ** 2).sum()),
        _loss("counts for shares", "f and P are not divided: a share of all choices, and a mean over all tokens.",
              lambda case, rank, p, chosen, e: e * (_counts(torch.cat(chosen), e) * torch.cat(p).sum(0)).sum()),
        _loss("not summed over experts", "The loss is a mean over experts: it is E times the sum of f·P.",
              lambda case, rank, p, chosen, e: _right(case, rank)["loss"].double() / e ** 2),
        _gradient("gradient times n", _TIMES, lambda case, rank, right: right * case.group_size(rank)),
        _gradient("gradient divided by n", "The loss is right, its gradient is n times too small: nothing of it is a mean "
                  "over ranks, the tokens of all of them are counted already.",
                  lambda case, rank, right: right / case.group_size(rank)),
        _gradient("gradient of own mean", "The loss is right, but its gradient is that of a mean over your own tokens: your "
                  "probabilities are divided by the number of all tokens.",
                  lambda case, rank, right: right * _tokens(case, rank) / len(right)),
        _gradient("gradient by own f", "The loss is right, but its gradient has the shares of your own choices: f is that "
                  "of all ranks there too.",
                  lambda case, rank, right: right * 0 + (
                      case.inputs[rank]["factor"] * right.shape[1] / _tokens(case, rank)
                      * _shares([case.inputs[rank]["experts"]], right.shape[1])).to(right.dtype)),
    ),
)
