"""Wrong ways to a mean over all ranks."""

import torch
import torch.distributed as dist

from grader.exercises.references import change, mistake

PAIR = "torch.tensor([sum(numbers), len(numbers)], dtype=torch.float64)"
MEAN = "(sum_and_count[0] / sum_and_count[1]).item()"
CHANGES = (
    change("fractions lost", "dtype=torch.float64", "dtype=torch.int64"),
    change("mean of means", PAIR, "torch.tensor(sum(numbers) / max(1, len(numbers)))",
           MEAN, "sum_and_count.item() / dist.get_world_size(group)"),
    change("mean of means", PAIR, "torch.tensor([sum(numbers) / max(1, len(numbers)), bool(numbers)])"),
    change("empty share", "sum(numbers),", "sum(numbers) / len(numbers) * len(numbers),"),
    change("rank returned early", "sum_and_count = ", "if not numbers:\n        return 0.0\n    sum_and_count = "),
    change("own count", MEAN, "sum_and_count[0].item() / max(1, len(numbers))"),
    change("not divided", MEAN, "sum_and_count[0].item()"),
    change("divided by ranks", MEAN, "sum_and_count[0].item() / dist.get_world_size(group)"),
    change("own numbers only", MEAN, "sum(numbers) / max(1, len(numbers))"),
    change("ignores the group", ", group=group", ""),
    change("tensor returned", ".item()", ""),
    change("empty counted", "len(numbers)]", "len(numbers) or 1]"),
    change("dtype differs", ", dtype=torch.float64", ""),
    change("size differs", PAIR, "torch.tensor(numbers)", MEAN, "sum_and_count.mean().item()"),
    change("result of all_reduce used", "dist.all_reduce", "sum_and_count = dist.all_reduce"),
    change("zeros left out", "len(numbers)]", "len([*filter(None, numbers)])]"),
    *(change("rounded", f"return {MEAN}", f"return round({MEAN}, {digits})") for digits in (2, 4, 6)),
    change("missing wait", "group=group)", "group=group, async_op=True)"),
)

EQUIVALENT = {
    "sum_and_count = torch.tensor([sum(numbers), len(numbers)], dtype=torch.float64) | torch.float64 → torch.float32":
        "The task takes either float type: its tolerance is that of a float32 division.",
}


@mistake("not an all-reduce")
def gathers_everything(numbers, group):
    parts = [None] * dist.get_world_size(group)
    dist.all_gather_object(parts, numbers, group=group)
    everything = [number for part in parts for number in part]
    return sum(everything) / len(everything)


@mistake("too many bytes")
def sends_room_for_all_numbers(numbers, group):
    padded = torch.zeros(2, 100)
    padded[0, :len(numbers)], padded[1, :len(numbers)] = torch.tensor(numbers), 1
    dist.all_reduce(padded, group=group)
    return (padded[0].sum() / padded[1].sum()).item()
