"""Wrong ways to compute during an all-reduce."""

from tests.mutants import change

CHANGES = (
    change("blocking call", ", async_op=True", "", "work.wait()", "pass"),
    change("computed first", "    y = compute()\n", "", "total = x.clone()", "total, y = x.clone(), compute()"),
    change("waited too early", "work.wait()  # only", "# only", "y = compute()", "work.wait()\n    y = compute()"),
    change("compute once", "return total, y", "return total, compute()"),
    change("missing wait", "work.wait()", "pass"),
    change("changed under way", "    y = compute()\n", "    y = compute()\n    total += 1\n"),
    change("own x returned", "dist.all_reduce(total", "dist.all_reduce(x"),
    change("result converted", "y = compute()", "y = compute().float()"),
    change("mean for sum", "return total", "return total / dist.get_world_size(group)"),
    change("group ignored", ", group=group", ""),
    change("library call", "total = x.clone()", "rows = [x.clone() for _ in range(dist.get_world_size(group))]",
           "dist.all_reduce(total", "dist.all_gather(rows, x", "return total", "return sum(rows)"),
    change("no result", "return total, y", "return total, compute"),
)

EQUIVALENT = {
    "total = x.clone() | x.clone() → x": "x may be overwritten.",
}
