"""α and β from measured all-reduce times, by least squares."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from grader.exercises.shared.formula_cases import single
from grader.judging.compare import same
from grader.judging.exercise import Case, Draw, Exercise, Look, Symptom, Technique
from grader.judging.symptoms import wrong_ranks
from utils.costs.formulas import ring_time_s


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


def _right(i: dict) -> tuple[float, float]:
    intercept, slope = _line(i)
    steps = 2 * (i["n_ranks"] - 1)
    return intercept / steps, slope * i["n_ranks"] / steps


def _fit(id: str, wrong: Callable[[int, float, float], tuple[float, float]], hint: str) -> Symptom:
    """The result is wrong(number of ranks, right α, right β)."""

    def test(look: Look, rank: int, found: tuple, expected: tuple) -> bool:
        return same(found, wrong(look.case.inputs[rank]["n_ranks"], *expected), 1e-5)

    return Symptom(id, hint, wrong_ranks(test))


def _through_origin(look: Look, rank: int, found: tuple, expected: tuple) -> bool:
    """α is 0, or β is that of the least-squares line without an intercept."""
    i = look.case.inputs[rank]
    of_beta_s = [ring_time_s("all_reduce", size, i["n_ranks"], 0.0, found[1]) for size in i["sizes_bytes"]]
    beta, measured = (sum(size * s for size, s in zip(i["sizes_bytes"], times_s, strict=True))
                      for times_s in (of_beta_s, i["times_s"]))
    return found[0] == 0 or same(beta, measured, 1e-4)


def _through_ends(look: Look, rank: int, found: tuple, expected: tuple) -> bool:
    """The line of the result meets the first and the last measurement."""
    i = look.case.inputs[rank]
    return all(same(ring_time_s("all_reduce", i["sizes_bytes"][end], i["n_ranks"], *found), i["times_s"][end], 1e-4)
               for end in (0, -1))


def _nearly(look: Look, rank: int, found: tuple, expected: tuple) -> bool:
    """Off by a little, or with an α that is nothing but rounding."""
    off = [abs(f - e) / abs(e) for f, e in zip(found, expected, strict=True)]
    return 1e-5 < max(off) < 1e-3 or 0 < abs(found[0]) < 1e-12


EXERCISE = Exercise(
    title="Fit α and β to measured times",
    parameters=("sizes_bytes", "times_s", "n_ranks"),
    make_cases=_cases,
    oracle=lambda case: [_right(case.inputs[0])],
    points={"values": 2},
    tolerance=1e-5,
    technique=Technique(
        symptoms=(
        _fit("alpha and beta swapped", lambda n, alpha, beta: (beta, alpha),
             "α and β have changed places: return (α, β), seconds a message first, then seconds a byte."),
        _fit("line not turned into steps", lambda n, alpha, beta: (2 * (n - 1) * alpha, 2 * (n - 1) / n * beta),
             "You returned intercept and slope of the line: an all-reduce takes 2(n−1) steps of M/n bytes, so the "
             "intercept is 2(n−1)·α and the slope 2(n−1)/n·β."),
        _fit("slope and intercept swapped", lambda n, alpha, beta: (beta / n, alpha * n),
             "You took the slope for α and the intercept for β: α comes from the time at size 0, the intercept, and β "
             "from what each further byte costs, the slope."),
        Symptom("tensors", "The results are tensors: return plain numbers, tensor.item().",
                wrong_ranks(lambda look, r, found, _: any(isinstance(one, torch.Tensor) for one in found))),
        Symptom("single precision", "α is lost, or some digits are: sizes reach 10⁷, beside which float32 cannot "
                                    "hold a column of ones; compute in float64 (torch.tensor(..., "
                                    "dtype=torch.float64)).", wrong_ranks(_nearly)),
        Symptom("through the origin", "Your line goes through the origin, so α is 0 or lost: fit an intercept too (a "
                                      "column of ones beside the sizes).",
                wrong_ranks(_through_origin)),
        _fit("n steps", lambda n, alpha, beta: (alpha * (n - 1) / n, beta * (n - 1) / n),
             "You divide by 2n steps: a ring all-reduce takes 2(n−1)."),
        _fit("one phase", lambda n, alpha, beta: (2 * alpha, 2 * beta),
             "α and β are twice what they should be: an all-reduce takes 2(n−1) steps, since it has two phases."),
        Symptom("bytes of a step", "α is right, β is not: a step carries one chunk, M/n bytes, so the slope over M is "
                "2(n−1)/n·β.", wrong_ranks(lambda look, r, found, expected: same(found[0], expected[0], 1e-4))),
        Symptom("two points only", "You drew a line through the first and the last measurement: with noise, all of them "
                "must count (least squares).", wrong_ranks(_through_ends)),
    ),
    ),
)
