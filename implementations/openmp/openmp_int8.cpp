// SPDX-License-Identifier: Apache-2.0
//
// Flags: -ffp-contract=off
//
// Idea:      openmp_exact with a filter below float32: points and centroids as bytes, whose
//            products are exact integers at four times the float32 rate. Measured residuals bound
//            what the bytes lost; what a bound leaves open is decided by 16-bit integers in the same
//            way, then by float32 differences, and what these leave open by the float64 formula.
//            Where the filter does not pay, openmp_exact's does
// Parallel:  a thread owns a contiguous range of blocks of 48 points; then a range of centroids
// Memory:    reads the points as bytes once and all centroids as bytes (cached) once a block; an
//            open point reads its own row and those of the few centroids in question. The points are
//            packed in setup as bytes and as 16-bit integers; as openmp_exact has them, only where and
//            when its filter first takes over
// Numerics:  equals the exact Lloyd step bit for bit at any number of threads and on any processor
// Source:    ours; docs/openmp-bounds.md proves the bounds
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "implementations/openmp/_decide.h"
#include "implementations/openmp/_family.h"
#include "implementations/openmp/_float64_nearest.h"
#include "implementations/openmp/_int16_rows.h"
#include "implementations/openmp/_int8_centroids.h"
#include "implementations/openmp/_int8_choice.h"
#include "implementations/openmp/_int8_pause.h"
#include "implementations/openmp/_int8_points.h"
#include "implementations/openmp/_lloyd.h"
#include "implementations/openmp/_nearest_of_few.h"

namespace {

using namespace kmeans::openmp;  // NOLINT: this backend's shared code

using BlockMoves = MoveQueue<float, kInt8Points, false>;

/// A thread's own.
struct Worker {
  Int8Scratch scratch;
  Int8Survivors survivors[2]{};  // of a block, and of the one before
  Int16List list;
  Int8Work work;  // of one stretch
  Int8Pause pause;
  std::int64_t open = 0;  // points that bytes did not label in the last iteration
};

class OpenmpInt8 final : public TiledLloyd<float, true> {
 public:
  void reset(const float* centroids) override {
    seen_.clear();
    for (auto& worker : workers_) worker.value.pause = {};
    TiledLloyd::reset(centroids);
  }

  std::vector<std::pair<std::string, std::string>> library_info() const override {
    return {{"int8", filter_.name}};
  }

  [[nodiscard]] std::optional<double> open_share() const override {
    std::int64_t open = 0;
    for (const auto& worker : workers_) open += worker.value.open;
    // Padding counts where a stretch was paused.
    const auto n = static_cast<double>(std::max<std::int64_t>(1, problem_.shape.n));
    return std::min(1.0, static_cast<double>(open) / n);
  }

 private:
  void prepare(bool same_points) override {
    const std::int64_t d = problem_.shape.d;
    const std::int64_t k = problem_.shape.k;
    filter_ = choose_int8_filter(d);
    float64_centroids_ = Float64Centroids(k, d);
    all_.resize(k);
    std::iota(all_.begin(), all_.end(), 0);
    seen_ = SeenCentroids(threads_);
    if (!same_points) byte_points_ = Int8Points(problem_, *frame_, threads_, filter_.bytes);
    byte_centroids_ =
        Int8Centroids(k, d, byte_points_.radius(), threads_, filter_.bytes,
                      filter_.open_tiles != nullptr, Int8Differences::pay(problem_.shape));
    bytes_kept_ = false;
    room_ = int16_room(d, byte_points_.radius());
    packed_.assign(round_up(problem_.shape.n, stretch_points()) / stretch_points(), 0);
    workers_ = std::vector<Padded<Worker>>(threads_);
    for (auto& worker : workers_) {
      worker.value.scratch = Int8Scratch(byte_centroids_.most_groups());
    }
  }

  void assign(int thread, int threads, Range /*tiles*/) override {
    const FilterBound bound = FilterBound::of(problem_.shape.d, seen_.all());
    const std::int64_t stretch = stretch_points();
    const Range own = stretches_of(thread, threads);
    if (thread == 0) {  // those that an earlier, larger team had
      for (int absent = threads; absent < threads_; ++absent) workers_[absent].value.open = 0;
    }
    Worker& worker = workers_[thread].value;
    worker.open = 0;
    std::int64_t changed = 0;
    for (std::int64_t index = own.begin; index < own.end; ++index) {
      if (breaks_.now(thread, stretch)) break;
      if (!worker.pause.skips() && bytes_usable_) {
        changed += label_blocks(thread, worker, part_of_points(index, stretch, kInt8Points));
      } else {
        const Range tiles = part_of_points(index, stretch, points_per_tile_);
        if (!std::exchange(packed_[index], 1)) points_.pack(problem_, *frame_, tiles);
        label_tiles(thread, tiles, [&](std::int64_t tile, TileResult<float>& result) {
          decide_tile(problem_, points_, points_per_tile_, bound, float64_centroids_, tile, result);
        });
        changed += team_[thread].value.changed;
        worker.open += stretch;
      }
    }
    team_[thread].value.changed = changed;
  }

