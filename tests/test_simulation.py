"""Simulated ranks make the calls that real ones make; their times are what the cluster's links say."""

import contextlib
import os
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from grader.calling.handing_out import caller_in, given
from grader.checks import PUBLIC_SEED
from grader.evidence.evidence import unpack
from grader.exercises import EXERCISES
from grader.exercises.references import functions_of
from utils import run_ranks, simulate_ranks
from utils.costs.formulas import ring_time_s, tree_broadcast_time_s
from utils.deadlocks.errors import Deadlock, Mismatch, RankFailed
from utils.models.mesh_stage import MeshStage, tied_gpt
from utils.models.tiny import TinyGPT, next_byte_loss
from utils.schedules.schedule import Shape
from utils.simulation.cluster import Cluster, Device, FatTree, Link, Torus
from utils.simulation.clusters import CLUSTERS
from utils.simulation.collectives import halving_doubling, hierarchical, ring, ring_on_each_rail, tree
from utils.simulation.refusals import NeedsNumbers
from utils.simulation.roofline import Roofline
from utils.simulation.shapes import ShapesOnly
from utils.simulation.simulate import MAX_WORLD_SIZE, SimulatedRun
from utils.trace.trace import Trace

LATENCY_S, BYTES_PER_S = 1e-5, 1e9
DEVICE = Device("a device", {"float32": 1e12}, 16e9, 1e12)
LINK = Link("a link", LATENCY_S, BYTES_PER_S)
NODE = Cluster("a node", DEVICE, 64, 64, LINK)
MEGABYTE = torch.empty(250_000)

# References that look at numbers, so that they cannot be simulated.
BY_NUMBERS = {"balance_loss", "Exchange", "ExpertParallelMLP", "HuntedTrainer"}
# The stages of its check read a micro-batch's number out of the tensor, between two calls. See the pipeline below.
CHECKED_BY_NUMBERS = {"Pipeline"}
# Exercises about data, or of one process.
WITHOUT_CALLS = {"split_batch", "one_f_one_b_schedule", "dependencies", "simulate", "validate_schedule",
                 "input_then_weights", "interleaved_schedule", "zero_bubble_schedule", "race_schedule", "Recompute",
                 "merge_attention", "hello_rank", "route", "choose_layout", "fitted_share", "relayout", "cut_model"}
# Its check puts right parts in the place of those that it calls. See the trainer below.
WITH_RIGHT_PARTS = {"MeshTrainer"}
LEFT_OUT = BY_NUMBERS | CHECKED_BY_NUMBERS | WITHOUT_CALLS | WITH_RIGHT_PARTS


# ── the same calls as in reality ──


def called_as_in_its_check(fn):
    """A function of what a rank is given that calls `fn` as its check does, without looking at the inputs' numbers."""

    def rank_function(facts):
        import grader.calling.going_through as going_through
        import grader.calling.watching_inputs as watching
        import utils.simulation.refusals

        watching.pack = lambda value: b""
        going_through.numbers_of = lambda tensor: []
        torch.nn.utils.skip_init = lambda kind, *sizes, **options: kind(*sizes, **options)
        call = caller_in(facts["caller"])["call"]
        made = [dist.new_group(list(members)) for members in facts["groups"] or ()]
        own = [group for group in made if dist.get_rank(group) >= 0] if made else [dist.group.WORLD]
        if own:
            # A check's last look at numbers; calls that it kept away would differ.
            with contextlib.suppress(DataDependentOutputException, NeedsNumbers):
                call(fn, facts["inputs"], own[0])
            utils.simulation.refusals.refused.clear()

    return rank_function


def calls_of(run):
    """Of each rank, in order: everything about its calls but times."""
    return [[(c.op, c.peer, c.root, c.members, c.reduce_op, c.dtype, c.shape, c.bytes, c.bytes_given, c.is_async, c.waited)
             for c in sorted(run.trace.of(rank), key=lambda c: c.number)] for rank in range(run.world_size)]


