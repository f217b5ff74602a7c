"""Wrong bandwidths."""

from grader.exercises.references import change

_BUS = "algorithm_GBps * phases * (n_ranks - 1) / n_ranks"

CHANGES = (
    change("bits for bytes", "/ 1e9", "/ 1e9 * 8"),
    change("GiB for GB", "1e9", "2**30"),
    change("bus factor forgotten", _BUS, "algorithm_GBps"),
    change("factor of another collective", ' if op == "all_reduce" else 1', ""),
    change("factor of another collective", '2 if op == "all_reduce" else 1', "1"),
    change("upside down", _BUS, "algorithm_GBps / phases / (n_ranks - 1) * n_ranks"),
    change("swapped", f"algorithm_GBps, {_BUS}", f"{_BUS}, algorithm_GBps"),
    change("n for n−1", _BUS, "algorithm_GBps * phases"),
    change("bytes of one rank", "total_bytes / time_s", "total_bytes / n_ranks / time_s"),
    change("bytes of one rank", "total_bytes / time_s", "total_bytes * n_ranks / time_s"),
    *(change("rounded", "return algorithm_GBps", f"return round(algorithm_GBps, {digits})", _BUS, f"round({_BUS}, {digits})")
      for digits in (0, 1, 2)),
    change("whole bytes", _BUS, "phases * (n_ranks - 1) * (total_bytes // n_ranks) / time_s / 1e9"),
    change("whole bytes", _BUS, "phases * (n_ranks - 1) * -(-total_bytes // n_ranks) / time_s / 1e9"),
    *(change("other units", "1e9", unit) for unit in ("1.0", "1e3", "1e6", "1e12")),
    change("factor on both", "total_bytes / time_s", "total_bytes * (n_ranks - 1) / n_ranks / time_s"),
    change("factor on both", f"return algorithm_GBps, {_BUS}", f"return {_BUS}, {_BUS}"),
    change("seconds a byte", "total_bytes / time_s / 1e9", "1e9 * time_s / total_bytes"),
    change("n over n−1", _BUS, "algorithm_GBps * phases * n_ranks / (n_ranks - 1)"),
    change("bytes of all ranks", _BUS, "algorithm_GBps * phases * (n_ranks - 1)"),
    change("both ways counted", _BUS, f"2 * {_BUS}"),
    change("a caller's shard", "return algorithm_GBps",
           'return algorithm_GBps / (n_ranks if op == "reduce_scatter" else 1)'),
)
