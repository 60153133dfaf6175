// SPDX-License-Identifier: Apache-2.0
#include "harness/run/estimate.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>

#include "harness/record/measures.h"
#include "harness/run/sampling.h"

namespace kmeans {
namespace {

// Seconds. The constants were fitted to twelve runs of shipped experiments on a 2-core virtual
// machine. Whole runs on such machines since then took 0.4 to 0.9 of what they say, so that is
// taken off (docs/running.md; tests/run/estimate_test.cpp).
constexpr double kShareThatRunsTook = 0.6;
constexpr double kProcessSeconds = 0.12;
constexpr double kRanksSeconds = 0.3;  // processes of MPI, which find each other
constexpr double kPythonSeconds = 2;
constexpr double kTrajectorySeconds = 0.1;
constexpr double kTraceSeconds = 0.15;
constexpr double kSecondsPerCoordinate = 4e-8;  // reading, looking for the largest, arranging
// Operations per second of the model nk(3d + 2) + d(n + k) (docs/metrics.md), for one thread.
constexpr double kPlainRate = 5e9;
constexpr double kVectorRate = 55e9;  // distances that go through memory, or several bounds a point
constexpr double kFusedRate = 110e9;  // distances that stay in registers
constexpr double kBytesRate = 220e9;  // most of them on bytes
constexpr double kBoxesRate = 1.1e12;  // most of them not formed at all
constexpr double kVerifierRate = 1.5e9;
constexpr double kLargestCheck = 2e9;  // multiply-adds that the label check may spend
constexpr double kGpuRate = 1e12;
// Fewer centroids and coordinates leave vector units idle: at so many, half of the time.
constexpr double kHalfRateSize = 150;
constexpr int kTimedRunsOfTrace = 5;
// Whole fits, as libraries do them in the mean: some pass over the points several times at any k.
constexpr double kLibraryRate = 24e9;
constexpr double kFitSecondsPerPoint = 5e-7;
constexpr int kFitIterations = 15;
constexpr double kEstimatorSeconds = 1;  // a process that imports

double share_of_full_rate(const Shape& shape) {
  const double size = static_cast<double>(shape.k) * static_cast<double>(shape.d);
  return size / (size + kHalfRateSize);
}

/// Of variants that run in this program, one thread's.
double full_rate_of(const std::string& variant, const Shape& shape) {
  struct Rate {
    const char* variant;
    double rate;
  };
  static constexpr std::array kRates{
      Rate{"openmp_simd", kFusedRate},    Rate{"openmp_exact", kFusedRate},
      Rate{"mpi_exact", kFusedRate},      Rate{"cpu_simd", kFusedRate},
      Rate{"openmp_hamerly", kFusedRate}, Rate{"openmp_yinyang", kVectorRate},
      Rate{"openmp_elkan", kVectorRate},  Rate{"openmp_exponion", kVectorRate},
      Rate{"openmp_blocks", kVectorRate}, Rate{"blas_gemm", kVectorRate},
      Rate{"eigen_gemm", kVectorRate},    Rate{"openmp_int8", kBytesRate},
      Rate{"openmp_tree", kBoxesRate},    Rate{"openmp_best", kBytesRate}};
  // It takes the tree where centroids have many points each, or are many.
  if (variant == "openmp_best" && shape.d <= 4) {
    return shape.k >= 256 || shape.n >= 4096 * shape.k ? kBoxesRate : kFusedRate;
  }
  const auto* found = std::find_if(kRates.begin(), kRates.end(),
                                   [&](const Rate& rate) { return variant == rate.variant; });
  return found != kRates.end() ? found->rate : 0;
}

double rate_on_cpu(const std::string& variant, const Shape& shape, int threads) {
  const double rate = full_rate_of(variant, shape);
  return threads * (rate > 0 ? rate * share_of_full_rate(shape) : kPlainRate);
}

double rate_of(const Cell& cell) {
  const Shape& shape = cell.task.shape;
  const double full = share_of_full_rate(shape);
  if (cell.gpu) return kGpuRate * full;
  if (cell.key.variant == "python_numpy") return 0.1e9;
  if (cell.key.variant == "python_scipy") return 1.5e9;
  if (cell.backend == "python") return kLibraryRate * cell.key.threads * full;
  return rate_on_cpu(cell.key.variant, shape, cell.key.threads);
}

double start_seconds(const std::string& backend) {
  if (backend == "python") return kPythonSeconds;
  return backend == "mpi" ? kRanksSeconds : kProcessSeconds;
}

double points_read(const Shape& shape) {
  return static_cast<double>(shape.n) * static_cast<double>(shape.d) * kSecondsPerCoordinate;
}

double seconds_of(const Cell& cell, int threads) {
  const Sampling& sampling = cell.sampling;
  const double iteration = operations_zechner(cell.task.shape) / rate_of(cell);
  const double steps = iteration * static_cast<double>(cell.key.iterations);
  const double repetition = std::max(steps, sampling.min_seconds);
  const int fewest = std::min(sampling.processes, fewest_processes(iteration));
  const int processes =
      repetition * sampling.processes <= sampling.max_seconds ? sampling.processes : fewest;
  const double timed = std::min(repetition * sampling.repetitions * sampling.processes,
                                std::max(sampling.max_seconds, repetition * fewest));
  // The certified run and the profiling pass, and an iteration from other centroids.
  const double untimed = 2 * steps + 2 * iteration + points_read(cell.task.shape);
  const double check = std::min(operations_2nkd(cell.task.shape) / 2, kLargestCheck);
  return timed + check / (kVerifierRate * threads) +
         processes * (untimed + start_seconds(cell.backend));
}

double seconds_of(const PlannedTrace& trace, const Sampling& sampling) {
  const double run = operations_zechner(trace.task.shape) *
                     static_cast<double>(trace.spec.iterations) / kPlainRate;
  if (trace.spec.stop.empty()) return kTraceSeconds + 2 * run;
  return kTraceSeconds + 2 * run +
         sampling.processes * (run + std::min(sampling.max_seconds, kTimedRunsOfTrace * run));
}

/// Of all estimators, first calls and the suite's own looks included.
double seconds_of(const PlannedFit& fit, int threads) {
  const FitSpec& spec = fit.spec;
  const Shape& shape = fit.task.shape;
  const double rate = threads * kLibraryRate * share_of_full_rate(shape);
  // A problem has d / problems of the columns, so that all have the operations of one.
  const double iteration = operations_zechner(shape) / rate;
  const auto iterations =
      static_cast<double>(spec.iterations > 0 ? spec.iterations : kFitIterations);
  const double call = static_cast<double>(shape.n) * kFitSecondsPerPoint +
                      std::max(1, spec.starts) * iterations * iteration;
  const double calls = spec.processes * call + std::min(spec.seeds * call, spec.max_seconds);
  const double look =
      4 * operations_2nkd(shape) / (kFusedRate * share_of_full_rate(shape) * threads);
  const double one =
      calls + look * (spec.seeds + spec.processes) + spec.processes * kEstimatorSeconds;
  return static_cast<double>(spec.estimators.size()) * one + points_read(shape);
}

}  // namespace

double estimated_iteration_seconds(const std::string& variant, const Shape& shape, int threads) {
  return operations_zechner(shape) / rate_on_cpu(variant, shape, threads);
}

double estimated_seconds_of_first(const Cell& cell, int threads) {
  Cell alone = cell;
  alone.sampling.max_seconds /= alone.sampling.processes;
  alone.sampling.processes = 1;
  return kShareThatRunsTook * seconds_of(alone, threads);
}

double estimated_seconds(const PlannedTrace& trace, const Sampling& sampling) {
  return kShareThatRunsTook * seconds_of(trace, sampling);
}

double estimated_seconds(const PlannedFit& fit, int threads) {
  return kShareThatRunsTook * seconds_of(fit, threads);
}

double estimated_seconds(const Plan& plan, int threads) {
  double seconds = 0;
  std::set<std::string> trajectories;
  for (const auto& cell : plan.cells) {
    if (!cell.to_run()) continue;
    seconds += seconds_of(cell, threads);
    const Shape& shape = cell.task.shape;
    const std::string trajectory =
        cell.task.label + "/" + std::to_string(shape.k) + "/" + std::to_string(cell.key.iterations);
    if (trajectories.insert(trajectory).second) {
      seconds += kTrajectorySeconds + operations_zechner(shape) *
                                          static_cast<double>(cell.key.iterations) /
                                          (kFusedRate * share_of_full_rate(shape) * threads);
    }
  }
  for (const auto& trace : plan.traces) {
    if (trace.to_run()) seconds += seconds_of(trace, plan.sampling);
  }
  for (const auto& fit : plan.fits) {
    if (fit.to_run()) seconds += seconds_of(fit, threads);
  }
  return kShareThatRunsTook * seconds;
}

}  // namespace kmeans
