"""What layouts cost in the check of a search: made-up prices, so that nobody's own formulas decide."""

import math
from collections.abc import Callable, Mapping
from typing import Any

Cost = Callable[[Mapping[str, Any], Mapping[str, Any]], float]  # of a shape and a layout


def memory_by(prices: Mapping[str, float]) -> Cost:
    """memory_of(shape, layout): weights shared by tp·pp, activations of the micro-batches in flight, something for each."""

    def memory_of(shape: Mapping[str, Any], layout: Mapping[str, Any]) -> float:
        weights = shape["layers"] * prices["layer_bytes"] / (layout["tp"] * layout["pp"])
        in_flight = min(layout["pp"], layout["n_micro"]) * layout["micro_batch"]
        kept = shape["layers"] / layout["pp"] * in_flight * prices["kept_bytes"] / layout["tp"]
        return weights + kept + layout["n_micro"] * prices["micro_bytes"]

    return memory_of


def seconds_by(prices: Mapping[str, float]) -> Cost:
    """seconds_of(shape, layout): in whole grains, so that layouts can be equally fast."""

    def seconds_of(shape: Mapping[str, Any], layout: Mapping[str, Any]) -> float:
        passes = shape["layers"] * layout["n_micro"] * (layout["micro_batch"] + prices["start"])
        slower = 1 + prices["tp"] * (layout["tp"] - 1)
        bubble = 1 + (layout["pp"] - 1) / (layout["n_micro"] or 1)  # who asks too early gets an answer, too
        seconds = passes / (layout["tp"] * layout["pp"]) * slower * bubble + prices["dp"] * (layout["dp"] - 1)
        return prices["grain"] * math.ceil(seconds / prices["grain"])

    return seconds_of
