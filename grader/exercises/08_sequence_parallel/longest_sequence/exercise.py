"""The table of activations asked backwards: the longest sequence whose activations fit into a rank's memory."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.shared.activations import kept
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS, formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise

Inputs = dict[str, Any]
FREE = ("budget", "layers")  # what is no size of a layer


def kept_by_layer(inputs: Inputs, s: int, recompute: str) -> float:
    return kept(s, **{name: value for name, value in inputs.items() if name not in FREE} | {"recompute": recompute})


def standing(inputs: Inputs, s: int) -> float:
    """Bytes while one layer runs again and the others keep what they keep."""
    return (inputs["layers"] - 1) * kept_by_layer(inputs, s, inputs["recompute"]) + kept_by_layer(inputs, s, "none")


def step_of(inputs: Inputs) -> int:
    return inputs["t"] if inputs["sequence_parallel"] else 1


def longest(inputs: Inputs, bytes_of: Callable[[Inputs, int], float] = standing, step: int | None = None,
            full: bool = True) -> int:
    """By trying: one step more for as long as it fits. full: exactly the budget still fits."""
    step, s = step or step_of(inputs), 0
    while (more := bytes_of(inputs, s + step)) < inputs["budget"] or (full and more == inputs["budget"]):
        s += step
    return s


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def case(what: str, s: int, layers: int, b: int, h: int, a: int, t: int, parallel: bool, recompute: str,
             spare: float = 0.6) -> Case:
        """So that s is the longest: the budget is what it takes, and of the next step's bytes a share to spare."""
        inputs = {"budget": 0.0, "layers": layers, "b": b, "h": h, "a": a, "t": t, "sequence_parallel": parallel,
                  "recompute": recompute}
        fits, more = (standing(inputs, length) if length else 0.0 for length in (s, s + step_of(inputs)))
        return single(f"{what}{'' if parallel else 'no '}sequence parallel, recompute {recompute}, t={t}, {layers} layers",
                      **inputs | {"budget": fits + spare * (more - fits)})

    def length() -> int:
        return draw.integer(20, 60)

    cases = [case("the budget filled: ", 38, 4, 2, 64, 4, 4, False, "none", spare=0.0),
             case("", 3 * length(), 6, 1, 60, 6, 3, True, "selective"),
             case("", 8 * length(), 12, 2, 64, 8, 8, True, "full"),
             case("", 2 * length() + 1, 5, 3, 48, 6, 2, False, "full"),
             case("", 4 * length(), 3, 1, 32, 4, 4, True, "none"),
             case("nothing fits: ", 0, 8, 1, 64, 4, 4, True, "selective")]
    if grading:
        model = {"budget": 80e9, "layers": 96, "b": 1, "h": 12288, "a": 96, "t": 8}
        cases += [single(f"175B in 80 GB, {'' if parallel else 'no '}sequence parallelism", **model,
                         sequence_parallel=parallel, recompute="selective") for parallel in (True, False)]
    return cases


def _all_keep(inputs: Inputs, s: int) -> float:
    """The layer that runs again is as the others."""
    return inputs["layers"] * kept_by_layer(inputs, s, inputs["recompute"])


def _nothing_recomputed(inputs: Inputs, s: int) -> float:
    return inputs["layers"] * kept_by_layer(inputs, s, "none")


def _counted_twice(inputs: Inputs, s: int) -> float:
    """All layers keep, and one runs again besides."""
    return standing(inputs, s) + kept_by_layer(inputs, s, inputs["recompute"])


def _one_layer(inputs: Inputs, s: int) -> float:
    return kept_by_layer(inputs, s, inputs["recompute"])


def _in_no_pieces(inputs: Inputs, s: int) -> float:
    return standing(inputs | {"sequence_parallel": False}, s)


def _proportional(inputs: Inputs) -> int:
    """As if every position cost what the first one does."""
    step = step_of(inputs)
    return int(inputs["budget"] // (standing(inputs, step) / step)) // step * step


EXERCISE = Exercise(
    title="The longest sequence that fits",
    forbidden=FORMULAS,
    parameters=("budget", "layers", "b", "h", "a", "t", "sequence_parallel", "recompute"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: longest(case.inputs[rank])),
    points={VALUES: 2},
    slips=(
        formula("running layer forgotten", lambda inputs: longest(inputs, _all_keep),
                "Too long: while a layer runs again it has all that it would keep without recomputation, and that has to "
                "fit beside what the other layers keep."),
        formula("all layers run at once", lambda inputs: longest(inputs, _nothing_recomputed),
                "Backward runs one layer again at a time: that one counts whole, the others with what recomputation leaves "
                "them."),
        formula("running layer counted twice", lambda inputs: longest(inputs, _counted_twice),
                "The layer that runs again is one of the layers: count it whole, and only the others with what they keep."),
        formula("one layer", lambda inputs: longest(inputs, _one_layer),
                "That would fit if there were one layer: all of them keep something until backward reaches them."),
        formula("one step too long", lambda inputs: longest(inputs) + step_of(inputs),
                "One step too long: what you return does not fit any more. Ask about the next length before you take it."),
        formula("budget not filled", lambda inputs: longest(inputs, full=False),
                "Exactly `budget` bytes still fit: compare with <=."),
        formula("no multiple of t", lambda inputs: longest(inputs, step=1),
                "With sequence parallelism each of the t ranks has an equal piece: only multiples of t can be cut so."),
        formula("always a multiple of t", lambda inputs: longest(inputs, step=inputs["t"]),
                "Without sequence parallelism nobody cuts the sequence: any length will do, not multiples of t only."),
        formula("sequence not cut", lambda inputs: longest(inputs, _in_no_pieces, step_of(inputs)),
                "What all ranks have whole is in pieces with sequence parallelism: pass `sequence_parallel` on."),
        formula("in proportion", _proportional,
                "A position does not cost the same at every length: the scores grow with the square of s, so try lengths "
                "(or solve the quadratic) instead of dividing the budget by one position's bytes."),
    ),
)
