"""The largest model that fits under ZeRO-1: a search for the number of parameters beyond which a rank is full."""

from collections.abc import Sequence
from typing import Any

from grader.exercises.shared.cases import each_rank, ranks
from grader.exercises.shared.formula_cases import FORMULAS, first_enough, formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip

WHOLE, STATE = 4, 12  # bytes a parameter: parameter and gradient, and what the ranks share


def _fits(inputs: dict[str, Any], size: int) -> bool:
    """Whether a rank has room for a model of this size, in whole numbers: n times what it holds and has."""
    n = inputs["n_ranks"]
    return (WHOLE * n + STATE) * size <= n * (inputs["device_bytes"] - inputs["other_bytes"])


def _largest(inputs: dict[str, Any]) -> float:
    """One less than the first that is too large."""
    return float(first_enough(lambda size: not _fits(inputs, size)) - 1)


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def of(device_bytes: int, n: int, other_bytes: int = 0) -> Case:
        return single(f"{ranks(n)} of {device_bytes:,} B, {other_bytes:,} B of other things", device_bytes=device_bytes,
                      n_ranks=n, other_bytes=other_bytes)

    def with_room(n: int, spare_bytes: int) -> Case:
        """A few hundred parameters, and so many bytes less than one more would need, or more than they do."""
        size, other_bytes = draw.integer(200, 900), draw.integer(100, 400)
        missing = spare_bytes < 0
        return of(-(-(WHOLE * n + STATE) * (size + missing) // n) + spare_bytes + other_bytes, n, other_bytes)

    return [of(80_000_000_000, 64), of(80_000_000_000, 1), of(draw.integer(20, 90) * 10**9, 8, 10**10),
            with_room(draw.integer(5, 11), 1), with_room(draw.integer(20, 60), -1), with_room(4, -1),
            of(32, 5)]


def _room(inputs: dict[str, Any]) -> int:
    return inputs["device_bytes"] - inputs["other_bytes"]


def _by(id: str, whole: int, divided: int, hint: str) -> Slip:
    """Other numbers of bytes a parameter: some on every rank, some divided among all."""
    return formula(id, lambda inputs: float(
        _room(inputs) * inputs["n_ranks"] // (whole * inputs["n_ranks"] + divided)), hint)


EXERCISE = Exercise(
    title="The largest model that fits",
    forbidden=FORMULAS,
    parameters=("device_bytes", "n_ranks", "other_bytes"),
    make_cases=_cases,
    oracle=each_rank(lambda case, rank: _largest(case.inputs[rank])),
    points={VALUES: 2},
    slips=(
        _by("memory pooled", 0, 16, "That is all ranks' memory together, divided by 16. But memory is not one pool: what is "
                                    "not divided must fit on every single rank."),
        _by("nothing divided", 16, 0, "That is data parallelism, 16 bytes a parameter on every rank, however many there "
                                      "are: ZeRO-1 divides the state."),
        _by("gradients divided", 2, 14, "That is ZeRO-2: ZeRO-1 keeps whole gradients on every rank."),
        _by("state of 8 bytes", 4, 8, "The float32 master copy is state too: 12 bytes, not 8."),
        _by("master copy whole", 8, 8, "The float32 master copy is part of the state, and divided like it."),
        formula("others forgotten", lambda inputs: _largest(inputs | {"other_bytes": 0}),
                "other_bytes lie on the device as well: the model gets what they leave."),
        formula("others divided", lambda inputs: _largest(
                    inputs | {"other_bytes": inputs["other_bytes"] / inputs["n_ranks"]}),
                "other_bytes are one rank's: they are not divided again."),
        formula("not rounded", lambda inputs: _room(inputs) / (WHOLE + STATE / inputs["n_ranks"]),
                "There are no parts of parameters: the largest whole number that still fits."),
        formula("rounded on the way", lambda inputs: _room(inputs) // (WHOLE + STATE / inputs["n_ranks"]),
                "Off by one where a model fits exactly: 4 + 12/n is a float that was rounded. Multiply by n first, and "
                "divide whole numbers with //."),
        formula("a multiple of n", lambda inputs: _largest(inputs) // inputs["n_ranks"] * inputs["n_ranks"],
                "The answer was rounded down to a multiple of n_ranks: n need not divide the parameters, so round down to a "
                "whole number only."),
        formula("one too many", lambda inputs: _largest(inputs) + 1.0,
                "One parameter too many for the device: round down, not up."),
    ),
)
