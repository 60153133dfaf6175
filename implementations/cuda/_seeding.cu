// SPDX-License-Identifier: Apache-2.0
//
// Flags: -Xcompiler=-ffp-contract=off
//
// The board of k-means++ and the costs of Ward's method on a GPU (docs/seeding.md): the same seeds
// and centroids as on a CPU, bit for bit. A pass is an assignment of all points to the round's
// seeds, by the matrix units where they are many; then each point's squared distance from its
// nearest one as defined. Darts of a round are known before it begins, so many are thrown at a
// time: which of them would take whose place is found for all pairs at once.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/communicator.h"
#include "harness/exact_step.h"
#include "harness/machine/gpu.h"
#include "harness/support/gpu_seeding.h"
#include "harness/support/parallel.h"
#include "implementations/cuda/_gather_rows.cuh"
#include "implementations/cuda/_kept_cells.cuh"
#include "implementations/cuda/_nearest_seeds.h"
#include "implementations/cuda/_seed_game.cuh"
#include "implementations/cuda/_seed_kernels.cuh"
#include "implementations/cuda/_upload.cuh"
#include "implementations/cuda/_ward_merges.cuh"
#include "implementations/cuda/tuning.h"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code
using kmeans::Dart;
using kmeans::SeedingProblem;

constexpr float kTiny = 0x1p-127F;    // kFilterTiny for d up to kMaxFiltered
constexpr unsigned kFill = 132 * 16;  // blocks that occupy a GPU
// Part of bytes_of(), so that small merges need not ask for room, which takes time.
constexpr double kSpareBytes = 100e6;

class GpuBoard final : public kmeans::SeedingBoard<float> {
 public:
  GpuBoard(const SeedingProblem<float>& problem, std::int64_t most)
      : problem_(problem),
        most_(most),
        slices_(ceil_div(problem.n, kSlice)),
        rows_(SharedRows::of(problem.points, problem.n * problem.d)),
        dev_weights_(problem.weights == nullptr ? 0 : problem.n),
        dev_seeds_(most * problem.d),
        dev_nearest_(problem.n),
        dev_stale_(problem.n),
        dev_largest_(1),
        dev_sums_(slices_ + 1),
        dev_game_(1) {
    dev_game_.zero();
    if (rows_ == nullptr) rows_ = SharedRows::send(problem.points, problem.n * problem.d);
    if (problem.weights != nullptr) dev_weights_.upload(problem.weights);
    fill_kernel<<<blocks_for(problem.n, kThreads), kThreads>>>(1, problem.n, dev_stale_.data());
    KMEANS_CUDA_LAUNCHED(fill_kernel);
  }

  double pass(const std::function<void()>& between) override {
    if (between) between();
    lower();
    double largest = 0;
    KMEANS_CUDA(cudaMemcpy(&largest, dev_largest_.data(), sizeof(largest), cudaMemcpyDeviceToHost));
    return largest;
  }

  void keep_nearest() override { dev_kept_ = DeviceBuffer<std::int32_t>(problem_.n); }

  std::uint64_t weigh(double scale) override {
    begin_round({.scale = scale, .recent = recent_});
    return state().width;
  }

  std::vector<Dart<float>> locate(const std::vector<std::uint64_t>& positions) override {
    const auto count = static_cast<std::int64_t>(positions.size());
    std::vector<Dart<float>> darts(positions.size());
    if (count == 0) return darts;
    make_room();
    static_assert(sizeof(std::uint64_t) == sizeof(Integer));
    KMEANS_CUDA(cudaMemcpy(dev_positions_.data(), positions.data(), count * sizeof(Integer),
                           cudaMemcpyHostToDevice));
    locate_kernel<<<blocks_for(count * kLanes, kPairThreads), kPairThreads>>>(
        dart_board(), dev_positions_.data(), static_cast<int>(count), dev_landings_.data());
    KMEANS_CUDA_LAUNCHED(locate_kernel);
    std::vector<Landing> landings(positions.size());
    KMEANS_CUDA(cudaMemcpy(landings.data(), dev_landings_.data(), count * sizeof(Landing),
                           cudaMemcpyDeviceToHost));
    std::vector<std::int64_t> rows(positions.size());
    for (std::int64_t t = 0; t < count; ++t) rows[t] = landings[t].row;
    if (problem_.elsewhere != nullptr) located_ = kmeans::rows_at(problem_, rows);
    for (std::int64_t t = 0; t < count; ++t) {
      const Landing& one = landings[t];
      const float* point = problem_.elsewhere != nullptr ? located_.data() + t * problem_.d
                                                         : problem_.points + one.row * problem_.d;
      darts[t] = {one.row, one.height, one.stale, point};
    }
    return darts;
  }

