"""Wrong curves of the memory that a step takes."""

from grader.exercises.references import change

BEGINS, OVER = "moments.append(held + whole - kept)", "held -= kept"
BACKWARD = "for kept, whole in reversed(segments):"

CHANGES = (
    change("whole miscounted", BEGINS, "moments.append(held)"),
    change("whole miscounted", BEGINS, "moments.append(held + whole)"),
    change("forward order", BACKWARD, "for kept, whole in segments:"),
    change("all kept", "for kept, _ in segments:", "segments = [(whole, whole) for _, whole in segments]\n"
                                                   "    for kept, _ in segments:"),
    change("all kept", BACKWARD, "held = sum(whole for _, whole in segments)\n    for kept, whole in reversed(segments):",
           BEGINS, "moments.append(held)", OVER, "held -= whole"),
    change("never freed", OVER, "pass"),
    change("never freed", OVER, "held += whole - 2 * kept"),
    change("one by one", "held += kept", "held = kept", BEGINS, "moments.append(whole)", OVER, "held = 0"),
    change("before each segment", "held += kept\n        moments.append(held)",
           "moments.append(held)\n        held += kept"),
    change("moments exchanged", f"{BEGINS}\n        {OVER}\n        moments.append(held)",
           "moments += held - kept, held + whole - kept\n        held -= kept"),
    change("other length", BEGINS, "pass"),
    change("other length", "return moments", "return max(moments, default=0)"),
    change("forward wrong", "held += kept", "held += 2 * kept", OVER, "held -= 2 * kept"),
    change("backward wrong", BEGINS, "moments.append(held + whole / 2)"),
)
