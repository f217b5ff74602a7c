"""Wrong counts of what a device sends."""

from tests.mutants import change

PASSED = "return times * (n - 1) / n * size"
OF_LAYER = '(10 if pieces else 8) + (4 if layout["recompute"] == "full" else 0)'
OF_WEIGHTS = "(2, 2, m + 1, 3 * m)"
NEIGHBOURS = "neighbours = (stage > 0) + (stage < p - 1)"
PIECE = "/ (t if pieces else 1)"

CHANGES = (
    change("whole array to each", PASSED, "return times * (n - 1) * size"),
    change("own share sent", PASSED, "return times * (n > 1) * size"),
    change("numbers for bytes", '2 * shape["sequence"]', 'shape["sequence"]', "2 * 12", "12"),
    change("4 bytes a number", '2 * shape["sequence"]', '4 * shape["sequence"]', "2 * 12", "4 * 12"),
    change("forward only", "(10 if pieces else 8)", "4"),
    change("one pass for an all-reduce", OF_LAYER, '(6 if pieces else 4) + (2 if layout["recompute"] == "full" else 0)'),
    change("half of a layer", OF_LAYER, f"({OF_LAYER}) / 2"),
    change("second gather forgotten", "(10 if pieces else 8)", "8"),
    change("recomputation is free", ' + (4 if layout["recompute"] == "full" else 0)', ""),
    change("recomputation sends all again", "(4 if", "(8 if"),
    change("selective sends again", 'layout["recompute"] == "full"', 'layout["recompute"] != "none"'),
    change("all layers", "m * layers * passed", "m * layers * p * passed"),
    change("one micro-batch", "m * layers * passed", "layers * passed", "m * neighbours", "neighbours"),
    change("tensor parallel once a step", "m * layers * passed", "layers * passed"),
    change("ends like the middle", NEIGHBOURS, "neighbours = 2"),
    change("one way only", NEIGHBOURS, "neighbours = int(p > 1)"),
    change("both ways on each border", NEIGHBOURS, "neighbours = 2 * ((stage > 0) + (stage < p - 1))"),
    change("piece not sent", PIECE, ""),
    change("always pieces", PIECE, "/ t"),
    change("pipeline as a ring", "m * neighbours", "m * neighbours * (p - 1) / p"),
    change("data parallel for all weights", "2 * 12 * layers * h * h / t", '2 * 12 * shape["layers"] * h * h'),
    change("weights cut by tp only", "2 * 12 * layers", '2 * 12 * shape["layers"]'),
    change("two passes at every stage", OF_WEIGHTS, "(2, 2, 2, 2)"),
    change("ZeRO-3 for one micro-batch", OF_WEIGHTS, "(2, 2, m + 1, 3)"),
    change("ZeRO-2 once a step", OF_WEIGHTS, "(2, 2, 2, 3 * m)"),
    change("once a step", OF_WEIGHTS, "(2, 2, 2, 3)"),
    change("ZeRO-3 gathers once", OF_WEIGHTS, "(2, 2, m + 1, 2 * m)"),
    change("accumulation sends", OF_WEIGHTS, "(2 * m, 2 * m, m + 1, 3 * m)"),
    change("ZeRO-1 costs more", OF_WEIGHTS, "(2, 3, m + 1, 3 * m)"),
    change("other axes", '"dp": passed', '"data": passed'),
    change("tp wrong", "(10 if pieces else 8)", "(11 if pieces else 9)"),
    change("pp wrong", "m * neighbours", "3 * m * neighbours"),
    change("dp wrong", OF_WEIGHTS, "(2, 2, 2 * m, 4 * m)"),
)