  /// A stretch is whole blocks and whole tiles, so that either filter can label it.
  [[nodiscard]] std::int64_t stretch_points() const {
    const std::int64_t least = std::lcm(kInt8Points, points_per_tile_);
    return least * std::clamp<std::int64_t>(problem_.shape.n / (least * 8 * threads_), 1, 16);
  }
  [[nodiscard]] Range stretches_of(int thread, int threads) const {
    const std::int64_t stretch = stretch_points();
    return part_of(round_up(problem_.shape.n, stretch) / stretch, thread, threads);
  }

  /// Will no thread look at bytes in the coming iteration? All threads get the same answer.
  [[nodiscard]] bool all_paused(int threads) const {
    for (int thread = 0; thread < threads; ++thread) {
      const Range own = stretches_of(thread, threads);
      if (!workers_[thread].value.pause.covers(own.end - own.begin)) return false;
    }
    return true;
  }

  /// The blocks or tiles of `size` points that make up a stretch.
  Range part_of_points(std::int64_t index, std::int64_t stretch, std::int64_t size) const {
    const std::int64_t end = std::min((index + 1) * stretch, round_up(problem_.shape.n, size));
    return {index * stretch / size, end / size};
  }

  /// Returns how many labels changed. A block's open points wait for the length of the next one,
  /// until their rows have been fetched, and those that move for another.
  std::int64_t label_blocks(int thread, Worker& worker, Range blocks) {
    BlockMoves moves;
    std::int64_t changed = 0;
    worker.work = {};
    const Int8Session session(filter_, byte_centroids_.tiling());
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
      Int8Task task = byte_points_.task(block);
      byte_centroids_.give_to(task);
      Int8Survivors& survivors = worker.survivors[block % 2];
      if (block > blocks.begin) task.fetch = rows_of(block - 1, worker.survivors[(block + 1) % 2]);
      task.moved = {moves.rows(), moves.count(), 4 * problem_.shape.d};
      filter_.filter(task, worker.scratch, survivors);
      worker.work.operations += survivors.operations;
      if (block > blocks.begin) changed += finish_block(thread, block - 1, worker, moves);
    }
    changed += finish_block(thread, blocks.end - 1, worker, moves);
    moves.apply(sums_, thread);
    const auto points = static_cast<double>((blocks.end - blocks.begin) * kInt8Points);
    worker.pause.judge(worker.work.exceeds_float32(points, problem_.shape));
    return changed;
  }

  /// Of open points: the rows that they are looked at by next.
  Int8RowsToFetch rows_of(std::int64_t block, const Int8Survivors& survivors) const {
    const std::int64_t first = block * kInt8Points;
    const std::int64_t d = problem_.shape.d;
    const auto* rows = byte_points_.has_rows()
                           ? reinterpret_cast<const char*>(byte_points_.row(first))
                           : reinterpret_cast<const char*>(problem_.points + first * d);
    const std::int64_t bytes = byte_points_.has_rows() ? byte_points_.row_bytes() : 4 * d;
    return {rows, bytes, survivors.open, survivors.open_count};
  }

  std::int64_t finish_block(int thread, std::int64_t block, Worker& worker, BlockMoves& moves) {
    const std::int64_t first = block * kInt8Points;
    Int8Survivors& survivors = worker.survivors[block % 2];
    worker.open += survivors.open_count;
    if (byte_points_.has_rows()) narrow(first, survivors, worker);
    alignas(64) std::int32_t labels[kInt8Points];
    for (int p = 0; p < kInt8Points; ++p) labels[p] = survivors.few[p][0];
    for (int index = 0; index < survivors.open_count; ++index) {
      const int p = survivors.open[index];
      labels[p] = decide(problem_.points + (first + p) * problem_.shape.d, survivors.few[p],
                         survivors.count[p], worker.work);
    }
    if (labels_only_) {
      put_labels(problem_, labels, first, kInt8Points, labels_.data());
      return 0;
    }
    moves.apply(sums_, thread);  // of the block before
    return take_labels(problem_, labels, first, kInt8Points, labels_.data(), moves);
  }

  /// Leaves open what 16-bit integers do not decide either.
  void narrow(std::int64_t first, Int8Survivors& survivors, Worker& worker) const {
    Int16List& list = worker.list;
    list.begin(byte_points_.row(first), &byte_points_.row_terms(first));
    for (std::int32_t index = 0; index < survivors.open_count; ++index) {
      const std::int32_t p = survivors.open[index];
      const std::int32_t count = survivors.count[p];
      if (count < 1 || count > kInt8Few) continue;
      worker.work.products += count;
      list.add(p, survivors.few[p], count);
    }
    list.keep(room_, byte_centroids_.rows(), survivors.few, survivors.count);
    const std::int64_t d = problem_.shape.d;
    std::int32_t open = 0;
    for (std::int32_t index = 0; index < survivors.open_count; ++index) {
      const std::int32_t p = survivors.open[index];
      if (survivors.count[p] == 1) continue;
      survivors.open[open++] = p;
      const float* row = problem_.points + (first + p) * d;
      for (std::int64_t t = 0; t < d; t += 16) __builtin_prefetch(row + t, 0, 2);
    }
    survivors.open_count = open;
  }

