"""Wrong optimizers on one flat buffer."""

from grader.exercises.references import change

STEP = "sharded_step(self.flat_Z, gradient_Z, self.shard_C, self.inner, self.group)"
ZEROS, KEPT = (f"gradient_Z = {row}" for row in (
    "torch.zeros_like(self.flat_Z)", "self.row = getattr(self, 'row', torch.zeros_like(self.flat_Z))"))
DIVIDE = "shard_C.grad /= dist.get_world_size(group)"
N, R = "dist.get_world_size(self.group)", "dist.get_rank(self.group)"
REDUCE = f"""self.shard_C.grad = torch.empty_like(self.shard_C)
        dist.reduce_scatter_single(self.shard_C.grad, gradient_Z, group=self.group)
        self.shard_C.grad /= {N}"""

CHANGES = (
    change("padded too often", "[p.detach().flatten() for p in self.params]",
           "[F.pad(p.detach().flatten(), (0, -p.numel() % n)) for p in self.params]",
           "sizes = [p.numel() for p in self.params]\n        return flat_Z[:sum(sizes)].split(sizes)",
           "n = dist.get_world_size(self.group)\n        cut = flat_Z.split([-(-p.numel() // n) * n for p in self.params])\n"
           "        return tuple(row[:p.numel()] for p, row in zip(self.params, cut))"),
    change("model not updated", "p.data = values.view_as(p)", "pass"),
    change("parameters not gathered", ".chunk(n)[r].clone()", ".chunk(n)[r]", STEP, f"{REDUCE}; self.inner.step()"),
    change("not sharded", "self.flat_Z.chunk(n)[r].clone()", "self.flat_Z", STEP, f"""\
mean_C = gradient_Z.chunk({N})[{R}].clone()
        dist.reduce_scatter_single(mean_C, gradient_Z, group=self.group)
        self.shard_C.grad = torch.empty_like(gradient_Z)
        dist.all_gather_single(self.shard_C.grad, mean_C / {N}, group=self.group)
        self.inner.step()"""),
    change("several calls", STEP, f"""sums = []
        for part_nc in gradient_Z.view({N}, -1).tensor_split(2, 1):
            sums.append(part_nc.new_empty(part_nc.shape[1]))
            dist.reduce_scatter_single(sums[-1], part_nc.flatten(), group=self.group)
        self.shard_C.grad = torch.cat(sums) / {N}
        self.inner.step()
        dist.all_gather_single(self.flat_Z, self.shard_C.detach(), group=self.group)"""),
    change("no gradient", "if p.grad is not None:", "if True:"),
    change("made anew", STEP, f"self.inner.state.clear()\n        {STEP}"),
    change("options lost", ", **options)\n\n", ")\n\n"),
    change("options lost", ", **options)\n\n", ', **{name: value for name, value in options.items() if name == "lr"})\n\n'),
    change("piece without padding", "self.flat_Z.chunk(n)[r].clone()", "flat.tensor_split([\n"
           "            min(i * (len(self.flat_Z) // n), len(flat)) for i in range(1, n)])[r].clone()",
           STEP, f"""sum_C = gradient_Z.new_empty(len(gradient_Z) // {N})
        dist.reduce_scatter_single(sum_C, gradient_Z, group=self.group)
        self.shard_C.grad = sum_C[:len(self.shard_C)] / {N}
        self.inner.step()
        padded_C = F.pad(self.shard_C.detach(), (0, len(sum_C) - len(self.shard_C)))
        dist.all_gather_single(self.flat_Z, padded_C, group=self.group)"""),
    change("options of its own", "group: dist.ProcessGroup | None = None, **", "group=None, lr=0.02, **",
           ", **options)\n\n", ", lr=lr, **options)\n\n"),
    change("gaps closed", STEP, f"""row = torch.cat([p.grad.flatten() for p in self.params if p.grad is not None])
        gradient_Z = F.pad(row, (0, len(gradient_Z) - len(row)))
        {STEP}"""),
    change("sum for mean", DIVIDE, "pass", of="sharded_step"),
    change("divided by the world", DIVIDE, "shard_C.grad /= dist.get_world_size()", of="sharded_step"),
    change("divided twice", DIVIDE, "shard_C.grad /= dist.get_world_size(group)**2", of="sharded_step"),
    change("own gradient", "dist.reduce_scatter_single(shard_C.grad, gradient_Z, group=group)",
           "shard_C.grad = gradient_Z.chunk(dist.get_world_size(group))[dist.get_rank(group)]", DIVIDE, "pass",
           of="sharded_step"),
    change("a step behind", "    optimizer.step()\n", "", "group=group)\n    ###",
           "group=group)\n    optimizer.step()\n    ###", of="sharded_step"),
    change("stale gradient", ZEROS, KEPT),
    change("gradients pile up", ZEROS, KEPT, "values.copy_(", "values.add_("),
    change("not padded", "F.pad(flat, (0, -len(flat) % n))", "flat.clone()"),
    change("not copied back", STEP, "kept = [p.detach().clone() for p in self.params]\n        " + STEP + "\n"
           "        for p, old in zip(self.params, kept):\n            if p.grad is None:\n"
           "                p.data.copy_(old)"),
    change("nothing done without gradients", STEP,
           f"if any(p.grad is not None for p in self.params):\n            {STEP}"),
)

EQUIVALENT = {
    'flat = torch.cat([p.detach().flatten() for p in self.params]) | p.detach() → p':
        'p.data and nn.Parameter take the numbers alone: only a graph that nobody uses is kept.',
    'self.shard_C = nn.Parameter(self.flat_Z.chunk(n)[r].clone()) | self.flat_Z.chunk(n)[r].clone() → '
    'self.flat_Z.chunk(n)[r]':
        'A shard that is a view of the flat buffer is updated where it stands, and gathered to the same place.',
}
