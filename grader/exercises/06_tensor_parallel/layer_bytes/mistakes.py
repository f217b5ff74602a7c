"""Wrong counts of what a layer sends."""

from grader.exercises.references import change

_FOUR, _SHARE = "return 4 * all_reduce_bytes", "2 * (n_ranks - 1) / n_ranks * array_bytes"

CHANGES = (
    # before what gives the same for more than one rank
    change("rounded", _FOUR, "return 4 * all_reduce_bytes // 1"),
    change("rounded", _FOUR, "return round(8 * (n_ranks - 1) / n_ranks, 3) * array_bytes"),
    *(change("rounded", _SHARE, share) for share in (
        "2 * (n_ranks - 1) * array_bytes // n_ranks", "2 * (n_ranks - 1) * (array_bytes // n_ranks)",
        "2 * (n_ranks - 1) // n_ranks * array_bytes", "-2 * (n_ranks - 1) * 2 * (batch * length * dim // -n_ranks)")),
    change("half", _FOUR, "return 2 * all_reduce_bytes"),
    change("quarter", _FOUR, "return all_reduce_bytes"),
    change("twice", _FOUR, "return 8 * all_reduce_bytes"),
    change("wide numbers sent", _FOUR, "return (2 + 2 * 4) * all_reduce_bytes"),
    change("own share sent", _SHARE, "2.0 * array_bytes"),
    change("array once", _SHARE, "1.0 * array_bytes"),
    change("array divided", _FOUR, "return 4 * all_reduce_bytes / n_ranks"),
    change("not divided by n", _SHARE, "2 * (n_ranks - 1) * array_bytes"),
    *(change("wrong count", _FOUR, f"return {count} * all_reduce_bytes") for count in (3, 6)),
    *(change("weights sent", "batch * length * dim", size) for size in ("batch * length * dim * dim", "dim * dim")),
)