  std::vector<bool> throw_darts(const std::vector<Dart<float>>& darts, std::int64_t hits,
                                std::int64_t misses) override {
    const auto count = static_cast<std::int64_t>(darts.size());
    if (count == 0) return {};
    make_room();
    std::vector<Landing> landings;
    std::vector<float> points;
    points.reserve(count * problem_.d);
    for (const auto& dart : darts) {
      landings.push_back({dart.row, dart.height, dart.stale});
      points.insert(points.end(), dart.point, dart.point + problem_.d);
    }
    KMEANS_CUDA(cudaMemcpy(dev_landings_.data(), landings.data(), count * sizeof(Landing),
                           cudaMemcpyHostToDevice));
    KMEANS_CUDA(cudaMemcpy(dev_darts_.data(), points.data(), points.size() * sizeof(float),
                           cudaMemcpyHostToDevice));
    dev_gone_.zero();
    set_limits_kernel<<<1, 1>>>(hits, misses, dev_game_.data());
    KMEANS_CUDA_LAUNCHED(set_limits_kernel);
    throw_volley(static_cast<int>(count), recent_);
    std::vector<unsigned char> outcomes(count);
    KMEANS_CUDA(cudaMemcpy(outcomes.data(), dev_outcomes_.data(), count, cudaMemcpyDeviceToHost));
    std::vector<bool> thrown;
    for (const auto outcome : outcomes) {
      if (outcome != kNotThrown) thrown.push_back(outcome == kHit);
      if (outcome == kHit) ++recent_;
    }
    return thrown;
  }

  std::optional<std::vector<std::int64_t>> play(std::int64_t k, std::uint64_t key,
                                                const std::function<void()>& between) override {
    make_room();
    dev_rows_ = DeviceBuffer<std::int32_t>(k);
    begin_round({.hits = 1, .misses = 1});
    SeedGame game = throw_all(key, 1);
    const int weight_bits = std::bit_width(game.width - 1);
    while (game.seeds < k) {
      if (between) between();
      recent_ = game.recent;
      lower();
      const kmeans::RoundLimits limits(game.seeds, k);
      begin_round({.weight_bits = weight_bits, .hits = limits.hits, .misses = limits.misses});
      game = throw_all(key, limits.hits);
      if (game.width == 0) break;
    }
    recent_ = game.recent;
    std::vector<std::int32_t> rows(k);
    dev_rows_.download(rows.data());
    return std::vector<std::int64_t>(rows.begin(), rows.begin() + game.seeds);
  }

  std::vector<std::int64_t> cells(const float* seeds, std::int64_t count, double scale) override {
    const DeviceBuffer<float> dev_all(count * problem_.d);
    dev_all.upload(seeds);
    const auto dev_cells = sums_of_cells(dev_all, count, scale);
    std::vector<std::int64_t> cells(dev_cells.size());
    KMEANS_CUDA(
        cudaMemcpy(cells.data(), dev_cells.data(), dev_cells.bytes(), cudaMemcpyDeviceToHost));
    return cells;
  }

  std::unique_ptr<kmeans::KeptCells<float>> keep_cells(const std::vector<std::int64_t>& rows,
                                                       double scale) override {
    const std::int64_t d = problem_.d;
    const auto count = static_cast<std::int64_t>(rows.size());
    if (!has_room(GpuCells::bytes_of(count, d))) return nullptr;
    const DeviceBuffer<std::int64_t> dev_rows(count);
    const DeviceBuffer<float> dev_all(count * d);
    dev_rows.upload(rows.data());
    gather_rows_kernel<<<blocks_for(count * d, kThreads), kThreads>>>(
        rows_->data(), d, dev_rows.data(), count, 0, d, dev_all.data());
    KMEANS_CUDA_LAUNCHED(gather_rows_kernel);
    const auto weight = static_cast<double>(kmeans::total_weight(problem_));
    auto cells = std::make_unique<GpuCells>(dev_all, sums_of_cells(dev_all, count, scale), count,
                                            scale, weight);
    if (cells->some_are_empty()) return nullptr;
    return cells;
  }

