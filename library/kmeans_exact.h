// SPDX-License-Identifier: Apache-2.0
//
// Lloyd's algorithm for k-means by the exact engines that the suite measures. Labels and centroids have
// the same bits on every machine and with every number of threads (docs/exact-step.md); what the library
// does not do stands in docs/library.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace kmeans_exact {

/// When to stop before the given number of iterations.
enum class Stop {
  never,
  labels,     ///< After an iteration in which no label changed.
  tolerance,  ///< Or, before that, after one that moved the centroids by Options::tolerance at most.
};

/// To which centroids labels belong.
enum class LabelsOf {
  starting,  ///< Those that the last iteration started from.
  returned,  ///< Those that are handed back, as nearest() gives them.
};

/// What computes. Labels and centroids have the same bits everywhere.
enum class Device {
  cpu,
  gpu,  ///< Of points of the host the first NVIDIA GPU that this process sees.
  any,  ///< The GPU where there is one that takes the problem, else the CPU.
};

/// How near a row is to a centroid.
enum class Metric {
  euclidean,
  /// Spherical k-means (docs/exact-step.md): rows have length one, or are zeros, as unit_rows() makes them, and new
  /// centroids are sums scaled to length one. First centroids are scaled to it.
  cosine,
};

struct Result {
  std::int64_t iterations = 0;  ///< That were run.
  bool converged = false;       ///< The last of them changed no label. Not with Stop::never.
  bool within_tolerance =
      false;  ///< The last of them moved the centroids by no more. Only if asked.
};

/// How long a run goes on, and what it returns.
struct Options {
  std::int64_t iterations = 300;  ///< At most, with Stop::never exactly; at least 1.
  Stop stop = Stop::labels;
  /// As scikit-learn's tol: of the mean variance of the columns, the share that the squares by which the
  /// centroids move have to add up to at most (docs/exact-step.md). At least 0.
  double tolerance = 1e-4;
  LabelsOf labels_of = LabelsOf::starting;
  /// n numbers of at least 0, finite, not all 0, or null: every point counts once. Integers that add up to at most
  /// 2^32 give the bits of so many equal points; docs/exact-step.md has what others give.
  const double* weights = nullptr;
  /// By cosine rows of another length than one are refused.
  Metric metric = Metric::euclidean;
  /// Called between iterations, several of which are made at once where they are short, on the calling
  /// thread. What it throws ends the call, and nothing is written.
  std::function<void()> between{};
};

/// Problems of one shape, one behind the other: points are `problems` x n x d, and so on.
struct Batch {
  const float* points = nullptr;
  std::int64_t problems = 0;
  std::int64_t n = 0;
  std::int64_t d = 0;
  std::int64_t k = 0;
};

/// What coordinates in a GPU's memory are; float32 holds each of them.
enum class GpuNumbers { float32, float16, bfloat16 };

/// Points in the memory of a GPU, n x d, row-major, finite.
struct GpuPoints {
  const void* dev_points = nullptr;
  std::int64_t n = 0;
  std::int64_t d = 0;
  GpuNumbers numbers = GpuNumbers::float32;
  void* stream =
      nullptr;  ///< cudaStream_t: the points are there once all is done that it holds now.
};

/// The same in the memory of a GPU: the points of one problem, behind which lie those of the others.
struct GpuBatch {
  GpuPoints first{};
  std::int64_t problems = 0;
  std::int64_t k = 0;
};

/// Points that many runs are made on: from several seeds, with several k, from where another run ended. They
/// are checked once; copies that engines work on are kept from run to run and, where k differs, as far as they
/// do not depend on it. Answers are those of single calls.
class Points {
 public:
  /// n x d, row-major, finite. They are not copied here, and must outlive this and stay as they are.
  /// `threads` and `device` as for lloyd(), which also says what is thrown.
  Points(const float* points, std::int64_t n, std::int64_t d, int threads = 0,
         Device device = Device::cpu);
  /// Points that stay in the memory of their GPU, on which all runs are made. float32 is used in place where it begins
  /// at whole 16 bytes, must outlive this and stay as it is. lloyd(), nearest() and seeds then take and write
  /// centroids and labels in the memory of either, given when all is done that the legacy default stream holds, and
  /// are done when they return. lloyd() and inertia() with weights copy the points to the host. Throws
  /// std::invalid_argument where the points are elsewhere, std::runtime_error unless the first GPU can be used.
  explicit Points(const GpuPoints& points, int threads = 0);
  ~Points();
  Points(Points&&) noexcept;
  Points& operator=(Points&&) noexcept;

