"""Wrong ways to compute during an all-reduce."""

from grader.exercises.references import change

CHANGES = (
    change("blocking call", ", async_op=True", "", "work.wait()", "pass"),
    change("computed first", "    y = compute()\n", "", "work = dist", "y = compute()\n    work = dist"),
    change("waited too early", "work.wait()  # only", "# only", "y = compute()", "work.wait()\n    y = compute()"),
    change("compute once", "return x, y", "return x, compute()"),
    change("missing wait", "work.wait()", "pass"),
    change("changed under way", "    y = compute()\n", "    y = compute()\n    x += 1\n",
            "work = dist", "x = x.clone()\n    work = dist"),
    change("parts swapped", "return x, y", "return y, x"),
    change("own x returned", "dist.all_reduce(x", "dist.all_reduce(x.clone()"),
    change("result converted", "y = compute()", "y = compute().float()"),
    change("mean for sum", "return x", "return x / dist.get_world_size(group)"),
    change("group ignored", ", group=group", ""),
    change("library call", "work = dist.all_reduce(x",
           "rows = [x.clone() for _ in range(dist.get_world_size(group))]\n    work = dist.all_gather(rows, x",
           "return x", "return sum(rows)"),
    change("no result", "return x, y", "return x, compute"),
)
