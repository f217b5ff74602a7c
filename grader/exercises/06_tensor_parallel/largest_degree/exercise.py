"""The largest tensor-parallel group whose sending stays small beside its computing, found by trying every size."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from operator import le, lt
from typing import Any

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS, formula, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise
from utils.costs.formulas import ring_time_s

Inputs = dict[str, Any]
MANY = 4096  # more ranks than any case has heads


def _cases(draw: Draw, grading: bool) -> Sequence[Case]:
    cases = [_case("GPT-3, NVLink", (1, 2048, 12288, 96), 156e12, 5e-6, 300e9, 0.25),
             _case("GPT-3, InfiniBand", (1, 2048, 12288, 96), 156e12, 5e-6, 25e9, 0.25),
             _case("a long text", (2, 16384, 2048, 24), 156e12, 5e-6, 300e9, 0.3021),  # 12 just qualifies,
             _case("slow messages", (1, 512, 5120, 40), 150e12, 1e-5, 300e9, 0.8325),  # and here 8 just does not
             _case("a short text", (1, 64, 4096, 64), 400e12, 4e-6, 450e9, 0.5),
             _case("fast links", (8, 2048, 8192, 40), 100e12, 1e-6, 900e9, 0.5),
             _case("powers of two", (1, 128, 64, 8), 2.0**36, 2.0**-20, 2.0**32, 0.25),  # 4 takes just as long as it may
             _case("slow links", (1, 128, 512, 8), 100e12, 1e-5, 1e9, 0.1)]
    if grading:
        heads, length = (12, 20, 40)[draw.integer(0, 2)], 512 * draw.integer(1, 3)
        cases.append(_case("drawn", (1, length, 128 * heads, heads), 150e12, 5e-6, 250e9, 0.3))
    return cases


def _case(name: str, sizes: tuple[int, int, int, int], flops_per_s: float, alpha_s: float, bytes_per_s: float,
          share: float) -> Case:
    """sizes: rows, length, width, heads."""
    batch, length, dim, n_heads = sizes
    return single(f"{name}, {n_heads} heads", batch=batch, length=length, dim=dim, n_heads=n_heads, flops_per_s=flops_per_s,
                  alpha_s=alpha_s, beta_s_per_byte=1 / bytes_per_s, share=share)


def _array_bytes(inputs: Inputs) -> int:
    return 2 * inputs["batch"] * inputs["length"] * inputs["dim"]


def _send_s(inputs: Inputs, n: int, all_reduces: int = 4, item_bytes: int = 2, latency: float = 1.0) -> float:
    """latency: times α."""
    return all_reduces * ring_time_s("all_reduce", _array_bytes(inputs) * item_bytes / 2, n, latency * inputs["alpha_s"],
                                     inputs["beta_s_per_byte"])


def _compute_s(inputs: Inputs, n: int, scores: bool = True) -> float:
    tokens, length, dim = inputs["batch"] * inputs["length"], inputs["length"], inputs["dim"]
    return (72 * tokens * dim**2 + 12 * tokens * length * dim * scores) / n / inputs["flops_per_s"]


def _divisors(n_heads: int) -> list[int]:
    return [n for n in range(1, n_heads + 1) if n_heads % n == 0]


def _qualify(inputs: Inputs, send_s: Callable[[Inputs, int], float] = _send_s,
             compute_s: Callable[[Inputs, int], float] = _compute_s, enough: Callable[[float, float], bool] = le,
             sizes: Callable[[int], Iterable[int]] = _divisors) -> list[int]:
    """All n, of these sizes, that enough(sending, what it may take) lets pass; 1 is always among them."""
    return [n for n in sizes(inputs["n_heads"])
            if n == 1 or enough(send_s(inputs, n), inputs["share"] * compute_s(inputs, n))]


def _largest(**ways: Any) -> Callable[[Inputs], int]:
    return lambda inputs: max(_qualify(inputs, **ways))


def _one_too_far(inputs: Inputs) -> int:
    right = max(_qualify(inputs))
    return min((n for n in _divisors(inputs["n_heads"]) if n > right), default=right)


def _smallest(inputs: Inputs) -> int:
    return min(_qualify(inputs)[1:], default=1)


def _of_both(inputs: Inputs) -> int:
    """Sending is compared with the whole time."""
    return _largest(send_s=lambda given, n: (1 - given["share"]) * _send_s(given, n))(inputs)


def _until_a_gap(inputs: Inputs) -> int:
    """Tried upwards, until one does not divide the heads or takes too long."""
    good = _qualify(inputs)
    return next(n - 1 for n in itertools.count(1) if n not in good)


_WHOLE_MESSAGES = ("Each message is counted with the whole array's bytes, but in a ring it carries one n-th of them, which "
                   "makes 2(n−1)/n of the array for an all-reduce.")
_TURNED = "The comparison is turned round: sending may take at most `share` times the time of computing."

EXERCISE = Exercise(
    title="How many ranks are too many?",
    forbidden=FORMULAS,
    parameters=("batch", "length", "dim", "n_heads", "flops_per_s", "alpha_s", "beta_s_per_byte", "share"),
    make_cases=_cases,
    oracle=each_rank(lambda case, r: max(_qualify(case.inputs[r]))),
    points={VALUES: 2},
    slips=(
        # what errs in few cases comes first: of two that explain as many, the first one speaks
        formula("must stay below", _largest(enough=lt),
                "An n on which sending takes exactly `share` of the time of computing still counts: <=, not <."),
        formula("stopped at a gap", _until_a_gap,
                "The search ends at the first n that does not divide n_heads: a larger one may. Try all its divisors."),
        formula("alpha forgotten", _largest(send_s=lambda inputs, n: _send_s(inputs, n, latency=0)),
                "Only the bytes are counted: each message of the ring also costs α, and their number grows with n."),
        formula("alpha once", _largest(send_s=lambda inputs, n: _send_s(inputs, n, latency=1 / (2 * max(1, n - 1)))),
                "α is counted once for each all-reduce, but it is the price of a message: how many does a ring need?"),
        formula("share of both", _of_both,
                "Sending is compared with sending and computing together; `share` is of the computing alone."),
        formula("scores forgotten", _largest(compute_s=lambda inputs, n: _compute_s(inputs, n, scores=False)),
                "The FLOPs of the attention scores, 12·B·T²·D, are left out or too few; in a long text they are most."),
        formula("half is sent", _largest(send_s=lambda inputs, n: _send_s(inputs, n, all_reduces=2)),
                "Sending takes twice as long as you have it: count forward and backward, and both halves of a ring "
                "all-reduce (reduce-scatter, then all-gather)."),
        formula("one all-reduce", _largest(send_s=lambda inputs, n: _send_s(inputs, n, all_reduces=1)),
                "One all-reduce is counted: attention and MLP both have an f and a g."),
        formula("four bytes", _largest(send_s=lambda inputs, n: _send_s(inputs, n, item_bytes=4)),
                "Activations travel with 2 bytes a number."),
        formula("whole array in a message",
                _largest(send_s=lambda inputs, n: 8 * (n - 1) * (
                    inputs["alpha_s"] + _array_bytes(inputs) * inputs["beta_s_per_byte"])), _WHOLE_MESSAGES),
        formula("computing not divided", _largest(compute_s=lambda inputs, n: _compute_s(inputs, 1)),
                "A rank computes one n-th of the layer: the more ranks, the less time there is to compare with."),
        formula("heads cut", _largest(sizes=lambda n_heads: range(1, n_heads + 1)),
                "A head would be cut: only an n that divides n_heads counts."),
        formula("more ranks than heads", _largest(sizes=lambda n_heads: range(1, MANY)),
                "There are more ranks than heads: only an n that divides n_heads counts."),
        formula("powers of two", _largest(sizes=lambda n_heads: [n for n in _divisors(n_heads) if n & (n - 1) == 0]),
                "Only powers of two were tried, but every divisor of n_heads is possible: 3, 5, 12, …"),
        formula("fewer than the heads", _largest(sizes=lambda n_heads: _divisors(n_heads)[:-1]),
                "As many ranks as heads were not tried: with one head on each, n_heads divides itself."),
        formula("one too far", _one_too_far, "That is the first n on which sending takes too long: return the one before."),
        formula("smallest", _smallest, "That is the smallest group that qualifies; the largest is asked for."),
        formula("turned round", _largest(enough=lambda send_s, most_s: send_s >= most_s), _TURNED),
        formula("turned round", lambda inputs: _largest(enough=lambda send_s, most_s: most_s <= inputs["share"]**2 * send_s)(
            inputs), _TURNED),
        formula("share ignored", lambda inputs: _largest()(inputs | {"share": 1.0}),
                "Sending was allowed as long as computing: it may take only `share` times that."),
    ),
)
