"""Schedules as data: against published tables, torch's own orders and engine, one plain process; and bad ones."""

import random
from functools import partial

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules

from grader.exercises.references import functions_of
from grader.exercises.shared.right_orders import all_kept
from utils import RankFailed, run_ranks, widgets
from utils.costs.tables import read_table
from utils.figures.editor import schedule_editor
from utils.models.stages import with_layers
from utils.models.tiny import Block
from utils.schedules.race import Race
from utils.schedules.schedule import Fault, Shape, Step, format_schedule, measured_times, order_of, parse_schedule, shape_of
from utils.trace.trace import Trace

SOLUTION = functions_of("solutions", "07_pipeline_parallel")
gpipe_schedule, one_f_one_b_schedule, interleaved_schedule, zero_bubble_schedule, race_schedule = (
    SOLUTION[f"{name}_schedule"] for name in ("gpipe", "one_f_one_b", "interleaved", "zero_bubble", "race"))
simulate, validate_schedule, Pipeline = (SOLUTION[name] for name in ("simulate", "validate_schedule", "Pipeline"))
DIM, ROWS = 5, 3


# ── the simulator ──

@pytest.mark.parametrize("row", read_table("zero_bubble_tables_1.5B_6.2B"), ids=lambda row: f"{row['model']}-{row['m']}")
def test_published_idle_shares_to_four_decimals(row):
    p, m, f, i, w = (row[key] for key in ("p", "m", "TF_ms", "TB_ms", "TW_ms"))
    one = simulate(one_f_one_b_schedule(p, m), {"F": f, "B": i + w}, row["Tcomm_ms"])
    zero = simulate(zero_bubble_schedule(p, m), {"F": f, "I": i, "W": w}, row["Tcomm_ms"])
    assert f"{one.bubble_rate:.4f}" == f"{row['b_1F1B']:.4f}"
    assert f"{zero.bubble_rate:.4f}" == f"{row['b_ZBH1']:.4f}"
    assert one.peaks == [p - rank for rank in range(p)] and zero.peaks == [p] * p
    race = Race(row, simulate)
    for name, make in (("1F1B", one_f_one_b_schedule), ("ZB-H1", zero_bubble_schedule)):
        line = race.row(name, partial(make, p, m))
        assert line["idle"] == line["idle in own time"] == line["published"]


@pytest.mark.parametrize("row", read_table("zero_bubble_tables_1.5B_6.2B"), ids=lambda row: f"{row['model']}-{row['m']}")
def test_the_bars_of_the_race_are_the_published_schedules(row):
    """ZB-H1 in the memory of p; in that of 2p − 1 ZB-H2, whose share is published for each rank's own time."""
    p, m, hop, times = row["p"], row["m"], row["Tcomm_ms"], {"F": row["TF_ms"], "I": row["TB_ms"], "W": row["TW_ms"]}
    assert all_kept(p, m, p) == zero_bubble_schedule(p, m)
    second = simulate(all_kept(p, m, 2 * p - 1), times, hop)
    own = max(second.times[steps[-1]][1] - second.times[steps[0]][0] for steps in all_kept(p, m, 2 * p - 1))
    assert f"{1 - m * sum(times.values()) / own:.4f}" == f"{row['b_ZBH2']:.4f}" and second.peaks == [2 * p - 1] * p
    assert simulate(race_schedule(p, m, times, hop, 2 * p - 1), times, hop).makespan <= second.makespan


@pytest.mark.parametrize("p, m", [(1, 3), (2, 2), (4, 8), (3, 7)])
def test_idle_times_are_those_of_the_formulas(p, m):
    f, i, w = 2.0, 1.5, 1.0
    gpipe, one = (simulate(make(p, m), {"F": f, "B": i + w}) for make in (gpipe_schedule, one_f_one_b_schedule))
    zero = simulate(zero_bubble_schedule(p, m), {"F": f, "I": i, "W": w})
    work = m * (f + i + w)
    assert gpipe.makespan == one.makespan == work + (p - 1) * (f + i + w)
    assert zero.makespan <= work + (p - 1) * (f + i - w) + 1e-9
    assert gpipe.peaks == [m] * p and max(zero.peaks) <= min(p, m)


