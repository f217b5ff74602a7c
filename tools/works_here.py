"""Do ranks run here? An all-reduce on a few ranks, checked on each.  Usage: python tools/works_here.py [ranks, 4]"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import torch.distributed as dist

from utils import run_ranks


def sum_of_ranks() -> float:
    x = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(x)
    return x.item()


if __name__ == "__main__":
    n_ranks = int(sys.argv[1]) if sys.argv[1:] else 4
    results = run_ranks(sum_of_ranks, n_ranks).results
    expected = n_ranks * (n_ranks - 1) / 2
    right = results == [expected] * n_ranks
    print(f"{n_ranks} ranks, torch {torch.__version__}, user {os.getuid()}: {'an all-reduce works' if right else results}")
    sys.exit(not right)
