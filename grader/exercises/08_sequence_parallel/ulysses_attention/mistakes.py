"""Wrong attentions by swapping shards."""

from grader.exercises.references import change

REFUSE = "if heads % n:\n"
SWAPPED = "swapped = ["
ATTEND = "F.scaled_dot_product_attention(*swapped, is_causal=True)"
BACK = f"SwapShards.apply({ATTEND}, 2, 1, group)"
OWN = "q_BHPK, k_BHPK, v_BHPK"
DETACHED = "q_BHPK.detach(), k_BHPK.detach(), v_BHPK.detach()"

CHANGES = (
    change("not scaled", "is_causal=True", "is_causal=True, scale=1.0"),
    change("only in groups", "dist.get_world_size(group)", "dist.get_world_size()"),
    change("keys and values exchanged", f"for x in ({OWN})", "for x in (q_BHPK, v_BHPK, k_BHPK)"),
    change("group ignored", "1, 2, group) for", "1, 2, None) for"),
    change("no mask", ", is_causal=True", ""),
    change("own part only", "SwapShards.apply(x, 1, 2, group) for x", "x for x", BACK, ATTEND),
    change("not swapped back", BACK, ATTEND),
    change("wrong output", BACK, f"torch.cat({BACK}.chunk(n, 1)[::-1], 1)"),
    change("not refused", REFUSE, f"{REFUSE}        return F.scaled_dot_product_attention({OWN}, is_causal=True)\n"),
    change("gradients stay", f"for x in ({OWN})", f"for x in ({DETACHED})",
           BACK, f"{BACK} + 0 * (q_BHPK + k_BHPK + v_BHPK)"),
    change("library call", SWAPPED, "dist.all_gather([torch.empty_like(k_BHPK) for _ in range(n)], k_BHPK.detach(), "
                                    f"group=group)\n    {SWAPPED}"),
    change("too many bytes", SWAPPED, f"SwapShards.apply(q_BHPK.detach(), 1, 2, group)\n    {SWAPPED}"),
    change("far too many bytes", SWAPPED, f"for x in 3 * ({DETACHED}):\n        SwapShards.apply(x, 1, 2, group)\n"
                                          f"    {SWAPPED}"),
)
