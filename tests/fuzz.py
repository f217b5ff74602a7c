"""Random programs of messages, collectives and threads: whether it is found who stands still, and nobody else is suspected.

Three witnesses, none of which knows of another: a small model of gloo that plays a program in many orders of arrival
(`Machine`); the simulator's player; the bookkeeping of a run, fed with their reports in any order that pipes allow.

    python -m tests.fuzz 6000            programs, through the model, the player and the bookkeeping
    python -m tests.fuzz 6000 --real 60  and as many small ones on real ranks
"""

import argparse
import random
from collections import Counter, defaultdict, deque

import torch
import torch.distributed as dist

from tests.gloo_model import Machine, Script, facts_of
from utils import Deadlock, run_ranks
from utils.deadlocks.errors import DeadlineExceeded, Mismatch
from utils.deadlocks.waits import WaitState
from utils.simulation.clusters import cluster_named
from utils.simulation.play import play
from utils.simulation.program import CALL, WAIT, Program
from utils.simulation.simulate import _events, _verdict

CLUSTER = cluster_named("H100 node")
ORDERS = 300  # of arrival, for each program on real ranks
OTHER_ORDERS = 10_000  # looked through, at most, where the bookkeeping is not sure


def random_script(rng: random.Random, n: int, threads: bool = True) -> Script:
    """A few calls a rank, drawn one by one, or in pairs that fit, or to and from one rank; then a few are changed."""
    groups = {"0": [*range(n)]} | ({"1": [0, 1]} if n > 2 else {})
    steps = rng.choice([_drawn, _fitting, _crowd])(rng, n, groups)
    from_anybody = rng.choice([0.0, 0.3, 0.8])
    for own in steps:
        own[:] = [("recv", None, step[2]) if step[0] == "recv" and rng.random() < from_anybody else step for step in own]
        if own and rng.random() < 0.15:
            del own[rng.randrange(len(own))]
    waits = rng.choice([1.0, 0.7, 0.3])
    talkers = [rank for rank in range(n) if threads and rng.random() < 0.1]
    return Script([_with_waits(rng, own, waits) for own in steps],
                  {rank: _with_waits(rng, _any_steps(rng, rank, n, {})[:2], 1.0) for rank in talkers}, groups)


def _drawn(rng: random.Random, n: int, groups: dict[str, list[int]]) -> list[list[tuple]]:
    return [_any_steps(rng, rank, n, groups) for rank in range(n)]


def _any_steps(rng: random.Random, rank: int, n: int, groups: dict[str, list[int]]) -> list[tuple]:
    own = [name for name, members in groups.items() if rank in members]
    return [_message(rng, rank, n) if not own or rng.random() < 0.75
            else (rng.choice(["all_reduce", "barrier"]), rng.choice(own)) for _ in range(rng.randint(0, 5))]


def _message(rng: random.Random, rank: int, n: int) -> tuple:
    peer = rng.choice([other for other in range(n) if other != rank])
    return rng.choice(["send", "recv"]), peer, rng.choice([0, 0, 0, 1])


def _fitting(rng: random.Random, n: int, groups: dict[str, list[int]]) -> list[list[tuple]]:
    steps: list[list[tuple]] = [[] for _ in range(n)]
    for _ in range(rng.randint(1, 7)):
        if rng.random() < 0.75:
            a, b = rng.sample(range(n), 2)
            tag = rng.choice([0, 0, 0, 1])
            steps[a].append(("send", b, tag))
            steps[b].append(("recv", a, tag))
        else:
            name = rng.choice([*groups])
            for member in groups[name]:
                steps[member].append(("all_reduce", name))
    return steps


def _crowd(rng: random.Random, n: int, groups: dict[str, list[int]]) -> list[list[tuple]]:
    """All send to one rank, which receives about as often."""
    receiver = rng.randrange(n)
    steps = [[("send", receiver, 0)] * rng.randint(0, 2) for _ in range(n)]
    steps[receiver] = [("recv", sender, 0) for sender, own in enumerate(steps) if sender != receiver for _ in own]
    rng.shuffle(steps[receiver])
    return steps


def _with_waits(rng: random.Random, steps: list[tuple], at_once: float) -> list[tuple]:
    out, pending = [], []
    for number, step in enumerate(steps):
        out.append(step)
        if step[0] in ("send", "recv"):
            if rng.random() < at_once:
                out.append(("wait", number))
            else:
                pending.append(number)
    rng.shuffle(pending)
    return out + [("wait", number) for number in pending if rng.random() < 0.8]


# ── agreement ──


def shuffled(reports: list[tuple], rng: random.Random) -> list[tuple]:
    """Reports, each of a rank, in an order in which they may be read from the ranks' pipes."""
    pipes = defaultdict(deque)
    for report in reports:
        pipes[report[0]].append(report)
    order = [report[0] for report in reports]
    rng.shuffle(order)
    return [pipes[rank].popleft() for rank in order]


def check_bookkeeping(script: Script, rng: random.Random) -> str:
    """The bookkeeping against the model: never a rank that goes on, and in the end everyone who stands."""
    machine = Machine(script, rng)
    state, read = WaitState(len(script.steps)), 0
    while read < len(machine.reports):
        until = read + rng.randint(1, 6)
        for report in shuffled(machine.reports[read:until], rng):
            state.ingest(*report)
        read = until  # whoever asks has read all that was sent until then
        assert state.stuck() <= machine.standing, f"suspects {sorted(state.stuck() - machine.standing)}, who go on"
    if state.disagreement:
        return "calls differ"
    if state.stuck() != machine.standing:
        overlooked = machine.standing - state.stuck()
        if script.threads:
            return "stands, with a thread that might help"
        assert _one_may_go_on(overlooked, script, machine, rng), f"overlooks {sorted(overlooked)}"  # who may free the others
        return "stands, and another order of arrival would look the same so far"
    return "stands" if machine.standing else "ends"


