"""Wrong fits of α and β."""

import torch

from grader.exercises.references import change, mistake

_RESULT = "intercept / steps, slope * n_ranks / steps"

CHANGES = (
    change("alpha and beta swapped", _RESULT, "slope * n_ranks / steps, intercept / steps"),
    change("slope and intercept swapped", "slope, intercept", "intercept, slope"),
    change("line not turned into steps", _RESULT, "intercept, slope"),
    change("through the origin", "(sizes_bytes, times_s)", "(sizes_bytes, times_s, proportional=True)"),
    change("n steps", "n_ranks - 1", "n_ranks"),
    change("one phase", "2 * (n_ranks", "(n_ranks"),
    change("bytes of a step", "slope * n_ranks", "slope"),
    change("slope for beta", "slope * n_ranks / steps", "slope"),
    change("one time a size", "(sizes_bytes, times_s)",
           "(list(time_of := dict(zip(sizes_bytes, times_s))), list(time_of.values()))"),
    *(change("one time a size", "(sizes_bytes, times_s)",
             f"(sizes := [*dict.fromkeys(sizes_bytes)], [{chosen}(t for s, t in zip(sizes_bytes, times_s) if s == size)"
             " for size in sizes])") for chosen in ("min", "max", "statistics.fmean")),
    change("two points only", "(sizes_bytes, times_s)",
           "([sizes_bytes[0], sizes_bytes[-1]], [times_s[0], times_s[-1]])"),
    change("multiplied", _RESULT, "intercept * steps, slope * steps / n_ranks"),
    change("n on the wrong side", "slope * n_ranks", "slope / n_ranks"),
    change("n twice", "slope * n_ranks", "slope * n_ranks**2"),
    change("bandwidth", "slope * n_ranks / steps", "steps / n_ranks / slope"),
    change("negative alpha hidden", "intercept / steps,", "abs(intercept) / steps,"),
    change("negative alpha hidden", "intercept / steps,", "max(intercept, 0.0) / steps,"),
    change("smallest time", "intercept / steps,", "min(times_s) / steps,"),
    change("axes swapped", "(sizes_bytes, times_s)", "(times_s, sizes_bytes)"),
    change("another fit", "(sizes_bytes, times_s)", "(sizes_bytes[:-1], times_s[:-1])"),
)


@mistake("single precision")
def fits_in_float32(sizes_bytes, times_s, n_ranks):
    columns = torch.tensor([[1.0, size] for size in sizes_bytes])
    intercept, slope = torch.linalg.lstsq(columns, torch.tensor(times_s).unsqueeze(1)).solution.squeeze(1).tolist()
    return intercept / (2 * (n_ranks - 1)), slope * n_ranks / (2 * (n_ranks - 1))
