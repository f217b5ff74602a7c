"""Wrong answers to the question which sequence fits."""

from tests.mutants import change

STANDING = "(layers - 1) * kept + running"

CHANGES = (
    change("running layer forgotten", STANDING, "layers * kept"),
    change("all layers run at once", STANDING, "layers * running"),
    change("running layer counted twice", STANDING, "layers * kept + running"),
    change("one layer", STANDING, "kept"),
    change("one step too long", "return s", "return s + step"),
    change("budget not filled", "<= budget", "< budget"),
    change("no multiple of t", "t if sequence_parallel else 1", "1"),
    change("always a multiple of t", "t if sequence_parallel else 1", "t"),
    change("sequence not cut", "sequence_parallel, way)", "False, way)"),
    change("in proportion", "    while standing(s + step) <= budget:\n        s += step\n",
           "    s = int(budget // (standing(step) / step)) // step * step\n"),
    change("none fits", "    return s\n", "    return max(s, step)\n"),
    change("does not fit", STANDING, STANDING + " / 2"),
    change("room left", STANDING, "2 * layers * running"),
)
