"""Wrong merges of partial attentions."""

import torch

from tests.mutants import mutant


def _shares(lse1, lse2):
    lse = torch.logaddexp(lse1, lse2)
    safe = lse.masked_fill(lse == float("-inf"), 0.0)
    return torch.exp(lse1 - safe)[..., None], torch.exp(lse2 - safe)[..., None], lse


@mutant("plain average")
def averages(o1, lse1, o2, lse2):
    return (o1 + o2) / 2, torch.logaddexp(lse1, lse2)


@mutant("weighed by logarithms")
def by_lse(o1, lse1, o2, lse2):
    total = lse1 + lse2
    return o1 * (lse1 / total)[..., None] + o2 * (lse2 / total)[..., None], torch.logaddexp(lse1, lse2)


@mutant("weights swapped")
def swaps(o1, lse1, o2, lse2):
    first, second, lse = _shares(lse1, lse2)
    return o1 * second + o2 * first, lse


@mutant("not divided")
def keeps_the_scale(o1, lse1, o2, lse2):
    most = torch.maximum(lse1, lse2)
    most = most.masked_fill(most == float("-inf"), 0.0)
    return (o1 * torch.exp(lse1 - most)[..., None] + o2 * torch.exp(lse2 - most)[..., None], torch.logaddexp(lse1, lse2))


@mutant("overflow")
def without_maximum(o1, lse1, o2, lse2):
    sum1, sum2 = torch.exp(lse1), torch.exp(lse2)
    total = (sum1 + sum2).clamp(min=1e-300)
    return (o1 * sum1[..., None] + o2 * sum2[..., None]) / total[..., None], torch.log(sum1 + sum2)


@mutant("nothing seen")
def not_a_number(o1, lse1, o2, lse2):
    lse = torch.logaddexp(lse1, lse2)
    return o1 * torch.exp(lse1 - lse)[..., None] + o2 * torch.exp(lse2 - lse)[..., None], lse


@mutant("wrong lse")
def larger_lse(o1, lse1, o2, lse2):
    first, second, _ = _shares(lse1, lse2)
    return o1 * first + o2 * second, torch.maximum(lse1, lse2)


@mutant("weights without a dimension")
def no_last_dimension(o1, lse1, o2, lse2):
    first, second, lse = _shares(lse1, lse2)
    return o1 * first[..., 0] + o2 * second[..., 0], lse
