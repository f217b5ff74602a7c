"""Wrong 1F1B steps."""

from grader.exercises.references import change

from ..gpipe_step.mistakes import EXCHANGED, MEAN, NOTE, OLDEST, OTHER_ROWS, RECEIVE, RETURN, SEND, YS

WARM_UP, START = "min(dist.get_world_size(group) - 1 - dist.get_rank(group), n_micro)", "self.works[place] = dist.isend("

CHANGES = (
    change("activations kept too long", WARM_UP, "n_micro"),
    change("another order", WARM_UP, "min(max(0, dist.get_world_size(group) - 2 - dist.get_rank(group)), n_micro)"),
    change("only in groups", WARM_UP, "min(dist.get_world_size() - 1 - dist.get_rank(), n_micro)"),
    change("crossing sends", START, "dist.send("),
    change("stale activations", OLDEST, "self.kept.pop()", of="gpipe_step"),
    change("not divided", MEAN, "", of="gpipe_step"),
    change("not divided", MEAN, "", "loss.detach()", "loss.detach() / self.n_micro", of="gpipe_step"),
    change("divided twice", SEND, "self.send(x_bD.grad / self.n_micro, self.rank - 1)", of="gpipe_step"),
    change("divided twice", MEAN, "/ self.n_micro**2", of="gpipe_step"),
    change("divided by the stages", MEAN, "/ (self.last + 1)", of="gpipe_step"),
    change("arguments exchanged", EXCHANGED, "self.loss_fn(next(self.ys), output_bO)", of="gpipe_step"),
    change("local loss", f"output_bO.backward({RECEIVE})", f"output_bO.backward(torch.ones_like({RECEIVE}))",
           of="gpipe_step"),
    *(change("other rows of y", YS, rows, of="gpipe_step") for rows in OTHER_ROWS),
    change("last micro-batch only", f"{NOTE}{OLDEST}", f"self.stage.zero_grad()\n        {NOTE}{OLDEST}", of="gpipe_step"),
    change("no gradient of the input", "x_bD.requires_grad_() if self.rank else x_bD", "x_bD", of="gpipe_step"),
    change("gradient not sent", SEND, "pass", of="gpipe_step"),
    change("sent the wrong way", SEND, "self.send(x_bD.grad, (self.rank + 1) % (self.last + 1))", of="gpipe_step"),
    change("group ignored", "(group)", "()", "n_micro, like_bD, group)\n", "n_micro, like_bD, None)\n"),
    change("wait forgotten", START, "dist.isend("),
    change("held up", "if place in self.works:\n            self.works[place].wait()",
           "for other in list(self.works):\n            self.works.pop(other).wait()"),
    change("too many bytes", RETURN, f"""if passes.last:
        work = dist.isend(torch.ones(3), group_dst=(passes.rank + 1) % (passes.last + 1), group=group)
        dist.recv(torch.ones(3), group_src=(passes.rank - 1) % (passes.last + 1), group=group)
        work.wait()
    {RETURN}"""),
    change("nothing kept", "passes.forward()\n        passes.backward()", "passes.backward()\n        passes.forward()"),
    change("nothing kept", WARM_UP, "dist.get_world_size(group) - 1 - dist.get_rank(group)"),
    change("gradient of tokens", "x_bD.requires_grad_() if self.rank else x_bD", "x_bD.requires_grad_()", of="gpipe_step"),
)