  std::optional<std::vector<kmeans::Merge>> merges(const kmeans::WeightedMeans& clusters,
                                                   std::int64_t wanted,
                                                   const std::function<void()>& between) override {
    if (!has_room(WardMerges::bytes_of(clusters.count(), clusters.d))) return {};
    return WardMerges(clusters).run(wanted, between);
  }

 private:
  static constexpr int kThreads = 256;

  static bool has_room(double bytes) { return bytes <= kSpareBytes || kmeans::gpu_has_room(bytes); }

  /// dev_all: the seeds (count x d). count x (d + 1); does not wait.
  [[nodiscard]] DeviceBuffer<Integer> sums_of_cells(const DeviceBuffer<float>& dev_all,
                                                    std::int64_t count, double scale) const {
    DeviceBuffer<Integer> dev_cells(count * (problem_.d + 1));
    dev_cells.zero();
    add_cells_kernel<<<kFill, kThreads>>>(rows_->data(), problem_.n, problem_.d, dev_all.data(),
                                          dev_kept_.data(), dev_weights_.data(), scale,
                                          dev_cells.data());
    KMEANS_CUDA_LAUNCHED(add_cells_kernel);
    return dev_cells;
  }

  [[nodiscard]] DartBoard dart_board() const {
    return {.dev_points = rows_->data(),
            .n = problem_.n,
            .d = problem_.d,
            .dev_weights = dev_weights_.data(),
            .dev_stale = dev_stale_.data(),
            .dev_sums = dev_sums_.data(),
            .dev_game = dev_game_.data()};
  }

  [[nodiscard]] SeedGame state() const {
    SeedGame game;
    dev_game_.download(&game);
    return game;
  }

  /// S takes the recent seeds into account; does not wait.
  void lower() {
    if (recent_ == 0) return;  // a round may end without a hit
    const std::int64_t n = problem_.n;
    const std::int64_t d = problem_.d;
    const SeedPass pass{.dev_points = rows_->data(),
                        .n = n,
                        .d = d,
                        .dev_seeds = dev_seeds_.data(),
                        .count = recent_,
                        .before = passed_,
                        .dev_weights = dev_weights_.data(),
                        .dev_stale = dev_stale_.data(),
                        .dev_kept = dev_kept_.data(),
                        .dev_largest = dev_largest_.data()};
    passed_ += recent_;
    recent_ = 0;
    dev_largest_.zero();
    const bool is_found = pass.count == 1 || find_by_matrix_units(pass.count);
    if (!is_found && d <= kSeedCoordinates) {
      return lower_few_coordinates<1, 2, 3, 4, 6, 8, 16, 24, kSeedCoordinates>(pass);
    }
    if (!is_found) {
      const auto blocks =
          static_cast<unsigned>(std::min<std::int64_t>(ceil_div(n, kSeedThreads), kFill));
      nearest_seeds_kernel<<<blocks, kSeedThreads>>>(pass, filter_factor(d), kTiny,
                                                     dev_nearest_.data());
      KMEANS_CUDA_LAUNCHED(nearest_seeds_kernel);
    }
    const auto kernel = d % 4 == 0 ? lower_kernel<true> : lower_kernel<false>;
    kernel<<<blocks_for(n, kSeedThreads), kSeedThreads>>>(
        pass, pass.count == 1 ? nullptr : dev_nearest_.data());
    KMEANS_CUDA_LAUNCHED(lower_kernel);
  }