@pytest.mark.parametrize("p, v, m", [(2, 2, 4), (4, 2, 8), (4, 3, 12), (3, 2, 3)])
def test_interleaving_divides_the_bubble(p, v, m):
    timetable = simulate(interleaved_schedule(p, v, m), {"F": 1 / v, "B": 2 / v})
    assert timetable.makespan == pytest.approx(3 * m + 3 * (p - 1) / v)
    assert max(timetable.peaks) / v <= p * (1 + (p - 1) / (p * v)) + 1e-9  # Narayanan and others, section 2.2


# ── torch's own orders and engine ──

def torchs_order(kind, p, v, m):
    """The order of torch's schedule: made without stages, which only its engine needs."""
    schedule = object.__new__(kind)
    schedule._num_stages, schedule._n_microbatches = p * v, m
    if kind is schedules.ScheduleInterleaved1F1B:
        schedule.pp_group_size, schedule.n_local_stages = p, v
        schedule.microbatches_per_round = m // max(1, m // p)
        rows = [schedule._calculate_single_rank_operations(rank) for rank in range(p)]
    else:
        rows = schedule._get_pipeline_order().values()
    return [[Step(one.computation_type.value, one.microbatch_index, one.stage_index) for one in row
             if one is not None and one.is_compute_op] for row in rows]


@pytest.mark.parametrize("p, m", [(2, 2), (3, 5), (4, 4), (4, 9)])
def test_the_same_order_as_torchs_gpipe_and_1f1b(p, m):
    assert gpipe_schedule(p, m) == torchs_order(schedules.ScheduleGPipe, p, 1, m)
    *others, last = torchs_order(schedules.Schedule1F1B, p, 1, m)
    # torch's table (not its engine) numbers the last rank's forwards from 1, one too many
    last = [step._replace(micro=step.micro - (step.kind == "F" and last[0].micro == 1)) for step in last]
    assert one_f_one_b_schedule(p, m) == [*others, last]


def test_torchs_gpipe_and_1f1b_are_loops_and_its_other_schedules_lists_of_actions():
    """What unit 07 says of them."""
    runtime = schedules._PipelineScheduleRuntime
    assert not issubclass(schedules.ScheduleGPipe, runtime) and not issubclass(schedules.Schedule1F1B, runtime)
    for name in ("Interleaved1F1B", "InterleavedZeroBubble", "ZBVZeroBubble"):
        assert issubclass(getattr(schedules, f"Schedule{name}"), runtime)


@pytest.mark.parametrize("p, v, m", [(2, 2, 4), (2, 3, 2), (3, 2, 6), (4, 2, 8)])
def test_the_same_order_as_torchs_interleaved(p, v, m):
    assert interleaved_schedule(p, v, m) == torchs_order(schedules.ScheduleInterleaved1F1B, p, v, m)


def layers(n, dtype=torch.float64):
    """A stack that is the same on every rank."""
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(DIM, DIM), nn.GELU(), nn.Linear(DIM, DIM)).to(dtype) for _ in range(n)]


def batch(m, dtype=torch.float64):
    torch.manual_seed(1)
    return tuple(torch.randn(m * ROWS, DIM, dtype=torch.float64).to(dtype) for _ in "xy")


def gradients(stages):
    return {f"{s}.{name}": p.grad for s, stage in stages.items() for name, p in stage.named_parameters()}


def by_pipeline(schedule, dtype=torch.float64):
    """(losses of the last rank, gradients of this rank's stages)"""
    shape, rank = shape_of(schedule), dist.get_rank()
    mine = {s: one for s, one in enumerate(layers(shape.n_stages, dtype)) if s % shape.n_ranks == rank}
    x, y = batch(shape.n_micro, dtype)
    pipeline = Pipeline(mine, schedule, shape, F.mse_loss, torch.empty(ROWS, DIM, dtype=dtype))
    return pipeline.step(list(x.split(ROWS)), list(y.split(ROWS))), gradients(mine)


def by_torch(p, v, m):
    rank, losses = dist.get_rank(), []
    mine = {s: one for s, one in enumerate(layers(p * v)) if s % p == rank}
    stages = [PipelineStage(one, s, p * v, torch.device("cpu")) for s, one in mine.items()]
    engine = schedules.ScheduleInterleaved1F1B(stages, m, F.mse_loss)
    x, y = batch(m)
    engine.step(*[x] * (rank == 0), **({"target": y, "losses": losses} if rank == p - 1 else {}))
    return losses, gradients(mine)


