"""α and β from measured all-reduce times, by least squares."""

from collections import defaultdict
from collections.abc import Callable
from operator import itemgetter
from statistics import fmean, linear_regression

from grader.exercises.shared.formula_cases import formula, pair, single
from grader.judging.exercise import Case, Draw, Exercise
from utils.costs.formulas import ring_time_s

_first, _last = itemgetter(0), itemgetter(-1)


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


def _through_origin(i: dict) -> tuple[float, float]:
    """Of the least-squares line without an intercept."""
    return _of_line(i, *linear_regression(i["sizes_bytes"], i["times_s"], proportional=True))


def _one_time_a_size(i: dict, chosen: Callable[[list[float]], float]) -> tuple[float, float]:
    """Of the line through one point for each size."""
    times = defaultdict(list)
    for size, time_s in zip(i["sizes_bytes"], i["times_s"], strict=True):
        times[size].append(time_s)
    return _of_line(i, *linear_regression([*times], [chosen(of_size) for of_size in times.values()]))


def _axes_swapped(i: dict) -> tuple[float, float]:
    """Of the line of size over time."""
    return _of_line(i, *linear_regression(i["times_s"], i["sizes_bytes"]))


def _through_ends(i: dict) -> tuple[float, float]:
    """Of the line that meets the first and the last measurement."""
    sizes, times = i["sizes_bytes"], i["times_s"]
    slope = (times[-1] - times[0]) / (sizes[-1] - sizes[0])
    return _of_line(i, slope, times[0] - slope * sizes[0])


EXERCISE = Exercise(
    title="Fit α and β to measured times",
    parameters=("sizes_bytes", "times_s", "n_ranks"),
    make_cases=_cases,
    oracle=lambda case: [_right(case.inputs[0])],
    points={"values": 2},
    tolerance=1e-5,
    slips=(
        pair("alpha and beta swapped", lambda i, alpha, beta: (beta, alpha),
             "α and β have changed places: return (α, β), seconds a message first, then seconds a byte."),
        pair("line not turned into steps",
             lambda i, alpha, beta: (2 * (i["n_ranks"] - 1) * alpha, 2 * (i["n_ranks"] - 1) / i["n_ranks"] * beta),
             "You returned intercept and slope of the line: an all-reduce takes 2(n−1) steps of M/n bytes, so the "
             "intercept is 2(n−1)·α and the slope 2(n−1)/n·β."),
        pair("slope and intercept swapped", lambda i, alpha, beta: (beta / i["n_ranks"], alpha * i["n_ranks"]),
             "You took the slope for α and the intercept for β: α comes from the time at size 0, the intercept, and β "
             "from what each further byte costs, the slope."),
        formula("through the origin", _through_origin,
                "Your line goes through the origin, so α is 0 or lost: fit an intercept too (a column of ones beside "
                "the sizes)."),
        pair("n steps", lambda i, *right: tuple(part * (i["n_ranks"] - 1) / i["n_ranks"] for part in right),
             "You divide by 2n steps: a ring all-reduce takes 2(n−1)."),
        pair("one phase", lambda i, alpha, beta: (2 * alpha, 2 * beta),
             "α and β are twice what they should be: an all-reduce takes 2(n−1) steps, since it has two phases."),
        pair("bytes of a step", lambda i, alpha, beta: (alpha, beta / i["n_ranks"]),
             "α is right, β is not: a step carries one chunk, M/n bytes, so the slope over M is 2(n−1)/n·β."),
        pair("slope for beta", lambda i, alpha, beta: (alpha, 2 * (i["n_ranks"] - 1) / i["n_ranks"] * beta),
             "α is right, β is the slope as it is: the slope is 2(n−1)/n·β, so solve for β."),
        pair("multiplied", lambda i, alpha, beta: (
            alpha * (2 * (i["n_ranks"] - 1)) ** 2, beta * (2 * (i["n_ranks"] - 1) / i["n_ranks"]) ** 2),
             "You multiply intercept and slope by their factors: intercept = 2(n−1)·α and slope = 2(n−1)/n·β, so divide."),
        pair("n on the wrong side", lambda i, alpha, beta: (alpha, beta / i["n_ranks"]**2),
             "α is right, β is not: slope = 2(n−1)/n·β, so β is the slope times n, not divided by it."),
        pair("n twice", lambda i, alpha, beta: (alpha, beta * i["n_ranks"]),
             "α is right, β is n times too large: n counts once. Over chunk sizes M/n the slope is 2(n−1)·β; over M it is "
             "2(n−1)/n·β."),
        pair("bandwidth", lambda i, alpha, beta: (alpha, 1 / beta),
             "α is right, and the second is a bandwidth: β is its inverse, seconds a byte."),
        *(pair("negative alpha hidden", lambda i, alpha, beta, shown=shown: (shown(alpha), beta),
               "A negative α is hidden: the line of measured times may meet size 0 below 0, and whoever sees that knows "
               "that something bent it. Return what the fit gives.") for shown in (abs, lambda alpha: max(alpha, 0.0))),
        formula("smallest time", lambda i: (min(i["times_s"]) / (2 * (i["n_ranks"] - 1)), _right(i)[1]),
                "β is right, α comes from the smallest measurement: take the intercept of the line, its value at size 0."),
        *(formula("one time a size", lambda i, chosen=chosen: _one_time_a_size(i, chosen),
                  "Where a size was measured more than once, only one of its times counts, as in a dictionary from sizes to "
                  "times or in their mean: keep all points.") for chosen in (max, min, fmean, _last, _first)),
        formula("axes swapped", _axes_swapped,
                "You fitted the sizes as a function of the times: asked are times over sizes, the other way round."),
        formula("two points only", _through_ends,
                "You drew a line through the first and the last measurement: with noise, all of them must count (least "
                "squares)."),
    ),
)