  /// By the kernel for the first of these numbers of coordinates that suffices.
  template <int kD, int... kMore>
  static void lower_few_coordinates(const SeedPass& pass) {
    if constexpr (sizeof...(kMore) > 0) {
      if (pass.d > kD) return lower_few_coordinates<kMore...>(pass);
    }
    constexpr int kMostRoom = kSharedSeedBytes / (kD * 4) / kSeedsOfGroup * kSeedsOfGroup;
    const auto room = static_cast<int>(
        std::min<std::int64_t>(ceil_div(pass.count, kSeedsOfGroup) * kSeedsOfGroup, kMostRoom));
    const auto blocks =
        static_cast<unsigned>(std::min<std::int64_t>(ceil_div(pass.n, kTileOfFew), kFill));
    nearest_of_few_coordinates_kernel<kD><<<blocks, kSeedThreads, kD * room * sizeof(float)>>>(
        pass, filter_factor(pass.d), kTiny, room);
    KMEANS_CUDA_LAUNCHED(nearest_of_few_coordinates_kernel<kD>);
  }

  /// Are they many, and does the GPU take the points?
  bool find_by_matrix_units(std::int64_t count) {
    if (count < tuning::kMatrixSeeds || problem_.d < tuning::kMatrixCoordinates) return false;
    if (!tried_) {
      tried_ = true;
      const auto make = matrix_unit_seeds();
      if (make != nullptr) {
        matrix_units_ = make(rows_->data(), problem_.n, problem_.d, problem_.max_abs, most_);
      }
    }
    if (matrix_units_ == nullptr) return false;
    matrix_units_->find(dev_seeds_.data(), count, dev_nearest_.data());
    return true;
  }

  /// New bars; does not wait.
  void begin_round(const RoundStart& start) const {
    begin_round_kernel<<<1, 1>>>(start, dev_largest_.data(), dev_game_.data());
    KMEANS_CUDA_LAUNCHED(begin_round_kernel);
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(slices_, kFill));
    sum_slices_kernel<<<blocks, kSliceThreads>>>(dev_stale_.data(), dev_weights_.data(), problem_.n,
                                                 dev_game_.data(), dev_sums_.data());
    KMEANS_CUDA_LAUNCHED(sum_slices_kernel);
    add_slices_kernel<<<1, kSliceThreads>>>(slices_, dev_sums_.data(), dev_game_.data());
    KMEANS_CUDA_LAUNCHED(add_slices_kernel);
  }

  /// Those darts whose landings are there. known: their number, or negative: as many as the game
  /// throws. recent: the most seeds that there can be since the last pass. Does not wait.
  void throw_volley(int known, std::int64_t recent) const {
    const Volley volley{.dev_game = dev_game_.data(),
                        .d = problem_.d,
                        .dev_landings = dev_landings_.data(),
                        .dev_darts = dev_darts_.data(),
                        .dev_seeds = dev_seeds_.data(),
                        .dev_words = dev_words_.data(),
                        .dev_gone = dev_gone_.data(),
                        .dev_rows = known < 0 ? dev_rows_.data() : nullptr,
                        .dev_outcomes = known < 0 ? nullptr : dev_outcomes_.data()};
    const auto columns = static_cast<unsigned>(kDartWords + ceil_div(recent, kPairTile));
    taken_kernel<<<dim3(columns, kDartWords), kPairThreads>>>(volley, known);
    KMEANS_CUDA_LAUNCHED(taken_kernel);
    throw_kernel<<<1, kMostDarts>>>(volley, known);
    KMEANS_CUDA_LAUNCHED(throw_kernel);
  }

  /// Until the round ends. Volleys that it hardly needs more than are sent ahead, and look
  /// themselves.
  SeedGame throw_all(std::uint64_t key, std::int64_t hits) const {
    std::int64_t recent = 0;
    for (std::int64_t volleys = ceil_div(hits + hits / 8 + 16, kMostDarts);; volleys = 1) {
      for (std::int64_t v = 0; v < volleys; ++v) {
        aim_kernel<<<blocks_for(kMostDarts * kLanes, kPairThreads), kPairThreads>>>(
            dart_board(), key, dev_landings_.data(), dev_darts_.data(), dev_gone_.data());
        KMEANS_CUDA_LAUNCHED(aim_kernel);
        throw_volley(-1, std::min(recent, hits));
        recent += kMostDarts;
      }
      const SeedGame game = state();
      if (game.hits == 0 || game.misses == 0 || game.width == 0) return game;
    }
  }

  /// For darts.
  void make_room() {
    if (dev_landings_.size() > 0) return;
    dev_positions_ = DeviceBuffer<Integer>(kMostDarts);
    dev_landings_ = DeviceBuffer<Landing>(kMostDarts);
    dev_darts_ = DeviceBuffer<float>(kMostDarts * problem_.d);
    dev_words_ = DeviceBuffer<unsigned>(kMostDarts * kDartWords);
    dev_gone_ = DeviceBuffer<unsigned>(kMostDarts);
    dev_outcomes_ = DeviceBuffer<unsigned char>(kMostDarts);
  }

  SeedingProblem<float> problem_;
  std::int64_t most_;
  std::int64_t slices_;
  std::int64_t passed_ = 0;  // seeds that passes have taken into account
  std::int64_t recent_ = 0;  // seeds since
  bool tried_ = false;       // whether the matrix units take the points
  SharedRows::Rows rows_;
  std::vector<float> located_;              // of points elsewhere, what the last darts came down on
  DeviceBuffer<std::int64_t> dev_weights_;  // none: all are 1
  DeviceBuffer<float> dev_seeds_;           // the recent ones
  DeviceBuffer<std::int32_t> dev_nearest_;  // of the recent ones
  DeviceBuffer<std::int32_t> dev_kept_;     // of all, if wanted
  DeviceBuffer<double> dev_stale_;
  DeviceBuffer<Integer> dev_largest_;
  DeviceBuffer<Integer> dev_sums_;  // of the bars before each slice
  DeviceBuffer<SeedGame> dev_game_;
  DeviceBuffer<std::int32_t> dev_rows_;  // of the seeds that were played for here
  DeviceBuffer<Integer> dev_positions_;  // of darts, as the rest
  DeviceBuffer<Landing> dev_landings_;
  DeviceBuffer<float> dev_darts_;
  DeviceBuffer<unsigned> dev_words_;
  DeviceBuffer<unsigned> dev_gone_;
  DeviceBuffer<unsigned char> dev_outcomes_;
  std::unique_ptr<NearestSeeds> matrix_units_;
};

