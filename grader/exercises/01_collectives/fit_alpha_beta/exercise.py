"""α and β from measured all-reduce times, by least squares."""

from statistics import linear_regression

from grader.exercises.shared.formula_cases import single
from grader.judging.exercise import Case, Draw, Exercise
from utils.costs.formulas import ring_time_s


def _cases(draw: Draw, grading: bool) -> list[Case]:
    rounds = [(4, 0.0), (2, 0.0), (4, 0.3), (8, 0.3)]
    if grading:
        rounds += [(3, 0.2), (16, 0.4)]
    return [*(_measured(draw, n, noise) for n, noise in rounds), _bent(draw)]


def _bent(draw: Draw) -> Case:
    """Large arrays take more than their share, as where caches are full: the line meets size 0 below 0."""
    sizes = [2**power for power in range(12, 25, 2)]
    times = [size * draw.integer(10, 90) * 1e-11 * (1 + size / sizes[-1]) for size in sizes]
    return single("4 ranks, times that bend", sizes_bytes=sizes, times_s=times, n_ranks=4)


def _measured(draw: Draw, n: int, noise: float) -> Case:
    """Times of the model, each off by at most noise × the latency part."""
    alpha_s, beta = draw.integer(20, 200) * 1e-6, draw.integer(10, 90) * 1e-11
    sizes = [2**power for power in range(12, 25, 2)]
    sizes = sizes[:1] * 2 * bool(noise) + sizes  # where times scatter, the shortest is measured again and again
    off_s = noise * 2 * (n - 1) * alpha_s
    times = [ring_time_s("all_reduce", size, n, alpha_s, beta) + off_s * draw.numbers.uniform(-1, 1) for size in sizes]
    return single(f"{n} ranks, {'noisy' if noise else 'exact'} times", sizes_bytes=sizes, times_s=times, n_ranks=n)


def _of_line(i: dict, slope: float, intercept: float) -> tuple[float, float]:
    """α and β of a line of time over size."""
    steps = 2 * (i["n_ranks"] - 1)
    return intercept / steps, slope * i["n_ranks"] / steps


def _right(i: dict) -> tuple[float, float]:
    """Of the least-squares line."""
    return _of_line(i, *linear_regression(i["sizes_bytes"], i["times_s"]))


EXERCISE = Exercise(
    title="Fit α and β to measured times",
    parameters=("sizes_bytes", "times_s", "n_ranks"),
    make_cases=_cases,
    oracle=lambda case: [_right(case.inputs[0])],
    points={"values": 2},
    tolerance=1e-5,
)