def _one_may_go_on(ranks: frozenset[int], script: Script, seen: Machine, rng: random.Random) -> bool:
    """Whether one of them goes on from where it stands in `seen`, in another order that no report tells from it."""
    for _ in range(OTHER_ORDERS):
        other = Machine(script, rng)
        pairs = [[[(kind, fields | {"time": 0}) for teller, kind, fields in machine.reports if teller == rank]
                  for machine in (other, seen)] for rank in range(len(script.steps))]
        if (all(in_other[:len(told)] == told for in_other, told in pairs)
                and any(len(in_other) > len(told) for rank, (in_other, told) in enumerate(pairs) if rank in ranks)):
            return True
    return False


def to_programs(script: Script) -> list[Program]:
    """What the simulator records of such a script."""
    programs = []
    for rank, steps in enumerate(script.steps):
        program, number = Program(rank), 0
        for step in steps:
            if step[0] == "wait":
                program.kinds.append(WAIT)
                program.values.append(step[1])
                continue
            program.facts.append(facts_of(step, script))
            program.kinds.append(CALL)
            program.values.append(number)
            if step[0] not in ("send", "recv"):
                program.kinds.append(WAIT)
                program.values.append(number)
            number += 1
        programs.append(program)
    return programs


def check_player(script: Script, rng: random.Random) -> str:
    """The bookkeeping against the simulator's player, and that against the model where no order of arrival matters."""
    programs = to_programs(script)
    timetable = play(programs, CLUSTER)
    standing = frozenset(rank for rank, ended in enumerate(timetable.ended) if not ended)
    if timetable.disagreement:
        assert isinstance(_verdict(programs, timetable), Mismatch)
        return "calls differ"
    if not any(step[:2] == ("recv", None) for steps in script.steps for step in steps):
        assert Machine(Script(script.steps, {}, script.groups), rng).standing == standing, "the model and the player differ"
    state = WaitState(len(programs))
    for report in shuffled([event for program in programs for event in _events(program, timetable)], rng):
        state.ingest(*report)
    assert state.stuck() == standing, f"the player leaves {sorted(standing)}, the bookkeeping {sorted(state.stuck())}"
    if standing:
        assert "wait" in str(_verdict(programs, timetable))
    return "stands" if standing else "ends"


# ── real ranks ──


def follow(rank: int, script: Script) -> int:
    """Do what the script says, on a real rank."""
    groups = {name: dist.new_group(members) for name, members in script.groups.items()}
    works = []
    for step in script.steps[rank]:
        x = torch.ones(4)
        if step[0] == "wait":
            works[step[1]].wait()
        elif step[0] in ("send", "recv"):
            works.append((dist.isend if step[0] == "send" else dist.irecv)(x, step[1], tag=step[2]))
        else:
            works.append(None)
            dist.all_reduce(x, group=groups[step[1]]) if step[0] == "all_reduce" else dist.barrier(groups[step[1]])
    return rank


def check_real(script: Script, rng: random.Random) -> str:
    """run_ranks against the model: an error where it stands in every order, none where it ends in every order."""
    outcomes = {Machine(script, rng).standing for _ in range(ORDERS)}
    n = len(script.steps)
    try:
        run_ranks(follow, n, inputs=[script] * n, timeout_s=10)
        told: frozenset | None = frozenset()
    except Mismatch:
        return "calls differ"
    except Deadlock as error:
        told = frozenset(s.rank for s in error.standstills if "wait" in s.what)
    except DeadlineExceeded:
        told = None
    if len(outcomes) == 1:
        standing, = outcomes
        assert told == standing, f"stands: {sorted(standing)}; told: {told and sorted(told)}"
        return "stands" if standing else "ends"
    assert told is None or told in outcomes or any(told and told <= standing for standing in outcomes)
    return "depends on what comes first" + (", and nothing was said" if told is None else "")


CHECKS = {"bookkeeping": check_bookkeeping, "player": check_player, "real": check_real}


def check(which: str, seed: int) -> str:
    """How the program of this seed ended.  Raises: AssertionError, with the program."""
    rng = random.Random(seed)
    n = rng.choice([2, 3]) if which == "real" else rng.choice([2, 3, 3, 4])
    script = random_script(rng, n, threads=which == "bookkeeping")
    try:
        return CHECKS[which](script, rng)
    except AssertionError as error:
        rows = [f"  rank {rank}: {steps}" for rank, steps in enumerate(script.steps)]
        raise AssertionError("\n".join([f"{which}, seed {seed}: {error}", *rows, f"  threads: {script.threads}"])) from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", type=int, nargs="?", default=6000)
    parser.add_argument("--real", type=int, default=0, help="how many on real ranks")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    asked = parser.parse_args()
    for which, count in {"bookkeeping": asked.programs, "player": asked.programs, "real": asked.real}.items():
        ends = Counter(check(which, seed) for seed in range(asked.seed, asked.seed + count))
        print(f"{which}: {count:,} of {count:,} programs agree", dict(ends.most_common()))


if __name__ == "__main__":
    main()
