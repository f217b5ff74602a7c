"""Wrong ways to time a collective."""

from grader.exercises.references import change

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
    change("first call only", "range(repeats)", "range(1)", ") / repeats", ")", "dist.all_reduce",
           "[run_once() for _ in range(repeats)]; dist.all_reduce"),
    change("best call", "        run_once()\n", "        run_once(); calls_s.append(clock())\n", "start_s = clock()",
           "start_s, calls_s = clock(), []", "(clock() - start_s) / repeats",
           "min(b - a for a, b in zip([start_s, *calls_s], calls_s))"),
    change("a repeat is missing", "range(repeats)", "range(repeats - 1)"),
    change("milliseconds", "per_call_s.item()", "1e3 * per_call_s.item()"),
    change("another clock", "clock()", "time.perf_counter()"),
    change("digits lost", "float64", "float32"),
    change("tensor returned", "per_call_s.item()", "per_call_s"),
    change("one warm-up", "run_once()  # warm-up", "run_once(), run_once()  # warm-up"),
    change("other calls timed", "        run_once()\n", "        run_once()\n        dist.barrier(group)\n"),
    change("two readings", "        run_once()\n", "        run_once()\n        clock()\n"),
    change("group ignored", "dist.barrier(group)", "dist.barrier()", ", group=group", ""),
    change("several clocks", "per_call_s = torch.tensor((clock() - start_s) / repeats, dtype=torch.float64)",
           "per_call_s = torch.tensor([clock(), -start_s], dtype=torch.float64) / repeats", "per_call_s.item()",
           "per_call_s.sum().item()"),
)
