"""Wrong executors."""

from tests.mutants import change

START = "work = dist.isend(tensor, group=self.group, group_dst=peer, tag=tag)\n"
NOTE = "            self.sends[kind, micro, stage] = work, tensor\n"
LOSS, HALF = "y.detach() * self.shape.n_micro", "dx, self.later[micro, stage] = input_then_weights(x, y, dy, layers)"
RETURN, BEGIN = "return [self.losses[micro] for micro in sorted(self.losses)]", "self.xs, self.ys, self.losses = xs, ys, {}"

CHANGES = (
    change("runs what cannot run", "if fault is not None:", "if False:"),
    change("messages mixed up", ", tag=tag", ""),
    change("deadlock", START, START.replace("work = dist.isend", "dist.send"), NOTE, ""),
    change("wait forgotten", START, START.removeprefix("work = "), NOTE, ""),
    change("message to itself", "if peer == self.rank:", "if False:"),
    change("group ignored", "group=self.group, group_dst=", "dst=", "group=self.group, group_src=", "src="),
    change("losses divided", LOSS, "y.detach()"),
    change("losses elsewhere", RETURN, f"{RETURN} or [torch.zeros(())] * self.shape.n_micro"),
    change("sum for mean", "self.ys[micro]) / self.shape.n_micro", "self.ys[micro])", LOSS, "y.detach()"),
    change("last micro-batch only", "y.backward(dy)", "self.stages[stage].zero_grad()\n                y.backward(dy)"),
    change("last step only", BEGIN, f"""for stage in self.stages.values():
            stage.zero_grad()
        {BEGIN}"""),
    change("weights doubled", HALF, f"{HALF}\n                y.backward(dy, retain_graph=True)"),
    change("no gradient of the input", ".requires_grad_()", ""),
    change("another order", "self.steps = schedule[self.rank]",
           'self.steps = sorted(schedule[self.rank], key=lambda step: (step.kind != "F", step.kind == "W"))'),
    change("kept too long", "y.backward(dy)", "y.backward(dy)\n                self.kept = [*getattr(self, 'kept', []), y]"),
)

EQUIVALENT = {
    'work, _ = self.sends.pop(("F", micro, stage + 1), (None, None)) | stage + 1 → stage - 1':
        'What is not found here is waited for at the end of the step.',
}
