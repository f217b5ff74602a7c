"""Wrong searches for the largest group."""

from tests.mutants import change

_MESSAGE, _ENOUGH = "(alpha_s + array_bytes / n * beta_s_per_byte)", "send_s <= share * compute_s"
_FITS = f"if n_heads % n == 0 and {_ENOUGH}:"

CHANGES = (
    change("alpha forgotten", _MESSAGE, "(array_bytes / n * beta_s_per_byte)"),
    change("alpha once", f"4 * 2 * (n - 1) * {_MESSAGE}",
           "4 * (alpha_s + 2 * (n - 1) / n * array_bytes * beta_s_per_byte)"),
    change("half is sent", "4 * 2 *", "2 * 2 *"),
    change("whole array in a message", "array_bytes / n", "array_bytes"),
    change("computing not divided", "flops / n /", "flops /"),
    change("heads cut", "n_heads % n == 0 and ", ""),
    change("fewer than the heads", "n_heads + 1", "n_heads"),
    change("one too far", _FITS, "if n_heads % n == 0:",
           "best = n", "best = n\n            if send_s > share * compute_s:\n                break"),
    change("must stay below", _ENOUGH, "send_s < share * compute_s"),
    change("share of both", _ENOUGH, "send_s <= share * (send_s + compute_s)"),
    change("stopped at a gap", "best = n\n", "best = n\n        else:\n            break\n"),
)

EQUIVALENT = {
    "for n in range(2, n_heads + 1): | 2 → 1": "One rank sends nothing, so 1 qualifies, and best is 1 already.",
    "for n in range(2, n_heads + 1): | 1 → 2": "n_heads + 1 does not divide n_heads.",
}
