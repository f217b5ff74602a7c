"""Wrong ways to greet."""

from grader.exercises.references import change

CHANGES = (
    change("printed, not returned", 'return f"hello from rank {dist.get_rank()} of {dist.get_world_size()}"',
           'print(f"hello from rank {dist.get_rank()} of {dist.get_world_size()}")'),
    change("unknown name", "dist.get_rank()", "rank", "dist.get_world_size()", "world_size"),
    change("counted from one", "dist.get_rank()", "dist.get_rank() + 1"),
    change("last rank for world size", "dist.get_world_size()", "dist.get_world_size() - 1"),
    change("world size written in", "{dist.get_world_size()}", "4"),
    change("all the same", "{dist.get_rank()}", "0"),
    change("swapped", "{dist.get_rank()} of {dist.get_world_size()}", "{dist.get_world_size()} of {dist.get_rank()}"),
    change("other words", 'f"hello', 'f"Hello', '()}"', '()}!"'),
    change("not called", "()}", "}"),
    change("no f-string", 'f"hello', '"hello'),
    change("nothing returned", "return f", "f"),
    change("nothing returned", "return f", "return None if dist.get_rank() else f"),
    change("communicates", "    return f", "    dist.all_reduce(n := torch.ones(1, dtype=torch.int64))\n    return f",
           "dist.get_world_size()", "int(n)"),
)
