"""Wrong hierarchical all-reduces."""

from grader.exercises.references import change

_SCATTER = "dist.reduce_scatter_single(shard, x, group=nodes[node])"
_REDUCE = "dist.all_reduce(shard, group=rails[local_rank])"
_GATHER = "dist.all_gather_single(x, shard, group=nodes[node])"

CHANGES = (
    change("mixed groups", _SCATTER, "dist.all_reduce(x)", _REDUCE, "return x"),
    change("whole arrays between nodes", _SCATTER, "dist.all_reduce(x, group=nodes[node])",
           _REDUCE, "dist.all_reduce(x, group=rails[local_rank])", _GATHER, "pass"),
    change("too many bytes", _SCATTER,
           "dist.all_reduce(x, group=nodes[node])\n    shard = x.chunk(node_size)[local_rank].clone()"),
    change("other calls", _REDUCE, f"dist.broadcast(shard, src=local_rank, group=rails[local_rank])\n    {_REDUCE}"),
    change("sum of one node", _REDUCE, "pass"),
    change("not summed in the node", _SCATTER, "shard = x.chunk(node_size)[local_rank].clone()"),
    change("different shards added", _REDUCE, "dist.all_reduce(shard)"),
    change("shard returned", _GATHER, "return shard"),
    change("mean for sum", "return x", "return x / n"),
    change("input returned", "(x, shard, group", "(torch.empty_like(x), shard, group"),
    change("missing wait", "group=rails[local_rank])", "group=rails[local_rank], async_op=True)"),
    change("not everyone makes every group", "for local in range(node_size)]", "for local in [local_rank]]",
           "rails[local_rank]", "rails[0]"),
    change("another rank's group", "nodes[node]", "nodes[0]", "rails[local_rank]", "rails[0]"),
)
