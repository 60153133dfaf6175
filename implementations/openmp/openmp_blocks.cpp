// SPDX-License-Identifier: Apache-2.0
//
// Flags: -ffp-contract=off
//
// Idea:      points that memory need not hold: they stay where they lie, which may be a file larger
//            than memory, and are taken block by block; of a block, a thread takes a strip of rows
//            that its own cache holds, packs it, and does with it what openmp_exact does
// Parallel:  strips of a block are handed out to the threads; meanwhile two others read the blocks
//            to come. The centroids move when all blocks have been read
// Memory:    blocks of 32 MiB, four where points are read from a file; a strip of packed points a
//            thread; all labels; sums and counts. All points are read in every iteration
// Numerics:  integer sums: equals the exact Lloyd step bit for bit, whatever the blocks
// Source:    ours; docs/scaling.md
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "implementations/_block_reader.h"
#include "implementations/openmp/_decide.h"
#include "implementations/openmp/_filter_bound.h"
#include "implementations/openmp/_float64_nearest.h"
#include "implementations/openmp/_lloyd.h"

namespace {

using namespace kmeans::openmp;  // NOLINT: this backend's shared code
using kmeans::BlockReader;
using kmeans::Problem;

constexpr std::int64_t kBlockBytes = std::int64_t{32} << 20;

/// Tiles of a strip: what a core's own cache holds next to the centroids.
std::int64_t tiles_of_strip(std::int64_t d, int points_per_tile) {
  constexpr std::int64_t kBytes = 96 << 10;
  return std::clamp<std::int64_t>(
      kBytes / (d * points_per_tile * static_cast<std::int64_t>(sizeof(float))), 1, 64);
}

/// Tells the system what becomes of these points; of a mapped file that is when it reads them, or whose
/// pages it gives away first. Never more than advice: other memory stays as it is.
void advise(const float* points, std::int64_t count, int advice) {
  if (count <= 0) return;
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(points) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(points + count);
  (void)::madvise(reinterpret_cast<void*>(first), end - first, advice);
}

class OpenmpBlocks final : public kmeans::Variant<float> {
 public:
  void setup(const Problem<float>& problem) override {
    problem_ = problem;
    const auto [n, d, k, precision] = problem.shape;
    rows_ = kmeans::rows_of_block(problem.shape, kBlockBytes);
    if (problem.beyond_memory) reader_ = std::make_unique<BlockReader>(problem, rows_);
    const int group_size = choose_group_size(k);
    points_per_tile_ = tile_points<float>(group_size);
    kernel_ = tile_kernel<float, true>(group_size);
    threads_ = useful_threads(problem.shape, points_per_tile_, problem.threads);
    // About the mean of some points: where the frame lies costs digits of the filter, no right answer.
    Problem<float> first = problem;
    first.shape.n = std::min<std::int64_t>(n, rows_);
    frame_.emplace(first);
    centroids_ = PackedCentroids<float>(k, d, group_size);
    float64_centroids_ = Float64Centroids(k, d);
    sums_ = FixedPointSums<float>(problem, threads_);
    seen_ = SeenCentroids(threads_);
    tiles_ = tiles_of_strip(d, points_per_tile_);
    for (int thread = 0; thread < threads_; ++thread) {
      strips_.emplace_back(tiles_, d, points_per_tile_, true);
    }
    labels_.resize(n);
  }

  void reset(const float* centroids) override {
    means_.assign(centroids, centroids + problem_.shape.k * problem_.shape.d);
    seen_.clear();
    pack_centroids(0, 1);
    std::fill(labels_.begin(), labels_.end(), -1);
    sums_.begin_empty();
  }

  void step(std::int64_t iterations) override {
    const std::int64_t n = problem_.shape.n;
    if (reader_) reader_->start(iterations * ((n + rows_ - 1) / rows_));
    if (threads_ == 1) {
      iterate(0, 1, iterations);
    } else {
#pragma omp parallel num_threads(threads_)
      iterate(omp_get_thread_num(), omp_get_num_threads(), iterations);
    }
    if (reader_) reader_->finish();
  }

  void fetch(float* centroids, std::int32_t* labels) override {
    std::copy(means_.begin(), means_.end(), centroids);
    std::copy(labels_.begin(), labels_.end(), labels);
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> library_info() const override {
    if (!reader_) return {};
    return {{"points read", reader_->way()}};
  }

 private:
  void iterate(int thread, int threads, std::int64_t iterations) {
    const std::int64_t n = problem_.shape.n;
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) {
      for (std::int64_t first = 0; first < n; first += rows_) {
        const std::int64_t count = std::min(rows_, n - first);
        if (thread == 0) take_block(first, count);
        wait(threads);
        {
          const auto timed = stage_of(thread, "assign");
          if (block_ != nullptr) label(thread, first, count);
          wait(threads);
        }
        if (thread == 0) give_back(count);
      }
      const auto timed = stage_of(thread, "update");
      sums_.update(means_.data(),
                   centroids_.clusters(part_of(centroids_.groups(), thread, threads)));
      pack_centroids(thread, threads);
      wait(threads);
    }
  }

