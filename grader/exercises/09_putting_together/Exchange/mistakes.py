"""Wrong exchanges of rows."""

from grader.exercises.references import change

COUNTS = "dist.all_to_all_single(came_ne, counts_ne.contiguous(), group=group)"
RETURN = "return Exchange.travel(rows_RD, ctx.sent, ctx.came, group), came_ne"
BACK = "Exchange.travel(dreceived_QD, ctx.came, ctx.sent, ctx.group)"
RECEIVED = "return received\n"
ROWS = "dist.all_to_all_single(received, rows.contiguous(), came, sent, group=group)"
R, N = "dist.get_rank(group)", "dist.get_world_size(group)"

CHANGES = (
    change("splits differ", BACK, "Exchange.travel(dreceived_QD, ctx.sent, ctx.came, ctx.group)"),
    change("not sent", RETURN, "Exchange.travel(rows_RD, ctx.sent, ctx.came, group)\n"
                               "        return rows_RD.clone(), came_ne"),
    change("wrong rows", RETURN, "rows = Exchange.travel(rows_RD, ctx.sent, ctx.came, group)\n"
                                         "        return torch.cat(rows.split(ctx.came)[::-1]), came_ne"),
    change("sorted by expert", RETURN,
           "rows = Exchange.travel(rows_RD, ctx.sent, ctx.came, group)\n        n, e = came_ne.shape\n"
           "        whose = torch.arange(e).repeat(n).repeat_interleave(came_ne.flatten())\n"
           "        return rows[whose.argsort(stable=True)], came_ne"),
    change("wrong rows", RETURN,
           "rows = list(Exchange.travel(rows_RD, ctx.sent, ctx.came, group).split(ctx.came))\n"
           f"        rows[{R}] = rows[0][:0]\n        return torch.cat(rows), came_ne"),
    change("wrong counts", RETURN, RETURN.replace("came_ne", "counts_ne.clone()")),
    change("wrong counts", RETURN, RETURN.replace("came_ne", "came_ne.sum(1)")),
    change("wrong counts", RETURN, RETURN.replace("came_ne", "came_ne.T.contiguous()")),
    change("gradient scaled", BACK, f"{BACK} / dist.get_world_size(ctx.group)"),
    change("gradient scaled", BACK, f"{BACK} * dist.get_world_size(ctx.group)"),
    change("wrong gradient", BACK, f"torch.cat({BACK}.split(ctx.sent)[::-1])"),
    change("wrong gradient", BACK,
           f"torch.cat([g if i == dist.get_rank(ctx.group) else 0 * g for i, g in enumerate({BACK}.split(ctx.sent))])"),
    change("group ignored", "group=group", "group=None"),
    change("too few gradients", "ctx.group), None, None", "ctx.group), None"),
    change("one gradient taken", "backward(ctx, dreceived_QD: Tensor, dcame: Tensor | None)",
           "backward(ctx, dreceived_QD: Tensor)"),
    change("not contiguous", "rows.contiguous()", "rows"),
    change("splits differ", "received, rows.contiguous(), came, sent, group", "received, rows.contiguous(), group"),
    change("library call", COUNTS,
           f"everybody = [torch.empty_like(counts_ne) for _ in range({N})]\n"
           "        dist.all_gather(everybody, counts_ne, group=group)\n"
           f"        came_ne = torch.stack([counts[{R}] for counts in everybody])"),
    change("forward calls", COUNTS, f"{COUNTS}\n        {COUNTS}"),
    change("backward calls", BACK, f"Exchange.travel({BACK}, ctx.sent, ctx.came, ctx.group)[:0].sum() + {BACK}"),
    change("too many bytes", RECEIVED, "return received[:, :rows.shape[1]].contiguous()\n",
           "rows.new_empty(sum(came), rows.shape[1])", "rows.new_empty(sum(came), 2 * rows.shape[1])",
           "rows.contiguous()", "torch.cat([rows, rows], 1)"),
    change("fewer digits", "rows.new_empty(sum(came), rows.shape[1])", "torch.empty(sum(came), rows.shape[1])",
           "rows.contiguous()", "rows.float().contiguous()", RECEIVED, "return received.to(rows.dtype)\n"),
    change("other dtype", "rows.new_empty(sum(came), rows.shape[1])", "torch.empty(sum(came), rows.shape[1])"),
    change("missing wait", ROWS, f"work = {ROWS[:-1]}, async_op=True)"),
    change("rows left out", ROWS, f"if sum(came) + sum(sent):\n            {ROWS}"),
)

EQUIVALENT = {f"{COUNTS} | counts_ne.contiguous() → counts_ne": "the numbers of a check lie in order."}
