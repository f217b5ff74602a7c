"""Wrong sums of gradients."""

from grader.exercises.references import change

OWN = "gradients = [p.grad for p in parameters if p.grad is not None]"
REDUCE = "dist.all_reduce(row, group=group)"
WRITE = "gradient.copy_(total.view_as(gradient))"

CHANGES = (
    change("only in the first step", OWN, f"{OWN[:-1]} and not hasattr(p.grad, 'summed')]", WRITE,
           f"{WRITE}; gradient.summed = True"),
    change("nothing where one is missing", "if not gradients:", "if len(gradients) < len(parameters):"),
    change("nothing reduced", WRITE, "pass"),
    change("mean for sum", WRITE, "gradient.copy_(total.view_as(gradient) / dist.get_world_size(group))"),
    change("too many messages", REDUCE, "for gradient in gradients: dist.all_reduce(gradient, group=group)", WRITE, "pass"),
    change("no gradient", " if p.grad is not None", ""),
    change("only the first", WRITE, WRITE + "; break"),
    change("invented gradient",
           OWN, "gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]\n"
                "    for p, gradient in zip(parameters, gradients): p.grad = gradient"),
    change("pieces mixed up", "for gradient in gradients])", "for gradient in gradients[::-1]])"),
    change("own added", "gradient.copy_(", "gradient.add_("),
    change("mean for sum", WRITE, "gradient.copy_(total.view_as(gradient) / dist.get_world_size())"),
    change("weights for gradients", "row = torch.cat([gradient.flatten() for gradient in gradients])",
           "row = torch.cat([p.detach().flatten() for p in parameters if p.grad is not None])"),
    change("pieces do not fit", "for one in gradients]", "for one in parameters]",
           "row.split", "F.pad(row, (0, sum(p.numel() for p in parameters if p.grad is None))).split"),
    change("fewer digits", "for gradient in gradients])", "for gradient in gradients]).float()"),
    change("only in groups", WRITE, WRITE + "; gradient *= dist.get_world_size() / dist.get_world_size(group)"),
    change("group ignored", ", group=group", ""),
    change("library call",
           REDUCE, "parts = [torch.empty_like(row) for _ in range(dist.get_world_size(group))]\n"
                   "    dist.all_gather(parts, row, group=group)\n    row = torch.stack(parts).sum(0)"),
)
