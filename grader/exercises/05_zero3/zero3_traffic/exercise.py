"""What a rank sends under ZeRO-3: two all-gathers and a reduce-scatter, or one all-gather if layers are kept."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import FORMULAS, formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(7_500_000_000, 64, 1), (1_000_000, 6, draw.integer(2, 8)), (draw.integer(1, 99) * 10**6, 1, 2)]
    return [single(f"{size:,} parameters, {ranks(n)}, {k} micro-batch{'es' * (k > 1)}, {'freed' if again else 'kept'}",
                   n_parameters=size, n_ranks=n, n_micro=k, reshard_after_forward=again)
            for size, n, k in sizes for again in (True, False)]


def _sent(inputs: dict[str, Any], passes: Callable[[int, bool], int] = lambda k, again: k * (2 + again),
          share: Callable[[int], float] = lambda n: (n - 1) / n) -> float:
    """passes: (k micro-batches, whether layers are gathered again in backward) -> how often all parameters travel.

    share: which part of them a rank of n sends each time.
    """
    times = passes(inputs["n_micro"], inputs["reshard_after_forward"])
    return times * share(inputs["n_ranks"]) * 2.0 * inputs["n_parameters"]


def _passes(id: str, passes: Callable[[int, bool], int], hint: str) -> Slip:
    return formula(id, lambda inputs: _sent(inputs, passes), hint)


EXERCISE = Exercise(
    title="What a step of ZeRO-3 sends",
    forbidden=FORMULAS,
    parameters=("n_parameters", "n_ranks", "n_micro", "reshard_after_forward"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _sent(case.inputs[r])),
    tolerance=1e-6,
    points={VALUES: 2},
    slips=(
        _passes("gathered twice in backward", lambda k, again: k * (4 if again else 2),
                "One all-gather in forward and one in backward, not two in each: 3Ψ in all with the reduce-scatter."),
        _passes("backward for free", lambda k, again: k * 2,
                "What was freed after forward must be gathered again in backward."),
        _passes("kept for nothing", lambda k, again: k * 3, "Layers that are kept after forward need no second all-gather."),
        _passes("exchanged", lambda k, again: k * (3 - again), "The wrong way round: layers that are freed after forward "
                "are gathered a second time, those that are kept are not."),
        _passes("gradients twice", lambda k, again: k * (3 + again), "The gradients count once, not twice: they are "
                "reduce-scattered, which is half of an all-reduce, and travel with 2 bytes as the parameters do."),
        _passes("once a step", lambda k, again: 2 + again, "Nothing whole is kept from one micro-batch to the next, and no "
                "gradient: every micro-batch gathers and reduces anew."),
        _passes("kept for the step", lambda k, again: 3 * k if again else k + 1, "Layers that are kept after forward are "
                "kept until their backward only, not for the next micro-batch: each one gathers anew."),
        _passes("gathered once", lambda k, again: 1 + again + k, "Nothing whole survives a micro-batch: each one gathers "
                "the parameters anew, not only the first of the step."),
        _passes("kept from backward", lambda k, again: 2 * k + again, "What backward has gathered is freed again, too: the "
                "next micro-batch gathers its layers anew before its forward."),
        _passes("reduced once", lambda k, again: k * (1 + again) + 1, "A whole gradient has no place to wait for the last "
                "micro-batch: each one is reduced."),
        _passes("float32", lambda k, again: 2 * k * (2 + again), "In mixed precision parameters and gradients travel with 2 "
                "bytes a number."),
        formula("numbers for bytes", lambda inputs: _sent(inputs) / 2,
                "That many numbers travel: each of them has 2 bytes."),
        formula("all ranks' bytes", lambda inputs: _sent(inputs, share=lambda n: n - 1.0),
                "That is what all ranks send together: each one sends (n−1)/n of it, not n−1 times."),
        formula("reduce-scatter whole", lambda inputs: _sent(inputs, lambda k, again: k * (1 + again))
                + _sent(inputs, lambda k, again: k, share=lambda n: 1.0), "A reduce-scatter sends as much as an all-gather, "
                "(n−1)/n of the row: what belongs to a rank's own shard stays there."),
        formula("own share sent", lambda inputs: _sent(inputs, share=lambda n: 1.0),
                "A rank does not send its own shard to itself: (n−1)/n of it."),
    ),
)