  // Each as the function of its name. One at a time: a call is at work with what all of them share.
  Result lloyd(std::int64_t k, float* centroids, std::int32_t* labels, const Options& options = {});
  /// From `init`, which stays as it is unless it is `centroids`.
  Result lloyd(std::int64_t k, const float* init, float* centroids, std::int32_t* labels,
               const Options& options = {});
  void nearest(std::int64_t k, const float* centroids, std::int32_t* labels,
               const std::function<void()>& between = {});
  void distances(std::int64_t k, const float* centroids, double* distances,
                 const std::function<void()>& between = {}) const;
  void distances(std::int64_t k, const float* centroids, float* distances,
                 const std::function<void()>& between = {}) const;
  [[nodiscard]] double inertia(std::int64_t k, const float* centroids, const std::int32_t* labels,
                               const double* weights = nullptr,
                               const std::function<void()>& between = {}) const;
  void seed_plus_plus(std::int64_t k, std::uint64_t seed, float* centroids,
                      const std::int64_t* weights = nullptr,
                      const std::function<void()>& between = {});
  void seed_ward(std::int64_t k, std::uint64_t seed, float* centroids,
                 const std::int64_t* weights = nullptr, const std::function<void()>& between = {});

  /// How many engines have been set up so far: for runs with one k, one.
  [[nodiscard]] std::int64_t engines() const;

