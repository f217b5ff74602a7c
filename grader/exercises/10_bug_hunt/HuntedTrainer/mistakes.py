"""Wrong repairs of the blind hunt's program; its fifteen faults, one by one and together, are in tests/test_hunt.py."""

from grader.exercises.references import change

WHOLE = 'whole = [g for name, g in sorted(gradients.items()) if name.endswith(("norm", "router", "table"))]\n'
CHANGES = (
    change("1 left", WHOLE, 'whole = [g for name, g in gradients.items() if "norm" not in name]\n'),
    change("2 left", "flat = torch.cat([gradient.flatten() for gradient in gradients])\n",
           "flat = torch.cat([gradient.flatten() for gradient in gradients]).float()\n",
           'dist.all_reduce(n_targets, group=self.mesh.group["data"])', "n_targets.clamp_(min=1.0)"),
    change("whole run", "self.settings.balance * balance", "balance"),
    change("15 left", "super().__init__()\n        self.mesh", "self.mesh"),
)

EQUIVALENT = {
    'dist.all_reduce(total, op=dist.ReduceOp.MAX, group=self.mesh.group["data"]) | '
    'dist.all_reduce(total, op=dist.ReduceOp.MAX, group=self.mesh.group["data"]) → pass':
        "The replicas have the same norm already: one of the program's lines that look odd and are right.",
}
