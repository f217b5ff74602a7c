"""Wrong ways to cut layers into stages."""

from tests.mutants import change

MORE = "min(stage, more)"

CHANGES = (
    change("no error", "if n_stages > n_layers:", "if False:"),
    change("sizes not named", "{n_layers} layers cannot be cut into {n_stages} stages", "too many stages"),
    change("tail lost", MORE, "0"),
    change("dealt like cards", "range(start, stop) for start, stop in itertools.pairwise(starts)",
           "range(stage, n_layers, n_stages) for stage in range(n_stages)"),
    change("later stages larger", MORE, "max(0, stage - (n_stages - more))"),
    change("rest on the last stage", MORE, "(more if stage == n_stages else 0)"),
    change("rounded up", f"stage * each + {MORE}", "min(stage * -(-n_layers // n_stages), n_layers)"),
    change("refused", "if n_stages > n_layers:", "if n_stages >= n_layers:"),
    change("another error", "raise ValueError(f", "raise IndexError(f"),
    change("larger ones spread", f"stage * each + {MORE}", "round(stage * n_layers / n_stages)"),
    change("layers lost", "range(start, stop)", "range(start, stop - 1)"),
    change("sizes differ", MORE, "(more if stage else 0)"),
)
