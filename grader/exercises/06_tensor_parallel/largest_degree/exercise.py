"""The largest tensor-parallel group whose sending stays small beside its computing, found by trying every size."""

from collections.abc import Sequence

from grader.exercises.shared.cases import each_rank
from grader.exercises.shared.formula_cases import FORMULAS, single
from grader.judging.exercise import VALUES, Case, Draw, Exercise
from utils.costs.formulas import ring_time_s


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


def _right(case: Case, rank: int) -> int:
    inputs = case.inputs[rank]
    tokens, length, dim = inputs["batch"] * inputs["length"], inputs["length"], inputs["dim"]
    compute_s = (72 * tokens * dim**2 + 12 * tokens * length * dim) / inputs["flops_per_s"]

    def send_s(n: int) -> float:
        return 4 * ring_time_s("all_reduce", 2 * tokens * dim, n, inputs["alpha_s"], inputs["beta_s_per_byte"])

    return max(n for n in range(1, inputs["n_heads"] + 1)
               if inputs["n_heads"] % n == 0 and send_s(n) <= inputs["share"] * compute_s / n)


EXERCISE = Exercise(
    title="How many ranks are too many?",
    forbidden=FORMULAS,
    parameters=("batch", "length", "dim", "n_heads", "flops_per_s", "alpha_s", "beta_s_per_byte", "share"),
    make_cases=_cases,
    oracle=each_rank(_right),
    points={VALUES: 2},
)
