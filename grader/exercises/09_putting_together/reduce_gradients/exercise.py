"""Gradients as the passes on a mesh leave them: summed where two stages use one weight, averaged over replicas."""

import math
from collections.abc import Sequence

from torch import Tensor

from grader.calling.meshes import EMBEDDING, HEAD, parts_on
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.meshes import in_words, lines_of, sizes_of
from grader.judging.exercise import Case, Draw, Exercise

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


def _right(case: Case, rank: int) -> Gradients:
    """The mean over replicas, in each of which embedding and head have the sum of their parts."""
    inputs = case.inputs[rank]
    found = [_summed(of_replica(inputs, replica)) for replica in range(inputs["sizes"]["dp"])]
    mean = {name: sum(gradients[name] for gradients in found) / len(found) for name in found[0]}
    return parts_on(rank, mean, inputs["lines"], MODEL["layers"])


def _summed(gradients: Gradients) -> Gradients:
    if HEAD not in gradients:
        return gradients
    both = gradients[EMBEDDING] + gradients[HEAD]
    return gradients | {EMBEDDING: both, HEAD: both}


EXERCISE = Exercise(
    title="One gradient along dp and pp",
    parameters=("stage", "mesh"),
    forbidden=("torch.distributed.tensor",),
    trains=True,  # as what is forbidden takes as long to import
    make_cases=_cases,
    oracle=each_rank(_right),
    tolerance=1e-9,
    points={"values": 1, "technique": 1},
)
