"""Wrong training steps on a mesh."""

from tests.mutants import change

RETURN = "return loss / n\n"
ALL = ("for weight in self.stage.parameters():\n            dist.all_reduce(weight.grad, group=self.dp)\n"
       "            weight.grad /= n")
SCALE = "scale = (self.max_norm / (mesh_gradient_norm(self.stage, self.mesh) + 1e-6)).clamp(max=1.0)"
BACK = "dist.send(x.grad, group_dst=self.r - 1, group=self.pp)"
ON = "dist.send(y.detach(), group_dst=self.r + 1, group=self.pp)"
TIED = "mine += theirs"
MEAN = "next_byte_loss(y, y_true).mean() / self.n_micro"
CUT = "x_BT.chunk(n)[own].chunk(self.n_micro)"
SENDING = "sending = dist.isend(mine, group_dst=other, group=self.pp)"
RECEIVING = "dist.recv(theirs, group_src=other, group=self.pp)"
GRADIENT = "dy = torch.empty_like(y)\n                dist.recv(dy, group_src=self.r + 1, group=self.pp)"

CHANGES = (
    change("loss of the own share", "dist.all_reduce(loss, group=self.dp)\n        return loss / n", "return loss"),
    change("dtypes differ", "kept[0][1].new_zeros(())", "torch.zeros(())", "loss += part", "loss = loss + part"),
    change("loss on the last stage only", "dist.broadcast(loss, group_src=self.p - 1, group=self.pp)", "pass"),
    change("replicas not averaged", ALL, "pass"),
    change("same share", "x_BT.chunk(n)[own]", "x_BT.chunk(n)[0]"),
    change("sum over replicas", "weight.grad /= n", "pass"),
    change("micro-batches summed", MEAN, "next_byte_loss(y, y_true).mean()"),
    change("gradients of a sum", MEAN, "next_byte_loss(y, y_true).mean()", "loss += part.detach()",
           "loss += part.detach() / self.n_micro"),
    change("last micro-batch only", "for (x, y), y_true in zip(kept, targets, strict=True):",
           "for (x, y), y_true in zip(kept, targets, strict=True):\n            self.optimizer.zero_grad()"),
    change("tied weight not summed", TIED, "pass"),
    change("tied weight averaged", TIED, "mine += theirs; mine /= 2"),
    change("not clipped", SCALE, "mesh_gradient_norm(self.stage, self.mesh); scale = 1.0"),
    change("gradients enlarged", ".clamp(max=1.0)", ""),
    change("clipped too early", SCALE, "scale = 1.0", ALL, f"{SCALE}\n        for weight in self.stage.parameters():\n"
           f"            weight.grad *= scale\n        {ALL}"),
    change("divided by the world's size", "weight.grad /= n", "weight.grad /= dist.get_world_size()"),
    change("loss of the first stage", "group_src=self.p - 1", "group_src=0"),
    change("clipped by the own norm", SCALE, "mesh_gradient_norm(self.stage, self.mesh); scale = 1.0\n        "
           "torch.nn.utils.clip_grad_norm_(self.stage.parameters(), self.max_norm)"),
    change("whole ones summed along tp", ALL, ALL + "\n        for name, weight in self.stage.named_parameters():\n"
           "            if cut_dim(name) is None:\n                dist.all_reduce(weight.grad, group=self.mesh['tp'])"),
    change("gradients not cleared", "self.optimizer.zero_grad()", "pass"),
    change("whole batch", "x_BT.chunk(n)[own]", "x_BT"),
    change("outside its lines", RETURN, "total = loss.clone()\n        dist.all_reduce(total)\n        " + RETURN),
    change("other messages", ON, ON + "\n                if y is not None:\n                    " + ON, "x.requires_grad_()",
           "dist.recv(x, group_src=self.r - 1, group=self.pp)\n                x.requires_grad_()"),
    change("too many bytes", "y.backward(dy)", "y.backward(dy)\n            for weight in self.stage.parameters():\n"
           "                dist.all_reduce(weight.grad.clone(), group=self.dp)"),
    change("no step", "def step(", "def train("),
    change("no gradient of the input", "x.requires_grad_()", "pass"),
    change("backward twice", "y.backward(dy)", "y.backward(dy)\n                y.backward(dy)"),
    change("backward from an output", GRADIENT, GRADIENT + "\n                y.backward()\n                continue"),
    change("no graph", "y = self.stage(x)", "y = self.stage(x).detach()"),
    change("another size", "x = self.stage.place_for(x)", "x = self.stage.place_for(x)[1:].clone()"),
    change("wait forgotten", SENDING, SENDING.removeprefix("sending = "), "sending.wait()", "pass"),
    change("both send first", SENDING, "dist.send(mine, group_dst=other, group=self.pp)", "sending.wait()", "pass"),
    change("both receive first", SENDING, "pass", "sending.wait()", "dist.send(mine, group_dst=other, group=self.pp)"),
    change("gradient not sent", BACK, "pass"),
    change("messages do not fit", "dist.broadcast(loss, group_src=self.p - 1, group=self.pp)",
           "if self.r < 2:\n            dist.broadcast(loss, group_src=self.p - 1, group=self.pp)"),
    change("no update", "self.optimizer.step()", "pass"),
    change("wrong update", "self.optimizer.step()", "self.optimizer.step(); self.optimizer.step()"),
    change("wrong gradients", "zip(kept, targets, strict=True)",
           "zip(kept[::-1] if self.r == 0 < self.p - 1 else kept, targets, strict=True)"),
    change("wrong losses", "self.forward(tokens), targets)",
           "self.forward(tokens), targets[::-1])"),
    change("cleared too late", "        self.optimizer.zero_grad()\n", "", "self.optimizer.step()",
           "self.optimizer.step()\n        self.optimizer.zero_grad()"),
    change("numbers asked for", SCALE, SCALE + ".item()"),
)

NUMBERS_ONLY = "Only the numbers count: whether they have a graph is left open."
EQUIVALENT = {
    "tokens, targets = (x_BT.chunk(n)[own].chunk(self.n_micro) for x_BT in (tokens_BT, targets_BT)) | own → own - 1":
        "Which replica takes which share is left open: the average is the same.",
    "scale = (self.max_norm / (mesh_gradient_norm(self.stage, self.mesh) + 1e-6)).clamp(max=1.0) | "
    "mesh_gradient_norm(self.stage, self.mesh) + 1e-6 → mesh_gradient_norm(self.stage, self.mesh) - 1e-6":
        "A millionth of the norm is less than what sums in another order make.",
    "dist.send(y.detach(), group_dst=self.r + 1, group=self.pp) | y.detach() → y": NUMBERS_ONLY,
    "loss += part.detach() | part.detach() → part": NUMBERS_ONLY,
    "loss = kept[0][1].new_zeros(()) | 0 → (-1)": "All outputs have one dtype.",
    "for (x, y), y_true in zip(kept, targets, strict=True): | True → False": "Both are cut into n_micro pieces.",
}
