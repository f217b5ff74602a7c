"""Wrong dropouts on a piece."""

from tests.mutants import change

CHANGES = (
    change("same mask on all ranks", "seed * dist.get_world_size(group) + dist.get_rank(group)", "seed"),
    change("seeds meet", "seed * dist.get_world_size(group)", "seed"),
    change("random state changed", "torch.Generator(x_PBD.device).manual_seed(own_seed)", "torch.manual_seed(own_seed)"),
    change("mask redrawn", "generator = torch.Generator(x_PBD.device).manual_seed(own_seed)",
           "generator = vars(local_dropout).setdefault(f'{seed}', torch.Generator().manual_seed(own_seed))"),
    change("off without a graph", "return x_PBD * keep / (1 - p)",
           "return x_PBD * keep / (1 - p) if torch.is_grad_enabled() else x_PBD"),
    change("not scaled", " / (1 - p)", ""),
    change("scaled by p", "(1 - p)", "(p or 1)"),
    change("kept and dropped exchanged", ">= p", "< p"),
    change("rank of the world", "(group)", "()"),
    change("seed and rank exchanged", "seed * dist.get_world_size(group) + dist.get_rank(group)",
           "dist.get_rank(group) * dist.get_world_size(group) + seed"),
    change("strictly greater", ">= p", "> p"),
    change("compared with 1 − p", ">= p", "< 1 - p"),
    change("another mask", "generator=generator,", "dtype=torch.float64, generator=generator,"),
    change("only in groups", "dist.get_rank(group)", "dist.get_rank()"),
    change("another dtype", "* keep", "* keep.float()"),
    change("fewer digits", "x_PBD * keep / (1 - p)", "(x_PBD.float() * keep / (1 - p)).to(x_PBD.dtype)"),
    change("history lost", "return x_PBD", "return x_PBD.detach()"),
    change("written into x", "return x_PBD * keep / (1 - p)", "return x_PBD.mul_(keep).div_(1 - p)"),
    change("input changed", "return x_PBD *", "y_PBD = x_PBD.clone(); x_PBD.data.zero_()\n    return y_PBD *"),
    change("no gradient", "return x_PBD * keep / (1 - p)",
           "y_PBD = x_PBD * 1.0\n    y_PBD.data *= keep\n    y_PBD.data /= 1 - p\n    return y_PBD"),
)
