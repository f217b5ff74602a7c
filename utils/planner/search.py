"""All layouts of a model on so many devices: the fastest that fit, in order, and why the others are ruled out.

No layout is skipped on a guess. Refusals that do not depend on the finer choices are found once for all of these. Then the
layouts stand in a queue by a lower bound of their time, which is made exact only for those that come to its front: what
is still in the queue when enough plans are found cannot be faster than any of them.
"""

import heapq
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from utils.checking import require_count, require_flag, require_name, require_number
from utils.deadlocks.errors import BadType, BadValue
from utils.planner.assumptions import Assumptions
from utils.planner.conventions import StateBytes
from utils.planner.explained import given
from utils.planner.flows import ORDER
from utils.planner.frameworks import FRAMEWORKS, Framework, recompute_of
from utils.planner.layout import RECOMPUTE, SCHEDULES, ZERO_STAGES, Layout, reasons_against
from utils.planner.memory import model_state
from utils.planner.plan import Plan, checked, chosen
from utils.planner.published import shape_of
from utils.planner.ranking import Ranking, Ruled
from utils.planner.shape import ModelShape
from utils.planner.times import exposed_times, step_bubble
from utils.planner.traffic import step_traffic
from utils.planner.work import compute_time, elementwise_time, step_shares
from utils.simulation.cluster import Cluster, divisors

SLOWER = "slower than the plans listed"
TOO_LARGE = "does not fit"
MOST_UNEVEN_CHUNKS = 8
STATE_TOO_LARGE = "parameters, gradients and optimizer state alone do not fit"


@dataclass
class _Search:
    """What is asked, and what was found so far."""

    shape: ModelShape
    cluster: Cluster
    devices: int
    global_batch: int
    state: StateBytes
    assumptions: Assumptions
    usable: float
    dropout: bool
    micro_batches: tuple[int, ...]
    schedules: tuple[str, ...]
    uneven_stages: bool
    framework: str = ""
    recompute: tuple[str, ...] = RECOMPUTE
    shards: tuple[int, ...] = ()
    ruled_out: dict[str, Ruled] = field(default_factory=dict)
    layouts: int = 0
    evaluated: int = 0

    def plan_of(self, entry: "_Entry") -> Plan:
        return self.plan(_cut(self.sharded(entry.layout, *entry.sharding), entry.cut))

    def plan(self, layout: Layout) -> Plan:
        return Plan(self.shape, layout, self.cluster, self.global_batch, self.state, self.assumptions, self.usable,
                    self.dropout, ORDER, self.framework)

    def exposed(self, layout: Layout, compute: float, *axes: str) -> float:
        """Seconds of these axes' traffic that computation cannot hide, even if it hides nothing else.

        At least: on a mean device, whose parameters and calls do not depend on how chunks deal out the layers.
        """
        traffic = step_traffic(self.shape, layout, self.global_batch, self.state, self.cluster.devices_per_node, axes=axes,
                               **self.assumptions.of_traffic)
        micro_batches = layout.micro_batches(self.global_batch)
        shares = step_shares(self.shape, layout, self.cluster, self.global_batch, self.assumptions)
        times = exposed_times(traffic.flows, self.cluster, compute, micro_batches, self.assumptions, shares, mean=True,
                              chunked=layout.pp)
        return sum(map(float, times.values()))

    def sharded(self, layout: Layout, zero: int, shard: int | None) -> Layout:
        """The layout with this stage of ZeRO, as the framework has it."""
        keeps = bool(self.framework) and FRAMEWORKS[self.framework].keeps_gathered(zero, layout.pp)
        return replace(layout, zero=zero, shard=shard, reshard=not keeps)

    def rule_out(self, reason: str, count: int, example: str) -> None:
        self.ruled_out.setdefault(reason, Ruled(0, example)).count += count

    def refused(self, layout: Layout, count: int) -> bool:
        """Whether something speaks against a layout; it then does against `count` layouts like it."""
        reasons = reasons_against(layout, self.shape, self.devices, self.global_batch, self.cluster.devices_per_node)
        if reasons:
            self.rule_out(re.sub(r"[\d,]*\d", "n", reasons[0]), count, f"{layout}: {reasons[0]}")
        return bool(reasons)