  /// By one thread, while the others wait.
  void take_block(std::int64_t first, std::int64_t count) {
    const auto timed = stage("read");
    next_strip_ = 0;
    if (reader_) {
      block_ = reader_->next();
      return;
    }
    const auto [n, d, k, precision] = problem_.shape;
    block_ = problem_.points + first * d;
    const std::int64_t next = (first + count) % n;  // of the next iteration too
    advise(problem_.points + next * d, std::min(rows_, n - next) * d, MADV_WILLNEED);
  }

  void give_back([[maybe_unused]] std::int64_t count) {
    if (reader_) return reader_->release();
#ifdef MADV_COLD
    advise(block_, count * problem_.shape.d, MADV_COLD);
#endif
  }

  /// Strips of the block, until none is left.
  void label(int thread, std::int64_t first, std::int64_t count) {
    const FilterBound bound = FilterBound::of(problem_.shape.d, seen_.all());
    const std::int64_t rows = tiles_ * points_per_tile_;
    for (std::int64_t begin = next_strip_.fetch_add(rows); begin < count;
         begin = next_strip_.fetch_add(rows)) {
      Problem<float> strip;
      strip.shape = problem_.shape;
      strip.shape.n = std::min(rows, count - begin);
      strip.points = block_ + begin * problem_.shape.d;
      label_strip(thread, strip, bound, labels_.data() + first + begin);
    }
  }

  void label_strip(int thread, const Problem<float>& strip, const FilterBound& bound,
                   std::int32_t* labels) {
    PackedPoints<float>& points = strips_[thread];
    points.pack(strip, *frame_);
    TileResult<float> result;
    MoveQueue<float> moves;
    for (std::int64_t tile = 0; tile * points_per_tile_ < strip.shape.n; ++tile) {
      kernel_(points.tile(tile), points.tile_after(tile), centroids_.data(), strip.shape.d,
              centroids_.groups(), result);
      decide_tile(strip, points, points_per_tile_, bound, float64_centroids_, tile, result);
      moves.apply(sums_, thread);
      take_labels(strip, result.labels, tile * points_per_tile_, points_per_tile_, labels, moves);
    }
    moves.apply(sums_, thread);  // before the block's memory takes another one
  }

  /// A thread's part. Called by all threads, or with (0, 1) by one.
  void pack_centroids(int thread, int threads) {
    const Range groups = part_of(centroids_.groups(), thread, threads);
    seen_.put(thread, threads, centroids_.pack(means_.data(), *frame_, groups));
    wait(threads);
    float64_centroids_.pack(means_.data(), part_of(float64_centroids_.blocks(), thread, threads));
  }

  static void wait(int threads) {
    if (threads == 1) return;
#pragma omp barrier
  }

  /// Stages are marked by one thread.
  kmeans::StageScope stage_of(int thread, const char* name) {
    return thread == 0 ? stage(name) : kmeans::StageScope(nullptr, name);
  }

  Problem<float> problem_;
  std::int64_t rows_ = 1;   // of a block
  std::int64_t tiles_ = 1;  // of a strip
  int points_per_tile_ = 0;
  int threads_ = 1;
  TileKernel<float> kernel_ = nullptr;
  std::unique_ptr<BlockReader> reader_;  // where memory does not hold the points
  std::optional<Frame<float>> frame_;
  PackedCentroids<float> centroids_;
  Float64Centroids float64_centroids_;
  FixedPointSums<float> sums_;
  SeenCentroids seen_;                       // what the bound needs of the centroids
  std::vector<PackedPoints<float>> strips_;  // one a thread
  std::vector<float> means_;                 // k x d
  std::vector<std::int32_t> labels_;         // n
  const float* block_ = nullptr;             // at work; null after a failure
  std::atomic<std::int64_t> next_strip_{0};  // its first row in the block
};

}  // namespace

KMEANS_VARIANT(
    OpenmpBlocks, .name = "openmp_blocks",
    .summary =
        "the exact Lloyd step on points that memory need not hold: taken from where they lie, "
        "block by block, packed and labelled strip by strip, integer sums",
    .exact = true, .parallel = true, .shards = true, .streams = true, .sums = Sums::wide,
    .timing_note = "all points are read and packed again in every iteration",
    .supports = openmp::tiled_supports, .memory_bytes = [](const Shape& s, int given) {
      const Sizes sizes = s;
      const int threads = openmp::tiled_threads(s, given);
      const double block = static_cast<double>(rows_of_block(s, kBlockBytes) * row_bytes(s));
      const double strip = (96 << 10) + 4.0 * kMaxTilePoints<float> * (sizes.d + 1);
      return BlockReader::bytes(block) + threads * strip + PackedCentroids<float>::bytes(sizes) +
             Float64Centroids::bytes(sizes) + FixedPointSums<float>::bytes(s, threads) +
             4 * sizes.n + 4 * sizes.k * sizes.d;
    })