 private:
  struct Impl;
  explicit Points(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
  friend struct Batches;  // of the library itself
};

/// Runs Lloyd iterations.
///
///   points     n x d, row-major, finite
///   centroids  k x d, row-major, finite: where to begin, afterwards where the last iteration led. A
///              cluster without points keeps its centroid.
///   labels     n, written: of the last iteration, so by the centroids that it started from
///   iterations at least 1
///   threads    0: as many as this process may use; at most 4096. The system may give fewer
///   device     all arrays are in the memory of the host, whatever computes
///   between    called between iterations, several of which are made at once where they are short, on
///              the calling thread. What it throws ends the call, and nothing is written
///
/// Needs 1 <= k <= n, and memory in addition to the points (docs/library.md). Throws std::invalid_argument, saying
/// what is wrong and where, for NaN or infinity and for points that the exact step refuses; with
/// Device::gpu std::runtime_error, with the reason, where no GPU takes the problem; and std::bad_alloc that
/// says how much memory is needed and how much there is. Nothing is written then. The caller's
/// floating-point modes change no bit. It may be called in a forked process, where every call starts
/// threads of its own, and in a parallel region.
Result lloyd(const float* points, std::int64_t n, std::int64_t d, std::int64_t k, float* centroids,
             std::int32_t* labels, std::int64_t iterations, Stop stop = Stop::never,
             int threads = 0, Device device = Device::cpu,
             const std::function<void()>& between = {});

/// The same with all that can be asked for.
Result lloyd(const float* points, std::int64_t n, std::int64_t d, std::int64_t k, float* centroids,
             std::int32_t* labels, const Options& options, int threads = 0,
             Device device = Device::cpu);

/// lloyd() on each problem of a batch, and the bits that it gives alone: where problems are small and many, much sooner
/// than one after the other, since a thread, or a multiprocessor of a GPU, has one for itself. `centroids` are problems
/// x k x d, `labels` problems x n, `results` problems. Options::weights must be null. Throws as lloyd() does, of the
/// first problem that something is wrong with; what the arrays hold then is not said.
void lloyd_batch(const Batch& batch, float* centroids, std::int32_t* labels, Result* results,
                 const Options& options = {}, int threads = 0, Device device = Device::cpu);

/// The same on the GPU where the points are: as Points() of them says. `centroids` and `labels` are in the
/// memory of either, `results` in the host's.
void lloyd_batch(const GpuBatch& batch, float* centroids, std::int32_t* labels, Result* results,
                 const Options& options = {}, int threads = 0);

/// seed_ward() of each problem of a batch, with one seed, on the CPU. `centroids` are problems x k x d.
void seed_ward_batch(const Batch& batch, std::uint64_t seed, float* centroids, int threads = 0,
                     const std::function<void()>& between = {});

/// The same of a copy of points in the GPU's memory; `centroids` are in the memory of either.
void seed_ward_batch(const GpuBatch& batch, std::uint64_t seed, float* centroids, int threads = 0,
                     const std::function<void()>& between = {});

/// The nearest of k given centroids to each of n points, both as for lloyd(): the exact step's labels, the lowest
/// index on a tie. A point's label does not depend on the other points. k may exceed n, and no finite points are
/// refused, since nothing is added up. `between` is called some times a second, on a GPU once before the labelling.
/// Throws as lloyd() does.
void nearest(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
             const float* centroids, std::int32_t* labels, int threads = 0,
             Device device = Device::cpu, const std::function<void()>& between = {});

/// Of each of n points from each of k centroids, n x k: the square root of the exact step's squared distance, all in
/// float64; as float rounded once more. On the CPU. k may exceed n. `between` is called between blocks of rows. Throws
/// as lloyd() does, but some distances may be written then.
void distances(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
               const float* centroids, double* distances, int threads = 0,
               const std::function<void()>& between = {});
void distances(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
               const float* centroids, float* distances, int threads = 0,
               const std::function<void()>& between = {});

/// The sum over n points of the exact step's squared distances from the centroids that they are labelled with
/// (0 to k - 1), each times its weight where there are any: in float64, row by row in blocks of 4096, then block by
/// block. On the CPU. `between` is called between blocks. Throws as lloyd() does.
double inertia(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
               const float* centroids, const std::int32_t* labels, const double* weights = nullptr,
               int threads = 0, const std::function<void()>& between = {});

/// Writes n rows scaled to length one, as Metric::cosine wants them; `unit` may be `rows`. What has length one up to
/// float32's rounding stays as it is, as do rows of zeros. Throws as lloyd() does.
void unit_rows(const float* rows, std::int64_t n, std::int64_t d, float* unit, int threads = 0);

/// Of rows in the memory of a GPU, to other memory of it; a row that is not finite stays as it is. Throws as
/// Points does.
void unit_rows(const GpuPoints& rows, float* dev_unit);

/// What weights as of Options come to for the seeding functions: writes n integers that add up to at most 2^53.
void whole_weights(const double* weights, std::int64_t n, std::int64_t* whole);

/// Why lloyd() can use no GPU here; empty: it can. The first call looks for a GPU, and for the part of
/// the library that knows GPUs (docs/library.md).
std::string problem_with_gpu();

/// The part of the library that knows GPUs; all is empty where it cannot be loaded.
struct GpuPart {
  std::string built_for{};  ///< Compute capabilities, as "8.0, 9.0, PTX 9.0".
  std::string gpus{};       ///< Names of those in sight; the first takes the host's points.
};
GpuPart gpu_part();

/// Gives back the memory that calls keep for those that follow: of the host at most 128 MiB, of a GPU a quarter, and
/// page-locked memory.
void release_memory();

/// Memory of the GPU that has `neighbour`, or else of the first, for callers who have no CUDA of their own.
/// allocate_on_gpu() throws std::runtime_error where no GPU can be used, as copy_to_or_from_gpu() does.
void* allocate_on_gpu(std::size_t bytes, const void* neighbour = nullptr);
void free_on_gpu(void* memory);
/// Number, as CUDA counts those that the process sees, of the GPU that has this memory; -1: none.
int gpu_of(const void* memory);

/// Copies between the host and the GPU, or from one place to another on either, after all that `stream` (cudaStream_t)
/// holds now; done when it returns.
void copy_to_or_from_gpu(void* to, const void* from, std::size_t bytes, void* stream = nullptr);

/// k-means++ (Arthur and Vassilvitskii 2007, one draw a seed): writes k x d centroids, which are rows of the
/// points. The same rows everywhere for the same points, weights, k and seed: those of the suite's
/// `kmeans++:SEED` (docs/seeding.md). `weights`, n integers of at least 0 that sum to at most 2^53, not all 0,
/// count a row so many times; null: all are 1. `between` is called now and then. Throws as lloyd() does.
void seed_plus_plus(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
                    std::uint64_t seed, float* centroids, const std::int64_t* weights = nullptr,
                    int threads = 0, const std::function<void()>& between = {});

/// A better start than k-means++, of Ward's merged cells (docs/seeding.md): writes k x d centroids, those of the
/// suite's `ward:SEED`. All else is as for seed_plus_plus().
void seed_ward(const float* points, std::int64_t n, std::int64_t d, std::int64_t k,
               std::uint64_t seed, float* centroids, const std::int64_t* weights = nullptr,
               int threads = 0, const std::function<void()>& between = {});

/// The instructions that lloyd() uses here: "native" for the processor that it was built on, else the
/// best of the levels that were built, "x86-64-v4", "x86-64-v3", "x86-64".
const char* instructions();

/// "1.0.0".
const char* version();

}  // namespace kmeans_exact
