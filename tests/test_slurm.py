"""tools/slurm_job.sh, with stand-ins for Slurm's own commands: two "machines" that are this one."""

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.course import ROOT
from utils import Mismatch
from utils.ranks.run import Run
from utils.ranks.torchrun import read_results, write_job

# As Slurm does: the command once on each machine, with the machine's number; the job's exit status is the worst one.
SRUN = """#!/usr/bin/env bash
for node in $(seq 0 $((SLURM_JOB_NUM_NODES - 1))); do SLURM_NODEID=$node "$@" & started+=($!); done
for one in "${started[@]}"; do wait "$one" || status=$?; done
exit "${status:-0}"
"""
SCONTROL = """#!/usr/bin/env bash
[ "$*" = "show hostnames node[1-2]" ] && printf 'localhost\\nnode2\\n'
"""


def by_slurm(fn: Callable, folder: Path) -> Run:
    """The Run of `fn` on two machines with two ranks each.  Raises: as read_results."""
    write_job(fn, folder / "job.pkl")
    for name, text in {"srun": SRUN, "scontrol": SCONTROL}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    slurm = {"SLURM_JOB_NODELIST": "node[1-2]", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_ID": str(random.randrange(20_000))}
    subprocess.run([ROOT / "tools" / "slurm_job.sh", folder / "job.pkl", folder / "results", "2"], cwd=ROOT, timeout=200,
                   capture_output=True, env=os.environ | slurm | {
                       "PATH": f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"})
    return read_results(folder / "results")


@pytest.mark.long
def test_a_job_runs_on_all_machines(tmp_path):
    def rank_and_sum():
        x = torch.ones(1)
        dist.all_reduce(x)
        return dist.get_rank(), x.item()

    assert by_slurm(rank_and_sum, tmp_path).results == [(rank, 4.0) for rank in range(4)]


@pytest.mark.long
def test_what_goes_wrong_is_said_as_on_one_machine(tmp_path):
    def other_lengths():
        dist.all_reduce(torch.ones(4 + dist.get_rank()))

    with pytest.raises(Mismatch):
        by_slurm(other_lengths, tmp_path)