def cases_with_ranks(name: str) -> list:
    exercise = EXERCISES[name]
    cases = [case for case, _ in exercise.drawn(PUBLIC_SEED, grading=False) if case.world_size > 1]
    return [[{"caller": exercise.caller, "groups": case.groups, "inputs": unpack(inputs)}
             for inputs in given(exercise.caller, case).inputs] for case in cases]


@pytest.mark.long
@pytest.mark.parametrize("name", [
    name for name, e in EXERCISES.items() if name not in LEFT_OUT and (
        "plain" not in e.caller or name in ("grid_sums", "hierarchical_all_reduce"))])
def test_a_reference_makes_the_same_calls_in_a_simulation(name):
    function = called_as_in_its_check(functions_of("solutions", EXERCISES[name].unit)[name])
    for facts in reversed(cases_with_ranks(name)):
        with contextlib.suppress(RankFailed):  # a case in which something is refused
            real = run_ranks(function, inputs=facts)
            if real.trace.calls:
                break
    assert real.trace.calls and calls_of(simulate_ranks(function, inputs=facts)) == calls_of(real)


def test_memory_is_what_a_real_rank_holds():
    def step():
        model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 8))
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.randn(16, 64)).sum().backward()
        optimizer.step()
        return list(model.parameters()), [p.grad for p in model.parameters()], optimizer.state_dict()

    assert simulate_ranks(step, 2, NODE).memory == run_ranks(step, 2).memory


def one_f_one_b(rank, world_size):
    """A step of unit 07's executor, with stages so wide that messages cost nothing beside them."""
    unit, m, width = functions_of("solutions", "07_pipeline_parallel"), 8, 256
    schedule = unit["one_f_one_b_schedule"](world_size, m)
    batches = [torch.empty(width, width) for _ in range(m)]
    pipeline = unit["Pipeline"]({rank: torch.nn.Linear(width, width, bias=False)}, schedule,
                                Shape(world_size, world_size, m), torch.nn.functional.mse_loss, batches[0])
    pipeline.step(batches, batches)


def trainer_step():
    """A step of unit 09's trainer with its own parts."""
    unit, sizes = functions_of("solutions", "09_putting_together"), {"dp": 2, "pp": 2, "tp": 2}
    mesh = unit["make_mesh"](sizes)
    stage = MeshStage(tied_gpt(length=8, dim=8, n_layers=2, n_heads=2), mesh["pp"], mesh["tp"])
    trainer = unit["MeshTrainer"](stage, torch.optim.SGD(stage.parameters(), lr=0.1), 2, mesh, max_norm=1.0)
    tokens = torch.zeros(4, 8, dtype=torch.long)
    trainer.step(tokens, tokens)


def test_a_trainer_on_a_mesh_makes_the_same_calls():
    assert calls_of(simulate_ranks(trainer_step, 8, NODE)) == calls_of(run_ranks(trainer_step, 8))


def test_a_pipeline_makes_the_same_calls_and_has_the_bubble_of_its_schedule():
    n, m = 4, 8
    near = replace(NODE, inside=Link("a link", 0, 1e15), device=replace(DEVICE, memory_bytes_per_s=1e15))
    run = simulate_ranks(one_f_one_b, n, near)
    assert calls_of(run) == calls_of(run_ranks(one_f_one_b, n))
    middle = run.works[1].seconds  # the first stage needs no gradient of its input, the last one has the loss
    assert run.elapsed_s == pytest.approx((m + n - 1) / m * middle, rel=0.15)


def test_results_that_are_remembered_are_those_that_torch_makes():
    def step():
        model = TinyGPT()
        tokens = torch.zeros(2, 16, dtype=torch.int64)
        next_byte_loss(model(tokens), tokens).mean().backward()
        torch.optim.AdamW(model.parameters()).step()
        mixed = [torch.ones(3, dtype=torch.int32) + one for one in (True, 1, 1.0)]  # equal keys, unequal inputs
        return [(x.dtype, x.shape, x.stride(), x.storage_offset()) for x in (*mixed, mixed[0][1:], *model.parameters())]

    known, seen = {}, []
    for shapes in (FakeTensorMode(allow_non_fake_inputs=True), ShapesOnly(known), ShapesOnly(known)):
        meter = Roofline(DEVICE, shapes if isinstance(shapes, ShapesOnly) else None)
        with shapes, meter:
            seen.append((step(), meter.work, meter.result()))
    assert known and seen[0] == seen[1] == seen[2]


