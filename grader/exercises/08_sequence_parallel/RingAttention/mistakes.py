"""Wrong ring attentions."""

from grader.exercises.references import change

SEEN = "return late if source > rank else every, early if source < rank else every, source == rank"
NO_ROWS = "(slice(None), slice(None), slice(0))"
KEEP = "ctx.group = group"
ODD = "if q_BHPK.shape[2] % 2:"
PASS_ON, PASS_BACK = "kv = RingAttention.pass_on(kv, group)", "kv = RingAttention.pass_on(kv, ctx.group)"
OWN_VALUES = "kv = torch.stack((RingAttention.pass_on(kv[0].clone(), {}), v_BHPK))"
GRADIENTS_ON = "dkv = RingAttention.pass_on(dkv, ctx.group)"

CHANGES = (
    change("own triangle forgotten", "causal=is_own", "causal=False"),
    change("half of an earlier rank", "early if source < rank", "late if source < rank"),
    change("half of an earlier rank", "early if source < rank else every", "every"),
    change("dk and dv exchanged", "return dq_BHPK, dkv[0], dkv[1], None", "return dq_BHPK, dkv[1], dkv[0], None"),
    change("group ignored", "group_dst=", "dst=", "group_src=", "src="),
    change("too few gradients", "dkv[1], None", "dkv[1]"),
    change("mask by local index", SEEN, "return every, every, True"),
    change("no mask", SEEN, "return every, every, False"),
    change("shards in one piece", SEEN, f"return every if source <= rank else {NO_ROWS}, every, source == rank"),
    change("wrong way round", "dst=(rank + 1)", "dst=(rank - 1)", "src=(rank - 1)", "src=(rank + 1)"),
    change("values not sent", PASS_ON, OWN_VALUES.format("group"), PASS_BACK, OWN_VALUES.format("ctx.group")),
    change("gradients left on the way", GRADIENTS_ON, GRADIENTS_ON + " if step < n - 1 else dkv"),
    change("gradients left on the way", "return dq_BHPK", f"{GRADIENTS_ON}\n        return dq_BHPK"),
    change("own queries only", "+= dk\n", "+= dk * is_own\n", "+= dv\n", "+= dv * is_own\n", GRADIENTS_ON, "pass"),
    change("own part only", SEEN, f"return every if source == rank else {NO_ROWS}, every, source == rank"),
    change("hidden blocks computed", KEEP, f"{KEEP}\n        for _ in range(n): attend(q_BHPK, k_BHPK, v_BHPK)"),
    change("products by hand", KEEP, f"{KEEP}\n        (q_BHPK.unsqueeze(3) * k_BHPK.unsqueeze(2)).sum(-1)"),
    change("others' keys kept", KEEP, "ctx.group, ctx.kept = group, [kv.clone() for _ in range(n)]"),
    change("whole gather", KEEP, f"{KEEP}\n        whole = kv.new_empty(n * len(kv), *kv.shape[1:])\n"
                                 "        dist.all_gather_single(whole, kv, group=group)"),
    change("not refused",
           ODD, f"q_BHPK, k_BHPK, v_BHPK = (x[:, :, :-(x.shape[2] % 2) or None] for x in (q_BHPK, k_BHPK, v_BHPK))\n"
                f"        {ODD}"),
    change("keys for values in backward", "kv[0][keys], kv[1][keys], o_BHPK", "kv[1][keys], kv[0][keys], o_BHPK"),
    change("each part's own sum", "lse_BHP[rows], causal=is_own)\n            dq_BHPK",
           "attend(q_BHPK[rows], kv[0][keys], kv[1][keys], is_own)[1], causal=is_own)\n            dq_BHPK"),
    change("wrong dq", "return dq_BHPK", "return dq_BHPK * dq_BHPK.shape[-1] ** 0.5"),
    change("wrong dk or dv", "dkv[0][keys] += dk", "dkv[0][keys] = dk", "dkv[1][keys] += dv", "dkv[1][keys] = dv"),
    change("one rank", "if n == 1:", "if False:"),
    change("cycle of sends", "sending = dist.isend(", "dist.send(", "sending.wait()", "pass"),
    change("causal everywhere", "causal=is_own)\n            o_BHPK", "causal=True)\n            o_BHPK"),
    change("too many bytes", KEEP, f"{KEEP}; RingAttention.pass_on(RingAttention.pass_on(kv, group), group)"),
)

EQUIVALENT = {
    "rank, n = dist.get_rank(group), dist.get_world_size(group) | dist.get_world_size(group) → dist.get_world_size()":
        "only whether the source stands before or behind this rank counts, and behind the end it does by either number.",
}
