"""Wrong searches for the largest group."""

from grader.exercises.references import change

_MESSAGE, _ENOUGH = "(alpha_s + array_bytes / n * beta_s_per_byte)", "send_s <= share * compute_s"
_DIVIDES = "n_heads % n == 0 and "
_FITS = f"if {_DIVIDES}{_ENOUGH}:"

CHANGES = (
    # what errs in few cases comes first: of two that explain as many, the first one speaks
    change("must stay below", _ENOUGH, "send_s < share * compute_s"),
    change("stopped at a gap", "best = n\n", "best = n\n        else:\n            break\n"),
    change("alpha forgotten", _MESSAGE, "(array_bytes / n * beta_s_per_byte)"),
    change("alpha once", f"4 * 2 * (n - 1) * {_MESSAGE}",
           "4 * (alpha_s + 2 * (n - 1) / n * array_bytes * beta_s_per_byte)"),
    change("share of both", _ENOUGH, "send_s <= share * (send_s + compute_s)"),
    change("scores forgotten", " + 12 * batch * length**2 * dim", ""),
    change("half is sent", "4 * 2 *", "2 * 2 *"),
    change("one all-reduce", "4 * 2 *", "2 *"),
    change("four bytes", "2 * batch * length * dim", "4 * batch * length * dim"),
    change("whole array in a message", "array_bytes / n", "array_bytes"),
    change("computing not divided", "flops / n /", "flops /"),
    change("computing not divided", "flops / n /", "(72 * batch * length * dim**2 / n + 12 * batch * length**2 * dim) /"),
    change("heads cut", _DIVIDES, ""),
    change("heads cut", _DIVIDES, "", "n_heads + 1", "4096"),
    change("powers of two", _DIVIDES, f"{_DIVIDES}n & (n - 1) == 0 and "),
    change("fewer than the heads", "n_heads + 1", "n_heads"),
    change("one too far", _FITS, "if n_heads % n == 0:",
           "best = n", "best = n\n            if send_s > share * compute_s:\n                break"),
    change("turned round", _ENOUGH, "send_s >= share * compute_s"),
    change("turned round", _ENOUGH, "compute_s <= share * send_s"),
    change("share ignored", _ENOUGH, "send_s <= compute_s"),
)

EQUIVALENT = {
    "for n in range(2, n_heads + 1): | 2 → 1": "One rank sends nothing, so 1 qualifies, and best is 1 already.",
    "for n in range(2, n_heads + 1): | 1 → 2": "n_heads + 1 does not divide n_heads.",
}
