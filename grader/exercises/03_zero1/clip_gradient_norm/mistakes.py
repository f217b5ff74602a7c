"""Wrong clipping."""

import torch
import torch.distributed as dist

from grader.exercises.references import change, mistake

CHANGES = (
    change("something added to the norm", "max_norm / norm", "max_norm / (norm + 1e-6)"),
    change("own norm", "dist.all_reduce(square, group=group)", "pass"),
    change("norms added", "gradient_C.float().square().sum()", "gradient_C.float().norm()", "square.sqrt()", "square"),
    change("root forgotten", "square.sqrt()", "square"),
    change("mean of squares", "square.sqrt()", "(square / dist.get_world_size(group)).sqrt()"),
    change("largest number", "square().sum()", "abs().max() if len(gradient_C) else torch.zeros(())",
           "dist.all_reduce(square,", "dist.all_reduce(square, op=dist.ReduceOp.MAX,", "square.sqrt()", "square"),
    change("squares compared", "if norm > max_norm", "if norm**2 > max_norm"),
    change("each number clamped", "gradient_C *= max_norm / norm", "gradient_C.clamp_(-max_norm, max_norm)"),
    change("each piece at the limit", "gradient_C *= max_norm / norm",
           "gradient_C *= max_norm / gradient_C.norm().clamp(min=1e-6)"),
    change("squared in place", "gradient_C.float().square()", "gradient_C.float().square_()"),
    change("squared in place", "gradient_C.float().square()", "gradient_C.double().square_()"),
    change("tensor returned", "return norm", "return torch.tensor(norm)"),
    change("not all take part", "square = ", "if not len(gradient_C):\n        return 0.0\n    square = "),
    change("not all take part", "square = gradient_C.float().square().sum()", "largest = gradient_C.float().abs().max()\n"
           "    square = (gradient_C.float() / largest.clamp(min=1)).square().sum() * largest.clamp(min=1)**2"),
    change("float64 refused", "gradient_C.float().square().sum()",
           "torch.linalg.vector_norm(gradient_C, dtype=torch.float32).square()"),
    change("always scaled", "if norm > max_norm", "if norm"),
    change("not scaled", "gradient_C *= ", "gradient_C = gradient_C * "),
    change("not scaled", "gradient_C *= max_norm / norm", "gradient_C.float().mul_(max_norm / norm)"),
    change("norm after clipping", "return norm", "return min(norm, max_norm)"),
    change("16 bits", ".float()", ""),
    change("too many bytes", "gradient_C.float().square().sum()",
           "torch.stack([gradient_C.double().square().sum(), torch.tensor(len(gradient_C))])",
           "square.sqrt()", "square[0].sqrt()"),
    change("group ignored", ", group=group", ""),
)

EQUIVALENT = {
    "if norm > max_norm: | norm > max_norm → norm >= max_norm": "Where the two are equal the factor is 1.",
}


def _whole_norm(gradient_C, group):
    total = (gradient_C.double() ** 2).sum()
    dist.all_reduce(total, group=group)
    return total.sqrt().item()


@mistake("not a number")
def divides_by_zero(gradient_C, max_norm, group):
    norm = torch.tensor(_whole_norm(gradient_C, group), dtype=torch.float64)
    gradient_C *= torch.clamp(max_norm / norm, max=1.0) * norm / norm
    return norm.item()


@mistake("library call")
def gathers(gradient_C, max_norm, group):
    norms = [torch.zeros((), dtype=torch.float64) for _ in range(dist.get_world_size(group))]
    dist.all_gather(norms, gradient_C.double().norm(), group=group)
    norm = torch.stack(norms).norm().item()
    gradient_C *= min(1.0, max_norm / norm) if norm else 1.0
    return norm
