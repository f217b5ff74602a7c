"""A simulated rank is on its own, makes the calls of a real one, and says so where it cannot know what a real one would."""

import contextlib
import random

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh

from grader.exercises.references import functions_of
from tests.test_simulation import calls_of
from utils import run_ranks, simulate_ranks
from utils.deadlocks.errors import Deadlock, Mismatch, RankFailed, ranks_in_words
from utils.deadlocks.verdicts import deadlock_verdict
from utils.deadlocks.waits import WaitState
from utils.simulation.simulate import SimulatedRun
from utils.trace.calls import CallFacts
from utils.trace.trace import Trace


def travelling_by_value(make):
    """What a cell would define: cloudpickle takes it along, instead of naming this module."""
    names: dict = {"__name__": "__main__"}
    exec(compile(make, __file__, "exec"), names)
    return names


# ── alone in its process ──


CELL = """
import functools, os
import torch
import torch.distributed as dist
from torch.distributed import new_group

seen, model = [], torch.nn.Linear(2, 2)

class Counter:
    made, names = 0, {}

@functools.cache
def first_seen(key):
    return list(seen)

def leaves_traces(rank):
    found = (list(seen), Counter.made, list(Counter.names), hasattr(Counter, "extra"), first_seen(0), torch.ones(1).dtype,
             torch.get_default_device().type, torch.is_grad_enabled(), "LEFT" in os.environ, model.weight.requires_grad,
             isinstance(model.bias, torch.nn.Parameter))
    seen.append(rank)
    Counter.made, Counter.extra, Counter.names[rank] = Counter.made + 1, True, True
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.set_grad_enabled(False)
    os.environ["LEFT"] = "yes"
    model.weight.requires_grad_(False)
    return found

def only_the_first_time(rank):
    seen.append(rank)
    if len(seen) == 1:
        dist.all_reduce(torch.ones(4))
        new_group([0, 1])
"""


def test_each_rank_finds_what_the_cells_left_and_nothing_of_another_rank():
    cell = travelling_by_value(CELL)
    fresh = ([], 0, [], False, [], torch.float32, "cpu", True, False, True, True)
    assert simulate_ranks(cell["leaves_traces"], 3).results == run_ranks(cell["leaves_traces"], 3).results == [fresh] * 3


def test_what_a_rank_remembers_does_not_keep_the_next_from_its_calls():
    function = travelling_by_value(CELL)["only_the_first_time"]
    simulated = simulate_ranks(function, 4)
    assert calls_of(simulated) == calls_of(run_ranks(function, 4))
    assert [call.op for call in simulated.trace.of(3)] == ["all_reduce", "new_group"]


def test_calls_draw_none_of_the_programs_random_numbers():
    def draws():
        random.seed(1)
        dist.all_reduce(torch.ones(2))
        return random.random()

    assert simulate_ranks(draws, 2).results == run_ranks(draws, 2).results


def test_a_model_made_outside_is_wrapped_and_trained_by_each_rank():
    wrap, model = functions_of("solutions", "02_data_parallel")["DataParallel"], torch.nn.Linear(4, 4)

    def step():
        wrapped = wrap(model)
        wrapped(torch.ones(2, 4)).sum().backward()
        wrapped.finish_gradient_synchronization()
        torch.optim.SGD(model.parameters(), lr=0.1).step()

    assert calls_of(simulate_ranks(step, 3)) == calls_of(run_ranks(step, 3))


# ── numbers that are known, and those that are not ──


def one_number(rank):
    x = torch.tensor([float(rank)])
    dist.all_reduce(x)
    return x.item()


def behind_a_view(rank):
    x = torch.tensor(float(rank))
    dist.broadcast(x.view(1), 0, async_op=True).wait()
    return float(x)


def of_a_functional_call(rank):
    return functional.all_reduce(torch.tensor([float(rank)]), "sum", dist.group.WORLD).item()


def from_outside():
    outside = torch.ones(1)

    def function():
        dist.all_reduce(outside)
        return outside.tolist()

    return function


