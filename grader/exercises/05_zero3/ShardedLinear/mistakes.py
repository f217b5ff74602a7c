"""Wrong linear layers in shards."""

from grader.exercises.references import change

REDUCE = "dist.reduce_scatter_single(dshard_C, dw_Z, group=ctx.group)"
CHANGES = (
    change("weight kept", "return x_BI @ ShardedLinear.weight(x_BI, shard_C, n_out, group).T",
           "ctx.weight = ShardedLinear.weight(x_BI, shard_C, n_out, group)\n        return x_BI @ ctx.weight.T",
           "ShardedLinear.weight(x_BI, shard_C, ctx.n_out, ctx.group)", "ctx.weight"),
    change("sum for mean", "dshard_C / n", "dshard_C"),
    change("divided by the world", "dshard_C / n", "dshard_C / dist.get_world_size()"),
    change("dy changed", "dw = (dy_BO.T", "dy_BO /= n\n        dw = (dy_BO.T", "dshard_C / n", "dshard_C"),
    change("mean over rows", "(dy_BO.T @ x_BI)", "(dy_BO.T @ x_BI / len(x_BI))"),
    change("dx divided", "return dx_BI", "return dx_BI / n"),
    change("other dtype", "shard_C.new_empty(", "torch.empty("),
    change("gathered once", "return x_BI @ ShardedLinear.weight(x_BI, shard_C, n_out, group).T",
           "ShardedLinear.last = ShardedLinear.weight(x_BI, shard_C, n_out, group)\n"
           "        return x_BI @ ShardedLinear.last.T",
           "ShardedLinear.weight(x_BI, shard_C, ctx.n_out, ctx.group)", "ShardedLinear.last"),
    change("own gradient", REDUCE, "dshard_C = dw_Z.chunk(n)[dist.get_rank(ctx.group)].clone()", "dshard_C / n", "dshard_C"),
    change("library call", REDUCE, "dist.all_reduce(dw_Z, group=ctx.group)\n"
                                   "        dshard_C = dw_Z.chunk(n)[dist.get_rank(ctx.group)]"),
    change("padding", "flat_Z[:n_out * x_BI.shape[1]]", "flat_Z"),
    change("wrong output", "n_out, group).T", "n_out, group)"),
    change("wrong dx", "ctx.n_out, ctx.group)", "ctx.n_out, ctx.group).T"),
    change("wrong dW", "dy_BO.T @ x_BI", "x_BI.T @ dy_BO"),
    change("too many bytes", "ctx.n_out, ctx.group = n_out, group",
           "ctx.n_out, ctx.group = n_out, group\n        ShardedLinear.weight(x_BI, shard_C, n_out, group)"),
)