def test_one_tensor_for_all_must_have_room_for_all():
    """As every backend has it; torch's fake one would let it pass."""
    for call in (lambda: dist.all_gather_single(torch.empty(3), torch.empty(2)),
                 lambda: dist.reduce_scatter_single(torch.empty(2), torch.empty(3))):
        with pytest.raises(RankFailed, match=r"must have 2 × 2 elements, .*; it has 3"):
            simulate_ranks(call, 2, NODE)


def test_a_tensor_that_comes_twice_is_read_once_and_calls_of_sizes_that_were_seen_cost_the_same():
    def add(twice):
        x, y = torch.empty(1000), torch.empty(1000)
        for _ in range(3):
            _ = x + (x if twice else y)

    for twice in (True, False, True):
        run = simulate_ranks(add, inputs=[twice])
        assert run.works[0].bytes_touched == 3 * (3 - twice) * 4000


# ── times ──


def test_a_message_takes_latency_and_bytes_over_bandwidth():
    def pass_on(rank):
        dist.send(MEGABYTE, 1) if rank == 0 else dist.recv(MEGABYTE.clone(), 0)

    assert simulate_ranks(pass_on, 2, NODE).elapsed_s == pytest.approx(LATENCY_S + 1e6 / BYTES_PER_S, rel=1e-2)


def test_a_matrix_product_takes_its_flops():
    def multiply():
        return torch.empty(1000, 2000) @ torch.empty(2000, 3000)

    run = simulate_ranks(multiply, 2, NODE)
    assert run.flops == 2 * 2 * 1000 * 2000 * 3000
    assert run.elapsed_s == pytest.approx(2 * 1000 * 2000 * 3000 / 1e12)
    assert run.utilization("float32") == pytest.approx(1.0)
    assert run.results[0].shape == (1000, 3000) and run.results[0].device.type == "meta"


def test_torchs_fused_attention_takes_the_flops_of_its_products():
    def attend():
        q, k, v = (torch.empty(2, 4, 64, 32, requires_grad=True) for _ in range(3))
        torch.nn.functional.scaled_dot_product_attention(q, k, v).sum().backward()

    product = 2 * 2 * 4 * 64 * 64 * 32
    assert simulate_ranks(attend, 1, NODE).flops == (2 + 5) * product  # backward makes the scores again


def test_a_lookup_touches_the_rows_that_it_reads():
    def look_up():
        table, rows = torch.empty(1_000_000, 64), torch.zeros(8, dtype=torch.int64)
        columns = torch.zeros(8, 64, dtype=torch.int64)
        return torch.nn.functional.embedding(rows, table), table.index_select(0, rows), table[rows], table.gather(0, columns)

    made = 8 * 8 + 8 * 64 * 8  # the two zeros: indices are numbers of 8 bytes
    looked_up = 3 * (2 * 8 * 64 * 4 + 8 * 8) + (2 * 8 * 64 * 4 + 8 * 64 * 8)  # read and written, and the indices
    assert simulate_ranks(look_up, 1, NODE).works[0].bytes_touched == made + looked_up


@pytest.mark.parametrize("n", [2, 3, 8])
@pytest.mark.parametrize("op", ["all_reduce", "all_gather", "reduce_scatter"])
def test_a_ring_takes_what_the_formula_says(op, n):
    def collective():
        whole, part = torch.empty(n * 1000), torch.empty(1000)
        arguments = {"all_reduce": (whole,), "all_gather": (whole, part), "reduce_scatter": (part, whole)}[op]
        {"all_reduce": dist.all_reduce, "all_gather": dist.all_gather_single,
         "reduce_scatter": dist.reduce_scatter_single}[op](*arguments)

    expected = ring_time_s(op, 4000 * n, n, LATENCY_S, 1 / BYTES_PER_S)
    assert simulate_ranks(collective, n, NODE).elapsed_s == pytest.approx(expected)