def objects(rank):
    gathered = [None] * dist.get_world_size()
    dist.all_gather_object(gathered, {"rank": rank})
    return gathered if gathered[1]["rank"] else None


KNOWN = [one_number, behind_a_view, of_a_functional_call, from_outside(), objects]


@pytest.mark.parametrize("function", KNOWN, ids=lambda function: function.__qualname__)
def test_known_numbers_travel_as_they_do_between_real_ranks(function):
    assert simulate_ranks(function, 3).results == run_ranks(function, 3).results


def of_a_sum():
    if torch.ones(3).sum().item() > 2:  # here
        dist.barrier()


def of_many_received(rank):
    x = torch.arange(2.0) + rank
    dist.all_reduce(x)
    return range(int(x[0]))  # here


def as_an_array():
    return torch.ones(3).numpy()  # here


def of_an_array():
    x = torch.from_numpy(np.ones(2, dtype=np.float32))
    dist.all_reduce(x)
    return np.asarray(x)  # here


def of_a_list_from_outside():
    outside = torch.ones(2)

    def function():
        dist.all_reduce(outside)
        return outside.tolist() == [2.0, 2.0]  # here

    return function


UNKNOWN = [of_a_sum, of_many_received, as_an_array, of_an_array, of_a_list_from_outside()]


@pytest.mark.parametrize("function", UNKNOWN, ids=lambda function: function.__qualname__)
def test_numbers_that_only_real_ranks_have_are_refused_with_the_line(function):
    with pytest.raises(RankFailed, match=r"(?s)NeedsNumbers: this needs .* number.*# here"):
        simulate_ranks(function, 2)


def test_what_a_rank_prints_is_printed_once_and_unknown_numbers_are_marks(capsys):
    def program(rank):
        print("begin", rank)
        sizes = [None] * 2
        dist.all_gather_object(sizes, rank + 5)
        print(sum(sizes), f"{torch.ones(3).sum().item():.3f}")

    simulate_ranks(program, 2)
    assert capsys.readouterr().out == "begin 0\n11 ?\nbegin 1\n11 ?\n"


def test_numbers_that_are_only_read_stay_known():
    def given():
        x, out = torch.tensor([5.0]), torch.empty(2)
        dist.all_gather_into_tensor(out, x)
        dist.all_reduce(torch.tensor([1.0]))
        functional.all_reduce(x, "sum", dist.group.WORLD)
        return x.item()

    assert simulate_ranks(given, 2).results == [5.0, 5.0]


def receives_from_anybody(rank):
    if rank == 0:
        return dist.recv(torch.empty(2))
    dist.send(torch.empty(2), 0)


def test_a_receive_from_anybody_works_and_who_sent_it_is_not_known():
    assert calls_of(simulate_ranks(receives_from_anybody, 2)) == calls_of(run_ranks(receives_from_anybody, 2))

    def answers(rank):
        if (sender := receives_from_anybody(rank)) is not None:
            dist.send(torch.empty(2), sender)  # here

    with pytest.raises(RankFailed, match=r"(?s)NeedsNumbers: this needs to know which rank.*# here"):
        simulate_ranks(answers, 2)


def on_a_mesh_of_torch():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    dist.all_reduce(torch.ones(3), group=mesh.get_group("dp"))
    dist.all_reduce(torch.ones(5), group=mesh["tp"].get_group())
    return mesh.get_local_rank("dp"), mesh["tp"].get_local_rank(), mesh.mesh.tolist(), mesh.get_coordinate(), mesh.size()


def test_a_mesh_of_torch_gives_its_groups():
    simulated, real = simulate_ranks(on_a_mesh_of_torch, 4), run_ranks(on_a_mesh_of_torch, 4)
    assert simulated.results == real.results and calls_of(simulated) == calls_of(real)


# ── calls that cannot come to an end ──


def gives_and_expects_other_lengths(rank):
    given, expected = ([2, 2], [2, 1]) if rank == 0 else ([1, 1], [1, 1])
    dist.all_to_all_single(torch.empty(sum(expected)), torch.empty(sum(given)), expected, given)


