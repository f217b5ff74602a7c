"""Wrong ways to time a collective."""

from tests.mutants import change

CHANGES = (
    change("warm-up timed", "run_once()  # warm-up", "pass  # warm-up"),
    change("no barrier", "dist.barrier(group)", "pass"),
    change("total, not per call", ") / repeats", ")"),
    change("own time", "dist.all_reduce(per_call_s, op=dist.ReduceOp.MAX, group=group)", "pass"),
    change("mean over ranks", "ReduceOp.MAX", "ReduceOp.SUM", "per_call_s.item()",
           "per_call_s.item() / dist.get_world_size(group)"),
    change("sum over ranks", "ReduceOp.MAX", "ReduceOp.SUM"),
    change("fastest rank", "ReduceOp.MAX", "ReduceOp.MIN"),
    change("warm-up counted", "/ repeats", "/ (repeats + 1)"),
    change("result not everywhere", "per_call_s.item()", "per_call_s.item() if dist.get_rank(group) == 0 else None"),
    change("group ignored", "dist.barrier(group)", "dist.barrier()", ", group=group", ""),
)
