"""Cases of pipelines of small layers, one stage a rank."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grader.exercises.shared.cases import group_case, ranks
from grader.judging.exercise import Case, Draw


def pipeline_inputs(draw: Draw, n: int, n_micro: int, rows: int, dtype: str = "float64") -> list[dict[str, Any]]:
    """Inputs of n stages of one or two layers, of odd widths: x for the first, y for the last, `like` for what comes in."""
    widths = [draw.integer(3, 6) for _ in range(n + 1)]
    inputs = [{"layers": _layers(draw, widths[r:r + 2], 1 + (r == 1), dtype), "x": None, "y": None, "n_micro": n_micro,
               "like": torch.zeros(rows, widths[r], dtype=getattr(torch, dtype))} for r in range(n)]
    inputs[0]["x"], inputs[-1]["y"] = (_numbers(draw, n_micro * rows, width, dtype) for width in (widths[0], widths[-1]))
    return inputs


def pipeline_cases(draw: Draw, sizes: Sequence[tuple[int, int, int, str]],
                   drop: Sequence[str] = ()) -> Sequence[Case]:
    """A case for each (ranks, micro-batches, rows of one, dtype), and one in two groups; inputs without those in `drop`."""
    def inputs(*size) -> list[dict[str, Any]]:
        return [{name: value for name, value in of_rank.items() if name not in drop}
                for of_rank in pipeline_inputs(draw, *size)]

    cases = [Case(f"{ranks(n)}, {m} micro-batch{'es' * (m > 1)} of {rows}{'' if dtype == 'float64' else ', ' + dtype}",
                  tuple(inputs(n, m, rows, dtype))) for n, m, rows, dtype in sizes]
    return [*cases, group_case(lambda n: inputs(n, 4, 2))]


def _layers(draw: Draw, ends: Sequence[int], count: int, dtype: str) -> list[list[Tensor]]:
    widths = [ends[0]] + [ends[0] + 1] * (count - 1) + [ends[1]]
    return [[_numbers(draw, widths[k + 1], widths[k], dtype), _numbers(draw, 1, widths[k + 1], dtype)[0]]
            for k in range(count)]


def _numbers(draw: Draw, rows: int, width: int, dtype: str) -> Tensor:
    return (draw.tensor(rows, width, dtype=torch.float64) / 50).to(getattr(torch, dtype))
