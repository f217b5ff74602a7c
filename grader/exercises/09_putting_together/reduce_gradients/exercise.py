"""Gradients as the passes on a mesh leave them: summed where two stages use one weight, averaged over replicas."""

import math
from collections.abc import Callable, Sequence

from torch import Tensor

from grader.calling.meshes import EMBEDDING, HEAD, parts_on
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.meshes import in_words, lines_of, place_of, sizes_of
from grader.judging.exercise import Case, Draw, Exercise, Slip
from utils.models.shards import cut_dim

from .call import of_replica

MODEL = {"length": 3, "dim": 4, "layers": 3, "heads": 4}
Gradients = dict[str, Tensor]


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    shapes = [(2, 1, 1), (1, 3, 1), (1, 1, 2), (2, 2, 1), (2, 2, 2)] + [(3, 1, 2), (1, 2, 2), (1, 1, 1), (2, 3, 1)] * grading
    return [_case(draw, shape) for shape in shapes]


def _case(draw: Draw, shape: tuple[int, int, int]) -> Case:
    sizes = sizes_of(shape)
    inputs = {"model": MODEL | {"seed": draw.seed()}, "seeds": [[draw.seed(), draw.seed()] for _ in range(sizes["dp"])],
              "sizes": sizes, "lines": lines_of(sizes)}
    return Case(in_words(sizes), (inputs,) * math.prod(shape))


def _mean(case: Case, tied: Callable[[Gradients], Gradients], replicas: Sequence[int] | None = None) -> Gradients:
    """Over replicas (all of them), each with its tied weight's gradients put together by tied(gradients)."""
    inputs = case.inputs[0]
    found = [tied(of_replica(inputs, replica)) for replica in replicas or range(inputs["sizes"]["dp"])]
    return {name: sum(gradients[name] for gradients in found) / len(found) for name in found[0]}


def _both(gradients: Gradients, factor: float) -> Gradients:
    """Embedding and head both have this many times the sum of their parts."""
    if HEAD not in gradients:
        return gradients
    whole = factor * (gradients[EMBEDDING] + gradients[HEAD])
    return gradients | {EMBEDDING: whole, HEAD: whole}


def _summed(gradients: Gradients) -> Gradients:
    return _both(gradients, 1.0)


def _own(case: Case, rank: int, whole: Gradients) -> Gradients:
    return parts_on(rank, whole, case.inputs[rank]["lines"], MODEL["layers"])


def _right(case: Case, rank: int) -> Gradients:
    return _own(case, rank, _mean(case, _summed))


# ── slips ──


def _several(*axes: str) -> Callable[[Case], bool]:
    return lambda case: any(case.inputs[0]["sizes"][axis] > 1 for axis in axes)


def _place(case: Case, rank: int) -> dict[str, int]:
    return place_of(case.inputs[rank]["sizes"], rank)


def _times(case: Case, right: Gradients, factor: float) -> Gradients:
    return {name: factor * gradient for name, gradient in right.items()}


def _swapped(gradients: Gradients) -> Gradients:
    return gradients | ({EMBEDDING: gradients[HEAD], HEAD: gradients[EMBEDDING]} if HEAD in gradients else {})


EXERCISE = Exercise(
    title="One gradient along dp and pp",
    parameters=("stage", "mesh"),
    forbidden=("torch.distributed.tensor",),
    trains=True,  # as what is forbidden takes as long to import
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=1e-9,
    points={"values": 1, "technique": 1},
    slips=(
        Slip("replicas not averaged", "Each replica keeps the gradients of its own share of the batch, and the replicas "
             "drift apart: average the gradients along dp.",
             lambda case, rank, right: _own(case, rank, _mean(case, _summed, [_place(case, rank)["dp"]])),
             shows=_several("dp")),
        Slip("sum over replicas", "Gradients are as many times too large as there are replicas: along dp the mean is asked, "
             "and all_reduce sums.",
             lambda case, rank, right: _times(case, right[rank], case.inputs[rank]["sizes"]["dp"]), shows=_several("dp")),
        Slip("divided by the world's size", "Gradients are too small, by the number of ranks in a replica: only replicas "
             "are averaged over, so divide by the size of mesh[\"dp\"] and not by the world's.",
             lambda case, rank, right: _times(case, right[rank], case.inputs[rank]["sizes"]["dp"] / case.world_size),
             shows=_several("pp", "tp")),
        Slip("tied weight not summed", "The embedding on the first stage and the head on the last are one weight, whose "
             "gradient is the sum of both: each stage kept its own part.",
             lambda case, rank, right: _own(case, rank, _mean(case, lambda gradients: gradients)), shows=_several("pp")),
        Slip("tied weight averaged", "The tied weight's gradient is half of what it should be: it is the *sum* of what the "
             "first and the last stage found.",
             lambda case, rank, right: _own(case, rank, _mean(case, lambda gradients: _both(gradients, 0.5))),
             shows=_several("pp")),
        Slip("tied weight swapped", "Each end has the other end's part of the tied weight's gradient: add what comes to "
             "what is there.", lambda case, rank, right: _own(case, rank, _mean(case, _swapped)), shows=_several("pp")),
        Slip("tied weight only", "Only the tied weight's gradient is averaged over replicas: average those of all "
             "parameters.",
             lambda case, rank, right: _own(case, rank, _mean(case, _summed, [_place(case, rank)["dp"]])) | {
                 name: right[rank][name] for name in (EMBEDDING, HEAD) if name in right[rank]}, shows=_several("dp")),
        Slip("whole ones summed along tp", "Gradients of parameters that are not cut are tp times too large: f and g inside "
             "the stage have made them complete, the same on all ranks of tp, so nothing is to be summed there.",
             lambda case, rank, right: {name: gradient * (case.inputs[rank]["sizes"]["tp"] if cut_dim(name) is None else 1)
                                        for name, gradient in right[rank].items()}, shows=_several("tp")),
    ),
)
