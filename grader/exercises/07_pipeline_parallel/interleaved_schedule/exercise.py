"""Interleaved 1F1B: several stages on each rank, and so a smaller bubble."""

from grader.exercises.shared.right_orders import interleaved, one_f_one_b, schedule_exercise
from utils.schedules.schedule import Schedule, Step

from .technique import CHUNK_BY_CHUNK, reading


def _side_by_side(n_ranks: int, n_chunks: int, n_micro: int) -> Schedule:
    """Chunk c of rank r is stage r·n_chunks + c."""
    return [[step._replace(stage=rank * n_chunks + step.stage // n_ranks) for step in row]
            for rank, row in enumerate(interleaved(n_ranks, n_chunks, n_micro))]


def _alike(n_ranks: int, n_chunks: int, n_micro: int) -> Schedule:
    """Backward goes through a rank's chunks as forward does."""
    rows = [[step for step in row if step.kind == "F"] for row in interleaved(n_ranks, n_chunks, n_micro)]
    return [row + [Step("B", micro, stage) for _, micro, stage in row] for row in rows]


def _by_chunk(n_ranks: int, n_chunks: int, n_micro: int) -> Schedule:
    """All micro-batches forward through one chunk after another, then backward."""
    stages = range(n_ranks * n_chunks)
    return [[Step("F", micro, stage) for stage in stages[rank::n_ranks] for micro in range(n_micro)]
            + [Step("B", micro, stage) for stage in stages[rank::n_ranks][::-1] for micro in range(n_micro)]
            for rank in range(n_ranks)]


def _one_group_as_gpipe(n_ranks: int, n_chunks: int, n_micro: int) -> Schedule:
    """All forward first, where there is one group of micro-batches."""
    rows = interleaved(n_ranks, n_chunks, n_micro)
    return [sorted(row, key=lambda step: step.kind == "B") for row in rows] if n_micro == n_ranks else rows


def _plain_for_one_chunk(n_ranks: int, n_chunks: int, n_micro: int) -> Schedule:
    return one_f_one_b(n_ranks, n_micro) if n_chunks == 1 else interleaved(n_ranks, n_chunks, n_micro)


EXERCISE = schedule_exercise(
    title="Interleaved stages (c)",
    parameters=("n_ranks", "n_chunks", "n_micro"),
    sizes=lambda draw: [(1, 2, 3), (2, 2, 4), (3, 2, 6), (2, 3, 2), (3, 2, 3), (3, 1, 6), (4, draw.integer(2, 3), 8),
                        (4, 2, 6), (4, 2, 2)],
    for_grading=[(4, 1, 8), (5, 2, 10), (3, 2, 7)],
    reading=reading,
    right=interleaved,
    slips=(
        ("stages side by side", "Rank r has the stages r, r + n_ranks, r + 2·n_ranks, …, not n_chunks that follow one "
                                "another: only so a micro-batch passes every rank before it returns.", _side_by_side),
        ("warm-up of 1F1B", "With one chunk the warm-up here is 2·(n_ranks − 1 − r) forwards, twice that of plain 1F1B: the "
                            "formula of the contract holds for any number of chunks, so nothing needs a case of its own.",
         _plain_for_one_chunk),
        ("all forward first", "With as many micro-batches as ranks you go forward with all of them first: the contract's "
                              "warm-up holds there too.", _one_group_as_gpipe),
        ("one chunk only", "Stages are missing: each rank has n_chunks of them.",
         lambda n_ranks, n_chunks, n_micro: one_f_one_b(n_ranks, n_micro)),
        ("chunks forward and backward alike", "Backward goes through a rank's chunks in the opposite order: the last "
                                              "chunk's gradient comes first.", _alike),
        ("chunk by chunk", CHUNK_BY_CHUNK, _by_chunk),
    ),
)
