"""What a rank has of the process that starts it, and what is its own: ranks are forked from a server that began earlier."""

import contextlib
import hashlib
import os
import random
import sys
from dataclasses import dataclass

import torch

from utils.deadlocks.errors import BadValue

FILES_A_RANK = {"forkserver": 4, "spawn": 6}  # that its launcher has open: ends of pipes, and what tells of its end
OTHER_FILES = 32


@dataclass(frozen=True)
class Surroundings:
    """What multiprocessing hands to a new process, too: the folder, variables, where modules are looked for, the arguments.

    What is read when a process begins or torch is imported (PYTHONHASHSEED, OMP_NUM_THREADS, TORCH_LOGS) is the server's.
    """

    folder: str | None
    variables: dict[str, str]
    module_folders: tuple[str, ...]
    arguments: tuple[str, ...]

    @classmethod
    def here(cls) -> "Surroundings":
        """Those of this process, at this moment."""
        try:
            folder = os.getcwd()
        except OSError:  # somebody has removed it
            folder = None
        return cls(folder, dict(os.environ), tuple(sys.path), tuple(sys.argv))

    def take_over(self) -> None:
        """Make them those of this process."""
        if self.folder is not None:
            with contextlib.suppress(OSError):
                os.chdir(self.folder)
        for name in os.environ.keys() - self.variables.keys():
            del os.environ[name]
        for name, value in self.variables.items():
            if os.environ.get(name) != value:
                os.environ[name] = value
        sys.path[:], sys.argv[:] = self.module_folders, self.arguments


def name_rank(rank: int, world_size: int) -> None:
    """The variables that torchrun sets, which programs written for it read."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world_size), LOCAL_WORLD_SIZE=str(world_size))


def draw_anew(seed: int | None = None) -> None:
    """Let torch, random and NumPy draw other numbers than any other process does; with a seed, those that belong to it."""
    if seed is None:
        torch.default_generator.seed()
        random.seed()
        if "numpy.random" in sys.modules:  # else it begins when it is imported
            sys.modules["numpy.random"].seed()
    else:
        import numpy.random  # not above: a notebook begins 20 ms sooner

        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        numpy.random.seed(seed % (1 << 32))


def seed_of(seed: int, rank: int) -> int:
    """A number of 63 bits for each rank, which no program would choose for itself."""
    return int.from_bytes(hashlib.sha256(f"{seed} {rank}".encode()).digest()[:8]) >> 1


def allow_open_files(n_ranks: int, start_method: str) -> None:
    """Raise this process's soft limit of open files so far that so many ranks can be started in this way.

    Raises: ValueError that says what to do, where the hard limit is too low.
    """
    try:
        import resource
    except ImportError:  # a system without such limits
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    others = _open_files() + OTHER_FILES
    wanted = others + FILES_A_RANK[start_method] * n_ranks
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        fewer = max(1, (hard - others) // FILES_A_RANK[start_method])
        raise BadValue(f"{n_ranks} ranks need {wanted} open files in this process, which may have {hard} at most "
                       f"(ulimit -Hn): start Jupyter where more are allowed, or take no more than {fewer} ranks")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _open_files() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 0
