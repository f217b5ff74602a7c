"""Wrong ways to reduce during the backward pass."""

from grader.exercises.references import change

START = "started.append((parameter, dist.all_reduce(parameter.grad, group=group, async_op=True)))"
AVERAGE = ("parameter.grad, group", "parameter.grad, dist.ReduceOp.AVG, group")
DIVIDE = "            parameter.grad /= dist.get_world_size(group)\n"
HOOK = "parameter.register_post_accumulate_grad_hook(start)"
CHANGES = (
    change("divided by the world", "get_world_size(group)", "get_world_size()"),
    change("sum for mean", DIVIDE, ""),
    change("divided twice", *AVERAGE),
    change("blocking call", START, "dist.all_reduce(parameter.grad, dist.ReduceOp.AVG, group=group)"),
    change("not overlapped", "dist.Work]] = []", "dist.Work]] = []\n    late = []",  # all but one
           START, f"if started:\n            late.append(parameter)\n        else:\n            {START}",
           "        for parameter, work in started:",
           "        started.extend((p, dist.all_reduce(p.grad, group=group, async_op=True)) for p in late)\n"
           "        late.clear()\n        for parameter, work in started:"),
    change("some at the end", "dist.Work]] = []", "dist.Work]] = []\n    late = []",
           START, f"if parameter.ndim < 2:\n            late.append(parameter)\n        else:\n            {START}",
           "        for parameter, work in started:",
           "        started.extend((p, dist.all_reduce(p.grad, group=group, async_op=True)) for p in late)\n"
           "        late.clear()\n        for parameter, work in started:"),
    change("held up by an unused one", "dist.Work]] = []",  # in one fixed order
           "dist.Work]] = []\n    trained = [p for p in model.parameters() if p.requires_grad][::-1]\n    waiting = []",
           START, "waiting.append(parameter)\n        while len(started) < len(trained) and any(\n"
           "                p is trained[len(started)] for p in waiting):\n"
           "            p = trained[len(started)]\n"
           "            started.append((p, dist.all_reduce(p.grad, group=group, async_op=True)))",
           "        for parameter, work in started:",
           "        begun = {id(p) for p, _ in started}\n"
           "        started.extend((p, dist.all_reduce(p.grad, group=group, async_op=True)) for p in waiting\n"
           "                       if id(p) not in begun)\n"
           "        waiting.clear()\n        for parameter, work in started:"),
    change("waited too early", START, "dist.all_reduce(parameter.grad, group=group, async_op=True).wait()\n"
           "        parameter.grad /= dist.get_world_size(group)"),
    change("missing wait", "            work.wait()\n", ""),
    change("changed under way", DIVIDE, "", START, f"{START}\n        parameter.grad /= dist.get_world_size(group)"),
    change("reduced twice", *AVERAGE, DIVIDE, "", "    for parameter in model.parameters()",
           "    for _, parameter in model.named_parameters(remove_duplicate=False)"),
    change("second step wrong", "        started.clear()\n", ""),
    change("first step wrong", "get_world_size(group)", "get_world_size(group) if parameter.ndim > 1 else 1"),
    change("hooks gone", "dist.Work]] = []", "dist.Work]] = []\n    handles = []", HOOK, f"handles.append({HOOK})",
           "        started.clear()\n", "        started.clear()\n        for handle in handles:\n"
           "            handle.remove()\n"),
    change("frozen hooked", "if parameter.requires_grad", "if True"),
    change("too early a hook", HOOK, "parameter.register_hook(lambda grad, parameter=parameter: start(parameter))"),
    change("own gradients", HOOK, "pass"),
    change("own gradients divided", HOOK, "parameter.register_hook(lambda grad, parameter=parameter: started.append(\n"
           "                (parameter, dist.all_reduce(grad.clone(), group=group, async_op=True))))"),
    change("unreduced divided", DIVIDE, "", "        started.clear()\n", "        started.clear()\n"
           "        for parameter in model.parameters():\n            if parameter.grad is not None:\n"
           "                parameter.grad /= dist.get_world_size(group)\n"),
    change("unreduced divided", "started: list[tuple[nn.Parameter, dist.Work]] = []", "started = {}",
           START, "started[parameter] = dist.all_reduce(parameter.grad, group=group, async_op=True)",
           "in started:", "in started.items():", "        started.clear()\n", "",
           DIVIDE, "            if parameter.grad is not None:\n"
           "                parameter.grad /= dist.get_world_size(group)\n"),
    change("no gradient", DIVIDE, "", "        started.clear()\n", "        started.clear()\n"
           "        for parameter in model.parameters():\n            parameter.grad /= dist.get_world_size(group)\n"),
    change("some left out", "if parameter.requires_grad", "if parameter.requires_grad and parameter.ndim > 1"),
    change("group ignored", "group=group, ", ""),
)
