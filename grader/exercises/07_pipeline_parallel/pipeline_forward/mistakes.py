"""Wrong ways to send micro-batches through the stages."""

from grader.exercises.references import change

CUT, BUFFERS = "split_batch(x_BD, n_micro)", "[torch.empty_like(like_bD) for _ in range(n_micro)]"
SEND, KEEP = "dist.send(output_bO, group_dst=r + 1, group=group)", "else:\n            outputs.append(output_bO)"
RETURN = "return torch.cat(outputs)"

CHANGES = (
    change("sent too late", f"    if r < p - 1:\n            {SEND}\n        {KEEP}", f"""    outputs.append(output_bO)
    for output_bO in outputs if r < p - 1 else []:
        {SEND}"""),
    change("not in micro-batches", f"{CUT} if r == 0 else {BUFFERS}",
           "[x_BD if r == 0 else like_bD.new_empty(n_micro * len(like_bD), like_bD.shape[1])]"),
    change("wrong order", CUT, f"{CUT}[::-1]"),
    change("last micro-batch only", RETURN, "return outputs[-1]"),
    change("nothing sent", SEND, "pass"),
    change("result elsewhere", KEEP, "outputs.append(output_bO)", " if r == p - 1 else None", ""),
    change("result elsewhere", "return torch.cat(outputs) if r == p - 1 else None",
           "return torch.cat(outputs) if outputs else x_BD"),
    change("group ignored", "(group)", "()", "group=group", "group=None"),
    change("library call", RETURN, f"dist.barrier(group)\n    {RETURN}"),
    change("wait forgotten", "dist.send", "dist.isend"),
    change("nobody receives", RETURN,
           f"if 0 < r == p - 1:\n        dist.send(outputs[0], group_dst=0, group=group)\n    {RETURN}"),
    change("beyond the ends", "if r < p - 1:", "if True:", KEEP, "outputs.append(output_bO)"),
    change("wrong neighbours", SEND, SEND.replace("r + 1", "(r - 1) % p")),
    change("x missing", f"xs = {CUT}", f"xs = {CUT}\n    xs = xs"),
    change("missing wait", "dist.recv", "dist.irecv", "empty_like", "zeros_like"),
    change("one buffer for all", BUFFERS, "[torch.empty_like(like_bD)] * n_micro",
           KEEP, "else:\n            outputs.append(outputs[0].copy_(output_bO) if outputs else output_bO)"),
    change("joined otherwise", RETURN, "return torch.stack(outputs)"),
    change("joined otherwise", RETURN, "return torch.cat(outputs, -1)"),
    change("mean of outputs", RETURN, "return torch.stack(outputs).mean(0)"),
    change("another size", "torch.empty_like(like_bD)", "torch.empty_like(like_bD, dtype=torch.float16)"),
    change("gradient of tokens", "stage(x_bD)", "stage(x_bD.requires_grad_())"),
    change("overwritten on its way", "stage(x_bD)", "stage(x_bD if r else xs[0])"),
)

EQUIVALENT = {
    "output_bO = stage(x_bD).detach() | stage(x_bD).detach() → stage(x_bD)":
        "only the forward pass is asked for: whether an output has a graph is left open.",
}
