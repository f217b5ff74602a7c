#!/usr/bin/env bash
# A job of write_job on the machines that Slurm gives, one torchrun on each.
#   sbatch --nodes 2 tools/slurm_job.sh job.pkl results/ [ranks on each machine, 4]
# job.pkl and results/ lie in a folder that all machines share; so do the course and its .venv.
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=4
set -euo pipefail
job=${1:?which job file?} results=${2:?a folder for the results?} each=${3:-4}

machines=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
first=${machines%%$'\n'*}
port=$((20000 + SLURM_JOB_ID % 20000)) # two jobs may share a machine
exec srun torchrun --nnodes "$SLURM_JOB_NUM_NODES" --nproc-per-node "$each" \
  --rdzv-backend c10d --rdzv-id "$SLURM_JOB_ID" --rdzv-endpoint "$first:$port" \
  -m utils.ranks.torchrun "$job" "$results"
