"""The 16 bytes a parameter: what training holds, item by item."""

from __future__ import annotations

from collections.abc import Sequence

from grader.exercises.shared.cases import each_rank
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks

ITEMS = ("parameters", "gradients", "master parameters", "momentum", "variance")
BYTES = {False: (4, 4, 0, 4, 4), True: (2, 2, 4, 4, 4)}


def items(n_parameters: int, mixed_precision: bool) -> dict[str, int]:
    return {name: size * n_parameters for name, size in zip(ITEMS, BYTES[mixed_precision], strict=True)}


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [1, 7_500_000_000, draw.integer(10, 10**6)]
    return [Case(f"{size:,} parameters, {'mixed precision' if mixed else 'float32'}",
                 ({"n_parameters": size, "mixed_precision": mixed},)) for size in sizes for mixed in (False, True)]


def _is(name: str, size: int, mixed: bool):
    def test(look: Look, rank: int, found, _) -> bool:
        inputs = look.case.inputs[rank]
        return isinstance(found, dict) and inputs["mixed_precision"] == mixed and found.get(name) == (
            size * inputs["n_parameters"])

    return wrong_ranks(test)


EXERCISE = Exercise(
    title="The 16 bytes of a parameter",
    parameters=("n_parameters", "mixed_precision"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: items(**case.inputs[r])),
    points={VALUES: 2},
    technique=Technique(
        demands=(only_calls(id="communicates", hint="This is arithmetic: no message is needed."),),
        symptoms=(
        Symptom("keys", f"The result is a dictionary with the keys {', '.join(map(repr, ITEMS))}.",
                wrong_ranks(lambda look, r, found, _: not isinstance(found, dict) or set(found) != set(ITEMS))),
        Symptom("one parameter's", "These are the bytes of one parameter: multiply by their number.", wrong_ranks(
            lambda look, r, found, expected: found == {
                name: size // look.case.inputs[r]["n_parameters"] for name, size in expected.items()})),
        Symptom("precision ignored", "The two precisions are the other way round, or one is ignored.",
                lambda look: _is("parameters", 2, False)(look) or _is("parameters", 4, True)(look)),
        Symptom("master copy forgotten", "Mixed precision keeps a float32 copy of the parameters for the optimizer: 4 "
                                         "bytes.", _is("master parameters", 0, True)),
        Symptom("master copy in float32", "In float32 the parameters are their own master copy: 0 bytes more.",
                _is("master parameters", 4, False)),
        Symptom("state halved", "AdamW keeps its momentum and variance in float32 in mixed precision too: 4 bytes each.",
                _is("momentum", 2, True)),
        Symptom("gradients in float32", "In mixed precision the gradients have the parameters' 16 bits: 2 bytes.",
                _is("gradients", 4, True)),
    ),
    ),
)
