// SPDX-License-Identifier: Apache-2.0
//
// mpirun -n RANKS best_of_ranks POINTS N D K LABELS: every rank clusters the same points from a start of its
// own, and the labels with the least inertia are written; the lowest rank's, where some are equal.
#include <kmeans_exact.h>
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include "points_file.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Problem problem;
  if (!read_problem(argc, argv, problem)) MPI_Abort(MPI_COMM_WORLD, 2);
  const auto& [n, d, k, points, file] = problem;
  std::vector<float> centroids(k * d);
  std::vector<std::int32_t> labels(n);
  struct {
    double inertia;
    int rank;
  } own{0, rank}, best{};
  try {
    kmeans_exact::Points kept(points.data(), n, d);
    kept.seed_ward(k, 1 + rank, centroids.data());
    kept.lloyd(k, centroids.data(), labels.data(), {.labels_of = kmeans_exact::LabelsOf::returned});
    own.inertia = kept.inertia(k, centroids.data(), labels.data());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Allreduce(&own, &best, 1, MPI_DOUBLE_INT, MPI_MINLOC, MPI_COMM_WORLD);
  if (rank == best.rank) {
    std::printf("rank %d: inertia %.9g\n", rank, best.inertia);
    write_labels(problem, labels);
  }
  MPI_Finalize();
}
