"""Wrong training steps on a mesh."""

from grader.exercises.references import change

RETURN = "return loss / dist.get_world_size(dp)"
SCALE = "scale = (self.max_norm / (mesh_gradient_norm(self.stage, self.mesh) + 1e-6)).clamp(max=1.0)"
REDUCE = "reduce_gradients(self.stage, self.mesh)"
CLIP = f"{SCALE}\n        for weight in self.stage.parameters():\n            weight.grad *= scale"
TELL = "dist.broadcast(loss, group_src=dist.get_world_size(pp) - 1, group=pp)"
NORM = "mesh_gradient_norm(self.stage, self.mesh)"

CHANGES = (
    change("loss of the own share", "dist.all_reduce(loss, group=dp)\n        " + RETURN, "return loss"),
    change("losses summed", RETURN, "return loss"),
    change("loss on the last stage only", TELL, "pass"),
    change("loss on the last stage only", "group_src=dist.get_world_size(pp) - 1", "group_src=0"),
    change("not reduced", REDUCE, "pass"),
    change("not clipped", SCALE, f"{NORM}; scale = 1.0"),
    change("gradients enlarged", ".clamp(max=1.0)", ""),
    change("clipped by the own norm", SCALE, f"{NORM}; scale = 1.0\n"
           "        torch.nn.utils.clip_grad_norm_(self.stage.parameters(), self.max_norm)"),
    change("clipped too early", f"{REDUCE}\n        {CLIP}", f"{CLIP}\n        {REDUCE}"),
    change("gradients not cleared", "        self.optimizer.zero_grad()\n", "", "self.optimizer.step()",
           "self.optimizer.step()\n        self.optimizer.zero_grad()"),
    change("gradients not cleared", "self.optimizer.zero_grad()", "pass"),
    change("parts", "self.passes.run(tokens_BT, targets_BT)", "self.passes.run(*(x_BT.chunk(dist.get_world_size(dp))"
           "[dist.get_rank(dp)] for x_BT in (tokens_BT, targets_BT)))"),
    change("outside its lines", RETURN, "dist.all_reduce(loss.clone())\n        " + RETURN),
    change("too many bytes", REDUCE, f"{REDUCE}\n        for weight in self.stage.parameters():\n"
           "            dist.all_reduce(weight.grad.clone(), group=dp)"),
    change("numbers asked for", SCALE, SCALE + ".item()"),
    change("ranks differ", TELL, f"if dist.get_rank(pp) == dist.get_world_size(pp) - 1:\n            {TELL}"),
    change("no update", "self.optimizer.step()", "pass"),
    change("wrong update", "self.optimizer.step()", "self.optimizer.step(); self.optimizer.step()"),
    change("wrong gradients", REDUCE, f"{REDUCE}\n        {REDUCE}"),
    change("wrong losses", RETURN, "return loss / dist.get_world_size()"),
)

EQUIVALENT = {
    f"{SCALE} | {NORM} + 1e-6 → {NORM} - 1e-6": "A millionth of the norm is less than what sums in another order make.",
}
