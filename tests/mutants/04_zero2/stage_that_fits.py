"""Wrong choices of a stage."""

from tests.mutants import change

LOOP = "for stage, held in enumerate(a_parameter):"

CHANGES = (
    change("None for 0", "return stage", "return stage or None"),
    change("stage 2 asked first", LOOP, "if (2 + 14 / n_ranks) * n_parameters + activation_bytes + buffer_bytes > "
           "budget_bytes:\n        return None\n    " + LOOP),
    change("activations forgotten", " + activation_bytes", ""),
    change("buffers forgotten", " + (buffer_bytes if stage == 2 else 0)", ""),
    change("buffers everywhere", "(buffer_bytes if stage == 2 else 0)", "buffer_bytes"),
    change("highest stage", LOOP, "for stage, held in reversed(list(enumerate(a_parameter))):"),
    change("always stage 2", LOOP, "for stage, held in [(2, a_parameter[2])]:"),
    change("must stay below", "<= budget_bytes", "< budget_bytes"),
    change("nearly fits", "<= budget_bytes", "<= budget_bytes * (1 + 1e-9)"),
    change("rounded down", "held * n_parameters", "int(held * n_parameters)"),
    change("3 for None", "return None", "return 3"),
    change("parameters divided", "(16, 4 + 12 / n_ranks, 2 + 14 / n_ranks)", "(14, 2 + 12 / n_ranks, 14 / n_ranks)"),
    change("state of 8 bytes", "(16, 4 + 12 / n_ranks, 2 + 14 / n_ranks)", "(12, 4 + 8 / n_ranks, 2 + 10 / n_ranks)"),
    change("buffers from stage 1 on", "if stage == 2 else", "if stage > 0 else"),
)
