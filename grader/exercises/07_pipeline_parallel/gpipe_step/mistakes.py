"""Wrong GPipe steps."""

from grader.exercises.references import change

RETURN, OLDEST, NOTE = "return passes.loss", "self.kept.popleft()", "x_bD, output_bO = "
COMPUTE, MEAN = "output_bO = self.stage(", "/ self.n_micro"
RECEIVE, SEND = "self.receive(output_bO, self.rank + 1)", "self.send(x_bD.grad, self.rank - 1)"
YS, EXCHANGED = "iter(split_batch(y_BO, n_micro))", "self.loss_fn(output_bO, next(self.ys))"
OTHER_ROWS = ("iter(split_batch(y_BO, n_micro)[::-1])", "iter(split_batch(y_BO, n_micro)[:1] * n_micro)",
              "iter(split_batch(y_BO, n_micro)[-1:] + split_batch(y_BO, n_micro)[:-1])")
BACKWARD = "for _ in range(n_micro):\n        passes.backward()"

CHANGES = (
    change("arguments exchanged", EXCHANGED, "self.loss_fn(next(self.ys), output_bO)"),
    change("loss attached", "loss.detach()", "loss"),
    change("loss elsewhere", RETURN, "return 0.0 if passes.loss is None else passes.loss"),
    change("not divided", MEAN, ""),
    change("not divided", MEAN, "", "loss.detach()", "loss.detach() / self.n_micro"),
    change("divided twice", RETURN, f"""for parameter in stage.parameters():
        parameter.grad /= n_micro
    {RETURN}"""),
    change("last micro-batch only", f"{NOTE}{OLDEST}", f"self.stage.zero_grad()\n        {NOTE}{OLDEST}"),
    change("micro-batches mixed up", OLDEST, f"{OLDEST} if self.rank == self.last else self.kept.pop()"),
    change("no gradient of the input", "x_bD.requires_grad_() if self.rank else x_bD", "x_bD"),
    change("sent the wrong way", SEND, "self.send(x_bD.grad, (self.rank + 1) % (self.last + 1))"),
    change("gradient not sent", SEND, "pass"),
    change("local loss", f"output_bO.backward({RECEIVE})", f"output_bO.backward(torch.ones_like({RECEIVE}))"),
    change("not all forward first", f"forward()\n    {BACKWARD}", "forward()\n        passes.backward()"),
    change("backward twice", OLDEST, "self.kept[0]"),
    change("messages do not fit", SEND, f"{SEND}\n            {SEND}"),
    change("crossing sends", "for _ in range(n_micro):\n        passes.forward()", """\
for _ in range(min(passes.last - passes.rank, n_micro)):
        passes.forward()
    for _ in range(n_micro - min(passes.last - passes.rank, n_micro)):
        passes.forward()
        passes.backward()""", BACKWARD, "while passes.kept:\n        passes.backward()"),
    change("group ignored", "passes = Passes(stage, x_BD, y_BO, loss_fn, n_micro, like_bD, group)",
           "passes = Passes(stage, x_BD, y_BO, loss_fn, n_micro, like_bD, None)"),
    change("loss wrong", "self.loss += ", "self.loss = "),
    change("nothing backward", BACKWARD, ""),
    change("wait forgotten", "dist.send(", "dist.isend("),
    change("library call", RETURN, f"dist.all_reduce(torch.zeros(()), group=group)\n    {RETURN}"),
    change("no graph", COMPUTE, f"with torch.no_grad():\n            {COMPUTE}"),
    change("newest first", OLDEST, "self.kept.pop()", YS, OTHER_ROWS[0]),
    change("gradient of tokens", "x_bD.requires_grad_() if self.rank else x_bD", "x_bD.requires_grad_()"),
    change("another size", RECEIVE, "self.receive(output_bO[:, 1:], self.rank + 1)"),
    change("received first", "passes = Passes(stage, x_BD, y_BO, loss_fn, n_micro, like_bD, group)", """\
passes = Passes(stage, x_BD, y_BO, loss_fn, n_micro, like_bD, group)
    receive = passes.receive
    early = deque(receive(like_bD, passes.rank - 1) for _ in range(n_micro) if passes.rank)
    passes.receive = lambda like, place: early.popleft() if place < passes.rank else receive(like, place)"""),
    change("nothing kept", BACKWARD, f"{BACKWARD}\n    {BACKWARD}"),
    *(change("other rows of y", YS, rows) for rows in OTHER_ROWS),
    change("divided twice", SEND, "self.send(x_bD.grad / self.n_micro, self.rank - 1)"),
    change("divided by the stages", MEAN, "/ (self.last + 1)"),
    change("activations overwritten", "received = torch.empty_like(like)",
           "received = self.place = getattr(self, 'place', torch.empty_like(like)) if place < self.rank else "
           "torch.empty_like(like)\n"
           "        received = received.detach()"),
)

EQUIVALENT = {
    "self.send(output_bO.detach(), self.rank + 1) | output_bO.detach() → output_bO":
        "what is sent is numbers; the graph stays with the output, which is kept anyway.",
}
