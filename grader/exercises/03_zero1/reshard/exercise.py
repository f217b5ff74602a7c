"""A sharded checkpoint, saved by some ranks and loaded by another number of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from grader.exercises.shared.cases import each_rank, pieces
from grader.judging.compare import same
from grader.judging.demands import only_calls
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    found = []
    for n_elements, old, new in ((12, 4, 2), (10, 4, 2), (10, 3, 4), (5, 4, 1), (draw.integer(20, 30), 2, 3), (3, 2, 4)):
        saved = [{name: piece for name, piece in zip(("momentum", "variance"), both, strict=True)} for both in zip(
            pieces(draw.tensor(n_elements), old), pieces(draw.tensor(n_elements), old), strict=True)]
        for rank in sorted({0, new - 1}):
            found.append(Case(f"{n_elements} elements, {old} → rank {rank} of {new}", ({
                "saved": saved, "n_elements": n_elements, "n_ranks": new, "rank": rank},)))
    return found


def _whole(look_inputs: dict, name: str) -> torch.Tensor:
    return torch.cat([one[name] for one in look_inputs["saved"]])[:look_inputs["n_elements"]]


def _loaded(inputs: dict) -> dict[str, torch.Tensor]:
    return {name: pieces(_whole(inputs, name), inputs["n_ranks"])[inputs["rank"]] for name in inputs["saved"][0]}


def _each(test: Callable[[dict, str, torch.Tensor, torch.Tensor], bool]) -> Callable[[Look], bool]:
    """test(inputs, name, found tensor, expected tensor) for every tensor of a wrong result with the right keys."""
    return wrong_ranks(lambda look, r, found, expected: isinstance(found, dict) and found.keys() == expected.keys() and all(
        test(look.case.inputs[r], name, found[name], expected[name]) for name in expected))


def _padding_kept(inputs: dict, name: str, found: torch.Tensor, expected: torch.Tensor) -> bool:
    padded = torch.cat([one[name] for one in inputs["saved"]])
    return same(found, pieces(padded, inputs["n_ranks"])[inputs["rank"]])


EXERCISE = Exercise(
    title="Load a sharded checkpoint on another number of ranks",
    parameters=("saved", "n_elements", "n_ranks", "rank"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: _loaded(case.inputs[r])),
    points={VALUES: 2},
    optional=True,
    technique=Technique(
        demands=(only_calls(id="communicates", hint="All saved shards are there: no message is needed."),),
        symptoms=(
        Symptom("padding kept", "The old shards' padding is taken for numbers: put them together, then cut at n_elements.",
                _each(_padding_kept)),
        Symptom("old shard", "Returned is the shard that the same rank saved: the number of ranks has changed.",
                _each(lambda inputs, name, found, expected: inputs["rank"] < len(inputs["saved"]) and same(
                    found, inputs["saved"][inputs["rank"]][name]))),
        Symptom("not padded", "The last shards must be as long as the others, filled up with zeros.",
                _each(lambda inputs, name, found, expected: len(found) < len(expected) and same(
                    found, expected[:len(found)]))),
        Symptom("everything", "Returned is all of it: cut out this rank's shard.",
                _each(lambda inputs, name, found, expected: inputs["n_ranks"] > 1 and len(found) == inputs["n_elements"])),
        Symptom("one tensor only", "Every tensor of the state is to be there, under its name.",
                wrong_ranks(lambda look, r, found, expected: isinstance(found, dict) and found.keys() < expected.keys())),
    ),
    ),
)
