"""Wrong ways to reduce gradients on a mesh."""

from grader.exercises.references import change

ALL = "for weight in stage.parameters():\n        dist.all_reduce(weight.grad, group=dp)\n        weight.grad /= n"
ADD = "mine += theirs"
BOTH = "both = [dist.P2POp(dist.isend, mine, group=pp, group_peer=other),\n                "
RECEIVE = "dist.P2POp(dist.irecv, theirs, group=pp, group_peer=other)]"
WAITED = "for work in dist.batch_isend_irecv(both):\n            work.wait()"
SEND, RECV = "dist.send(mine, group_dst=other, group=pp)", "dist.recv(theirs, group_src=other, group=pp)"

CHANGES = (
    change("replicas not averaged", ALL, "pass"),
    change("sum over replicas", "weight.grad /= n", "pass"),
    change("divided by the world's size", "weight.grad /= n", "weight.grad /= dist.get_world_size()"),
    change("tied weight not summed", ADD, "pass"),
    change("tied weight averaged", ADD, f"{ADD}; mine /= 2"),
    change("tied weight not summed", ADD, "mine.copy_(theirs)"),
    change("replicas not averaged", "for weight in stage.parameters():",
           "for weight in [stage.tied_weight] * (stage.tied_weight is not None):"),
    change("whole ones summed along tp", ALL, f"{ALL}\n    for name, weight in stage.named_parameters():\n"
           "        if cut_dim(name) is None:\n            dist.all_reduce(weight.grad, group=mesh['tp'])"),
    change("outside its lines", ALL, f"{ALL}\n    dist.all_reduce(mesh['tp'] and weight.grad.sum())"),
    change("too many bytes", ALL, "for weight in stage.parameters():\n"
           "        dist.all_reduce(weight.grad.clone(), group=dp)\n"
           f"    {ALL}"),
    change("no tied weight", "if p > 1 and stage.tied_weight is not None:", "if p > 1:"),
    change("cycle of sends", BOTH + RECEIVE, SEND, WAITED, RECV),
    change("cycle of receives", BOTH + RECEIVE, RECV, WAITED, SEND),
    change("wait forgotten", BOTH + RECEIVE, "dist.isend(mine, group_dst=other, group=pp)", WAITED, RECV),
    change("messages do not fit", "dist.all_reduce(weight.grad, group=dp)",
           "if dist.get_rank(dp) > 0:\n            dist.all_reduce(weight.grad, group=dp)"),
    change("missing wait", "dist.all_reduce(weight.grad, group=dp)",
           "dist.all_reduce(weight.grad, group=dp, async_op=True)"),
    change("wrong gradients", "weight.grad /= n", "weight.grad /= n\n        weight.grad += 1"),
)
