"""Wrong times of a step."""

from tests.mutants import change

LINK = '"inside" if reach <= machine["devices_per_node"] else "between"'
SENDING = 'messages[axis] * link["alpha_s"] + traffic[axis] / link["bytes_per_s"]'
EXPOSED = 'max(0.0, sending - hidden[axis] * seconds["compute"])'
PASSES = 'seconds["compute"] + seconds["tp"] + seconds["pp"]'
BUBBLES = '(p - 1) / (layout["chunks"] * layout["n_micro"])'

CHANGES = (
    change("compute not divided", "flops / (dp * t * p)", "flops"),
    change("compute divided by dp only", "flops / (dp * t * p)", "flops / dp"),
    change("always between nodes", LINK, '"between"'),
    change("always inside nodes", LINK, '"inside"'),
    change("tensor inside, others between", LINK, '"inside" if axis == "tp" else "between"'),
    change("group size for its reach", '(("tp", t), ("pp", t * p), ("dp", t * p * dp))',
           '(("tp", t), ("pp", p), ("dp", dp))'),
    change("latency forgotten", 'messages[axis] * link["alpha_s"] + ', ""),
    change("latency once", 'messages[axis] * link["alpha_s"]', '(messages[axis] > 0) * link["alpha_s"]'),
    change("times bandwidth", '/ link["bytes_per_s"]', '* link["bytes_per_s"]'),
    change("hidden ignored", EXPOSED, "sending"),
    change("share of the sending hidden", EXPOSED, "sending * (1 - hidden[axis])"),
    change("less than nothing", EXPOSED, 'sending - hidden[axis] * seconds["compute"]'),
    change("the longer of the two", EXPOSED, 'sending if sending > hidden[axis] * seconds["compute"] else 0.0'),
    change("bubble of computing alone", f"passes = {PASSES}", 'passes = seconds["compute"]'),
    change("bubble without tp", f"passes = {PASSES}", 'passes = seconds["compute"] + seconds["pp"]'),
    change("bubble without pp", f"passes = {PASSES}", 'passes = seconds["compute"] + seconds["tp"]'),
    change("bubble of all", f"passes = {PASSES}", "passes = sum(seconds.values())"),
    change("share of the total", BUBBLES, '(p - 1) / (layout["chunks"] * layout["n_micro"] + p - 1)'),
    change("bubble of p", "(p - 1) /", "p /"),
    change("chunks forgotten", '(layout["chunks"] * layout["n_micro"])', 'layout["n_micro"]'),
    change("chunks prolong", BUBBLES, '(p - 1) * layout["chunks"] / layout["n_micro"]'),
    change("bubble for one micro-batch", '(layout["chunks"] * layout["n_micro"])', 'layout["chunks"]'),
    change("no bubble", f"passes * {BUBBLES}", "0.0"),
    change("other parts", "return seconds", "return sum(seconds.values())"),
    change("compute wrong", 'machine["flops_per_s"]', 'machine["flops_per_s"] / 3'),
    change("messages wrong", SENDING, f"2 * ({SENDING})"),
    change("bubble wrong", "(p - 1) /", "(p - 1) / 2 /"),
)
