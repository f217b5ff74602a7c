"""Wrong swaps of shards."""

from grader.exercises.references import change

N = "dist.get_world_size(group)"
KEEP = "ctx.cut, ctx.join, ctx.group = cut, join, group"
SWAP, SWAP_BACK = "SwapShards.swapped(x, cut, join, group)", "SwapShards.swapped(dy, ctx.join, ctx.cut, ctx.group)"

CHANGES = (
    *(change("gradient scaled", SWAP_BACK, f"{SWAP_BACK} {by} dist.get_world_size(ctx.group)") for by in "/*"),
    change("cut as a row", "torch.stack(x.chunk(dist.get_world_size(group), cut))",
           "x.reshape(-1, *x.chunk(dist.get_world_size(group), cut)[0].shape).contiguous()"),
    change("dimensions fixed", "ctx.cut, ctx.join, ctx.group = cut", "cut, join = 1, 2; ctx.cut, ctx.join, ctx.group = cut"),
    change("wrong dx", "ctx.join, ctx.cut, ctx.group)", "ctx.cut, ctx.join, ctx.group)"),
    change("wrong dx",  # where dy can be cut that way
           KEEP, f"ctx.again = x.shape[cut] % {N}**2 == 0; ctx.shape = x.shape; {KEEP}",
           SWAP_BACK, "SwapShards.swapped(dy, *((ctx.cut, ctx.join) if ctx.again else (ctx.join, ctx.cut)), ctx.group)"
                      ".reshape(ctx.shape)"),
    change("conjugate missing", SWAP_BACK, "torch.cat(dy.chunk(dist.get_world_size(ctx.group), ctx.join), ctx.cut)"),
    change("wrong output", "received.unbind()", "received.unbind()[::-1]"),
    change("wrong output", SWAP, "SwapShards.swapped(x, cut, cut, group)"),
    change("interleaved", SWAP, f"{SWAP}.unflatten(join, ({N}, -1)).transpose(join, join + 1).flatten(join, join + 1)"),
    change("cut as a row", KEEP, f"{KEEP}; x = x.unflatten(cut, (-1, {N})).transpose(cut, cut + 1).flatten(cut, cut + 1)"),
    change("library call",
           f"return {SWAP}", f"parts = [torch.empty_like(x) for _ in range({N})]\n"
                             "        dist.all_gather(parts, x, group=group)\n"
                             "        own = torch.cat(parts, join).chunk(len(parts), cut)[dist.get_rank(group)]\n"
                             "        return own.contiguous()"),
    change("pieces not sent", "torch.cat(received.unbind(), join)", "torch.cat(sent.unbind(), join)"),
    change("too few gradients", ", None, None, None\n", "\n"),
    change("group ignored", SWAP, "SwapShards.swapped(x, cut, join, None)"),
    change("not one swap each way", f"return {SWAP}", f"{SWAP}\n        return {SWAP}"),
)