def names_other_members(rank):
    dist.new_group([0, 1] if rank == 0 else [0, 2])


def throws_its_work_away(rank):
    if rank == 0:
        dist.isend(torch.ones(3), dst=1)
        dist.send(torch.ones(3), dst=1)
    elif rank == 1:
        sum([torch.ones(1 << 20)] * 4)  # or the partner might be there before it is given up
        for _ in range(2):
            dist.recv(torch.ones(3), src=0)


@pytest.mark.parametrize("function, kind", [(gives_and_expects_other_lengths, "splits differs"),
                                            (names_other_members, "ranks differs")])
def test_what_members_do_not_agree_on_is_said_as_by_real_ranks(function, kind):
    said = []
    for run in (run_ranks, simulate_ranks):
        with pytest.raises(Mismatch) as caught:
            run(function, 2 if function is gives_and_expects_other_lengths else 3)
        said.append(caught.value)
    assert said[0].kind == said[1].kind == kind and said[0].fix == said[1].fix


def test_unequal_lengths_that_fit_are_played():
    def exchange(rank):
        lengths = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
        given, expected = lengths[rank], [row[rank] for row in lengths]
        dist.all_to_all_single(torch.empty(sum(expected)), torch.empty(sum(given)), expected, given)

    assert simulate_ranks(exchange, 3).elapsed_s > 0


def test_a_message_whose_work_is_thrown_away_is_gone_unless_its_partner_waits():
    with pytest.raises(Deadlock, match="threw its Work away") as caught:
        simulate_ranks(throws_its_work_away, 2)
    assert caught.value.kind == "dropped message"

    def partner_waits(rank):
        if rank == 0:
            torch.ones(1 << 20).sum()
            dist.isend(torch.ones(3), dst=1)
            torch.ones(1 << 20).sum()
        else:
            dist.recv(torch.ones(3), src=0)

    assert simulate_ranks(partner_waits, 2).elapsed_s > 0


def test_works_of_one_rank_are_not_those_of_the_next():
    def left_over(rank):
        works = [dist.isend(torch.ones(3), dst=1) for _ in range(3 * (1 - rank))]
        return len(works)

    assert simulate_ranks(left_over, 2).results == [3, 0]


def test_a_thousand_ranks_that_wait_fit_on_a_screen():
    def one_stays_away(rank):
        if rank != 70:
            dist.all_reduce(torch.ones(3))

    with pytest.raises(Deadlock) as caught:
        simulate_ranks(one_stays_away, 96)
    said = str(caught.value)
    assert len(caught.value.standstills) == 96 and len(said.splitlines()) < 15
    assert said.startswith("ranks 0–69 and 71–95 wait") and "and 92 other ranks likewise" in said
    assert "rank 70 has returned without" in said and "rank 70 must call all_reduce too" in said


def waits_in_a_line(state, broken=700, n=1024):
    """Each receives from the one before it; one has not sent."""
    members = list(range(n))
    for rank in range(n):
        if rank == broken:
            state.ingest(rank, "returned", {})
        else:
            facts = CallFacts(op="recv", group="g", members=members, dtype="float32", shape=[3], bytes=12, waits=True,
                              peer=(rank - 1) % n)
            state.ingest(rank, "call", {"number": 0, "time": 0.0, "facts": facts})


def test_of_a_long_line_the_one_is_shown_for_whom_all_wait():
    state = WaitState(1024)
    waits_in_a_line(state)
    said = str(deadlock_verdict(state, state.stuck()))
    assert "\n    rank 701 waits for rank 700" in said and "let rank 700 send it: send(..., dst=701)" in said
    assert "and 1,020 other ranks likewise" in said and len(said.splitlines()) < 12


def test_a_long_circle_is_found():
    state = WaitState(1024)
    waits_in_a_line(state, broken=None)
    verdict = deadlock_verdict(state, state.stuck())
    assert verdict.kind == "cycle of receives" and len(str(verdict).splitlines()) < 12