def search(shape: ModelShape | str, cluster: Cluster | str, devices: int, global_batch: int,
           state: StateBytes | str | None = None, assumptions: Assumptions | None = None, usable: float = 0.9,
           dropout: bool | None = None, keep: int = 10, tie: float = 0.02, micro_batches: Sequence[int] = (1, 2, 4, 8),
           schedules: Sequence[str] = ("1F1B", "interleaved"), uneven_stages: bool = False,
           framework: str | Framework | None = None, dtype: str = "bfloat16", shards: Sequence[int] = ()) -> Ranking:
    """The best layouts that fit, `keep` of them or all within `tie`, with all that rules others out.

    Tried are all dp·tp·pp·cp = devices, ep, ZeRO stages, sequence parallelism, chunks that divide the layers, the given
    micro-batch sizes and schedules, and recomputation. uneven_stages: also pipelines and up to 8 chunks that do not divide
    the layers (126 layers on 16 stages, as Llama 3 405B has them); it takes several times as long.
    state, assumptions, dropout, framework, dtype: as in plan. shards: with ZeRO, try also that only so many ranks share a
    copy of the state (FSDP's hybrid sharding), such as those of a node: [8].
    usable: share of a device's memory that a plan may use; a tenth is left for what memory.py leaves out.
    tie: times that differ by less than this share of the fastest are equal as far as formulas can tell; then the layout that
    splits along fewer axes comes first, then the faster. With 0 only time counts.
    Raises: TypeError, ValueError for sizes that cannot be.
    """
    shape = shape_of(shape)
    framework, state, assumptions, dropout = chosen(shape, Layout(), cluster, state, assumptions, dropout, framework, dtype)
    cluster = checked(shape, cluster, global_batch, state, assumptions, usable, dropout, devices)
    require_flag("uneven_stages", uneven_stages)
    require_count("keep", keep)
    require_number("tie", tie)
    if tie < 0:
        raise BadValue(f"tie must not be negative; got {tie}")
    if not isinstance(micro_batches, Sequence) or not isinstance(schedules, Sequence) or isinstance(schedules, str):
        raise BadType('micro_batches and schedules are lists, such as [1, 2] and ["1F1B"]; '
                      f"got {micro_batches!r} and {schedules!r}")
    if not micro_batches or not schedules:
        raise BadValue("give at least one micro-batch size and one schedule")
    for size in micro_batches:
        require_count("a micro-batch size", size)
    for shard in shards:
        require_count("a number of ranks that share the state", shard, least=2)
    for schedule in schedules:
        require_name("schedule", schedule, SCHEDULES)
    asked = _Search(shape, cluster, devices, global_batch, state, assumptions, usable, dropout,
                    tuple(dict.fromkeys(micro_batches)), tuple(dict.fromkeys(schedules)), uneven_stages, framework,
                    recompute_of(framework), tuple(dict.fromkeys(shards)))
    queue = [entry for degrees in degree_layouts(shape, devices) for entry in _of_degrees(asked, degrees)]
    found = _best_first(asked, queue, keep, tie)
    return Ranking(_tied_first(found, tie)[:keep], asked.ruled_out, asked.layouts, asked.evaluated, keep)


