"""Wrong bandwidths."""

from tests.mutants import change

_BUS = "algorithm_GBps * phases * (n_ranks - 1) / n_ranks"

CHANGES = (
    change("bits for bytes", "/ 1e9", "/ 1e9 * 8"),
    change("GiB for GB", "1e9", "2**30"),
    change("bus factor forgotten", _BUS, "algorithm_GBps"),
    change("factor of another collective", ' if op == "all_reduce" else 1', ""),
    change("upside down", _BUS, "algorithm_GBps / phases / (n_ranks - 1) * n_ranks"),
    change("swapped", f"algorithm_GBps, {_BUS}", f"{_BUS}, algorithm_GBps"),
    change("n for n−1", _BUS, "algorithm_GBps * phases"),
    change("bytes of one rank", "total_bytes / time_s", "total_bytes / n_ranks / time_s"),
)