@pytest.mark.parametrize("numbers, words", [
    ([3], "rank 3"), ([1, 4], "ranks 1 and 4"), ([*range(9)], "ranks 0–8"), ([*range(0, 9, 2)], "ranks 0, 2, 4, 6 and 8"),
    ([*range(20), *range(30, 40)], "ranks 0–19 and 30–39"),
    ([*range(0, 2000, 2)], "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 992 others")])
def test_many_ranks_are_named_in_few_words(numbers, words):
    assert ranks_in_words(numbers) == words


# ── the trace of many ranks, and of some ──


def late_partner(rank, world_size):
    if rank == world_size - 1:
        torch.empty(1 << 26).sum()
    dist.all_reduce(torch.empty(1 << 20))
    if rank < 2:
        dist.send(torch.empty(3), 1) if rank == 0 else dist.recv(torch.empty(3), 0)


def test_a_trace_of_some_ranks_says_what_it_has_not():
    run = simulate_ranks(late_partner, 66)
    for ask, said in ((lambda: run.trace.of(65), r"64 of 66 ranks, and not those of rank 65; ask for run.trace_of\(\[65"),
                      (lambda: run.trace.bytes_sent(65), "not those of rank 65"),
                      (lambda: run.trace.traffic_matrix(), r"run.trace_of\(range\(66\)\)")):
        with pytest.raises(ValueError, match=said):
            ask()
    assert run.trace.ranks == (*range(64),) and len(run.trace.table().rows) == 64 and "64 of 66 ranks" in repr(run.trace)
    assert run.trace_of([0, 1])._repr_html_().count("<img") == 1  # its timeline
    whole = run.trace_of(range(66))
    assert whole.of(65)[0].op == "all_reduce" and whole.bytes_sent(65) > 0 and whole.traffic_matrix()[0][1] == 12
    few = run.trace_of([3, 1])
    assert few.ranks == (1, 3) and [call.waiting_s for call in few.of(3)] == [call.waiting_s for call in whole.of(3)]
    assert few.of(3)[0].waiting_s > 5e-5  # for the last rank, which is not in this trace


@pytest.mark.parametrize("ranks, said", [([5000], r"some of 0 to 1, please; got \[5000\]"), ([], "some of 0 to 1"),
                                         (5, r"a list of rank numbers, such as \[0, 1\]; got 5"), ("01", "a list of rank")])
def test_a_trace_of_ranks_that_are_not_there_is_refused(ranks, said):
    run = SimulatedRun(2, [], Trace(2), [])
    with pytest.raises((ValueError, TypeError), match=said):
        run.trace_of(ranks)


# ── what gloo takes and NCCL does not ──


def exchange_one_after_the_other(rank):
    other = rank ^ 1
    sending = dist.isend(torch.ones(4), other)  # here
    dist.recv(torch.empty(4), other)
    sending.wait()


def exchange_by_parity(rank):
    other = rank ^ 1
    for call in (dist.send, dist.recv) if rank % 2 == 0 else (dist.recv, dist.send):
        call(torch.ones(4), other)


def exchange_in_a_batch(rank):
    other = rank ^ 1
    both = [dist.P2POp(dist.isend, torch.ones(4), other), dist.P2POp(dist.irecv, torch.ones(4), other)]
    for work in dist.batch_isend_irecv(both):
        work.wait()


def exchange_in_two_batches(rank):
    works = []
    for call in (dist.isend, dist.irecv):
        works += dist.batch_isend_irecv([dist.P2POp(call, torch.ones(4), rank ^ 1)])  # here
    for work in works:
        work.wait()


def pass_around(rank, n):
    sending = dist.isend(torch.ones(4), (rank + 1) % n)
    dist.recv(torch.empty(4), (rank - 1) % n)
    sending.wait()


def batches_in_another_order_than_a_collective(rank):
    ops = [dist.P2POp(dist.isend, torch.ones(4), 1 - rank), dist.P2POp(dist.irecv, torch.ones(4), 1 - rank)]
    if rank == 0:
        reducing = dist.all_reduce(torch.ones(4), async_op=True)  # here
    works = dist.batch_isend_irecv(ops)
    if rank == 1:
        reducing = dist.all_reduce(torch.ones(4), async_op=True)
    for work in (*works, reducing):
        work.wait()


