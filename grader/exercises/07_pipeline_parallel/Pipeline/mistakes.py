"""Wrong executors."""

from grader.exercises.references import change

START = "work = dist.isend(tensor, group=self.group, group_dst=peer, tag=tag)\n"
NOTE = "            self.sends[kind, micro, stage] = work, tensor\n"
LOSS, HALF = "y.detach() * self.shape.n_micro", "dx, self.later[micro, stage] = input_then_weights(x, y, dy, layers)"
RETURN, BEGIN = "return [self.losses[micro] for micro in sorted(self.losses)]", "self.xs, self.ys, self.losses = xs, ys, {}"

CHANGES = (
    change("messages kept", "self.sends.clear()", "pass"),
    change("runs what cannot run", "if fault := validate_schedule(schedule, shape):", "if fault := None:"),
    change("messages mixed up", ", tag=tag", ""),
    change("deadlock", START, START.replace("work = dist.isend", "dist.send"), NOTE, ""),
    change("wait forgotten", START, START.removeprefix("work = "), NOTE, ""),
    change("message to itself", "if peer == self.rank:", "if False:"),
    change("group ignored", "group=self.group, group_dst=", "dst=", "group=self.group, group_src=", "src="),
    change("losses divided", LOSS, "y.detach()"),
    change("losses elsewhere", RETURN, f"{RETURN} or [torch.zeros(())] * self.shape.n_micro"),
    change("sum for mean", "self.ys[micro]) / self.shape.n_micro", "self.ys[micro])", LOSS, "y.detach()"),
    change("last micro-batch only", "y.backward(dy)", "self.stages[stage].zero_grad()\n                y.backward(dy)",
           "self.later.pop(", "self.stages[step.stage].zero_grad()\n            self.later.pop("),
    change("last step only", BEGIN, f"""for stage in self.stages.values():
            stage.zero_grad()
        {BEGIN}"""),
    change("weights doubled", HALF, f"{HALF}\n                y.backward(dy, retain_graph=True)"),
    change("no gradient of the input", ".requires_grad_()", ""),
    change("another order", "self.steps = schedule[self.rank]",
           'self.steps = sorted(schedule[self.rank], key=lambda step: (step.kind != "F", step.kind == "W"))'),
    change("kept too long", "y.backward(dy)", "y.backward(dy)\n                self.kept = [*getattr(self, 'kept', []), y]"),
    change("refused", "validate_schedule(schedule, shape)",
           "validate_schedule(schedule, shape, [shape.n_ranks] * shape.n_ranks)"),
    change("no spans", "        with span(str(step)):\n            self.later", "        if True:\n            self.later"),
    change("losses as computed", RETURN, "return list(self.losses.values())"),
    change("divided by steps", "self.ys[micro]) / self.shape.n_micro", "self.ys[micro]) / len(self.steps)",
           LOSS, "y.detach() * len(self.steps)"),
    change("no such rank", "peer, tag = stage % self.shape.n_ranks, self",
           "peer, tag = self.rank + (1 if kind == 'F' else -1), self"),
    change("gradient of tokens", 'self.xs[micro] if stage == 0 else self._receive("F", micro, stage, stage - 1)',
           '(self.xs[micro] if stage == 0 else self._receive("F", micro, stage, stage - 1))'),
    change("graphs joined", "self._send(y.detach(), \"F\"", "self._send(y, \"F\""),
    change("activations mixed up", "self.alive.pop((micro, stage))",
           "self.alive.pop(next(key for key in self.alive if key[1] == stage))"),
    change("gradients alone wrong", "tensor = torch.empty_like(self.like)", "tensor = self.like.detach()"),
    change("losses alone wrong", RETURN, "return [torch.stack([*self.losses.values()]).mean()] if self.losses else []"),
)

AT_THE_END = "What is not found here is waited for at the end of the step."
TAGS = "Messages between two ranks arrive in the order of their sends; tags only tell apart what is under way at once."
TAG = 'return (micro * self.shape.n_stages + stage) * 2 + (kind == "F") | '
POP = 'work, _ = self.sends.pop(("F", micro, stage + 1), (None, None)) | '
EQUIVALENT = {
    POP + "stage + 1 → stage - 1": AT_THE_END, POP + "1 → 0": AT_THE_END, POP + "1 → 2": AT_THE_END,
    TAG + '(micro * self.shape.n_stages + stage) * 2 + (kind == "F") → (micro * self.shape.n_stages + stage) * 2 - '
    '(kind == "F")': TAGS, TAG + "2 → 1": TAGS, TAG + "2 → 3": TAGS, TAG + 'kind == "F" → kind != "F"': TAGS,
}
