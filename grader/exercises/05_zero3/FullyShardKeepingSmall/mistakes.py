"""Wrong ways to keep small parameters whole."""

from grader.exercises.references import change

SMALL, MEAN = "p.numel() < keep_whole_below", "flat /= dist.get_world_size(self.small_group)"
REDUCE = "dist.all_reduce(flat, group=self.small_group)"
CHANGES = (
    change("not averaged", "if gradients:", "if False:"),
    change("sum for mean", MEAN, "pass"),
    change("zeros for none", "super().finish_gradient_synchronization()", "super().finish_gradient_synchronization()\n"
           "        for p in self.small.values():\n"
           "            p.grad = torch.zeros_like(p) if p.grad is None else p.grad"),
    change("nothing there", " if p.grad is not None]", "]"),
    change("small ones cast", "self.small, self.small_group = small, group", "self.small, self.small_group = small, group\n"
           "        for p in small.values():\n"
           "            p.data = p.data.to(compute_dtype or p.dtype)"),
    change("divided twice", MEAN, f"{MEAN}**2"),
    change("divided by the world", MEAN, "flat /= dist.get_world_size()"),
    change("small divided", SMALL, "False"),
    change("tied one divided",
           "with hiding(module, small.values()):\n            super().__init__(module, compute_dtype, group)",
           "places = [(module.get_submodule(name.rpartition('.')[0]), name.rpartition('.')[2], p)\n"
           "                  for name, p in small.items()]\n"
           "        for part, last, _ in places:\n"
           "            part._parameters[last] = None\n"
           "        super().__init__(module, compute_dtype, group)\n"
           "        for part, last, p in places:\n"
           "            part._parameters[last] = p"),
    change("large not divided", SMALL, "True"),
    change("at the threshold", SMALL, "p.numel() <= keep_whole_below"),
    change("whole ones missing", "super().full_parameters() | small", "super().full_parameters()"),
    change("start not shared", "dist.broadcast(p.data, group=group, group_src=0)", "pass"),
    change("group ignored", REDUCE, "dist.all_reduce(flat)"),
    change("too many bytes", REDUCE, f"dist.all_reduce(flat.clone(), group=self.small_group)\n            {REDUCE}"),
    change("missing wait", REDUCE, "dist.all_reduce(flat, group=self.small_group, async_op=True)"),
)
