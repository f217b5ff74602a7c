"""Seconds of accelerate's notebook_launcher with 4 ranks, in a process of its own: it forks, which suits a fresh one."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import sys
import time

import torch
import torch.distributed as dist

ROUNDS = 7


def launched() -> None:
    dist.init_process_group("gloo")
    dist.all_reduce(torch.ones(1))
    dist.destroy_process_group()


def main() -> None:
    from accelerate import notebook_launcher

    times = []
    for _ in range(ROUNDS + 1):
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            notebook_launcher(launched, (), num_processes=4, use_port=str(port))
        times.append(time.perf_counter() - start)
    json.dump(times[1:], sys.stdout)


if __name__ == "__main__":
    main()
