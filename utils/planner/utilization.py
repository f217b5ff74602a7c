"""From FLOPs and measured time to TFLOP/s, MFU, HFU and days, and back."""

from utils.checking import require_count, require_kind, require_positive
from utils.deadlocks.errors import BadValue
from utils.planner.explained import Explained, explain
from utils.planner.shape import ModelShape

PALM = "PaLM, 2204.02311, appendix B"
NARAYANAN = "Narayanan 2021, 2104.04473, 5.1"
SECONDS_A_DAY = 86_400


def flops_per_device(flops: float, step_time_s: float, devices: int) -> Explained:
    """FLOP/s that each device achieved. flops: of a step, model or hardware FLOPs: papers print either."""
    _require(flops=flops, step_time_s=step_time_s, devices=devices)
    return explain("achieved by a device", "FLOP/s", "F/(T*n)", F=flops, T=step_time_s, n=devices)


def utilization(flops: float, step_time_s: float, devices: int, peak_flops: float,
                name: str = "utilization") -> Explained:
    """Share of the devices' peak that a step used: MFU of model FLOPs, HFU of hardware FLOPs.

    Raises: TypeError, ValueError; also for more than the peak, which is a mistake in a unit.
    """
    _require(flops=flops, step_time_s=step_time_s, devices=devices, peak_flops=peak_flops)
    share = flops / (step_time_s * devices * peak_flops)
    if share > 1:
        raise BadValue(f"{share:.4g} times the peak cannot be: {flops:.4g} FLOPs in {step_time_s:.4g} s on {devices:,} "
                       f"devices of {peak_flops:.4g} FLOP/s. Is the peak in FLOP/s (312e12, not 312), the time in seconds?")
    return explain(name, "share", "F/(T*n*peak)", PALM, F=flops, T=step_time_s, n=devices, peak=peak_flops)


def mfu(shape: ModelShape, global_batch: int, step_time_s: float, devices: int, peak_flops: float,
        causal: bool = False) -> Explained:
    """Model FLOPs utilization of a measured step.  Source: PaLM, appendix B; whole attention unless causal=True."""
    require_kind("shape", shape, ModelShape)
    return utilization(shape.step_flops(global_batch, causal), step_time_s, devices, peak_flops, "MFU")


def hfu(shape: ModelShape, global_batch: int, step_time_s: float, devices: int, peak_flops: float, recompute: str,
        causal: bool = False, attention_again: float = 1) -> Explained:
    """Hardware FLOPs utilization of a measured step; the last three arguments as in ModelShape.hardware_flops."""
    require_kind("shape", shape, ModelShape)
    done = shape.hardware_flops(global_batch, recompute, causal, attention_again)
    return utilization(done, step_time_s, devices, peak_flops, "HFU")


def step_time(flops: float, devices: int, flops_per_s: float) -> Explained:
    """Seconds of a step if every device achieves flops_per_s. flops: of the kind that flops_per_s counts."""
    _require(flops=flops, devices=devices, flops_per_s=flops_per_s)
    return explain("step time", "s", "F/(n*X)", F=flops, n=devices, X=flops_per_s)


def training_days(shape: ModelShape, tokens: float, devices: int, flops_per_s: float, recompute: str,
                  causal: bool = False) -> Explained:
    """Days to train on so many tokens if every device achieves flops_per_s.

    recompute: what flops_per_s counts: "none" for model FLOP/s; Narayanan et al. print them with "full".
    Source: 2104.04473, section 5.1, where it is 8TP/(nX): only weights, all of them recomputed.
    """
    require_kind("shape", shape, ModelShape)
    _require(tokens=tokens, devices=devices, flops_per_s=flops_per_s)
    of_one = shape.hardware_flops(1, recompute, causal)
    return explain("training", "days", "tokens/s*F/(n*X)/day", NARAYANAN, tokens=tokens, s=shape.sequence, F=of_one,
                   n=devices, X=flops_per_s, day=SECONDS_A_DAY)


def six_nd(shape: ModelShape, tokens: float) -> Explained:
    """FLOPs to train on so many tokens by the rule of thumb 6ND, N the parameters that a token meets; attention left out.

    Source: GPT-3 (2005.14165), appendix D: 3.14e23; with embeddings, which Kaplan 2020 (2001.08361) leaves out of N.
    """
    require_kind("shape", shape, ModelShape)
    _require(tokens=tokens, devices=1)
    return explain("6ND", "FLOP", "6*N*D", "GPT-3, 2005.14165, appendix D", N=shape.active_parameters(), D=tokens)


def _require(devices: int, **amounts: float) -> None:
    require_count("devices", devices)
    for what, amount in amounts.items():
        require_positive(what, amount)
