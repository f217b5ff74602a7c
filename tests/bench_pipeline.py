"""A pipelined step against torch's own schedule, and micro-batches against the layer-wise split, in the same ranks."""

import os
from collections.abc import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from grader.exercises.references import functions_of
from tests.bench_training import slowest
from utils.models.stages import Delayed, GPTStage
from utils.models.text import text_batch
from utils.models.tiny import TinyGPT, next_byte_loss, same_start

STAGES, MICRO, ROUNDS = 4, 8, 21
SCHEDULE_WANTED = 1.25
NEAR = 0.75  # of the predicted factor: a micro-batch's products are smaller, and each costs two messages
WIDTH, ROWS = 256, 4096  # so many rows that an eighth of them takes an eighth of the time
DEVICE_S = 0.08  # a whole batch forward on a device; backward takes twice as long


def bench_one_f_one_b(line: Callable, in_turn: Callable) -> None:
    """A step of the reference 1F1B against torch's Schedule1F1B: the tiny GPT, 4 stages, 8 micro-batches."""
    own_step = functions_of("solutions", "07_pipeline_parallel")["one_f_one_b_step"]

    def race() -> list[float]:
        rank = dist.get_rank()
        first, last = rank == 0, rank == STAGES - 1
        tokens_BT = text_batch(0, 2 * MICRO, 64)
        x, y = tokens_BT[:, :-1], tokens_BT[:, 1:]
        own, torchs = (GPTStage(same_start(TinyGPT, n_layers=STAGES), [rank]) for _ in range(2))
        like = torch.zeros(2, 64, 64)
        between = torch.zeros(2, 64, 64, requires_grad=True)  # torch asks what crosses a border whether it takes a gradient
        part = PipelineStage(torchs, rank, STAGES, torch.device("cpu"), input_args=(x[:2] if first else between,),
                             output_args=(torch.zeros(2, 64, 256, requires_grad=True) if last else between,))
        runner = Schedule1F1B(part, MICRO, loss_fn=_loss)

        def by_own() -> None:
            own.zero_grad()
            own_step(own, x if first else None, y if last else None, _loss, MICRO, like, None)

        def by_torch() -> None:
            torchs.zero_grad()
            runner.step(*([x] if first else []), target=y if last else None, losses=[] if last else None)

        return in_turn(by_own, by_torch, rounds=ROUNDS)

    own_s, torchs_s = slowest(race, STAGES)
    ratio = own_s / torchs_s
    line("a step of 1F1B / of torch's Schedule1F1B, tiny GPT, 4 stages", ratio, f"<= {SCHEDULE_WANTED}",
         ratio <= SCHEDULE_WANTED, f"{1e3 * own_s:.1f} ms against {1e3 * torchs_s:.1f} ms")


def bench_micro_batches(line: Callable, in_turn: Callable) -> None:
    """A step of 8 micro-batches against the layer-wise split, 4 stages: on this machine's cores, and on 4 devices.

    With fewer cores than stages only so many of them compute at once. Stages that stand for devices of their own (they
    sleep) have no such bound, and show what the simulator predicts for them.
    """
    solutions, cores = functions_of("solutions", "07_pipeline_parallel"), len(os.sched_getaffinity(0))
    step, on_devices, on_cores = solutions["gpipe_step"], factor_on(STAGES, solutions), factor_on(cores, solutions)
    print(f"     predicted by simulation: {on_devices:.2f} times as fast on {STAGES} devices or cores; "
          f"{on_cores:.2f} on the {cores} of this machine")
    for name, predicted, make, rounds in ((f"{cores} cores", on_cores, _computing_stage, 7),
                                          (f"{STAGES} devices", on_devices, _sleeping_stage, 5)):

        def race(make=make, rounds=rounds) -> list[float]:
            rank = dist.get_rank()
            x, y = (torch.ones(ROWS, WIDTH) if rank == end else None for end in (0, STAGES - 1))

            def with_micro_batches(m: int) -> Callable[[], object]:
                stage, like = make(m), torch.zeros(ROWS // m, WIDTH)
                return lambda: step(stage, x, y, F.mse_loss, m, like, None)

            return in_turn(with_micro_batches(1), with_micro_batches(MICRO), rounds=rounds)

        layer_wise_s, micro_s = slowest(race, STAGES)
        factor = layer_wise_s / micro_s
        line(f"layer-wise / {MICRO} micro-batches, {STAGES} stages, {name}", factor / predicted, f">= {NEAR}",
             factor / predicted >= NEAR, f"{factor:.2f} times as fast, predicted {predicted:.2f}")


def factor_on(cores: int, solutions: dict) -> float:
    """How many times as fast MICRO micro-batches are as one where at most `cores` stages compute at once."""
    whole, pieces = (makespan(solutions["gpipe_schedule"](STAGES, m), {"F": MICRO / m, "B": 2 * MICRO / m}, cores,
                              solutions["dependencies"]) for m in (1, MICRO))
    return whole / pieces


def makespan(schedule: list, durations: dict[str, float], cores: int, dependencies: Callable) -> float:
    """When the last step ends if every rank works through its list and a free core takes the first rank that can go on."""
    waiting, running, done, now = [list(steps) for steps in schedule], {}, set(), 0.0
    while any(waiting):
        for rank, steps in enumerate(waiting):
            ready = steps and rank not in running and done.issuperset(dependencies(steps[0], len(schedule)))
            if ready and len(running) < cores:
                running[rank] = now + durations[steps[0].kind]
        now = min(running.values())
        for rank in [rank for rank, end in running.items() if end == now]:
            done.add(waiting[rank].pop(0))
            del running[rank]
    return now


def _computing_stage(n_micro: int) -> nn.Module:
    return nn.Sequential(*(part for _ in range(4) for part in (nn.Linear(WIDTH, WIDTH), nn.GELU())))


def _sleeping_stage(n_micro: int) -> nn.Module:
    return Delayed(nn.Linear(WIDTH, WIDTH), DEVICE_S / n_micro, 2 * DEVICE_S / n_micro)


def _loss(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return next_byte_loss(logits, tokens).mean()
