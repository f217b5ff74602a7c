"""Wrong layers of heads that several ranks hold."""

from grader.exercises.references import change

_HOOK, _RETURN, _SLOT = "p.register_hook(self.summed)", "return slots[self.own_head]", "slots[self.own_head] = gradient"
_FORWARD = "return F.linear(x, self.weight, self.bias)"

CHANGES = (
    change("not summed", _HOOK, "pass"),
    change("wrong head", "rank * n_kv_heads // n", "rank % n_kv_heads"),
    change("all heads", "p.detach().unflatten(0, (n_kv_heads, -1))[self.own_head].clone()", "p.detach().clone()"),
    change("weights summed only", _HOOK, "p.register_hook(self.summed) if p.dim() > 1 else None"),
    change("summed over all ranks", _SLOT, "slots += gradient"),
    change("averaged", _RETURN, "return slots[self.own_head] * self.n_kv_heads / dist.get_world_size(self.group)"),
    change("summed twice", _RETURN,
           "dist.all_reduce(slots, group=self.group)\n        return slots[self.own_head] / self.n_kv_heads"),
    change("summed anew", _HOOK,
           "p.register_post_accumulate_grad_hook(lambda p: p.grad.copy_(self.summed(p.grad)) is None or None)"),
    change("dx summed", _FORWARD, "return F.linear(CopyToGroup.apply(x, self.group), self.weight, self.bias)"),
    change("bias forgotten", _FORWARD, "return F.linear(x, self.weight)"),
    change("bias taken for granted", "None if p is None else nn", "nn"),
    change("group ignored", "dist.all_reduce(slots, group=self.group)", "dist.all_reduce(slots)"),
    change("hook returns another kind", _RETURN, "return slots"),
    change("whole weights kept", "self.group, self.n_kv_heads,",
           "self.whole = [linear]\n        self.group, self.n_kv_heads,"),
    change("sizes not checked", "if n % n_kv_heads:", "if False:"),
    change("whole weights kept alive", "[self.own_head].clone()", "[self.own_head]"),
    change("too many bytes", "self.n_kv_heads, *gradient.shape", "dist.get_world_size(self.group), *gradient.shape"),
    change("part missing", "self.weight, self.bias =", "self.w, self.b =",
           _FORWARD, "return F.linear(x, self.w, self.b)"),
)

EQUIVALENT = {
    "None if p is None else nn.Parameter(p.detach().unflatten(0, (n_kv_heads, -1))[self.own_head].clone()) | p.detach() → p":
        "nn.Parameter takes the numbers and no history.",
}
