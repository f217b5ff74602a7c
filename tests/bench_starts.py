"""Seconds that others take to start 4 ranks, in a program that imports no more than they need: mp.spawn imports it anew.

Arguments: "mp.spawn" or "notebook_launcher" (accelerate's; it forks, which suits a fresh process). Prints a JSON list.
"""

import contextlib
import io
import json
import socket
import sys
import time

import torch
import torch.distributed as dist

ROUNDS = {"mp.spawn": 3, "notebook_launcher": 7}
WORLD_SIZE = 4


def launched() -> None:
    """What a rank does: meet the others, speak once, leave."""
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


def spawned(rank: int, port: int) -> None:
    """The same, where nobody has set the environment."""
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=WORLD_SIZE)
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


def start(kind: str) -> None:
    """All ranks, from their start to their end."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    if kind == "mp.spawn":
        torch.multiprocessing.spawn(spawned, args=(port,), nprocs=WORLD_SIZE)
        return
    from accelerate import notebook_launcher

    with contextlib.redirect_stdout(io.StringIO()):
        notebook_launcher(launched, (), num_processes=WORLD_SIZE, use_port=str(port))


def main() -> None:
    times = []
    for _ in range(ROUNDS[sys.argv[1]] + 1):
        began = time.perf_counter()
        start(sys.argv[1])
        times.append(time.perf_counter() - began)
    json.dump(times[1:], sys.stdout)


if __name__ == "__main__":
    main()