def degree_layouts(shape: ModelShape, devices: int) -> Iterator[Layout]:
    """A layout for every way to write devices = dp·tp·pp·cp, and for every ep that divides the model's experts."""
    for tp in divisors(devices):
        for pp in divisors(devices // tp):
            for cp in divisors(devices // (tp * pp)):
                for ep in divisors(shape.experts or 1):
                    yield Layout(devices // (tp * pp * cp), tp, pp, cp, ep)


class _Entry(NamedTuple):
    """A place in the queue: a lower bound of the time, or with is_exact the time itself, and what it is of."""

    time_s: float
    is_exact: bool
    layout: Layout
    sharding: tuple[int, int | None]  # ZeRO's stage, and over how many ranks
    cut: tuple[str, int]  # schedule, chunks

    def __lt__(self, other: "_Entry") -> bool:
        return self.time_s < other.time_s


def _of_degrees(asked: _Search, degrees: Layout) -> Iterator[_Entry]:
    """Entries of all layouts with these degrees that nothing speaks against.

    What divisibility forbids with one chunk, micro-batch 1 and no SP, it forbids with more.
    """
    degrees = replace(degrees, uneven_stages=asked.uneven_stages and degrees.pp > 1)
    stages, cuts = _shardings(asked, degrees), _cuts(asked, degrees)
    split = [False, True][:1 + (degrees.tp > 1)]
    count = len(asked.micro_batches) * len(split) * len(asked.recompute) * len(cuts)
    asked.layouts += count * len(stages)
    if asked.refused(degrees, count * len(stages)):
        return
    stages = [(zero, shard) for zero, shard in stages
              if _state_fits(asked, asked.sharded(degrees, zero, shard), count)]
    if not stages:
        return
    each = len(asked.recompute) * len(stages)
    cuts = [cut for cut in cuts if not asked.refused(_cut(degrees, cut), len(asked.micro_batches) * len(split) * each)]
    for micro_batch, sp in itertools.product(asked.micro_batches, split):
        layout = replace(degrees, micro_batch=micro_batch, sequence_parallel=sp)
        legal = [cut for cut in cuts if not asked.refused(_cut(layout, cut), each)]
        if legal:
            yield from _entries(asked, layout, legal, stages)


def _shardings(asked: _Search, degrees: Layout) -> list[tuple[int, int | None]]:
    """(stage, ranks that share a copy): without ZeRO, over all ranks, and over each asked number that divides them."""
    ranks = degrees.dp * degrees.cp
    parts = [shard for shard in asked.shards if ranks % shard == 0 and shard < ranks and shard % degrees.ep == 0]
    stages = FRAMEWORKS[asked.framework].zero_stages if asked.framework else ZERO_STAGES
    return [(zero, shard) for zero in (stages if ranks > 1 else ZERO_STAGES[:1])
            for shard in (None, *parts * (zero > 0))]


def _cut(layout: Layout, cut: tuple[str, int]) -> Layout:
    return replace(layout, schedule=cut[0], chunks=cut[1])


def _cuts(asked: _Search, degrees: Layout) -> list[tuple[str, int]]:
    """(schedule, chunks): one for a model that is not cut in stages."""
    if degrees.pp == 1:
        return [("1F1B", 1)]
    layers = asked.shape.layers
    numbers = {*divisors(layers), *(range(2, MOST_UNEVEN_CHUNKS + 1) if degrees.uneven_stages else ())}
    many = [("interleaved", chunks) for chunks in sorted(numbers) if chunks > 1]
    return [(name, 1) for name in asked.schedules if name != "interleaved"] + many * ("interleaved" in asked.schedules)


def _state_fits(asked: _Search, layout: Layout, count: int) -> bool:
    """Whether a device holds its parameters, gradients and optimizer state.

    Where devices differ: the mean of them, as the fullest has at least that, however chunks deal out the layers.
    """
    places = range(layout.pp) if asked.shape.dense_layers else (0,)
    states = [model_state(asked.shape, layout, asked.state, place)[:3] for place in places]
    size = sum(float(part) for parts in states for part in parts) / len(places)
    limit = asked.plan(layout).limit
    if size > limit:
        asked.rule_out(STATE_TOO_LARGE, count, f"{layout}: {given(size, 'bytes')} of {limit}")
    return size <= limit


def _entries(asked: _Search, layout: Layout, cuts: list[tuple[str, int]],
             stages: list[tuple[int, int | None]]) -> Iterator[_Entry]:
    """Lower bounds: compute and elementwise work, traffic that nothing can hide, bubble; the optimizer and PP are left out.

    What chunks and ZeRO do not change is computed once for all of them.
    """
    shape, cluster, batch, assumptions = asked.shape, asked.cluster, asked.global_batch, asked.assumptions
    ways = [replace(layout, recompute=recompute) for recompute in asked.recompute]
    computes = [_computes(asked, way, cuts) for way in ways]
    data = {(zero, shard): min(asked.exposed(asked.sharded(way, zero, shard), max(of_way), "DP")
                               for way, of_way in zip(ways, computes, strict=True)) for zero, shard in stages}
    for way, of_way in zip(ways, computes, strict=True):
        shares = step_shares(shape, way, cluster, batch, assumptions)
        beside = elementwise_time(shape, way, cluster, batch, assumptions)
        beside += asked.exposed(way, max(of_way), "TP", "CP", "EP")
        for cut, compute in zip(cuts, of_way, strict=True):
            work = compute + beside
            bubble = 0.0
            if way.pp > 1:
                bubble = step_bubble(cut[0], way.pp, cut[1], way.micro_batches(batch), work, compute, shares)
            for sharding in stages:
                yield _Entry(work + bubble + data[sharding], False, way, sharding, cut)


def _computes(asked: _Search, layout: Layout, cuts: list[tuple[str, int]]) -> list[float]:
    """Seconds of matrix products for each cut: the same for all of them where stages are equal."""
    def seconds(of: Layout) -> float:
        return float(compute_time(asked.shape, of, asked.cluster, asked.global_batch, asked.assumptions))

    if not layout.uneven_stages:
        return [seconds(layout)] * len(cuts)
    return [seconds(_cut(layout, cut)) for cut in cuts]


def _best_first(asked: _Search, queue: list[_Entry], keep: int, tie: float) -> list[Plan]:
    """Plans in the order of their time: a bound at the front is made exact, an exact time at the front is next."""
    heapq.heapify(queue)
    found: list[Plan] = []
    while queue and (len(found) < keep or queue[0].time_s <= (1 + tie) * found[0].time):
        entry = heapq.heappop(queue)
        plan = asked.plan_of(entry)
        if entry.is_exact:
            found.append(plan)
        elif plan.fits:
            asked.evaluated += 1
            heapq.heappush(queue, entry._replace(time_s=float(plan.time), is_exact=True))
        else:
            asked.rule_out(TOO_LARGE, 1, f"{plan.layout}: {plan.memory} of {plan.limit}")
    slower = _tied_first(found, tie)[keep:] + [asked.plan_of(entry) for entry in queue[:1]]
    if len(found) - keep + len(queue) > 0 and slower:
        asked.rule_out(SLOWER, max(len(found) - keep, 0) + len(queue), str(slower[0].layout))
    return found


def _tied_first(found: list[Plan], tie: float) -> list[Plan]:
    """The fastest and those equal to it, the fewest axes first; then the others."""
    equal = [plan for plan in found if plan.time <= (1 + tie) * found[0].time]
    return sorted(equal, key=lambda plan: (_axes(plan.layout), plan.time)) + found[len(equal):]


def _axes(layout: Layout) -> int:
    return sum(getattr(layout, axis) > 1 for axis in ("dp", "tp", "pp", "cp", "ep"))
