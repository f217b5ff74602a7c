"""Wrong answers to how many tokens hide a gather."""

from grader.exercises.references import change

SHARE = "(n_ranks - 1) / n_ranks * element_bytes"
CHANGES = (
    *(change("one too few", "math.ceil", other) for other in ("math.floor", "round")),
    change("not rounded", "math.ceil", "float"),
    change("all of it sent", SHARE, "element_bytes"),
    change("all ranks' bytes", SHARE, "(n_ranks - 1) * element_bytes"),
    change("all ranks' bytes", "math.ceil", "n_ranks * math.ceil"),
    *(change("elements for bytes", "* element_bytes", other) for other in ("", "* 2", "* 8 * element_bytes")),
    change("one FLOP", "/ 2)", ")"),
    *(change("backward too", "/ 2)", f"/ {flops})") for flops in (4, 6)),
    change("at least one", "math.ceil", "1 + int"),
    change("upside down", "return math.ceil(", "return n_ranks > 1 and math.ceil(1 / "),
    change("bandwidth for beta", "flops_per_s * beta_s_per_byte", "flops_per_s / beta_s_per_byte"),
)
