"""A GPT's shape and layout as plain numbers, and how many of its numbers a device has, exactly."""

from fractions import Fraction
from typing import Any

Given = dict[str, Any]  # an exercise's inputs, with "shape" and "layout" among them

GPT_175B = {"layers": 96, "hidden": 12288, "heads": 96, "sequence": 2048, "vocabulary": 51200}
SMALL = {"layers": 12, "hidden": 60, "heads": 6, "sequence": 50, "vocabulary": 300}
WIDE_VOCABULARY = {"layers": 8, "hidden": 64, "heads": 4, "sequence": 128, "vocabulary": 128000}


def layout(dp: int, tp: int, pp: int, *, zero: int = 1, parallel: bool = False, recompute: str = "none",
           micro_batch: int = 1, n_micro: int = 8) -> Given:
    """The dictionary that the exercises take."""
    return {"dp": dp, "tp": tp, "pp": pp, "zero": zero, "sequence_parallel": parallel, "recompute": recompute,
            "micro_batch": micro_batch, "n_micro": n_micro}


def in_words(how: Given) -> str:
    """A layout as the name of a case."""
    parts = [f"{axis} {how[axis]}" for axis in ("dp", "tp", "pp")] + [f"ZeRO-{how['zero']}"]
    parts += ["sequence parallel"] * how["sequence_parallel"] + [f"recompute {how['recompute']}"]
    return ", ".join([*parts, f"{how['n_micro']} × {how['micro_batch']}"])


def layer_numbers(given: Given) -> Fraction:
    """Weights of a stage's layers on one device, not divided by ZeRO."""
    shape, how = given["shape"], given["layout"]
    return Fraction(12 * shape["layers"] * shape["hidden"] ** 2, how["pp"] * how["tp"])


def activation_numbers(given: Given) -> int:
    """Of a layer's input, whole, for one micro-batch: sbh."""
    shape = given["shape"]
    return shape["sequence"] * given["layout"]["micro_batch"] * shape["hidden"]
