"""Wrong passes on a mesh."""

from grader.exercises.references import change

BACK = "dist.send(x.grad, group_dst=self.r - 1, group=self.pp)"
ON = "dist.send(y.detach(), group_dst=self.r + 1, group=self.pp)"
MEAN = "next_byte_loss(y, y_true).mean() / self.n_micro"
GRADIENT = "dy = torch.empty_like(y)\n                dist.recv(dy, group_src=self.r + 1, group=self.pp)"
LOOP = "for (x, y), y_true in zip(kept, targets, strict=True):"
RUN = "return self.backward(self.forward(tokens), targets)"

CHANGES = (
    change("same share", "x_BT.chunk(n)[own]", "x_BT.chunk(n)[0]"),
    change("micro-batches summed", MEAN, "next_byte_loss(y, y_true).mean()"),
    change("micro-batches summed", MEAN, "next_byte_loss(y, y_true).mean()", "loss += part.detach()",
           "loss += part.detach() / self.n_micro"),
    change("last micro-batch only", LOOP, LOOP + "\n            self.stage.zero_grad()"),
    change("divided by the replicas", MEAN, MEAN + " / dist.get_world_size(self.dp)"),
    change("loss on every stage", RUN, "loss = self.backward(self.forward(tokens), targets)\n"
           "        dist.broadcast(loss, group_src=self.p - 1, group=self.pp)\n        return loss"),
    change("whole batch", "x_BT.chunk(n)[own]", "x_BT"),
    change("outside its lines", "return loss\n", "dist.all_reduce(loss.clone())\n        return loss\n"),
    change("other messages", ON, ON + "\n                if y is not None:\n                    " + ON, "x.requires_grad_()",
           "dist.recv(x, group_src=self.r - 1, group=self.pp)\n                x.requires_grad_()"),
    change("too many bytes", "return loss\n", "for weight in self.stage.parameters():\n"
           "            dist.all_reduce(weight.grad.clone(), group=self.tp)\n        return loss\n",
           "mesh[\"pp\"]\n", "mesh[\"pp\"]\n        self.tp = mesh[\"tp\"]\n"),
    change("numbers asked for", "return loss\n", "loss.item()\n        return loss\n"),
    change("no gradient of the input", "x.requires_grad_()", "pass"),
    change("backward twice", "y.backward(dy)", "y.backward(dy)\n                y.backward(dy)"),
    change("backward from an output", GRADIENT, GRADIENT + "\n                y.backward()\n                continue"),
    change("no graph", "y = self.stage(x)", "y = self.stage(x).detach()"),
    change("another size", "x = self.stage.place_for(x)", "x = self.stage.place_for(x)[1:].clone()"),
    change("wait forgotten", ON, ON.replace("send", "isend"), BACK, BACK.replace("send", "isend")),
    change("gradient not sent", BACK, "pass"),
    change("messages do not fit", LOOP, LOOP.replace("kept, targets, strict=True", "kept[self.r < 1:], targets")),
    change("wrong gradients", "zip(kept, targets, strict=True)",
           "zip(kept[::-1] if self.r == 0 < self.p - 1 else kept, targets, strict=True)"),
    change("wrong losses", RUN, RUN.replace("targets)", "targets[::-1])")),
)

NUMBERS_ONLY = "Only the numbers count: whether they have a graph is left open."
EQUIVALENT = {
    "dist.send(y.detach(), group_dst=self.r + 1, group=self.pp) | y.detach() → y": NUMBERS_ONLY,
    "loss += part.detach() | part.detach() → part": NUMBERS_ONLY,
    "loss = kept[0][1].new_zeros(()) | 0 → (-1)": "All outputs have one dtype.",
    "for (x, y), y_true in zip(kept, targets, strict=True): | True → False": "Both are cut into n_micro pieces.",
}
