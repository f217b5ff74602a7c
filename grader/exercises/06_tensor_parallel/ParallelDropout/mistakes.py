"""Wrong dropout in parallel."""

from grader.exercises.references import change

_STREAM, _SEED = "1 + rank if split else 0", "seed * (n + 1) + stream"
_GENERATOR = ("self.p, self.generator = p, torch.Generator(torch.get_default_device())\n"
              f"        self.generator.manual_seed({_SEED})")
_KEEP, _SCALED = "keep = torch.rand(x.shape, generator=self.generator)", "x * keep / (1 - self.p)"

CHANGES = (
    change("same mask where split", _STREAM, "0"),
    change("an exact share", f"{_KEEP} >= self.p", "order = torch.randperm(x.numel(), generator=self.generator)\n"
           "        keep = (order >= round(self.p * x.numel())).view(x.shape)"),
    change("masks differ where replicated", _STREAM, "rank"),
    change("same mask every call", _GENERATOR, f"self.p, self.seed = p, {_SEED}",
           "generator=self.generator", "generator=torch.Generator().manual_seed(self.seed)"),
    change("global state disturbed", _GENERATOR, f"self.p, self.seed, self.calls = p, {_SEED}, 0", _KEEP,
           "self.calls += 1\n        torch.manual_seed(1000 * self.seed + self.calls)\n        keep = torch.rand(x.shape)"),
    change("seeds collide", _STREAM, "1000003 + rank if split else 0", _SEED, "seed + stream"),
    change("another mask in backward", f"return {_SCALED}",
           "other = x * (torch.rand(x.shape, generator=self.generator) >= self.p) / (1 - self.p)\n"
           f"        return other + ({_SCALED} - other).detach()"),
    change("one number for many", "torch.rand(x.shape,", "torch.rand(x.shape[-1:],"),
    change("same mask, shifted", _STREAM, "0", _GENERATOR,
           f"{_GENERATOR}\n        torch.rand(rank * split, generator=self.generator)"),
    change("seed ignored", _SEED, "stream"),
    change("input changed", f"return {_SCALED}", "x.data.mul_(keep / (1 - self.p))\n        return x * 1"),
    change("wrong rate", ">= self.p", "< self.p * 0.999"),
    change("not scaled", _SCALED, "x * keep"),
    change("draws in eval", "if not self.training:", "if not self.training:\n            torch.rand(x.shape, "
           "generator=self.generator)"),
    change("drops in eval", "if not self.training:", "if False:"),
    # Alike on all ranks where replicated, but different for each of three modules, of which a check makes a multiple.
    change("not reproducible", "stream = ",
           "ParallelDropout.made = (getattr(ParallelDropout, 'made', 0) + 1) % 3\n"
           "        stream = 1009 * ParallelDropout.made + ", _STREAM, f"({_STREAM})"),
    change("communicates", "stream = ", "self.group, self.split = group, split\n        stream = ", f"return {_SCALED}",
           "keep = keep.to(x.dtype)\n        if not self.split:\n"
           f"            dist.broadcast(keep, group=self.group, group_src=0)\n        return {_SCALED}"),
    change("dtype changed", f"return {_SCALED}", f"return ({_SCALED}).double()"),
)

OTHERWISE = "The streams are numbered otherwise, and no two pairs of seed and rank of one kind meet."
EQUIVALENT = {
    "n, rank = dist.get_world_size(group), dist.get_rank(group) | dist.get_world_size(group) → dist.get_world_size()":
        "With as many streams as all ranks, no two pairs of seed and rank meet either.",
    "n, rank = dist.get_world_size(group), dist.get_rank(group) | dist.get_rank(group) → dist.get_rank()":
        "Members differ by their ranks among all, too; that two pairs meet takes ranks that lie n + 1 apart.",
    "stream = 1 + rank if split else 0 | 1 → 0": OTHERWISE,
    "stream = 1 + rank if split else 0 | 1 → 2": OTHERWISE,
    "stream = 1 + rank if split else 0 | 1 + rank → 1 - rank": OTHERWISE,
    "stream = 1 + rank if split else 0 | 0 → (-1)": OTHERWISE,
    "stream = 1 + rank if split else 0 | 0 → 1": OTHERWISE,
    "self.generator.manual_seed(seed * (n + 1) + stream) | seed * (n + 1) + stream → seed * (n + 1) - stream": OTHERWISE,
    "self.generator.manual_seed(seed * (n + 1) + stream) | 1 → 0": OTHERWISE,
    "self.generator.manual_seed(seed * (n + 1) + stream) | 1 → 2": OTHERWISE,
    "keep = torch.rand(x.shape, generator=self.generator) >= self.p | torch.rand(x.shape, "
    "generator=self.generator) >= self.p → torch.rand(x.shape, generator=self.generator) > self.p":
        "A random number equals p once in sixteen million.",
}
