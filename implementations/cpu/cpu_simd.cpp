// SPDX-License-Identifier: Apache-2.0
//
// Idea:      cpu_scalar with one core's full SIMD width: a lane holds a point, so that the same
//            operations in the same order label as many points at once as a register has lanes,
//            whatever d is (cpu_simd_rows has coordinates in its lanes). The widest instruction set
//            of the processor at hand is chosen at run time
// Parallel:  none; 4 (SSE2), 8 (AVX2) or 16 (AVX-512) float32 lanes
// Memory:    points are transposed once, in setup, into blocks of d x lanes. A block stays in cache
//            while all centroids pass by; the update reads the rows as given
// Numerics:  direct differences in the points' scalar, t ascending, fused multiply-add where the
//            instruction set has it; sums in that scalar, i ascending
// Source:    zechner2009, Algorithm 1; points in lanes and their layout are ours
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/support/errors.h"
#include "implementations/_limits.h"
#include "implementations/_stage_work.h"
#include "implementations/_target.h"
#include "implementations/cpu/_cluster_sums.h"
#include "implementations/cpu/_lloyd.h"

namespace {

/// The loops compiled for one instruction set (_simd_kernel.h).
template <class T>
struct Kernel {
  int block_points;
  void (*label_points)(const T* blocks, std::int64_t block_count, const T* centroids,
                       std::int64_t d, std::int64_t k, std::int32_t* labels);
  void (*sum_points)(const T* points, const std::int32_t* labels, std::int64_t n, std::int64_t d,
                     T* sums, std::int64_t* counts);
};

#if defined(__x86_64__)
// "no-avx": the whole file may be compiled for a better processor than this level asks for.
KMEANS_BEGIN_TARGET("sse2,no-avx")
#endif
namespace sse2 {
#define KMEANS_SIMD_BYTES 16
#define KMEANS_SIMD_REGISTERS 4
#include "implementations/cpu/_simd_kernel.h"
#undef KMEANS_SIMD_BYTES
#undef KMEANS_SIMD_REGISTERS
}  // namespace sse2
#if defined(__x86_64__)
KMEANS_END_TARGET

KMEANS_BEGIN_TARGET("avx2,fma,no-avx512f")
namespace avx2 {
#define KMEANS_SIMD_BYTES 32
#define KMEANS_SIMD_REGISTERS 4
#include "implementations/cpu/_simd_kernel.h"
#undef KMEANS_SIMD_BYTES
#undef KMEANS_SIMD_REGISTERS
}  // namespace avx2
KMEANS_END_TARGET

KMEANS_BEGIN_TARGET("avx512f,avx512bw,avx512dq,avx512vl,fma")
namespace avx512 {
#define KMEANS_SIMD_BYTES 64
#define KMEANS_SIMD_REGISTERS 8
#include "implementations/cpu/_simd_kernel.h"
#undef KMEANS_SIMD_BYTES
#undef KMEANS_SIMD_REGISTERS
}  // namespace avx512
KMEANS_END_TARGET
#endif

/// The best instruction set of this processor, or the one that KMEANS_BENCH_SIMD asks for.
std::string choose_instruction_set() {
  std::vector<std::string> available{"sse2"};  // elsewhere: whatever has 16-byte registers
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) available.push_back("avx2");
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    available.push_back("avx512");
  }
#endif
  const char* wanted = std::getenv("KMEANS_BENCH_SIMD");
  if (wanted == nullptr || *wanted == '\0') return available.back();
  std::string names;
  for (const std::string& name : available) {
    if (name == wanted) return name;
    names += (names.empty() ? "" : ", ") + name;
  }
  throw kmeans::EnvironmentError("KMEANS_BENCH_SIMD is '" + std::string(wanted) +
                                 "', but this processor has: " + names);
}

template <class T>
Kernel<T> kernel_for(std::string_view instruction_set) {
#if defined(__x86_64__)
  if (instruction_set == "avx512") return avx512::kernel<T>;
  if (instruction_set == "avx2") return avx2::kernel<T>;
#endif
  static_cast<void>(instruction_set);
  return sse2::kernel<T>;
}

template <class T>
class CpuSimd final : public kmeans::plain::PlainLloyd<T> {
  using Base = kmeans::plain::PlainLloyd<T>;
  using Base::centroids_, Base::labels_, Base::problem_, Base::stage;

 public:
  void setup(const kmeans::Problem<T>& problem) override {
    Base::setup(problem);
    instruction_set_ = choose_instruction_set();
    kernel_ = kernel_for<T>(instruction_set_);
    const std::int64_t n = problem.shape.n;
    const std::int64_t d = problem.shape.d;
    block_count_ = (n + kernel_.block_points - 1) / kernel_.block_points;
    blocks_.assign(block_count_ * kernel_.block_points * d, T{0});
    for (std::int64_t i = 0; i < n; ++i) {
      T* block = blocks_.data() + i / kernel_.block_points * kernel_.block_points * d;
      for (std::int64_t t = 0; t < d; ++t) {
        block[t * kernel_.block_points + i % kernel_.block_points] = problem.points[i * d + t];
      }
    }
    labels_.resize(block_count_ * kernel_.block_points);
    sums_.resize(problem.shape.k, d);
  }

  void fetch(T* centroids, std::int32_t* labels) override {
    std::copy(centroids_.begin(), centroids_.end(), centroids);
    std::copy_n(labels_.begin(), problem_.shape.n, labels);  // without padding
  }

  std::vector<std::pair<std::string, std::string>> library_info() const override {
    return {{"simd", instruction_set_}};
  }

 private:
  void iterate() override {
    const std::int64_t d = problem_.shape.d;
    const std::int64_t k = problem_.shape.k;
    {
      const auto timed = stage("assign");
      kernel_.label_points(blocks_.data(), block_count_, centroids_.data(), d, k, labels_.data());
    }
    const auto timed = stage("update");
    sums_.clear();
    kernel_.sum_points(problem_.points, labels_.data(), problem_.shape.n, d, sums_.sums(),
                       sums_.counts());
    sums_.move(centroids_.data(), 0, k);
  }

  std::string instruction_set_;
  Kernel<T> kernel_{};
  std::int64_t block_count_ = 0;
  std::vector<T> blocks_;  // block_count x d x block_points
  kmeans::plain::ClusterSums<T> sums_;
};

std::vector<kmeans::StageWork> stage_work(const kmeans::Sizes& s) {
  const double points = s.scalar * s.n * s.d;
  const double lanes = 128 * 4 / s.scalar;  // a block of AVX-512
  // Labelling: every block once, and all centroids for it.
  return {kmeans::assign_work(
              s, {.read_bytes = points + points * s.k / lanes, .written_bytes = 4 * s.n}),
          kmeans::update_work(s, kmeans::update_traffic(s))};
}

}  // namespace

KMEANS_VARIANT(
    CpuSimd, .name = "cpu_simd",
    .summary = "a point in every SIMD lane on one core; SSE2, AVX2 or AVX-512, chosen at run time",
    .source = "zechner2009", .precisions = {Precision::f32, Precision::f64},
    .supports =
        [](const Shape& s) {
          const Support indices = indices_fit(s, "float", std::int64_t{1} << 24);
          return indices.ok ? sums_fit(s) : indices;
        },
    .memory_bytes =
        [](const Sizes& s) { return 4 * s.n + s.scalar * s.d * (s.n + 128.0 + 2 * s.k) + 8 * s.k; },
    .traffic = [](const Sizes& s) { return total_traffic(stage_work(s)); },
    .stage_work = stage_work)
