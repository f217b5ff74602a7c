"""Interleaved 1F1B: several stages on each rank, and so a smaller bubble."""

from collections.abc import Callable, Sequence
from typing import Any

from grader.exercises.shared.right_orders import interleaved, one_f_one_b, size_cases
from grader.exercises.technique.schedules import Rows
from grader.judging.exercise import VALUES, Case, Draw, Exercise, Slip
from utils.schedules.schedule import Step

from .technique import CHUNK_BY_CHUNK, reading, refusal


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    sizes = [(1, 2, 3), (2, 2, 4), (3, 2, 6), (2, 3, 2), (4, draw.integer(2, 3), 8), (4, 2, 6)]
    return size_cases([*sizes, *([(3, 1, 6), (5, 2, 10), (3, 2, 7)] if grading else [])], "n_ranks", "n_chunks", "n_micro")


def _oracle(case: Case) -> list[Any]:
    inputs = case.inputs[0]
    if inputs["n_micro"] % inputs["n_ranks"]:
        return [refusal(case)]
    return [reading(case, interleaved(**inputs))]


def _made_by(id: str, hint: str, make: Callable[[int, int, int], Rows]) -> Slip:
    """The schedule that make(n_ranks, n_chunks, n_micro) gives in place of the right one."""
    return Slip(id, hint, lambda case, rank, right: reading(case, make(*case.inputs[0].values())),
                shows=lambda case: case.inputs[0]["n_micro"] % case.inputs[0]["n_ranks"] == 0)


def _side_by_side(n_ranks: int, n_chunks: int, n_micro: int) -> Rows:
    """Chunk c of rank r is stage r·n_chunks + c."""
    return [[step._replace(stage=rank * n_chunks + step.stage // n_ranks) for step in row]
            for rank, row in enumerate(interleaved(n_ranks, n_chunks, n_micro))]


def _alike(n_ranks: int, n_chunks: int, n_micro: int) -> Rows:
    """Backward goes through a rank's chunks as forward does."""
    rows = [[step for step in row if step.kind == "F"] for row in interleaved(n_ranks, n_chunks, n_micro)]
    return [row + [Step("B", micro, stage) for _, micro, stage in row] for row in rows]


def _by_chunk(n_ranks: int, n_chunks: int, n_micro: int) -> Rows:
    """All micro-batches forward through one chunk after another, then backward."""
    stages = range(n_ranks * n_chunks)
    return [[Step("F", micro, stage) for stage in stages[rank::n_ranks] for micro in range(n_micro)]
            + [Step("B", micro, stage) for stage in stages[rank::n_ranks][::-1] for micro in range(n_micro)]
            for rank in range(n_ranks)]


EXERCISE = Exercise(
    title="Interleaved stages (c)",
    parameters=("n_ranks", "n_chunks", "n_micro"),
    make_cases=_cases,
    oracle=_oracle,
    tolerance=1e-9,
    points={VALUES: 4},
    optional=True,
    slips=(
        _made_by("stages side by side", "Rank r has the stages r, r + n_ranks, r + 2·n_ranks, …, not n_chunks that follow "
                                        "one another: only so a micro-batch passes every rank before it returns.",
                 _side_by_side),
        _made_by("one chunk only", "Stages are missing: each rank has n_chunks of them.",
                 lambda n_ranks, n_chunks, n_micro: one_f_one_b(n_ranks, n_micro)),
        _made_by("chunks forward and backward alike", "Backward goes through a rank's chunks in the opposite order: the "
                                                      "last chunk's gradient comes first.", _alike),
        _made_by("chunk by chunk", CHUNK_BY_CHUNK, _by_chunk),
    ),
)