def test_other_algorithms_take_what_their_formulas_say():
    def reduced():
        dist.all_reduce(torch.empty(250_000))

    def broadcast():
        dist.broadcast(torch.empty(250_000), 0)

    hd = simulate_ranks(reduced, 8, replace(NODE, algorithm=halving_doubling)).elapsed_s
    assert hd == pytest.approx(6 * LATENCY_S + 2 * 7 / 8 * 1e6 / BYTES_PER_S)
    down = simulate_ranks(broadcast, 8, replace(NODE, algorithm=tree)).elapsed_s
    assert down == pytest.approx(tree_broadcast_time_s(1e6, 8, LATENCY_S, 1 / BYTES_PER_S))


def test_an_uneven_all_to_all_takes_as_long_as_its_busiest_sender_or_receiver():
    def exchange(rank):
        counts = [[0, 500, 1000], [0, 0, 0], [2000, 0, 0]]  # row: sender
        sent, came = counts[rank], [row[rank] for row in counts]
        dist.all_to_all_single(torch.empty(sum(came)), torch.empty(sum(sent)), came, sent)

    run = simulate_ranks(exchange, 3, NODE)
    assert run.elapsed_s == pytest.approx(max(2 * LATENCY_S + 6000 / BYTES_PER_S, LATENCY_S + 8000 / BYTES_PER_S))
    assert run.bytes_by_link["a link"] == 2 * 4 * 3500  # each message leaves by one port and comes by another


def test_slow_links_between_nodes_are_spared_by_a_hierarchy():
    nodes = Cluster("nodes", DEVICE, 64, 4, replace(LINK, bytes_per_s=100 * BYTES_PER_S), LINK)

    def reduced():
        dist.all_reduce(torch.empty(2_500_000))

    flat, deep = (simulate_ranks(reduced, 16, replace(nodes, algorithm=algorithm)).elapsed_s
                  for algorithm in (nodes.algorithm, hierarchical(4)))
    assert flat / deep == pytest.approx(4 * (15 / 16) / (3 / 4), rel=0.1)  # each rail carries a quarter


def test_collectives_of_a_ready_cluster_take_what_its_ports_carry():
    """By hand, of H100s: an all-to-all whose ranks send one message after the other; an all-reduce through eight ports a
    node, which NCCL's bus bandwidth of some 360 GB/s would make 5.9 ms."""
    cluster = replace(CLUSTERS["H100"], device=replace(DEVICE, memory_bytes_per_s=1e18))

    def exchange():
        dist.all_to_all_single(torch.empty(2**26), torch.empty(2**26))

    inside, outside = 7 * (2e-6 + 2**24 / 450e9), 8 * (5e-6 + 2**24 / 50e9)
    assert simulate_ranks(exchange, 16, cluster).elapsed_s == pytest.approx(inside + outside, rel=1e-3)  # 3.0 ms

    def reduced():
        dist.all_reduce(torch.empty(2**28))

    by_hand = 2 * 63 * (5e-6 + 2**30 / 64 / 8 / 50e9)
    assert by_hand == pytest.approx(5.9e-3, rel=0.01)
    assert simulate_ranks(reduced, 64, cluster).elapsed_s == pytest.approx(by_hand, rel=1e-3)
    one_port = simulate_ranks(reduced, 64, replace(cluster, algorithm=ring)).elapsed_s
    assert one_port == pytest.approx(2 * 63 * (5e-6 + 2**30 / 64 / 50e9), rel=1e-3)


@pytest.mark.parametrize("members", [range(4), range(0, 32, 8), [0, 1, 8], [3]])
def test_groups_that_do_not_share_their_nodes_evenly_go_round_one_ring(members):
    assert ring_on_each_rail(8)("all_reduce", 64.0, [*members]) == ring("all_reduce", 64.0, [*members])


