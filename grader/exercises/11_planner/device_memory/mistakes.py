"""Wrong counts of what the fullest device holds."""

from grader.exercises.references import change

EMBEDDING = 'embedding = shape["vocabulary"] * h if stage in (0, p - 1) else 0'
NUMBERS = "numbers = (12 * layers * h * h + embedding) / t"
DIVIDED = '/ (layout["dp"] if layout["zero"] >= first else 1)'
FIRST = '(("parameters", 3), ("gradients", 2), ("optimizer state", 1))'
MIXED_UP = ((3, 1, 1), (2, 2, 1), (2, 1, 1), (3, 3, 1))  # from which stage on each is divided
IN_FLIGHT = 'min(p - stage, layout["n_micro"])'
LOGITS = '4 * positions * shape["vocabulary"] / t if stage == p - 1 else 0'
CORE = 'if layout["recompute"] == "none" else 0'
FULLEST = "return max(map(held, range(p)), key=lambda parts: sum(parts.values()))"

CHANGES = (
    change("embedding by stage", EMBEDDING, 'embedding = shape["vocabulary"] * h if stage == 0 else 0'),
    change("embedding by stage", EMBEDDING, 'embedding = shape["vocabulary"] * h * ((stage == 0) + (stage == p - 1))'),
    change("embedding by stage", EMBEDDING, "embedding = 0"),
    change("embedding by stage", EMBEDDING, 'embedding = shape["vocabulary"] * h / p'),
    change("embedding not cut", NUMBERS, "numbers = 12 * layers * h * h / t + embedding"),
    change("all layers on every stage", 'shape["layers"] / p', 'shape["layers"]'),
    change("all layers on every stage", "* layers * kept", "* layers * p * kept"),
    change("divided by all devices", DIVIDED, '/ (layout["dp"] * t * p if layout["zero"] >= first else 1)'),
    change("stages mixed up", DIVIDED, ""),
    change("stages mixed up", DIVIDED, '/ layout["dp"]'),
    change("stages mixed up", ">= first", "== first"),
    *(change("stages mixed up", FIRST, f'zip(("parameters", "gradients", "optimizer state"), {stages})')
      for stages in MIXED_UP),
    change("16 bytes always", "bytes_of[part]", "(12 if first == 1 else 2)"),
    change("all micro-batches in flight", IN_FLIGHT, 'layout["n_micro"]'),
    change("more in flight than there are", IN_FLIGHT, "(p - stage)"),
    change("stages alike", IN_FLIGHT, 'min(p, layout["n_micro"])'),
    change("stages alike", FULLEST, "return {part: max(held(stage)[part] for stage in range(p)) for part in held(0)}"),
    change("one in flight", IN_FLIGHT, "1"),
    change("all activations cut", "whole, core = 0 if pieces else 10, ", "whole, core = 0, ", "(t if pieces else 1)", "t"),
    change("nothing cut along the sequence", "whole, core = 0 if pieces else 10, ", "whole, core = 10, ",
           " / (t if pieces else 1)", ""),
    change("recompute ignored", CORE, "", 'if layout["recompute"] == "full"', "if False"),
    change("a batch of one", 's * layout["micro_batch"]', "s"),
    change("always the first stage", "range(p)", "[0]"),
    change("logits of the last stage", LOGITS, "0"),
    change("a batch of one", LOGITS, LOGITS.replace("positions", 's')),
    change("logits of the last stage", LOGITS, LOGITS.replace("4 *", "2 *")),
    change("logits of the last stage", LOGITS, LOGITS.replace(" / t", "")),
    change("other names", "return max(", "return sum(max(", "sum(parts.values()))", "sum(parts.values())).values())"),
    change("activations wrong", "34 - whole", "32 - whole"),
    change("logits wrong", LOGITS, LOGITS.replace("4 *", "3 *")),
    change("weights wrong", "12 * layers * h * h", "8 * layers * h * h"),
    change("several wrong", "12 * layers * h * h", "8 * layers * h * h", "34 - whole", "32 - whole"),
)

EMBEDDING = 'embedding = shape["vocabulary"] * h if stage in (0, p - 1) else 0 | '
NEVER_FULLEST = "A stage in the middle is never the fullest: the first one keeps more, and has an embedding."
EQUIVALENT = {EMBEDDING + "0 → (-1), again": NEVER_FULLEST, EMBEDDING + "0 → 1, again": NEVER_FULLEST}
