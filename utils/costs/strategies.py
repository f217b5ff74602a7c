"""The course's strategies in one table: what each divides, what a device then holds and sends, what it is good for.

Every formula is written once and both shown and evaluated. Letters: P parameters 12·L·h², n devices of the one group, m
micro-batches a step, s, b, h, L as in the papers, v chunks a device, E experts in place of each MLP, k of them a token.
All weights count 16 bytes a parameter; everything that is sent, 2 bytes a number. Scores are never kept: attention is fused.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

USUAL = {"v": 2, "E": 8, "k": 2}
WHOLE_ACTIVATIONS = "34*L*s*b*h"  # also of 1F1B's first stage: L/n layers, n micro-batches in flight
RING = "(n - 1)/n"


@dataclass(frozen=True)
class Strategy:
    """One way to divide a training step among n devices, alone.

    held: bytes of weights, gradients and optimizer state on a device; kept: of activations, for one micro-batch (of a
    pipeline, for those in flight on its first stage); sent: by a device in a step. Each is an expression over the letters.
    """

    name: str
    unit: str
    divides: str
    held: str
    kept: str
    sent: str
    price: str
    use: str


STRATEGIES = (
    Strategy("data parallel", "02", "the batch", "16*P", WHOLE_ACTIVATIONS, f"2*2*P*{RING}", "all weights on every device",
             "the model fits, and each device has tokens enough to hide the all-reduce"),
    Strategy("ZeRO-1", "03", "… and optimizer state", "4*P + 12*P/n", WHOLE_ACTIVATIONS, f"2*2*P*{RING}", "nothing more",
             "always, with data parallelism"),
    Strategy("ZeRO-2", "04", "… and gradients", "2*P + 14*P/n", WHOLE_ACTIVATIONS, f"(m + 1)*2*P*{RING}",
             "a reduce-scatter for every micro-batch", "few micro-batches a step"),
    Strategy("ZeRO-3", "05", "… and parameters", "16*P/n", WHOLE_ACTIVATIONS, f"3*m*2*P*{RING}",
             "two gathers and a reduce-scatter for every micro-batch",
             "large micro-batches and no pipeline"),
    Strategy("tensor parallel", "06", "every layer", "16*P/n", "L*s*b*h*(10 + 24/n)", f"8*m*L*2*s*b*h*{RING}",
             "four all-reduces a layer, for which all wait", "inside a node, up to its devices"),
    Strategy("… with sequence parallel", "08", "… and the other activations", "16*P/n", "34*L*s*b*h/n",
             f"10*m*L*2*s*b*h*{RING}", "two gathers more a layer", "always, with tensor parallelism"),
    Strategy("pipeline, 1F1B", "07", "the layers", "16*P/n", WHOLE_ACTIVATIONS, "2*m*2*s*b*h",
             "a bubble of (n − 1)/m of the ideal time",
             "across nodes, with many micro-batches"),
    Strategy("… interleaved", "07", "… in v chunks on each device", "16*P/n", f"{WHOLE_ACTIVATIONS}*(1 + (n - 1)/(n*v))",
             "2*v*m*2*s*b*h", "a bubble of (n − 1)/(v·m) of the ideal time",
             "where the bubble is large and the link is not slow"),
    Strategy("ring attention", "08", "the sequence", "16*P", "34*L*s*b*h/n", "2*m*L*2*s*b*h*(3*n - 2)/n",
             "every hop must hide behind the attention of a block", "sequences too long for one device"),
    Strategy("Ulysses", "08", "the sequence, then heads", "16*P", "34*L*s*b*h/n", "8*m*L*2*s*b*h*(n - 1)/n**2",
             "eight all-to-alls a layer", "long sequences, at least as many heads as devices"),
    Strategy("expert parallel", "09", "the experts", "16*(P/3 + 2*E*P/(3*n))", "L*s*b*h*(15 + 19*k)",
             f"4*k*m*L*2*s*b*h*{RING}", "four all-to-alls a layer; tokens are dropped, or devices wait",
             "many more parameters than FLOPs"),
    Strategy("recompute all", "08", "nothing", "16*P", "2*L*s*b*h", "0*n", "a third more compute",
             "nothing else makes it fit"),
)


def formulas() -> list[dict[str, str]]:
    """A row for each strategy, in words and formulas."""
    return [{"strategy": one.name, "unit": one.unit, "divides": one.divides, "weights and state": in_letters(one.held),
             "activations": in_letters(one.kept), "sent in a step": in_letters(one.sent), "price": one.price,
             "when": one.use} for one in STRATEGIES]


def evaluated(shape: Mapping[str, int], n: int, micro_batch: int = 1, n_micro: int = 8,
              **others: float) -> list[dict[str, Any]]:
    """A row for each strategy alone on n devices: gigabytes (10⁹) held, kept and sent.

    shape: layers, hidden, heads, sequence. others: v, E, k where they are not 2, 8, 2.
    Raises: ValueError for sizes that are not positive, or others that no formula knows.
    """
    letters = {"L": shape["layers"], "h": shape["hidden"], "a": shape["heads"], "s": shape["sequence"], "n": n,
               "b": micro_batch, "m": n_micro} | USUAL
    if unknown := others.keys() - USUAL:
        raise ValueError(f"no formula has {', '.join(sorted(unknown))}; v, E and k can be given")
    letters |= others
    for letter, value in letters.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise ValueError(f"{letter} must be a positive number; got {value!r}")
    letters["P"] = 12 * letters["L"] * letters["h"] ** 2
    return [{"strategy": one.name, "weights and state": value_of(one.held, letters) / 1e9,
             "activations": value_of(one.kept, letters) / 1e9, "sent in a step": value_of(one.sent, letters) / 1e9}
            for one in STRATEGIES]


def value_of(formula: str, letters: Mapping[str, float]) -> float:
    """A formula of this file with numbers for its letters."""
    return float(eval(formula, {"__builtins__": {}}, dict(letters)))


def in_letters(formula: str) -> str:
    """The same as papers print it: 4*P + 12*P/n → 4P + 12P/n."""
    if formula == "0*n":
        return "0"
    text = re.sub(r"(?<=[\w)])\*(?=[A-Za-z(])", "", formula.replace("**2", "²"))
    return text.replace("*", "·").replace(" - ", " − ")
