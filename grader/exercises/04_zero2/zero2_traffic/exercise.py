"""What a rank sends in a step of k micro-batches: data parallelism, ZeRO-1 and ZeRO-2."""

from collections.abc import Callable, Sequence

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import FORMULAS, formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Sizes that the number of ranks does not divide."""
    return [single(f"{ranks(n)}, {micro} micro-batch{'es' * (micro > 1)}",
                   n_parameters=draw.integer(1, 9) * 1000 + 1, n_ranks=n, n_micro=micro)
            for n, micro in ((1, 1), (4, 1), (4, draw.integer(4, 7)), (64, 8))]


def _sent(inputs: dict[str, int], passes: Callable[[int], float] = lambda k: k + 1) -> float:
    """In passes(k) rings over as many 16-bit numbers as there are parameters."""
    return passes(inputs["n_micro"]) * (inputs["n_ranks"] - 1) / inputs["n_ranks"] * 2 * inputs["n_parameters"]


def _rounded_down(n_parameters: int, n_ranks: int, n_micro: int) -> float:
    return (n_micro + 1) * (n_ranks - 1) // n_ranks * 2 * n_parameters


def _padded(inputs: dict[str, int]) -> float:
    n = inputs["n_ranks"]
    return _sent(inputs | {"n_parameters": -(-inputs["n_parameters"] // n) * n})


def _passes(id: str, passes: Callable[[int], float], hint: str) -> Slip:
    return formula(id, lambda inputs: _sent(inputs, passes), hint)


EXERCISE = Exercise(
    title="What accumulation costs",
    forbidden=FORMULAS,
    parameters=("n_parameters", "n_ranks", "n_micro"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _sent(case.inputs[r])),
    tolerance=1e-9,
    points={VALUES: 2},
    slips=(
        _passes("accumulation free", lambda k: 2, "That is the traffic of one micro-batch: ZeRO-2 has nowhere to keep a "
                "whole gradient, so it reduce-scatters after every backward pass."),
        _passes("parameters every time", lambda k: 2 * k, "Parameters change once a step, so they are gathered once; only "
                "the gradients travel after every backward pass."),
        _passes("parameters forgotten", lambda k: k, "After the update the parameters are gathered: one more pass of Ψ."),
        _passes("float32", lambda k: 2 * (k + 1), "In mixed precision gradients and parameters travel with 2 bytes each, "
                "not 4."),
        _passes("numbers", lambda k: (k + 1) / 2, "So many numbers are sent; wanted are bytes, and each number has 2."),
        _passes("all-reduced every time", lambda k: 2 * k + 1, "A gradient is reduce-scattered after every backward pass, "
                "which is half of an all-reduce; the other half carries parameters, once a step."),
        formula("rounded down", lambda inputs: _rounded_down(**inputs), "(n−1)/n is no whole number: use /, not //."),
        formula("rounded to whole bytes", lambda inputs: (inputs["n_micro"] + 1) * (_sent(inputs, lambda k: 1) // 1),
                "Bytes are rounded down: the ring formula's (n−1)/n of them need be no whole number. Use /, not //."),
        formula("padding counted", _padded,
                "Whole pieces of ⌈Ψ/n⌉ numbers are counted: the ring formula neglects padding, (n−1)/n of Ψ."),
        formula("not divided", lambda inputs: _sent(inputs) * inputs["n_ranks"],
                "n − 1 pieces are sent, each of them an n-th of the whole: (n−1)/n."),
        formula("one piece sent", lambda inputs: (inputs["n_micro"] + 1) * 2 * inputs["n_parameters"] / inputs["n_ranks"],
                "In a ring a rank sends n − 1 pieces, not one: (n−1)/n."),
        formula("share gathered once",
                lambda inputs: _sent(inputs, lambda k: k) + 2 * inputs["n_parameters"] / inputs["n_ranks"],
                "In the all-gather, too, a rank sends n − 1 pieces: its own, and in each further step one that came."),
        formula("own share sent", lambda inputs: (inputs["n_micro"] + 1) * 2.0 * inputs["n_parameters"],
                "A rank does not send itself its own share: (n−1)/n."),
    ),
)
