"""Wrong counts of what a layer sends."""

from tests.mutants import change

_FOUR, _SHARE = "return 4 * all_reduce_bytes", "2 * (n_ranks - 1) / n_ranks * array_bytes"

CHANGES = (
    change("half", _FOUR, "return 2 * all_reduce_bytes"),
    change("quarter", _FOUR, "return all_reduce_bytes"),
    change("twice", _FOUR, "return 8 * all_reduce_bytes"),
    change("wide numbers sent", _FOUR, "return (2 + 2 * 4) * all_reduce_bytes"),
    change("own share sent", _SHARE, "2.0 * array_bytes"),
    change("array once", _SHARE, "1.0 * array_bytes"),
    change("array divided", _FOUR, "return 4 * all_reduce_bytes / n_ranks"),
    change("not divided by n", _SHARE, "2 * (n_ranks - 1) * array_bytes"),
    change("wrong count", _FOUR, "return 6 * all_reduce_bytes"),
    change("rounded", _FOUR, "return 4 * all_reduce_bytes // 1"),
    change("weights sent", "length * dim", "length * dim * dim"),
)
