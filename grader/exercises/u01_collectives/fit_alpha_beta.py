"""α and β from measured all-reduce times, by least squares."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from grader.exercise import Case, Draw, Exercise, Look, Symptom
from grader.exercises.u01_collectives.costs import formula, single
from grader.symptoms import same, wrong_ranks
from utils.costs import ring_time_s


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    rounds = [(4, 0.0), (2, 0.0), (4, 0.3), (8, 0.3)] + [(3, 0.2), (16, 0.4)] * grading
    return [_measured(draw, n, noise) for n, noise in rounds]


def _measured(draw: Draw, n: int, noise: float) -> Case:
    """Times of the model, each off by at most noise × the latency part."""
    alpha_s, beta = draw.integer(20, 200) * 1e-6, draw.integer(10, 90) * 1e-11
    sizes = [2**power for power in range(12, 25, 2)]
    off_s = noise * 2 * (n - 1) * alpha_s
    times = [ring_time_s("all_reduce", size, n, alpha_s, beta) + off_s * draw.numbers.uniform(-1, 1) for size in sizes]
    name = f"{n} ranks, {'exact' if not noise else 'noisy'} times"
    return single(name, sizes_bytes=sizes, times_s=times, n_ranks=n)


def _line(i: dict) -> tuple[float, float]:
    """(intercept, slope) of the least-squares line of time over size."""
    sizes, times = (torch.tensor(i[key], dtype=torch.float64) for key in ("sizes_bytes", "times_s"))
    centred = sizes - sizes.mean()
    slope = float((centred * times).sum() / (centred**2).sum())
    return float(times.mean()) - slope * float(sizes.mean()), slope


def _from_line(i: dict, intercept: float, slope: float) -> tuple[float, float]:
    steps = 2 * (i["n_ranks"] - 1)
    return intercept / steps, slope * i["n_ranks"] / steps


def _right(i: dict) -> tuple[float, float]:
    return _from_line(i, *_line(i))


def _through_origin(i: dict) -> float:
    sizes, times = (torch.tensor(i[key], dtype=torch.float64) for key in ("sizes_bytes", "times_s"))
    return float((sizes * times).sum() / (sizes**2).sum()) * i["n_ranks"] / (2 * (i["n_ranks"] - 1))


def _first_and_last(i: dict) -> tuple[float, float]:
    ends = {key: [i[key][0], i[key][-1]] for key in ("sizes_bytes", "times_s")}
    return _right(i | ends)


def _with_steps(i: dict, steps: float) -> tuple[float, float]:
    intercept, slope = _line(i)
    return intercept / steps, slope * i["n_ranks"] / steps


def _nearly(look: Look, rank: int, found: tuple, expected: tuple) -> bool:
    """Off by a little, or with an α that is nothing but rounding."""
    off = [abs(f - e) / abs(e) for f, e in zip(found, expected, strict=True)]
    return 1e-5 < max(off) < 1e-3 or 0 < abs(found[0]) < 1e-12


EXERCISE = Exercise(
    id="fit_alpha_beta",
    unit="01_collectives",
    title="Fit α and β to measured times",
    parameters=("sizes_bytes", "times_s", "n_ranks"),
    make_cases=_cases,
    oracle=lambda case: [_right(case.inputs[0])],
    points={"values": 2},
    adapter="call_plain",
    tolerance=1e-5,
    symptoms=(
        formula("alpha and beta swapped", lambda i: _right(i)[::-1],
                "α and β have changed places: return (α, β), seconds a message first, then seconds a byte."),
        formula("line not turned into steps",
                _line, "You returned intercept and slope of the line: an all-reduce takes 2(n−1) "
                "steps of M/n bytes, so the intercept is 2(n−1)·α and the slope 2(n−1)/n·β.", 1e-5),
        formula("slope and intercept swapped", lambda i: _from_line(i, *_line(i)[::-1]),
                "You took the slope for α and the intercept for β: α comes from the time at size 0, the intercept, and "
                "β from what each further byte costs, the slope.", 1e-5),
        Symptom("tensors", "The results are tensors: return plain numbers, tensor.item().",
                wrong_ranks(lambda look, r, found, _: any(isinstance(one, torch.Tensor) for one in found))),
        Symptom("single precision", "α is lost, or some digits are: sizes reach 10⁷, beside which float32 cannot "
                                    "hold a column of ones; compute in float64 (torch.tensor(..., "
                                    "dtype=torch.float64)).", wrong_ranks(_nearly)),
        Symptom("through the origin", "Your line goes through the origin, so α is 0 or lost: fit an intercept too (a "
                                      "column of ones beside the sizes).",
                wrong_ranks(lambda look, r, found, _: found[0] == 0
                            or same(found[1], _through_origin(look.case.inputs[r]), 1e-4))),
        formula("n steps", lambda i: _with_steps(i, 2 * i["n_ranks"]),
                "You divide by 2n steps: a ring all-reduce takes 2(n−1).", 1e-5),
        formula("one phase", lambda i: _with_steps(i, i["n_ranks"] - 1),
                "α and β are twice what they should be: an all-reduce takes 2(n−1) steps, since it has two phases.",
                1e-5),
        Symptom("bytes of a step", "α is right, β is not: a step carries one chunk, M/n bytes, so the slope over M is "
                "2(n−1)/n·β.", wrong_ranks(lambda look, r, found, expected: same(found[0], expected[0], 1e-4))),
        formula("two points only", _first_and_last,
                "You drew a line through the first and the last measurement: with noise, all of them must count "
                "(least squares).", 1e-4),
    ),
)
