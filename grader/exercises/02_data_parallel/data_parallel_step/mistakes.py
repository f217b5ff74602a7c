"""Wrong steps of data parallelism."""

from grader.exercises.references import change

CLEAR = "    model.zero_grad()  # those that the optimizer doesn't hold, too\n"
REDUCE = "dist.all_reduce(parameter.grad, group=group)"
STEP = "    optimizer.step()\n    mean_loss = loss.detach().clone()"
OWN_MEANS = tuple(f"    mean_loss = loss_fn(model(x), y).detach(){mean}\n    optimizer.step()"
                  for mean in (".sum() / max(1, len(x))", ".mean()"))
CHANGES = (
    change("shards weighed alike", "/ batch_size", "/ max(1, len(x)) / dist.get_world_size(group)"),
    change("sum for mean", "/ batch_size", "/ max(1, len(x))"),
    change("divided by n too", "/ batch_size", "/ batch_size / dist.get_world_size(group)"),
    change("gradients not reduced", REDUCE, "pass"),
    change("gradients not reduced", REDUCE, "pass", "/ batch_size", "/ max(1, len(x))"),
    change("gradients pile up", CLEAR, ""),
    change("others cleared at the end", "    return mean_loss", "    model.zero_grad()\n    return mean_loss"),
    change("cleared too late", CLEAR, "", "    return mean_loss", "    model.zero_grad()\n    return mean_loss"),
    change("others pile up", "model.zero_grad()", "optimizer.zero_grad()"),
    change("zeros kept", "zero_grad()", "zero_grad(set_to_none=False)"),
    change("own loss returned", "    dist.all_reduce(mean_loss, group=group)\n", ""),
    change("zeros for none", REDUCE, f"pass\n        else:\n            parameter.grad = torch.zeros_like(parameter)\n"
           f"        {REDUCE}"),
    change("loss after the step", "loss.detach().clone()", "loss_fn(model(x), y).sum().detach() / batch_size"),
    change("loss divided too", "return mean_loss", "return mean_loss / dist.get_world_size(group)"),
    change("loss not divided", "return mean_loss", "return mean_loss * batch_size"),
    *(change("loss of means", STEP, own_mean, "return mean_loss", "return mean_loss / dist.get_world_size(group)")
      for own_mean in OWN_MEANS),
    *(change("means summed", STEP, own_mean) for own_mean in OWN_MEANS),
    change("loss attached", "loss.detach().clone()", "loss.clone()", "all_reduce(mean_loss", "all_reduce(mean_loss.data"),
    change("loss of another type", "return mean_loss", "return torch.tensor(mean_loss.item())"),
    change("loss not a tensor", "return mean_loss", "return mean_loss.item()"),
    change("some left out", "in model.parameters()", 'in optimizer.param_groups[0]["params"]'),
    change("stopped without rows", "    loss =", "    if not len(x):\n        return torch.zeros(())\n    loss ="),
    change("not a number", ".sum() / batch_size", ".mean() * len(x) / batch_size"),
    change("no gradient", "if parameter.grad is not None", "if True"),
    change("reduced twice", "    optimizer.step()\n", "    optimizer.step()\n    for parameter in model.parameters():\n"
           "        dist.all_reduce(parameter.data, group=group)\n"
           "        parameter.data /= dist.get_world_size(group)\n"),
    change("group ignored", ", group=group", ""),
    change("library call", REDUCE, "rows = [parameter.grad.clone() for _ in range(dist.get_world_size(group))]\n"
           "            dist.all_gather(rows, parameter.grad, group=group)\n"
           "            parameter.grad = sum(rows)"),
)

EQUIVALENT = {
    "mean_loss = loss.detach().clone() | loss.detach().clone() → loss.detach()":
        "After backward nobody needs the loss but for its sum over ranks.",
}