def test_each_ring_of_a_rail_visits_every_device_and_no_port_twice():
    messages = ring_on_each_rail(4)("all_gather", 64.0, [*range(16)])[0].messages
    assert len(messages) == 4 * 16 and {nbytes for _, _, nbytes in messages} == {15 * 64.0 / 16 / 4}
    leaving = [(a, b) for a, b, _ in messages if a // 4 != b // 4]
    assert len({a for a, _ in leaving}) == len({b for _, b in leaving}) == 16  # each port sends once, and receives once
    assert all(a % 4 == b % 4 for a, b in leaving)  # along one rail


def test_communication_hides_behind_computing_and_no_longer():
    def overlapped(rank, world_size):
        work = dist.all_reduce(torch.empty(250_000), async_op=True)
        torch.empty(1000, 1000) @ torch.empty(1000, 1000)  # 2 ms
        work.wait()

    run = simulate_ranks(overlapped, 2, NODE)
    assert run.elapsed_s == pytest.approx(2e-3, rel=1e-2) and run.trace.calls[0].blocked_s == 0
    slow = simulate_ranks(overlapped, 2, replace(NODE, inside=replace(LINK, bytes_per_s=1e8)))
    assert slow.elapsed_s == pytest.approx(10e-3, rel=1e-2)


def test_what_shares_a_link_takes_turns():
    shared = Cluster("nodes", DEVICE, 8, 2, LINK, replace(LINK, shared=True))

    def cross(rank):
        dist.send(MEGABYTE, rank + 2) if rank < 2 else dist.recv(torch.empty(250_000), rank - 2)

    alone = simulate_ranks(cross, 4, replace(shared, between=LINK)).elapsed_s
    assert simulate_ranks(cross, 4, shared).elapsed_s == pytest.approx(2 * alone, rel=0.05)
    inside = Cluster("node", DEVICE, 4, 4, replace(LINK, shared=True))
    assert simulate_ranks(cross, 4, inside).elapsed_s == pytest.approx(2 * alone, rel=0.05)


def test_a_taper_and_a_long_way_cost():
    pods = Cluster("pods", DEVICE, 16, 1, LINK, LINK, topology=FatTree(2, taper=4))

    def cross(rank):
        dist.send(MEGABYTE, rank + 2) if rank < 2 else dist.recv(torch.empty(250_000), rank - 2)

    flat = simulate_ranks(cross, 4, replace(pods, topology=FatTree(2))).elapsed_s
    assert simulate_ranks(cross, 4, pods).elapsed_s > 2 * flat
    near = simulate_ranks(lambda rank: dist.send(MEGABYTE, 1) if rank == 0 else dist.recv(torch.empty(250_000), 0), 2, pods)
    assert flat == pytest.approx(near.elapsed_s, rel=0.01)  # without a taper nobody waits for another
    torus = replace(pods, topology=Torus((4, 4)))
    assert [len(torus.route(0, there)) for there in (1, 3, 2, 4, 5, 10)] == [1, 1, 2, 1, 2, 4]


# ── what goes wrong ──


def test_verdicts_are_those_of_real_ranks():
    def stuck(rank):
        dist.recv(torch.empty(3), 1 - rank)

    def differ(rank):
        dist.all_reduce(torch.empty(3 + rank))

    for function, error in ((stuck, Deadlock), (differ, Mismatch)):
        said = []
        for run in (run_ranks, simulate_ranks):
            with pytest.raises(error) as caught:
                run(function, 2)
            said.append(str(caught.value))
        assert said[0] == said[1]


def test_a_program_that_looks_at_numbers_is_told_where():
    def by_numbers():
        return torch.ones(3).sum().item() > 2

    with pytest.raises(RankFailed, match=r"(?s)needs to know a number.*return torch\.ones\(3\)\.sum\(\)\.item\(\) > 2"):
        simulate_ranks(by_numbers, 2)


def test_a_program_without_end_is_named():
    def endless():
        while True:
            pass

    with pytest.raises(RankFailed, match="has not ended after 1 s"):
        simulate_ranks(endless, 2, timeout_s=1)


def test_a_rank_whose_process_ends_is_missed():
    def one_ends(rank):
        if rank == 9:
            os._exit(3)

    with pytest.raises(RankFailed, match="rank 9: RankDied: its process ended without returning"):
        simulate_ranks(one_ends, 16)


@pytest.mark.parametrize("make, said", [
    (lambda: simulate_ranks(print, 2, "H1000"), "did you mean 'H100'"),
    (lambda: simulate_ranks(print, 0), "from 1 to 4,096; got 0"),
    (lambda: simulate_ranks(print, 2.0), "whole number of ranks"),
    (lambda: simulate_ranks(print, 2, timeout_s=0), "positive number of seconds; got 0"),
    (lambda: simulate_ranks(print, 2, timeout_s="x"), "positive number of seconds; got 'x'"),
    (lambda: simulate_ranks(print, 9, "H100 node"), "has 8 devices, fewer than 9 ranks"),
    (lambda: Device("d", {"float32": "1B"}, 1, 1), "must be a number; got '1B'"),
    (lambda: Device("d", {}, 1, 1), "at least one dtype"),
    (lambda: Device("d", {"bf16": 1e12}, 1, 1), "did you mean 'bfloat16'"),
    (lambda: Link("l", 0, -1), "must be positive"),
    (lambda: Cluster("c", DEVICE, 16, 8, LINK), "say by which link nodes are joined"),
    (lambda: Cluster("c", DEVICE, 0, 8, LINK), "whole number from 1"),
    (lambda: Cluster("c", "H100", 8, 8, LINK), "device must be a Device; got 'H100'"),
    (lambda: Cluster("c", DEVICE, 8, 8, 1e9), "inside must be a Link"),
    (lambda: Cluster("c", DEVICE, 8, 8, LINK, topology="torus"), "topology must be a topology, such as"),
    (lambda: Cluster("c", DEVICE, 8, 8, LINK, algorithm="tree"), "algorithm must be a Callable; got 'tree'"),
    (lambda: Cluster("c", DEVICE, 8, 8, "NVLink"), "got 'NVLink', a name.*import a ready one"),
    (lambda: Cluster("c", DEVICE, 8, 8, LINK, algorithm=hierarchical), r"made by a call, as hierarchical\(8\)"),
    (lambda: SimulatedRun(2, [], Trace(2), [], cluster=NODE).utilization("float32"), "no time passed"),
    (lambda: Device("d", 1e12, 1, 1), "flops must be a Mapping"), (lambda: Link("l", None, 1), "latency_s must be a number"),
    (lambda: Link("l", 0, 1, shared="no"), "shared must be a bool"), (lambda: Torus(()), "a size for each dimension"),
    (lambda: replace(NODE, devices_per_node=1, between=LINK, topology=Torus((2, 2))).route(0, 5), "fewer nodes than"),
])
def test_bad_input_is_refused_in_words(make, said):
    with pytest.raises((ValueError, TypeError), match=said):
        make()


@pytest.mark.long
def test_the_most_ranks_are_recorded_and_played():
    def reduced():
        dist.all_reduce(torch.empty(MAX_WORLD_SIZE))

    run = simulate_ranks(reduced, MAX_WORLD_SIZE)
    last = MAX_WORLD_SIZE - 1
    assert run.trace_of([last]).of(last)[0].members == (*range(MAX_WORLD_SIZE),)
    assert run.bytes_by_link["NVLink"] > 0 and sum(program.process_bytes > 0 for program in run.programs) <= os.cpu_count()
    assert run.programs[0].facts[0].members is run.programs[last].facts[0].members


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_ready_cluster_says_where_its_numbers_come_from(name):
    def reduced():
        dist.all_reduce(torch.empty(1000))

    assert CLUSTERS[name].source and simulate_ranks(reduced, 8, name).elapsed_s > 0
