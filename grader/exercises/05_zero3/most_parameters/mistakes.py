"""Wrong answers to how large a model may be."""

from grader.exercises.references import change

WHOLE = "(16, 4, 2, 0)[stage]"
ROOM = "(device_bytes - other_bytes)"
RESULT = f"n_ranks * {ROOM} // (n_ranks * whole + 16 - whole)"
CHANGES = (
    change("parameters divided at 2", WHOLE, "(16, 4, 0, 0)[stage]"),
    change("memory pooled", WHOLE, "0"),
    *(change("stages shifted", WHOLE, f"{whole}[stage]") for whole in ((4, 2, 0, 0), (16, 16, 4, 2))),
    change("gradients first", WHOLE, "(16, 14, 2, 0)[stage]"),
    change("one thing a stage", WHOLE, "(16, 4, 14, 14)[stage]"),
    change("state of 8 bytes", WHOLE, "(12, 4, 2, 0)[stage]", "16 - whole", "12 - whole"),
    change("others forgotten", ROOM, "device_bytes"),
    change("others divided", ROOM, "(device_bytes - other_bytes / n_ranks)"),
    change("others divided", RESULT, f"{RESULT.replace(ROOM, 'device_bytes')} - other_bytes"),
    change("not rounded", "//", "/"),
    change("rounded on the way", RESULT, f"{ROOM} // (whole + (16 - whole) / n_ranks)"),
    change("rounded on the way", RESULT, f"int({ROOM} * (1 / (whole + (16 - whole) / n_ranks)))"),
    change("full device refused", RESULT, "(n_ranks * (device_bytes - other_bytes) - 1) // (n_ranks * whole + 16 - whole)"),
    change("one too many", RESULT, f"{RESULT} + 1"),
    change("one too many", RESULT, f"round({RESULT.replace('//', '/')})"),
)
