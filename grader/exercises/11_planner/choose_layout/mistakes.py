"""Wrong choices of a layout."""

from grader.exercises.references import change

NODE = 'machine["devices_per_node"] % tp or '
FASTER = "(seconds := seconds_of(shape, layout)) < least_s"
TP, PP = "for tp in range(1, n_devices + 1):", "for pp in range(1, n_devices // tp + 1):"
MICRO_BATCH = "for micro_batch in range(1, batch // dp + 1):"
SKIPPED = 'left_over or memory_of(shape, layout) > machine["memory_bytes"]'

CHANGES = (
    change("fastest, fitting or not", "    return best\n", """    if best is None:
        machine = machine | {"memory_bytes": float("inf")}
        return choose_layout(shape, n_devices, batch, machine, memory_of, seconds_of)
    return best
"""),
    change("memory ignored", SKIPPED, "left_over"),
    change("must stay below", '> machine["memory_bytes"]', '>= machine["memory_bytes"]'),
    change("first that fits", f"if {FASTER}:", "if best is None:", "best, least_s = layout, seconds", "best = layout"),
    change("least memory", "seconds_of(shape, layout))", "memory_of(shape, layout))"),
    change("tensor group across nodes", NODE, ""),
    change("tensor group across nodes", NODE, 'tp > machine["devices_per_node"] or '),
    change("heads cut", ' or shape["heads"] % tp', ""),
    change("layers cut", ' or shape["layers"] % pp', ""),
    change("samples left over", SKIPPED, 'memory_of(shape, layout) > machine["memory_bytes"]'),
    change("samples left over", "divmod(batch, dp * micro_batch)", "divmod(batch // dp, micro_batch)"),
    change("micro-batch of one", MICRO_BATCH, "for micro_batch in [1]:"),
    change("micro-batch of one", MICRO_BATCH, "for micro_batch in [max(1, batch // dp)]:"),
    *(change("powers of two only", f"if {SKIPPED}", f"if any(n & (n - 1) for n in ({tried},)) or {SKIPPED}")
      for tried in ("tp, pp, micro_batch", "tp, pp", "tp", "micro_batch")),
    change("no data parallelism", "if n_devices % (tp * pp) or", "if n_devices != tp * pp or"),
    change("ties", TP, "for tp in range(n_devices, 0, -1):"),
    change("ties", PP, "for pp in range(n_devices // tp, 0, -1):"),
    change("ties", MICRO_BATCH, "for micro_batch in range(batch // dp, 0, -1):"),
    change("ties", TP, "for pp in range(1, n_devices + 1):", PP, "for tp in range(1, n_devices // pp + 1):"),
    change("ties", "< least_s", "<= least_s"),
    change("dp forgotten in n_micro", '"n_micro": n_micro}', '"n_micro": batch // micro_batch}'),
    change("not all devices", "if n_devices % (tp * pp) or", "if"),
    change("given up at the first that does not fit",
           'if left_over or memory_of(shape, layout) > machine["memory_bytes"]:\n                    continue',
           'if left_over:\n                    continue\n                '
           'if memory_of(shape, layout) > machine["memory_bytes"]:\n                    break'),
    change("no layout", "return best", "return list(best.values()) if best else None"),
    change("another layout", "seconds_of(shape, layout))", "seconds_of(shape, layout) * pp)"),
)

BEYOND = "The number that comes to be tried is too large to divide what there is."
EQUIVALENT = {
    "for tp in range(1, n_devices + 1): | 1 → 2, again": BEYOND,
    "for pp in range(1, n_devices // tp + 1): | 1 → 2, again": BEYOND,
    "for micro_batch in range(1, batch // dp + 1): | 1 → 2, again": BEYOND,
}