/// The points of several GPUs, each its own rows; the seeds are on all of them.
class SharedBoard final : public kmeans::SeedingBoard<float> {
 public:
  SharedBoard(const SeedingProblem<float>& problem, std::int64_t most, int gpus)
      : boards_(gpus), firsts_(gpus), ends_(gpus) {
    on_each([&](std::int64_t gpu) {
      SeedingProblem<float> own = problem;
      firsts_[gpu] = kmeans::first_row(problem.n, static_cast<int>(gpu), gpus);
      own.n = kmeans::first_row(problem.n, static_cast<int>(gpu) + 1, gpus) - firsts_[gpu];
      own.points += firsts_[gpu] * problem.d;
      if (own.weights != nullptr) own.weights += firsts_[gpu];
      boards_[gpu] = std::make_unique<GpuBoard>(own, most);
    });
  }

  double pass(const std::function<void()>& between) override {
    if (between) between();
    std::vector<double> largest(boards_.size());
    on_each([&](std::int64_t gpu) { largest[gpu] = boards_[gpu]->pass({}); });
    return *std::max_element(largest.begin(), largest.end());
  }

  void keep_nearest() override {
    on_each([&](std::int64_t gpu) { boards_[gpu]->keep_nearest(); });
  }

  std::uint64_t weigh(double scale) override {
    on_each([&](std::int64_t gpu) { ends_[gpu] = boards_[gpu]->weigh(scale); });
    for (std::size_t gpu = 1; gpu < ends_.size(); ++gpu) ends_[gpu] += ends_[gpu - 1];
    return ends_.back();
  }

  std::vector<Dart<float>> locate(const std::vector<std::uint64_t>& positions) override {
    const auto of_gpu = kmeans::positions_by_board(ends_, positions);
    std::vector<Dart<float>> darts(positions.size());
    on_each([&](std::int64_t gpu) {
      std::vector<std::uint64_t> own;
      for (const auto t : of_gpu[gpu]) own.push_back(positions[t] - (gpu > 0 ? ends_[gpu - 1] : 0));
      const auto located = boards_[gpu]->locate(own);
      for (std::size_t t = 0; t < own.size(); ++t) {
        Dart<float>& dart = darts[of_gpu[gpu][t]];
        dart = located[t];
        dart.row += firsts_[gpu];
      }
    });
    return darts;
  }

