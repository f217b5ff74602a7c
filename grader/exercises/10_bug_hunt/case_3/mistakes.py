"""Half repairs of case_3."""

from grader.exercises.references import change, half_repaired

LOOP, BODY = "for p in model.parameters():", "for p in model.body.parameters():"
STEP = "        optimizer.step()"


def more(lines: str) -> tuple[str, str]:
    """These lines before the step of the broken program."""
    return STEP, f"{lines}\n{STEP}"


CHANGES = (
    half_repaired("untouched"),
    half_repaired("head summed", *more("        for p in model.head.parameters():\n"
                                       "            dist.all_reduce(p.grad, group=group)")),
    half_repaired("gradients disagree", *more("        for p in model.head.parameters():\n"
                                             "            p.grad /= dist.get_world_size(group)")),
    half_repaired("gradients noted wrong", STEP, f"""{STEP}
        for p in model.head.parameters():
            dist.all_reduce(p.data, group=group)
            p.data /= dist.get_world_size(group)"""),
    half_repaired("gradients disagree", f"        {BODY}\n            dist.all_reduce(p.grad, group=group)\n"
                                     "            p.grad /= dist.get_world_size(group)\n", ""),
    half_repaired("gradients disagree", BODY, "for p in model.head.parameters():"),
    half_repaired("too many bytes", *more(f"        {LOOP}\n            dist.all_reduce(p.grad, group=group)\n"
                                          "            p.grad /= dist.get_world_size(group)")),
    change("notes with fewer digits", "dist.all_reduce(p.grad, group=group)",
           "total = p.grad.float(); dist.all_reduce(total, group=group); p.grad.copy_(total)"),
    change("by way of one rank", "dist.all_reduce(p.grad, group=group)",
           "dist.reduce(p.grad, group_dst=0, group=group); dist.broadcast(p.grad, group_src=0, group=group)"),
    change("group ignored", ", group=group", "", "(group)", "()"),
)
