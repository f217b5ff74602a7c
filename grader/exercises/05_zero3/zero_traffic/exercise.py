"""What a rank sends in a step of some micro-batches, without ZeRO and at its three stages."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import FORMULAS, formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

# One collective over all parameters or gradients sends (n−1)/n of them: how many in a step of k micro-batches?
COLLECTIVES: dict[int, Callable[[int], int]] = {0: lambda k: 2, 1: lambda k: 2, 2: lambda k: k + 1, 3: lambda k: 3 * k}


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Sizes that the number of ranks does not divide."""
    sizes = [(7_500_000_000, 64, 1), (draw.integer(1, 9) * 1000 + 1, 6, draw.integer(4, 8)), (draw.integer(1, 99), 1, 2)]
    return [single(f"stage {stage}, {size:,} parameters, {ranks(n)}, {k} micro-batch{'es' * (k > 1)}",
                   stage=stage, n_parameters=size, n_ranks=n, n_micro=k)
            for size, n, k in sizes for stage in range(4)]


def _sent(inputs: dict[str, Any], more: dict[int, Callable[[int], int]] | None = None,
          share: Callable[[int], float] = lambda n: (n - 1) / n) -> float:
    """more: stages with another number of collectives; share: which part a rank of n sends in each."""
    times = (COLLECTIVES | (more or {}))[inputs["stage"]](inputs["n_micro"])
    return times * share(inputs["n_ranks"]) * 2.0 * inputs["n_parameters"]


def _at(id: str, hint: str, **more: Callable[[int], int]) -> Slip:
    """Other numbers of collectives at some stages: stage_2=lambda k: ..."""
    of_stage = {int(name[-1]): times for name, times in more.items()}
    return formula(id, lambda inputs: _sent(inputs, of_stage), hint)


def _padded(inputs: dict[str, int]) -> float:
    n = inputs["n_ranks"]
    return _sent(inputs | {"n_parameters": -(-inputs["n_parameters"] // n) * n})


EXERCISE = Exercise(
    title="What a step sends at each stage",
    forbidden=FORMULAS,
    parameters=("stage", "n_parameters", "n_ranks", "n_micro"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _sent(case.inputs[r])),
    tolerance=1e-9,
    points={VALUES: 2},
    slips=(
        _at("stage 1 twice", "ZeRO-1 doesn't send more than data parallelism: its reduce-scatter and its all-gather are the "
            "two halves of the all-reduce.", stage_1=lambda k: 3),
        _at("stage 0 every time", "Data parallelism has room for whole gradients on every rank: it adds up the "
            "micro-batches there, and all-reduces once a step.", stage_0=lambda k: 2 * k),
        _at("reduced every time below 2", "Stages 0 and 1 have room for whole gradients on every rank: they add up the "
            "micro-batches there, and communicate once a step.", stage_0=lambda k: 2 * k, stage_1=lambda k: k + 1),
        _at("accumulation free at 2", "ZeRO-2 keeps no whole gradient from one micro-batch to the next, so it "
            "reduce-scatters after each one.", stage_2=lambda k: 2),
        _at("parameters every time at 2", "At stage 2 parameters change once a step, so they are gathered once. Only the "
            "gradients are reduced after every micro-batch.", stage_2=lambda k: 2 * k),
        _at("all-reduced at 2", "At stage 2 a gradient is reduce-scattered after every micro-batch, which is half of an "
            "all-reduce. The other half gathers the parameters, once a step.", stage_2=lambda k: 2 * k + 1),
        _at("parameters forgotten at 2", "At stage 2 every rank keeps whole parameters: after the update they must be "
            "gathered, once a step.", stage_2=lambda k: k),
        _at("backward for free", "At stage 3 a layer is freed after its forward, so backward must gather it again.",
            stage_3=lambda k: 2 * k),
        _at("gathered after the update", "At stage 3 nothing is gathered after the update: the next forward pass gathers "
            "the new values anyway.", stage_3=lambda k: 3 * k + 1),
        _at("gradients twice", "At stage 3 gradients are reduce-scattered, which is half of an all-reduce: two all-gathers "
            "and one reduce-scatter for each micro-batch.", stage_3=lambda k: 4 * k),
        _at("once a step at 3", "Stage 3 keeps neither gathered layers nor whole gradients from one micro-batch to the "
            "next: each one gathers and reduces anew.", stage_3=lambda k: 3),
        _at("gathered once", "At stage 3 no gathered layer is kept until the next micro-batch: each one gathers the "
            "parameters anew, twice.", stage_3=lambda k: 2 + k),
        _at("reduced once", "At stage 3 no whole gradient is kept until the last micro-batch: each one reduces.",
            stage_3=lambda k: 2 * k + 1),
        formula("float32", lambda inputs: 2 * _sent(inputs), "Parameters and gradients are sent with 2 bytes an element."),
        formula("elements for bytes", lambda inputs: _sent(inputs) / 2, "So many elements are sent: each has 2 bytes."),
        formula("padding counted", _padded, "Shards of ⌈Ψ/n⌉ elements are counted. Ignore padding: (n−1)/n of Ψ."),
        formula("all ranks' bytes", lambda inputs: _sent(inputs, share=lambda n: n - 1.0),
                "That is what all ranks send together: each sends (n−1)/n, not n−1 times all of it."),
        formula("own share sent", lambda inputs: _sent(inputs, share=lambda n: 1.0),
                "A rank doesn't send its own shard to itself: (n−1)/n."),
    ),
)