  std::vector<bool> throw_darts(const std::vector<Dart<float>>& darts, std::int64_t hits,
                                std::int64_t misses) override {
    std::vector<bool> thrown;
    on_each([&](std::int64_t gpu) {
      auto same_on_all = boards_[gpu]->throw_darts(darts, hits, misses);
      if (gpu == 0) thrown = std::move(same_on_all);
    });
    return thrown;
  }

  std::vector<std::int64_t> cells(const float* seeds, std::int64_t count, double scale) override {
    std::vector<std::vector<std::int64_t>> all(boards_.size());
    on_each([&](std::int64_t gpu) { all[gpu] = boards_[gpu]->cells(seeds, count, scale); });
    for (std::size_t gpu = 1; gpu < all.size(); ++gpu) {
      for (std::size_t v = 0; v < all[0].size(); ++v) all[0][v] += all[gpu][v];
    }
    return std::move(all[0]);
  }

  std::optional<std::vector<kmeans::Merge>> merges(const kmeans::WeightedMeans& clusters,
                                                   std::int64_t wanted,
                                                   const std::function<void()>& between) override {
    return boards_[0]->merges(clusters, wanted, between);
  }

 private:
  template <class Work>
  void on_each(const Work& work) const {
    const auto gpus = static_cast<std::int64_t>(boards_.size());
    int device = 0;
    KMEANS_CUDA(cudaGetDevice(&device));
    const struct Rebind {  // this thread works for one of them
      int device;
      ~Rebind() { (void)cudaSetDevice(device); }
    } rebind{device};
    kmeans::for_each_part(gpus, static_cast<int>(gpus), [&](std::int64_t gpu) {
      KMEANS_CUDA(cudaSetDevice(static_cast<int>(gpu)));
      work(gpu);
    });
  }

  std::vector<std::unique_ptr<GpuBoard>> boards_;
  std::vector<std::int64_t> firsts_;  // rows
  std::vector<std::uint64_t> ends_;   // of each one's bars
};

/// Of GPU memory: the points, their float16 copies, and what there is a point and a seed.
double bytes_of(const SeedingProblem<float>& problem, std::int64_t most) {
  const auto n = static_cast<double>(problem.n);
  const auto d = static_cast<double>(problem.d);
  const auto k = static_cast<double>(most);
  return n * (6 * d + 160) + k * (16 * d + 64) + kSpareBytes;
}

std::unique_ptr<kmeans::SeedingBoard<float>> make(const SeedingProblem<float>& problem,
                                                  std::int64_t most, std::string& why_not) {
  if (kmeans::current_gpu() == nullptr) {
    why_not = kmeans::gpu_status().problem;
    return nullptr;
  }
  if (problem.n < 1 || problem.n >= std::int64_t{1} << 31) {
    why_not = std::to_string(problem.n) + " points: from 1 to 2147483647 are chosen from on a GPU";
    return nullptr;
  }
  kmeans::bind_gpu();
  const int gpus = static_cast<int>(std::min<std::int64_t>(kmeans::gpus_in_use(), problem.n));
  SeedingProblem<float> part = problem;
  part.n = ceil_div(problem.n, gpus);
  if (!kmeans::gpu_has_room(bytes_of(part, most))) {
    why_not = "it needs " + std::to_string(static_cast<std::int64_t>(bytes_of(part, most))) +
              " bytes of GPU memory, of which " + std::to_string(kmeans::gpu_memory()->free_bytes) +
              " are free";
    return nullptr;
  }
  if (gpus > 1) return std::make_unique<SharedBoard>(problem, most, gpus);
  return std::make_unique<GpuBoard>(problem, most);
}

constexpr kmeans::GpuRows kRows{.keep = SharedRows::keep, .give_up = SharedRows::give_up};

[[maybe_unused]] const bool said = [] {
  kmeans::gpu_board_factory() = make;
  kmeans::gpu_rows() = &kRows;
  return true;
}();

}  // namespace
