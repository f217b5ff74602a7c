"""dist.new_group, which makes no call of a group."""

import functools
import sys
import threading

import torch
import torch.distributed as dist
import torch.distributed.device_mesh

from utils.trace.calls import CallFacts
from utils.trace.recorder import PendingCall, Recorder
from utils.trace.user_code import user_line


def watch_new_group(recorder: Recorder) -> None:
    """dist.new_group meets through the store; record it as one collective of the whole world.

    A group that init_device_mesh makes is recorded without a line: nobody's line asked for it.
    """
    original = dist.new_group

    def watched(has_line: bool):
        def new_group(ranks=None, *args, **kwargs):
            world = _all_ranks(dist.get_world_size())
            wanted = world if ranks is None else sorted(map(int, ranks))  # NumPy numbers are no JSON
            local = kwargs.get("use_local_synchronization", False)
            source = user_line(sys._getframe(), recorder.machinery) if has_line else None
            thread = None if (waits := recorder.on_main_thread()) else threading.current_thread().name
            made = len(dist.distributed_c10d._world.pg_names) if local else 0  # what torch names a local group by
            about = (tuple(wanted), None if local else len(world), made, source, thread, recorder.is_alone())
            number, _ = recorder.announce(("new_group", *about), functools.partial(_facts_of_new_group, *about))
            recorder.told_to_wait = number if waits else None
            with recorder.waiting(PendingCall(number)):
                return original(ranks, *args, **kwargs)

        return new_group

    dist.new_group = torch.distributed.distributed_c10d.new_group = watched(has_line=True)
    torch.distributed.device_mesh.new_group = watched(has_line=False)


@functools.cache
def _all_ranks(world_size: int) -> list[int]:
    """One list for all calls: a mesh of a thousand ranks makes hundreds of groups on each of them."""
    return list(range(world_size))


@functools.cache
def _facts_of_new_group(wanted: tuple[int, ...], world_size: int | None, made: int, source: tuple | None,
                        thread: str | None, alone: bool) -> CallFacts:
    """world_size: None where the members alone meet; made: how many groups the rank is in already. One object for all
    calls, as above."""
    members = list(wanted)
    return CallFacts(op="new_group", group="new_group" if world_size else f"new_group {members}",
                     members=_all_ranks(world_size) if world_size else members, shape=members, made=made,
                     waits=thread is None, alone=alone, source=source, thread=thread)
