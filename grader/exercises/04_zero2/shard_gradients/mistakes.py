"""Wrong ways to shard gradients during the backward pass."""

from grader.exercises.references import change

REDUCE = "dist.reduce_scatter_single(shard, flat, group=group)"
FREE, DIVIDE = "parameter.grad = None", "shard /= n"
ADD = "shards[parameter] = shards[parameter] + shard if parameter in shards else shard"
HOOKS = "for parameter in model.parameters():"
REDUCE_ALL = """def reduce_all(p):
        for q in model.parameters() if p is last else ():
            if q.grad is not None:
                reduce(q)

    last = next(p for p in model.parameters() if p.requires_grad)"""

CHANGES = (
    change("sum for mean", DIVIDE, "pass"),
    change("divided by the world", DIVIDE, "shard /= dist.get_world_size()"),
    change("mean over passes", ADD, "shards[parameter] = (shards[parameter] + shard) / 2 if parameter in shards else shard"),
    change("divided again", DIVIDE, "pass", ADD,
           "shards[parameter] = (shards[parameter] + shard if parameter in shards else shard) / n"),
    change("zeros in front", "(0, -len(flat) % n)", "(-len(flat) % n, 0)"),
    change("every n-th", REDUCE, REDUCE.replace("flat", "flat.view(-1, n).t().flatten()")),
    change("more kept", "n, shards = dist.get_world_size(group), {}", "n, shards, kept = dist.get_world_size(group), {}, []",
           DIVIDE, f"{DIVIDE}; kept.append(flat.clone())"),
    change("another type on the way", REDUCE, "short = shard.float()\n"
           "        dist.reduce_scatter_single(short, flat.float(), group=group)\n        shard = short.to(shard.dtype)"),
    change("other names", "shards = dist.get_world_size(group), {}",
           "shards = dist.get_world_size(group), {}\n    names = {p: name for name, p in model.named_parameters()}",
           "shards[parameter]", "shards[names[parameter]]", "parameter in shards", "names[parameter] in shards"),
    change("more than gradients", "shards = dist.get_world_size(group), {}", "shards = dist.get_world_size(group), {}\n"
           "    shards = {p: p.detach().new_zeros(-(-p.numel() // n)) for p in model.parameters()}"),
    change("too long", DIVIDE, f"{DIVIDE}; shard = shard.repeat(n)"),
    change("padding not zero", "F.pad(flat, (0, -len(flat) % n))", "F.pad(flat, (0, -len(flat) % n), value=1.0)"),
    change("last pass only", ADD, "shards[parameter] = shard"),
    change("first pass twice", FREE, "pass"),
    change("gradients left", FREE, "pass", DIVIDE, f"{DIVIDE}; parameter.grad.zero_()"),
    change("full gradients", "hook(reduce)", "hook(reduce_all)", HOOKS, f"{REDUCE_ALL}\n    {HOOKS}"),
    change("another rank's result", REDUCE, REDUCE.replace("flat", "flat.view(n, -1).flip(0).flatten()")),
    change("not padded", "flat = F.pad(flat, (0, -len(flat) % n))", "pass"),
    change("buffer of another dtype", "flat.new_empty(", "torch.empty("),
    change("first pass", ADD, "shards[parameter] += shard"),
    change("nothing kept", "return shards", "return {}"),
    change("not contiguous", "grad.flatten()", "grad.view(-1)"),
    change("frozen hooked", "if parameter.requires_grad", "if True"),
    change("hooked twice", HOOKS, "for _, parameter in model.named_parameters(remove_duplicate=False):"),
    change("too many bytes", REDUCE, f"{REDUCE}; {REDUCE}"),
    change("library call", REDUCE, "dist.all_reduce(flat, group=group)\n"
           "        shard = flat.view(n, -1)[dist.get_rank(group)].clone()"),
    change("missing wait", REDUCE, "dist.reduce_scatter_single(shard, flat / n, group=group, async_op=True)",
           DIVIDE, "pass"),
    change("not begun anew", "n, shards = dist.get_world_size(group), {}",
           "n, shards, sums = dist.get_world_size(group), {}, {}",
           ADD, "sums[parameter] = shards[parameter] = sums.get(parameter, 0) + shard"),
)
