#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Slurm: cluster one file on four nodes, a rank for each of their two sockets (docs/scaling.md).
#
#   sbatch docs/examples/slurm-fit.sh /shared/points.npy 1000 /shared/answer
#
#SBATCH --job-name=kmeans-fit
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=2
#SBATCH --ntasks-per-socket=1
#SBATCH --cpus-per-task=32
#SBATCH --hint=nomultithread
#SBATCH --time=01:00:00
set -euo pipefail
points=$1 clusters=$2 out=$3

# The file and the program are on a file system that all nodes see. --kill-on-bad-exit: when one rank is
# killed, the others do not wait for it.
srun --mpi=pmix --cpu-bind=cores --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \
  build/kmeans-bench fit "$points" -k "$clusters" --threads "$SLURM_CPUS_PER_TASK" --out "$out"