def sums_bits():
    dist.all_reduce(torch.ones(2, dtype=torch.int32), op=dist.ReduceOp.BOR)  # here


def sends_short_numbers(rank):
    exchange = dist.send if rank == 0 else dist.recv
    exchange(torch.ones(2, dtype=torch.int16), 1 - rank)  # here


def receives_two(rank):
    for _ in range(1 - rank):
        dist.recv(torch.empty(2))  # here
    if rank == 1:
        dist.send(torch.empty(2), 0)


@pytest.mark.parametrize("function, n, said", [
    (exchange_one_after_the_other, 4, "on GPUs ranks 0–3 may wait for ever, from rank 0's send on"),
    (exchange_in_two_batches, 2, "on GPUs ranks 0 and 1 may wait for ever, from rank 0's send on"),
    (batches_in_another_order_than_a_collective, 2, "on GPUs ranks 0 and 1 may wait for ever, from rank 0's all_reduce on"),
    (pass_around, 2, "on GPUs ranks 0 and 1 may wait"),
    (sums_bits, 2, "NCCL has no reduction by BOR"), (sends_short_numbers, 2, "NCCL has no messages of int16"),
    (receives_two, 2, "NCCL has no receive from anybody"),
    (pass_around, 3, ""), (exchange_by_parity, 4, ""), (exchange_in_a_batch, 4, ""),
], ids=lambda value: getattr(value, "__name__", None))
def test_what_nccl_would_not_carry_out_is_told_for_a_cluster_of_gpus(function, n, said, capsys):
    run = simulate_ranks(function, n)
    assert len(run.oversights) == bool(said) and capsys.readouterr().out.splitlines() == run.oversights
    assert all(said in line for line in run.oversights)
    assert simulate_ranks(function, n, "TPU v5p torus").oversights == []


def test_nothing_large_is_made_for_the_sake_of_a_known_number():
    def program():
        large = torch.empty(1 << 31, dtype=torch.bfloat16)
        return large.new_zeros(())

    assert max(program.process_bytes for program in simulate_ranks(program, 2).programs) < 2 << 30


def test_a_refusal_that_the_program_catches_is_told_all_the_same():
    def careful():
        loss = torch.randn(3).mean()
        with contextlib.suppress(Exception):
            if loss > 0:  # here
                dist.barrier()
        dist.all_reduce(loss)

    with pytest.raises(RankFailed, match=r"(?s)NeedsNumbers: this needs a tensor's numbers.*# here"):
        simulate_ranks(careful, 2)


def logs_what_is_a_number():
    logged = {"loss": torch.ones(3).mean().item(), "epoch": 1, "name": "a"}
    dist.all_reduce(torch.ones(len({name: value for name, value in logged.items() if isinstance(value, (int, float))})))


def drops_what_it_has_seen():
    seen = set()
    for p in torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)).parameters():
        if p.data_ptr() not in seen:
            seen.add(p.data_ptr())
            dist.broadcast(p.data, 0)


def draws_after_a_model():
    torch.manual_seed(0)
    torch.nn.Dropout()(torch.nn.Linear(8, 8)(torch.ones(4, 8)))
    dist.all_reduce(torch.ones(int(torch.randint(1, 50, (1,)))))


def learns_a_size_from_a_later_rank(rank):
    size = torch.tensor([7 if rank == 1 else 0])
    dist.broadcast(size, 1)
    dist.broadcast(torch.empty(size.item(), 4), 1)


@pytest.mark.parametrize("function", [logs_what_is_a_number, drops_what_it_has_seen, draws_after_a_model,
                                      learns_a_size_from_a_later_rank])
def test_what_a_program_looks_at_is_as_on_real_ranks(function):
    assert calls_of(simulate_ranks(function, 2)) == calls_of(run_ranks(function, 2))
