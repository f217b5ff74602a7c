"""FullyShardKeepingSmall: small parameters stay whole on every rank, with gradients that are the mean over the ranks."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from grader.calling.training import parameters
from grader.exercises.shared.cases import each_group, group_case, ranks
from grader.exercises.shared.one_process import TOLERANCE, train
from grader.exercises.shared.training_cases import IN_WORDS, SEEDS, with_batches
from grader.exercises.technique.models import model_of
from grader.judging.exercise import Case, Draw, Exercise

STEPS, LR, ROWS = 2, 0.05, 2
ALL = 10**6  # more numbers than any parameter of these models has


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    """Every rank draws numbers of its own for the start; on 2 ranks two passes add up before each step."""

    def inputs(n: int, model: str, below: int, compute_dtype: str | None = None) -> list[dict[str, Any]]:
        micro = 2 if n == 2 else 1
        passes = 0 if compute_dtype else STEPS * micro  # one layer cannot compute in two dtypes: only the start is seen
        make = with_batches(draw, lambda n: ROWS, passes, micro=micro, lr=LR, optimizer="SGD", keep_whole_below=below,
                            compute_dtype=compute_dtype)
        return [{**own, "seed": draw.integer(0, SEEDS)} for own in make(model, n, 0)]

    def name(model: str, below: int) -> str:
        kept = {0: "all in shards", ALL: "all whole"}.get(below, f"whole below {below}")
        return f"{IN_WORDS[model]}, {kept}"

    sizes = [(2, "gpt", 5), (3, "tied ends", 49), (4, "mlp", 0), (2, "unused", ALL), *([(1, "mlp", 8)] if grading else [])]
    cases = [Case(f"{ranks(n)}, {name(model, below)}", tuple(inputs(n, model, below))) for n, model, below in sizes]
    cases.append(Case(f"2 ranks, {name('mlp', 8)}, computing in float32, before the first step",
                      tuple(inputs(2, "mlp", 8, "float32"))))
    return [*cases, group_case(lambda n: inputs(n, "mlp", 21), name("mlp", 21))]  # one parameter has 21


def _small(case: Case, rank: int, values: dict[str, Tensor | None]) -> dict[str, Tensor | None]:
    below, named = case.inputs[rank]["keep_whole_below"], model_of(case, rank).named_parameters()
    return {name: values[name] for name, p in named if p.numel() < below and name in values}


def _plain(case: Case, rank: int) -> dict[str, Any]:
    trained = train(case, rank)
    return {"start": parameters(model_of(case, rank)), "gradients": _small(case, rank, trained["gradients"]),
            "parameters": trained["parameters"]}


EXERCISE = Exercise(
    title="Keep small parameters whole",
    parameters=("module", "keep_whole_below", "compute_dtype", "group"),
    make_cases=_cases,
    oracle=each_group(_plain),
    trains=True,
    forbidden=("torch.distributed.fsdp",),
    tolerance=TOLERANCE,
    points={"values": 2, "technique": 2},
)
