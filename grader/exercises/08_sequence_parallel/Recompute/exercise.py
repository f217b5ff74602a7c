"""Keep only a layer's input, and run the layer again in backward: activation recomputation as an autograd function."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from grader.calling.rings import layer, trained
from grader.evidence.case import WEIGHED
from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.one_process import TOLERANCE
from grader.judging.exercise import Case, Draw, Exercise

ROWS, MANY, WIDER = 32, 1024, 16  # a layer's inside is 16 times as wide as its input: what is kept shows


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    def case(n_layers: int, dim: int, p: float, dtype: torch.dtype = torch.float64, x_trained: bool = True,
             frozen: str = "", tied: bool = False, rows: int = ROWS) -> Case:
        def numbers(*shape: int) -> Tensor:
            return (draw.tensor(*shape) / 50).to(dtype)

        layers = [{"up": numbers(dim, WIDER * dim), "down": numbers(WIDER * dim, dim)} for _ in range(n_layers)]
        what = [f"{n_layers} layer{'s' * (n_layers > 1)}", f"dropout {p}", str(dtype).removeprefix("torch.")]
        what += [] if x_trained else ["x needs no gradient"]
        what += [f"each layer's {frozen} frozen"] if frozen else []
        what += ["one weight in both"] if tied else []
        return Case(", ".join(what), ({"x": numbers(rows, dim), "layers": layers, "p": p, "weights": numbers(rows, dim),
                                       "seed": draw.integer(0, 10**6), "x_trained": x_trained,
                                       "frozen": frozen, "tied": tied},))

    # of many rows, so that a result that is kept is more than the random state that may be
    cases = [case(1, 3, 0.0, rows=MANY), case(3, 5, 0.3), case(2, 4, 0.5, torch.float32), case(2, 3, 0.2, x_trained=False),
             case(2, 3, 0.2, frozen="down"), case(1, 4, 0.2, frozen="up"), case(2, 3, 0.1, tied=True),
             case(2, 3, 0.1, torch.bfloat16)]
    large = case(4, 32, 0.0, rows=MANY)  # 8 MiB inside a layer, for each of the steps that torch keeps
    weighed = replace(large, name=f"{large.name}, weighed", inputs=(large.inputs[0] | {WEIGHED: True},))
    return [*cases, case(draw.integer(4, 6), 7, 0.4), weighed] if grading else cases


# ── all layers with everything kept ──


@contextmanager
def _seeded(case: Case) -> Iterator[None]:
    """The random state that a rank starts with."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(case.inputs[0]["seed"])
        yield


def _forward(case: Case) -> tuple[list[Tensor], list[list[Tensor]]]:
    """x and each layer's output; each layer's weights."""
    x, weights = trained(case.inputs[0])
    outputs = [x]
    for pair in weights:
        outputs.append(layer(outputs[-1], *pair, case.inputs[0]["p"]))
    return outputs, weights


def _gradients(loss: Tensor, tensors: Sequence[Tensor]) -> list[Tensor | None]:
    """Of those that are trained; None of the others."""
    wanted = [tensor for tensor in tensors if tensor.requires_grad]
    gradients = iter(torch.autograd.grad(loss, wanted, retain_graph=True) if wanted else ())
    return [next(gradients) if tensor.requires_grad else None for tensor in tensors]


def _right(case: Case, rank: int) -> dict[str, Any]:
    with _seeded(case):
        outputs, weights = _forward(case)
        random = torch.rand(3), torch.rand(3)
    loss = (outputs[-1] * case.inputs[0]["weights"]).sum()
    return {"y": outputs[-1].detach(), "dx": _gradients(loss, outputs[:1])[0],
            "dparameters": [_gradients(loss, pair) for pair in weights],
            "random after forward": random[0], "random after backward": random[1]}


EXERCISE = Exercise(
    title="Run the layer again in backward",
    parameters=("run", "x", "*parameters"),
    make_cases=_cases,
    trains=True,
    measured=True,
    forbidden=("torch.utils.checkpoint",),
    oracle=each_rank(_right),
    tolerance=TOLERANCE,
    points={"values": 4, "technique": 4},
)
