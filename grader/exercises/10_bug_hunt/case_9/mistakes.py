"""Half repairs of case_9."""

from grader.exercises.references import change, half_repaired

LAST = "        optimizer.step()\n        notes"
FETCH = "        first = hunted.Gather(model.up, group)\n"
SECOND = "        second = hunted.Gather(model.down, group)  # travels while the first layer works\n"
BOTH = "second = hunted.Gather(model.down, group)"

CHANGES = (
    half_repaired("untouched"),
    half_repaired("never gathered again", f"{FETCH}{LAST}", LAST),
    half_repaired("too many bytes", LAST, "        first.wait(hunted.IN, hunted.HIDDEN)\n        optimizer.step()\n"
                                          f"{FETCH}        notes"),
    half_repaired("second weight old", "    for x_BI", f"    {BOTH}\n    for x_BI", SECOND, "",
                  LAST, f"        {BOTH}\n{LAST}",
                  "    return notes", "    second.wait(hunted.HIDDEN, hunted.OUT)\n    return notes"),
    change("second weight old", "    for x_BI", f"    {BOTH}\n    for x_BI", SECOND, "",
           "        optimizer.step()", f"        {BOTH}\n        optimizer.step()",
           "    return notes", "    second.wait(hunted.HIDDEN, hunted.OUT)\n    return notes"),
    change("mixed up", "        first = hunted.Gather(model.up", "        first = hunted.Gather(model.down"),
    change("missing wait", "    first.wait(hunted.IN, hunted.HIDDEN)  #", "    #"),
)

EQUIVALENT = {
    "first.wait(hunted.IN, hunted.HIDDEN) | first.wait(hunted.IN, hunted.HIDDEN) → first.wait(hunted.HIDDEN, hunted.IN)":
        "Nobody uses what comes last: it is only waited for.",
}
