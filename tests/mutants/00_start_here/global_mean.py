"""Wrong ways to a mean over all ranks."""

import torch
import torch.distributed as dist

from tests.mutants import mutant


@mutant("mean of means")
def averages_the_means(numbers, group):
    mean = torch.tensor(sum(numbers) / max(1, len(numbers)))
    dist.all_reduce(mean, group=group)
    return mean.item() / dist.get_world_size(group)


@mutant("empty share")
def divides_before_it_speaks(numbers, group):
    n = len(numbers)
    weighted = torch.tensor([sum(numbers) / n * n, float(n)])
    dist.all_reduce(weighted, group=group)
    return (weighted[0] / weighted[1]).item()


@mutant("left before the call")
def leaves_when_empty(numbers, group):
    if not numbers:
        return 0.0
    sums = torch.tensor([sum(numbers), float(len(numbers))])
    dist.all_reduce(sums, group=group)
    return (sums[0] / sums[1]).item()


@mutant("own count")
def reduces_the_sum_only(numbers, group):
    total = torch.tensor(float(sum(numbers)))
    dist.all_reduce(total, group=group)
    return total.item() / max(1, len(numbers))


@mutant("divided by ranks")
def divides_by_ranks(numbers, group):
    total = torch.tensor(float(sum(numbers)))
    dist.all_reduce(total, group=group)
    return total.item() / dist.get_world_size(group)


@mutant("own numbers only")
def stays_at_home(numbers, group):
    sums = torch.tensor([sum(numbers), float(len(numbers))])
    dist.all_reduce(sums, group=group)
    return sum(numbers) / max(1, len(numbers))


@mutant("ignores the group")
def reduces_over_the_world(numbers, group):
    sums = torch.tensor([sum(numbers), float(len(numbers))])
    dist.all_reduce(sums)
    return (sums[0] / sums[1]).item()


@mutant("tensor returned")
def returns_a_tensor(numbers, group):
    sums = torch.tensor([sum(numbers), float(len(numbers))])
    dist.all_reduce(sums, group=group)
    return sums[0] / sums[1]


@mutant("not an all-reduce")
def gathers_everything(numbers, group):
    parts = [None] * dist.get_world_size(group)
    dist.all_gather_object(parts, numbers, group=group)
    everything = [number for part in parts for number in part]
    return sum(everything) / len(everything)


@mutant("too many bytes")
def sends_room_for_all_numbers(numbers, group):
    padded = torch.zeros(2, 100)
    padded[0, :len(numbers)], padded[1, :len(numbers)] = torch.tensor(numbers), 1
    dist.all_reduce(padded, group=group)
    return (padded[0].sum() / padded[1].sum()).item()


@mutant("empty counted")
def counts_nothing_as_one(numbers, group):
    sums = torch.tensor([sum(numbers), len(numbers) or 1], dtype=torch.float64)
    dist.all_reduce(sums, group=group)
    return (sums[0] / sums[1]).item()


@mutant("dtype differs")
def lets_torch_choose_the_dtype(numbers, group):
    sums = torch.tensor([sum(numbers), len(numbers)])
    dist.all_reduce(sums, group=group)
    return (sums[0] / sums[1]).item()


@mutant("size differs")
def adds_the_numbers_themselves(numbers, group):
    everything = torch.tensor(numbers)
    dist.all_reduce(everything, group=group)
    return everything.mean().item()


@mutant("result of all_reduce used")
def expects_a_result(numbers, group):
    sums = torch.tensor([sum(numbers), len(numbers)], dtype=torch.float64)
    total, count = dist.all_reduce(sums, group=group)
    return (total / count).item()
