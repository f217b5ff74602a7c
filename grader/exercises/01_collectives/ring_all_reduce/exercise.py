"""Ring all-reduce: reduce-scatter, then all-gather; 2(n−1)·⌈length/n⌉ elements a rank, of any length."""

import torch

from grader.exercises.shared.cases import counted, each_rank, one_tensor_cases, pieces, ranks, same_shape, total, xs_of
from grader.exercises.shared.collectives import MEAN_FOR_SUM
from grader.judging.exercise import Case, Draw, Exercise, Slip
from grader.judging.slips import unchanged


def _cases(draw: Draw, grading: bool) -> list[Case]:
    """Even lengths, then some that n does not divide, one of them shorter than n, one in 16 bits."""
    uneven = [(3, 7), (4, 3)]
    longer = 4 * draw.integer(1, 5) + draw.integer(1, 3)
    if grading:
        uneven += [(4, longer), (5, 1)]
    return [*one_tensor_cases(draw, grading, lambda n, k: (n * k,)),
            same_shape("2 ranks, 5 elements in all, bfloat16", draw, 2, (5,), torch.bfloat16),
            *(same_shape(f"{ranks(n)}, {counted(m, 'element')} in all", draw, n, (m,)) for n, m in uneven)]


def _own_tail(case: Case, rank: int, right: list[torch.Tensor]) -> torch.Tensor:
    """Only as many elements are summed as n divides."""
    body = len(right[rank]) // case.group_size(rank) * case.group_size(rank)
    return torch.cat([right[rank][:body], case.inputs[rank]["x"][body:]])


def _own_chunks(case: Case, rank: int, right: list[torch.Tensor]) -> torch.Tensor:
    """Chunk s is that of rank s alone."""
    xs = xs_of(case, rank)
    return torch.cat([pieces(x, len(xs))[s] for s, x in enumerate(xs)])[:len(right[rank])]


def _rows_for_columns(case: Case, rank: int, right: list[torch.Tensor]) -> torch.Tensor:
    """Cut as every n-th element, put together one after the other."""
    n = case.group_size(rank)
    padded = torch.nn.functional.pad(right[rank], (0, -len(right[rank]) % n))
    return padded.view(-1, n).T.flatten()[:len(right[rank])]


EXERCISE = Exercise(
    title="Ring all-reduce",
    parameters=("x", "group"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: total(xs_of(case, r))),
    slips=(
        MEAN_FOR_SUM,
        Slip("tail left out", "Where n does not divide the length, the last elements are not summed: round the chunk "
                              "size up and pad x with zeros.", _own_tail),
        Slip("chunk returned", "Each rank returns its own chunk of the sum: that is the reduce-scatter. The all-gather, n−1 "
             "more steps, brings the chunks together.",
             lambda case, r, right: pieces(right[r], case.group_size(r))[case.group_rank(r)]),
        Slip("chunks returned", "The result is the n chunks as rows: put them end to end, as long as x (flatten, and cut "
             "off the padding).", lambda case, r, right: torch.stack(pieces(right[r], case.group_size(r)))),
        Slip("tail cut off", "Where n does not divide the length, the last elements are missing: round the chunk size up "
             "and pad x with zeros.",
             lambda case, r, right: right[r][:len(right[r]) // case.group_size(r) * case.group_size(r)]),
        Slip("padded in front", "Where n does not divide the length, the sums stand too far back: the zeros were put in "
             "front of x, and the end was cut off. Pad at the end.", lambda case, r, right: torch.nn.functional.pad(
                 right[r], (-len(right[r]) % case.group_size(r), 0))[:len(right[r])]),
        Slip("own chunks gathered", "Chunk s is rank s's own part: the all-gather must carry round the sums that the "
             "reduce-scatter left, not pieces of x.", _own_chunks),
        Slip("rows for columns", "The sums are right, their order is not: chunks were cut as columns of view(-1, n), and "
                                 "put back as rows. Cut them as rows, too: view(n, -1).", _rows_for_columns),
        unchanged("Each rank still holds its own input: nothing that was received was added."),
        Slip("padding returned", "Where n does not divide the length, the result has the padding at its end: cut it "
                                 "back to the length of x.", lambda case, r, right: torch.nn.functional.pad(
                                     right[r], (0, -len(right[r]) % case.group_size(r)))),
    ),
)
