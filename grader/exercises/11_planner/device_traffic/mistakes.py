"""Wrong counts of what a device sends."""

from grader.exercises.references import change

PASSED = "return times * (n - 1) / n * size"
OF_LAYER = '(10 if pieces else 8) + (4 if layout["recompute"] == "full" else 0)'
OF_WEIGHTS = "(2, 2, m + 1, 3 * m)"
NEIGHBOURS = "neighbours = (stage > 0) + (stage < p - 1)"
PIECE = "/ (t if pieces else 1)"

WRONG_OF_WEIGHTS = ("(2, 2, 2, 2)", "(2, 2, 2, 3)", "(2, 2, 2, 3 * m)", "(2, 2, m + 1, 3)", "(2, 2, m + 1, 2 * m)",
                    "(2, 2, m + 1, m + 2)", "(2, 2, 2 * m, 3 * m)")

CHANGES = (
    change("whole array to each", PASSED, "return times * (n - 1) * size"),
    change("whole array to each", PASSED, "return times * (n > 1) * size"),
    change("bytes of a number", '2 * shape["sequence"]', 'shape["sequence"]', "2 * 12", "12"),
    change("bytes of a number", '2 * shape["sequence"]', '4 * shape["sequence"]', "2 * 12", "4 * 12"),
    change("forward only", "(10 if pieces else 8)", "4"),
    change("one pass for an all-reduce", OF_LAYER, '(6 if pieces else 4) + (2 if layout["recompute"] == "full" else 0)'),
    change("half of a layer", OF_LAYER, f"({OF_LAYER}) / 2"),
    change("second gather forgotten", "(10 if pieces else 8)", "8"),
    change("second gather forgotten", OF_LAYER, '12 if layout["recompute"] == "full" else 10 if pieces else 8'),
    change("recomputation", ' + (4 if layout["recompute"] == "full" else 0)', ""),
    change("recomputation", "(4 if", "(8 if"),
    change("recomputation", OF_LAYER, '(10 if pieces else 8) * (1.5 if layout["recompute"] == "full" else 1)'),
    change("recomputation", 'layout["recompute"] == "full"', 'layout["recompute"] != "none"'),
    change("all layers", "m * layers * passed", "m * layers * p * passed"),
    change("one micro-batch", "m * layers * passed", "layers * passed", "m * neighbours", "neighbours"),
    change("one micro-batch", "m * layers * passed", "layers * passed"),
    change("neighbours", NEIGHBOURS, "neighbours = 2"),
    change("neighbours", NEIGHBOURS, "neighbours = int(p > 1)"),
    change("neighbours", NEIGHBOURS, "neighbours = 2 * ((stage > 0) + (stage < p - 1))"),
    change("pieces", PIECE, ""),
    change("pieces", PIECE, "/ t"),
    change("pipeline as a ring", "m * neighbours", "m * neighbours * (p - 1) / p"),
    change("weights of others", "2 * 12 * layers * h * h / t", '2 * 12 * shape["layers"] * h * h'),
    change("weights of others", "2 * 12 * layers", '2 * 12 * shape["layers"]'),
    *(change("ZeRO with micro-batches", OF_WEIGHTS, passes) for passes in WRONG_OF_WEIGHTS),
    change("accumulation sends", OF_WEIGHTS, "(2 * m, 2 * m, m + 1, 3 * m)"),
    change("ZeRO-1 costs more", OF_WEIGHTS, "(2, 3, m + 1, 3 * m)"),
    change("other names", '"dp": passed', '"data": passed'),
    change("tp wrong", "(10 if pieces else 8)", "(11 if pieces else 9)"),
    change("pp wrong", "m * neighbours", "3 * m * neighbours"),
    change("dp wrong", OF_WEIGHTS, "(2, 2, 2 * m, 4 * m)"),
)