def plain(shape, dtype=torch.float64):
    stages = dict(enumerate(layers(shape.n_stages, dtype)))
    x, y = batch(shape.n_micro, dtype)
    losses = []
    for a, b in zip(x.split(ROWS), y.split(ROWS), strict=True):
        for stage in stages.values():
            a = stage(a)
        losses.append(F.mse_loss(a, b))
    torch.stack(losses).mean().backward()
    return [loss.detach() for loss in losses], gradients(stages)


def assert_equal_to_plain(run, schedule, dtype=torch.float64, tolerance=1e-9):
    shape = shape_of(schedule)
    losses, wanted = plain(shape, dtype)
    found = {name: gradient for _, each in run.results for name, gradient in each.items()}
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(found[name], gradient, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(run.results[(shape.n_stages - 1) % shape.n_ranks][0], losses, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("p, v, m", [(2, 2, 4), (4, 2, 4)])
def test_interleaved_gives_what_torchs_engine_gives(p, v, m):
    ours, theirs = run_ranks(lambda: by_pipeline(interleaved_schedule(p, v, m)), p), run_ranks(lambda: by_torch(p, v, m), p)
    for (our_losses, our_gradients), (their_losses, their_gradients) in zip(ours.results, theirs.results, strict=True):
        torch.testing.assert_close(our_losses, their_losses)
        for name, gradient in our_gradients.items():
            torch.testing.assert_close(gradient, their_gradients[name])


# ── the executor ──

def any_schedule(seed, p, v, m, kinds):
    """A schedule that can run, each rank's next step drawn by lot from those that can start."""
    lot, n_stages, rows, done = random.Random(seed), p * v, [[] for _ in range(p)], set()
    wanted = [Step(kind, micro, stage) for kind in kinds for micro in range(m) for stage in range(n_stages)]
    while wanted:
        ready = [step for step in wanted if done.issuperset(SOLUTION["dependencies"](step, n_stages))]
        step = lot.choice(ready)
        rows[step.stage % p].append(step)
        wanted.remove(step)
        done.add(step)
    return rows


SCHEDULES = {
    "GPipe on 3": gpipe_schedule(3, 4), "1F1B on 1": one_f_one_b_schedule(1, 3), "1F1B on 4": one_f_one_b_schedule(4, 6),
    "1F1B, fewer micro-batches": one_f_one_b_schedule(4, 2), "interleaved on 2": interleaved_schedule(2, 3, 4),
    "zero bubble on 3": zero_bubble_schedule(3, 5), "by lot on 3": any_schedule(1, 3, 1, 4, "FB"),
    "by lot, chunks": any_schedule(2, 2, 2, 4, "FB"), "by lot, in pieces": any_schedule(3, 2, 2, 3, "FIW"),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_any_schedule_runs_in_its_order_and_gives_the_plain_gradients(name):
    schedule = SCHEDULES[name]
    run = run_ranks(lambda: by_pipeline(schedule), len(schedule))
    assert_equal_to_plain(run, schedule)
    assert order_of(measured_times(run.trace), len(schedule)) == schedule


@pytest.mark.parametrize("dtype, tolerance", [(torch.float32, 1e-5), (torch.bfloat16, 0.05)])
def test_other_types(dtype, tolerance):
    schedule = zero_bubble_schedule(2, 4)
    assert_equal_to_plain(run_ranks(lambda: by_pipeline(schedule, dtype), 2), schedule, dtype, tolerance)


def test_a_block_of_the_gpt_and_a_frozen_layer_split_their_backward_rightly():
    torch.manual_seed(0)
    stage, x, dy = nn.Sequential(Block(8, 2), nn.Linear(8, 8), Block(8, 2)), torch.randn(3, 4, 8), torch.randn(3, 4, 8)
    stage[1].requires_grad_(False)
    x.requires_grad_()
    stage(x).backward(dy)
    wanted = [x.grad, *(p.grad for p in stage.parameters() if p.requires_grad)]
    stage.zero_grad()
    y, found = with_layers(stage, x)
    dx, weights = SOLUTION["input_then_weights"](x, y, dy, found)
    assert all(p.grad is None for p in stage.parameters())
    weights()
    torch.testing.assert_close([dx, *(p.grad for p in stage.parameters() if p.requires_grad)], wanted)


def test_a_weight_used_twice_cannot_be_split():
    shared = nn.Linear(4, 4)
    with pytest.raises(ValueError, match="used twice in one stage"):
        with_layers(nn.Sequential(shared, shared), torch.ones(1, 4))


# ── bad input ──

BAD = {
    "rank 1: B1 on stage 1 is missing": ("F0 F1 B0 B1", "F0 F1 B0"),
    "rank 0: F0 on stage 0 comes twice": ("F0 F1 F0 B0 B1", "F0 F1 B0 B1"),
    "rank 0: F2 on stage 0 is of a micro-batch": ("F0 F1 F2 B0 B1", "F0 F1 B0 B1"),
    "rank 1: F1 on stage 0 belongs to another rank": ("F0 F1 B0 B1", "F0 F1.0 B0 B1"),
    "rank 1: W0 on stage 1 is of a kind": ("F0 F1 B0 B1", "F0 F1 B0 B1 W0"),
    "rank 1: B1 on stage 1 comes before": ("F0 F1 B0 B1", "F0 B0 B1 F1"),
    "rank 0: B0 on stage 0 can never start": ("F0 B0 F1 B1", "F0 F1 B0 B1"),
    "rank 1: F0 on stage 1 is missing": ("F0 F1 B0 B1",),
}


@pytest.mark.parametrize("words", BAD)
def test_a_bad_schedule_is_explained_and_not_run(words):
    schedule, shape = parse_schedule(*BAD[words]), Shape(2, 2, 2)
    assert str(validate_schedule(schedule, shape)).startswith(words)
    with pytest.raises(RankFailed, match=words):
        run_ranks(lambda rank: Pipeline({}, schedule, shape, F.mse_loss, torch.empty(1)), 2)


def test_too_much_in_flight_is_explained():
    fault = validate_schedule(gpipe_schedule(2, 4), Shape(2, 2, 4), [2, 1])
    assert fault == Fault(0, Step("F", 2, 0), "too many in flight")


def test_micro_batches_that_do_not_divide_are_named():
    with pytest.raises(ValueError, match=r"\b7\b.*\b3\b"):
        interleaved_schedule(3, 2, 7)


def test_text_there_and_back():
    schedule = interleaved_schedule(2, 2, 4)
    assert parse_schedule(*format_schedule(schedule).splitlines()) == schedule
    with pytest.raises(ValueError, match="'Fx' is no step"):
        parse_schedule("F0 Fx")


def test_a_trace_without_steps_says_what_to_do():
    with pytest.raises(ValueError, match="with span"):
        measured_times(Trace(2))


def test_a_schedule_is_edited_by_hand():
    """A slower order is drawn with its idle time; one that cannot run, or is not one, with the reason."""
    editor = schedule_editor(zero_bubble_schedule(2, 3), validate_schedule, simulate, dict.fromkeys("FIW", 1.0), 0.0, 2)
    text, hop, _ = editor.controls
    above, below = text.value.splitlines()
    for written, said in {
            (above, below): "10 units, 10.0% idle; in flight at most 2, 2",
            (above.replace("F0 F1", "F1 F0"), below): "11 units, 18.2% idle",
            (above, "", below): "10 units, 10.0% idle",
            (above.replace("F0 ", ""), below): "This cannot run. rank 0: F0 on stage 0 is missing",
            (above, below.replace("F0 I0", "I0 F0")): "rank 1: I0 on stage 1 comes before",
            (above.replace("F1 I0 W0 F2", "F1 F2 I0 W0"), below): "rank 0: F2 on stage 0 ",
            (below, above): "rank 0: I0 on stage 0 can never start",
            (above,): "rank 1: F0 on stage 1 is missing",
            (): "rank 0: F0 on stage 0 is missing",
            (above, below, "F0"): "belongs to another rank",
            (above.replace("F0", "F"), below): "&#x27;F&#x27; is no step"}.items():
        text.value = "\n".join(written)
        assert said in editor.view.value, written
    text.value = "\n".join([above, below.replace("I1 W0", "W0 I1")])
    assert editor.schedule == parse_schedule(above, below.replace("I1 W0", "W0 I1"))
    hop.value = 0.5
    assert "10 units" not in editor.view.value


def test_the_player_shows_what_is_chosen_and_explains_a_refusal():
    player = widgets.schedule_player({"1F1B": one_f_one_b_schedule,
                                      "interleaved": lambda p, m: interleaved_schedule(p, 2, m)}, simulate)
    name, stages, micro, *_ = player.controls
    first = player.view.value
    stages.value = 3
    assert player.view.value != first
    name.value, micro.value = "interleaved", 7
    assert "7 micro-batches do not divide" in player.view.value
    micro.value = 6
    data, _ = player._repr_mimebundle_()
    assert "interleaved" in data["text/plain"] and "in flight" in data["text/html"]