  std::int32_t decide(const float* point, const std::int32_t* survivors, std::int32_t count,
                      Int8Work& work) const {
    const std::int64_t d = problem_.shape.d;
    if (count > kInt8Few || count < 1) {
      work.overfull += 1;
      const std::int32_t nearest = nearest_of_few(point, means_.data(), d, all_.data(),
                                                  static_cast<std::int32_t>(problem_.shape.k));
      return nearest >= 0 ? nearest : float64_centroids_.nearest(point);
    }
    work.differences += count;
    const std::int32_t nearest = nearest_of_few(point, means_.data(), d, survivors, count);
    if (nearest >= 0) return nearest;
    // Whoever is not among the survivors is farther.
    return float64_nearest_of_few(point, means_.data(), d, survivors, count);
  }

  void pack_centroids(int thread, int threads) override {
    const Changes since_bytes = bytes_kept_ ? changes() : Changes();
    if (all_paused(threads)) {  // reset() ends all pauses
      // The next iteration may be another team's, of whose threads not all are paused.
      if (thread == 0) bytes_usable_ = false;
      seen_.put(thread, threads, pack_groups(thread, threads));
      wait(threads);
      if (thread == 0) bytes_kept_ = false;
      pack_float64(thread, threads);
      return;
    }
    byte_centroids_.measure(thread, means_.data(), *frame_, own_clusters(thread, threads),
                            since_bytes);
    wait(threads);
    if (thread == 0) bytes_kept_ = true;
    byte_centroids_.rank(thread, threads);
    if (thread == 0) {
      byte_centroids_.count(threads);
      bytes_usable_ = problem_.shape.d <= kInt8MostCoordinates && byte_centroids_.usable();
    }
    wait(threads);
    byte_centroids_.pack(threads, means_.data(), *frame_,
                         part_of(byte_centroids_.groups(), thread, threads), since_bytes);
    seen_.put(thread, threads, pack_groups(thread, threads));
    pack_float64(thread, threads);
    if (!byte_centroids_.with_differences()) return;
    wait(threads);
    byte_centroids_.bring_closer(part_of(byte_centroids_.groups(), thread, threads));
  }

  void pack_float64(int thread, int threads) {
    float64_centroids_.pack(means_.data(), part_of(float64_centroids_.blocks(), thread, threads),
                            changes());
  }

  [[nodiscard]] bool packs_in_setup() const override { return false; }

  Int8Choice filter_;
  std::vector<char> packed_;  // of a stretch: its tiles are there
  Int8Points byte_points_;
  double room_ = 0;  // of a 16-bit score
  Int8Centroids byte_centroids_;
  Float64Centroids float64_centroids_;
  std::vector<std::int32_t> all_;  // 0, 1, ... k - 1
  std::vector<Padded<Worker>> workers_;
  SeenCentroids seen_;  // as in openmp_exact
  bool bytes_usable_ = false;
  bool bytes_kept_ = false;  // byte_centroids_ is of the means before they moved
};

}  // namespace

std::string kmeans::openmp::int8_instructions(std::int64_t d) { return choose_int8_filter(d).name; }

KMEANS_VARIANT(
    OpenmpInt8, .name = "openmp_int8",
    .summary =
        "the exact Lloyd step: a filter on points and centroids as bytes with a proven bound "
        "(AMX, AVX512-VNNI, AVX-VNNI, AVX2, dot products of NEON or emulated, chosen at run time), "
        "then 16-bit integers, "
        "float32, float64",
    .exact = true, .parallel = true, .shards = true, .weights = true, .spherical = true,
    .skips_work = true, .sums = Sums::wide, .supports = openmp::tiled_supports,
    .memory_bytes =
        [](const Shape& s, int threads) {
          return openmp::tiled_memory_bytes(s, true, threads) + openmp::Float64Centroids::bytes(s) +
                 openmp::Int8Points::bytes(s) + openmp::Int8Centroids::bytes(s) +
                 openmp::tiled_threads(s, threads) *
                     (openmp::Int8Scratch::bytes(static_cast<double>(s.k)) + sizeof(Worker));
        },
    .traffic =
        [](const Sizes& s) {
          const double blocks = s.n / openmp::kInt8Points;
          return Traffic{.read_bytes = s.n * (s.d + 12 + 4) + blocks * s.k * (s.d + 16),
                         .written_bytes = s.scalar * s.k * s.d};
        })
