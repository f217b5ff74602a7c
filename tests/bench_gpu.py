"""One real GPU against the simulator and the planner: steps of a GPT in bfloat16, seconds and bytes."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

import torch

from utils import run_ranks, simulate_ranks
from utils.models.tiny import TinyGPT, next_byte_loss
from utils.planner.conventions import BFLOAT16_8
from utils.planner.layout import Layout
from utils.planner.plan import Plan, plan
from utils.planner.published import one_gpu_runs
from utils.planner.shape import ModelShape
from utils.planner.times import Assumptions
from utils.simulation.cluster import Cluster, Device, Link
from utils.simulation.clusters import H100

LARGE, LONG, MANY, RUNS = 8192, 1 << 28, 200, 7
TIME_FACTOR, MEMORY_FACTOR = 1.5, 1.25


def bench_gpu(line: Callable) -> None:
    """Predicted / measured seconds and bytes of a training step on one GPU; there is nothing to do without one."""
    if not torch.cuda.is_available():
        print("     this machine has no GPU")
        return
    fitted = run_ranks(_fitted, 1, backend="nccl", trace=False, memory=False).results[0]
    print(f"     {fitted.name}: {fitted.flops['bfloat16'] / 1e12:.0f} TFLOP/s in a product of {LARGE}³ in bfloat16, "
          f"{fitted.memory_bytes_per_s / 1e12:.2f} TB/s, {1e6 * fitted.overhead_s:.1f} µs an operation")
    for known in one_gpu_runs():
        shape, batch = known.shape, known.batch
        name, step = f"{shape.name}, {batch} × {shape.sequence:,} tokens", partial(steps_of, shape, batch)
        timed = partial(_measured, shape, batch)
        seconds, peak_bytes = run_ranks(timed, 1, backend="nccl", trace=False, memory=False).results[0]
        counted_bytes = run_ranks(partial(step, 2), 1, backend="nccl", trace=False).memory[0].peak_bytes
        print(f"     {name}: {1e3 * seconds:.1f} ms, {peak_bytes / 1e9:.2f} GB at the peak")
        _ratio(line, f"{name}: simulated on it", simulated_s(step, fitted), seconds, TIME_FACTOR, 1e3, "ms")
        planned = planned_on(fitted, shape, batch)
        for what, at_least_s in (("simulated by the data sheet", simulated_s(step, H100)), ("planned", float(planned.time))):
            ratio = at_least_s / seconds
            line(f"{name}: {what}", ratio, "<= 1", ratio <= 1, "no launches, no slow kernels")
        simulated = simulate_ranks(partial(step, 2), 1, alone(fitted)).memory[0].peak_bytes
        _ratio(line, f"{name}: simulated peak of memory", simulated, peak_bytes, MEMORY_FACTOR, 1e-9, "GB")
        _ratio(line, f"{name}: the peak that a rank counts itself", counted_bytes, peak_bytes, MEMORY_FACTOR, 1e-9, "GB")
        _ratio(line, f"{name}: planned memory", float(planned.memory), peak_bytes, MEMORY_FACTOR, 1e-9, "GB")


def _ratio(line: Callable, name: str, predicted: float, measured: float, factor: float, scale: float, unit: str) -> None:
    ratio = predicted / measured
    line(name, ratio, f"1/{factor:g} to {factor:g}", 1 / factor <= ratio <= factor,
         f"{scale * predicted:.2f} {unit}, {scale * measured:.2f} {unit}")


def steps_of(shape: ModelShape, batch: int, n: int, timed: Callable = lambda step: step()) -> None:
    """So many steps of training, each of which goes through `timed`."""
    model = TinyGPT(shape.sequence, shape.width, shape.layers, shape.heads).to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    tokens = torch.zeros(batch, shape.sequence, dtype=torch.int64)

    def step():
        optimizer.zero_grad()
        next_byte_loss(model(tokens), tokens).mean().backward()
        optimizer.step()

    for _ in range(n):
        timed(step)


def simulated_s(step: Callable, device: Device) -> float:
    """Of a later step: what the model and the first step cost is taken off."""
    one, three = (simulate_ranks(partial(step, n), 1, alone(device)).elapsed_s for n in (1, 3))
    return (three - one) / 2


def alone(device: Device) -> Cluster:
    """A cluster of one."""
    return Cluster("one GPU", device, 1, 1, Link("no other device", 0.0, 1.0))


def planned_on(device: Device, shape: ModelShape, batch: int) -> Plan:
    """The planner's view of it."""
    return plan(shape, Layout(micro_batch=batch), alone(device), batch, BFLOAT16_8, Assumptions(fused_attention=True),
                dropout=False)


# ── inside a rank that has a GPU ──


def _measured(shape: ModelShape, batch: int) -> tuple[float, int]:
    """Median seconds of a later step, and bytes at the peak by torch's allocator."""
    times: list[float] = []

    def timed(step):
        torch.cuda.synchronize()
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)

    steps_of(shape, batch, RUNS + 2, timed)
    return median(times[2:]), torch.cuda.max_memory_allocated()


def _fitted() -> Device:
    """This GPU's speed in a large product and a large copy, and the time of an operation on next to nothing."""
    square = torch.randn(LARGE, LARGE, dtype=torch.bfloat16)
    row, little = torch.ones(LONG), torch.ones(4)
    product_s = _seconds(lambda: square @ square, 20)
    copy_s = _seconds(row.clone, 20)
    little_s = _seconds(lambda: little.add_(1), MANY)
    return replace(H100, name=torch.cuda.get_device_name(), flops={"bfloat16": 2 * LARGE**3 / product_s}, efficiency=1.0,
                   memory_bytes=torch.cuda.get_device_properties(0).total_memory,
                   memory_bytes_per_s=2 * 4 * LONG / copy_s, overhead_s=little_s)


def _seconds(operation: Callable, times: int) -> float:
    """Of one of many, queued one after the other; the median of some rounds."""
    rounds = []
    for _ in range(RUNS + 1):
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(times):
            operation()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - began) / times)
    return median(rounds[1:])
