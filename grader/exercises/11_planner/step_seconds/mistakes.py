"""Wrong times of a step."""

from grader.exercises.references import change

LINK = '"inside" if reach <= machine["devices_per_node"] else "between"'
SENDING = 'messages[axis] * link["alpha_s"] + traffic[axis] / link["bytes_per_s"]'
EXPOSED = 'max(0.0, sending - hidden[axis] * seconds["compute"])'
PASSES = 'seconds["compute"] + seconds["tp"] + seconds["pp"]'
BUBBLES = '(p - 1) / (layout["chunks"] * layout["n_micro"])'

CHANGES = (
    change("compute not divided", "flops / (dp * t * p)", "flops"),
    change("compute not divided", "flops / (dp * t * p)", "flops / dp"),
    change("always between nodes", LINK, '"between"'),
    change("always between nodes", LINK, '"inside" if reach < machine["devices_per_node"] else "between"'),
    change("always between nodes", LINK, '"between" if machine["devices_per_node"] % reach else "inside"'),
    change("always inside nodes", LINK, '"inside"'),
    change("tensor inside, others between", LINK, '"inside" if axis == "tp" else "between"'),
    change("group size for its reach", '(("tp", t), ("pp", t * p), ("dp", t * p * dp))',
           '(("tp", t), ("pp", p), ("dp", dp))'),
    change("group size for its reach", '("pp", t * p)', '("pp", p)'),
    change("group size for its reach", '("dp", t * p * dp)', '("dp", dp)'),
    change("latency forgotten", 'messages[axis] * link["alpha_s"] + ', ""),
    change("latency forgotten", 'messages[axis] * link["alpha_s"]', '(messages[axis] > 0) * link["alpha_s"]'),
    change("times bandwidth", '/ link["bytes_per_s"]', '* link["bytes_per_s"]'),
    change("hidden ignored", EXPOSED, "sending"),
    change("share of the sending hidden", EXPOSED, "sending * (1 - hidden[axis])"),
    change("less than nothing", EXPOSED, 'sending - hidden[axis] * seconds["compute"]'),
    change("the longer of the two", EXPOSED, 'sending if sending > hidden[axis] * seconds["compute"] else 0.0'),
    change("bubble without messages", f"passes = {PASSES}", 'passes = seconds["compute"]'),
    change("bubble without messages", f"passes = {PASSES}", 'passes = seconds["compute"] + seconds["pp"]'),
    change("bubble without messages", f"passes = {PASSES}", 'passes = seconds["compute"] + seconds["tp"]'),
    change("bubble of all", f"passes = {PASSES}", "passes = sum(seconds.values())"),
    change("bubble of what is hidden", 'seconds = {"compute"', 'sent, seconds = {}, {"compute"', "seconds[axis] = max",
           "sent[axis] = sending\n        seconds[axis] = max", PASSES, 'seconds["compute"] + sent["tp"] + sent["pp"]'),
    change("share of the total", BUBBLES, '(p - 1) / (layout["chunks"] * layout["n_micro"] + p - 1)'),
    change("bubble of p", "(p - 1) /", "p /"),
    change("chunks forgotten", '(layout["chunks"] * layout["n_micro"])', 'layout["n_micro"]'),
    change("chunks forgotten", BUBBLES, '(p - 1) * layout["chunks"] / layout["n_micro"]'),
    change("bubble for one micro-batch", '(layout["chunks"] * layout["n_micro"])', 'layout["chunks"]'),
    change("no bubble", f"passes * {BUBBLES}", "0.0"),
    change("other names", "return seconds", "return sum(seconds.values())"),
    change("compute wrong", 'machine["flops_per_s"]', 'machine["flops_per_s"] / 3'),
    change("messages wrong", SENDING, f"2 * ({SENDING})"),
    change("bubble wrong", "(p - 1) /", "(p - 1) / 2 /"),
)
