// SPDX-License-Identifier: Apache-2.0
//
// Flags: -Xcompiler=-ffp-contract=off
//
// The board of k-means++ and the costs of Ward's method on a GPU (docs/seeding.md): the same seeds and centroids as on
// a CPU, bit for bit. A pass is an assignment of all points to the round's seeds, by the matrix units where they are
// many; then each point's squared distance from its nearest one as defined. Darts of a round are known before it
// begins, so some are thrown at a time: which of them would take whose place is found for all pairs at once, and the
// host, one dart after the other, looks up what that means.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/communicator.h"
#include "harness/exact_step.h"
#include "harness/machine/gpu.h"
#include "harness/support/gpu_seeding.h"
#include "harness/support/parallel.h"
#include "harness/support/ward_costs.h"
#include "implementations/cuda/_nearest_seeds.h"
#include "implementations/cuda/_seed_kernels.cuh"
#include "implementations/cuda/_upload.cuh"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code
using kmeans::Dart;
using kmeans::SeedingProblem;

// Of fewer seeds, or coordinates, plain CUDA cores find the nearest sooner.
constexpr std::int64_t kMatrixSeeds = 32;
constexpr std::int64_t kMatrixCoordinates = 8;
constexpr float kTiny = 0x1p-127F;    // kFilterTiny for d up to kMaxFiltered
constexpr unsigned kFill = 132 * 16;  // blocks that occupy a GPU

class GpuMergeCosts final : public kmeans::MergeCosts {
 public:
  explicit GpuMergeCosts(const kmeans::WeightedMeans& clusters)
      : count_(clusters.count()),
        d_(clusters.d),
        weights_(clusters.weights.begin(), clusters.weights.end()),
        means_(clusters.means),
        dev_weights_(count_),
        dev_means_(count_ * d_),
        dev_listed_(count_),
        dev_nearest_(count_),
        dev_changed_(count_),
        dev_changed_means_(count_ * d_) {
    dev_means_.upload(means_.data());
  }

  void replace(std::int64_t cluster, const double* mean, std::int64_t weight) override {
    std::copy_n(mean, d_, means_.begin() + cluster * d_);
    weights_[cluster] = static_cast<double>(weight);
    changed_.push_back(cluster);
  }
  void remove(std::int64_t cluster) override { weights_[cluster] = 0; }

  [[nodiscard]] double cost(std::int64_t a, std::int64_t b) const override {
    const double squared =
        kmeans::exact::squared_distance(means_.data() + a * d_, means_.data() + b * d_, d_);
    return weights_[a] * weights_[b] / (weights_[a] + weights_[b]) * squared;
  }

  [[nodiscard]] std::vector<Near> near(const std::vector<std::int64_t>& clusters,
                                       int /*threads*/) const override {
    bring_up_to_date();
    const auto listed = static_cast<std::int64_t>(clusters.size());
    copy_to(dev_listed_, clusters);
    const std::int64_t rows = ceil_div(listed, kPairTile);
    const std::int64_t parts =
        std::clamp<std::int64_t>(kBlocks / rows, 1, ceil_div(count_, kPairTile));
    const std::int64_t found_count = parts * listed;
    if (dev_found_.size() < found_count) dev_found_ = DeviceBuffer<NearestMerges>(found_count);
    merge_costs_kernel<<<dim3(static_cast<unsigned>(rows), static_cast<unsigned>(parts)),
                         kPairThreads>>>(dev_means_.data(), dev_weights_.data(), count_, d_,
                                         dev_listed_.data(), listed, dev_found_.data());
    KMEANS_CUDA_LAUNCHED(merge_costs_kernel);
    join_merges_kernel<<<blocks_for(listed, kPairThreads), kPairThreads>>>(
        dev_found_.data(), parts, listed, dev_nearest_.data());
    KMEANS_CUDA_LAUNCHED(join_merges_kernel);
    std::vector<NearestMerges> found(clusters.size());
    KMEANS_CUDA(cudaMemcpy(found.data(), dev_nearest_.data(), found.size() * sizeof(NearestMerges),
                           cudaMemcpyDeviceToHost));
    std::vector<Near> all(clusters.size());
    for (std::int64_t c = 0; c < listed; ++c) {
      // The nearest one alone: to look at all once more costs a GPU less than others' costs cost the host.
      all[c].some.push_back({found[c].clusters[0], found[c].costs[0]});
      all[c].beyond = std::min(found[c].beyond, found[c].costs[1]);
    }
    return all;
  }

 private:
  static constexpr std::int64_t kBlocks = 528;  // four a multiprocessor

  template <class T>
  static void copy_to(const DeviceBuffer<T>& dev_values, const std::vector<T>& values) {
    KMEANS_CUDA(cudaMemcpy(dev_values.data(), values.data(), values.size() * sizeof(T),
                           cudaMemcpyHostToDevice));
  }

  void bring_up_to_date() const {
    dev_weights_.upload(weights_.data());
    std::erase_if(changed_, [&](std::int64_t cluster) { return weights_[cluster] == 0; });
    if (changed_.empty()) return;
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    std::vector<double> means;
    means.reserve(changed_.size() * d_);
    for (const auto cluster : changed_) {
      const auto mean = means_.begin() + cluster * d_;
      means.insert(means.end(), mean, mean + d_);
    }
    copy_to(dev_changed_, changed_);
    copy_to(dev_changed_means_, means);
    const auto changed = static_cast<std::int64_t>(changed_.size());
    place_means_kernel<<<blocks_for(changed * d_, kPairThreads), kPairThreads>>>(
        dev_changed_means_.data(), dev_changed_.data(), changed, d_, dev_means_.data());
    KMEANS_CUDA_LAUNCHED(place_means_kernel);
    changed_.clear();
  }

  std::int64_t count_;
  std::int64_t d_;
  std::vector<double> weights_;  // 0: merged
  std::vector<double> means_;
  mutable std::vector<std::int64_t> changed_;  // since the GPU was brought up to date
  DeviceBuffer<double> dev_weights_;
  DeviceBuffer<double> dev_means_;
  DeviceBuffer<std::int64_t> dev_listed_;
  mutable DeviceBuffer<NearestMerges> dev_nearest_;
  DeviceBuffer<std::int64_t> dev_changed_;
  DeviceBuffer<double> dev_changed_means_;
  mutable DeviceBuffer<NearestMerges> dev_found_;
};

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
        dev_sums_(slices_ + 1) {
    if (rows_ == nullptr) rows_ = SharedRows::send(problem.points, problem.n * problem.d);
    if (problem.weights != nullptr) dev_weights_.upload(problem.weights);
    fill_kernel<<<blocks_for(problem.n, kThreads), kThreads>>>(1, problem.n, dev_stale_.data());
    KMEANS_CUDA_LAUNCHED(fill_kernel);
  }

  double pass(const std::function<void()>& between) override {
    if (between) between();
    const std::int64_t count = recent();
    find_nearest(count);
    dev_largest_.zero();
    lower_kernel<<<blocks_for(problem_.n, kSeedThreads), kSeedThreads>>>(
        rows_->data(), problem_.n, problem_.d, dev_seeds_.data(), dev_nearest_.data(), passed_,
        dev_weights_.data(), dev_stale_.data(), dev_kept_.data(), dev_largest_.data());
    KMEANS_CUDA_LAUNCHED(lower_kernel);
    double largest = 0;
    KMEANS_CUDA(cudaMemcpy(&largest, dev_largest_.data(), sizeof(largest), cudaMemcpyDeviceToHost));
    passed_ += count;
    recent_ = 0;
    return largest;
  }

  void keep_nearest() override { dev_kept_ = DeviceBuffer<std::int32_t>(problem_.n); }

  std::uint64_t weigh(double scale) override {
    scale_ = scale;
    const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(slices_, kFill));
    sum_slices_kernel<<<blocks, kSliceThreads>>>(dev_stale_.data(), dev_weights_.data(), problem_.n,
                                                 scale, dev_sums_.data());
    KMEANS_CUDA_LAUNCHED(sum_slices_kernel);
    add_slices_kernel<<<1, kSliceThreads>>>(slices_, dev_sums_.data());
    KMEANS_CUDA_LAUNCHED(add_slices_kernel);
    Integer total = 0;
    KMEANS_CUDA(
        cudaMemcpy(&total, dev_sums_.data() + slices_, sizeof(total), cudaMemcpyDeviceToHost));
    return total;
  }

  std::vector<Dart<float>> locate(const std::vector<std::uint64_t>& positions) override {
    const auto count = static_cast<std::int64_t>(positions.size());
    std::vector<Dart<float>> darts(positions.size());
    if (count == 0) return darts;
    make_room(count);
    static_assert(sizeof(std::uint64_t) == sizeof(Integer));
    KMEANS_CUDA(cudaMemcpy(dev_positions_.data(), positions.data(), count * sizeof(Integer),
                           cudaMemcpyHostToDevice));
    locate_kernel<<<blocks_for(count * kLanes, kThreads), kThreads>>>(
        dev_stale_.data(), dev_weights_.data(), problem_.n, scale_, dev_sums_.data(), slices_,
        dev_positions_.data(), static_cast<int>(count), dev_landings_.data());
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
    const std::int64_t words = ceil_div(count, kPairTile);
    const auto [taken, gone] = what_is_taken(darts);
    std::vector<bool> thrown;
    std::vector<unsigned> seeds(words);  // of these darts, a bit each
    std::vector<float> points;
    for (std::int64_t t = 0; t < count && hits > 0 && misses > 0; ++t) {
      bool hit = gone[t] == 0;
      for (std::int64_t w = 0; hit && w <= t / kPairTile; ++w) {
        hit = (taken[t * words + w] & seeds[w]) == 0;
      }
      thrown.push_back(hit);
      --(hit ? hits : misses);
      if (!hit) continue;
      seeds[t / kPairTile] |= 1U << (t % kPairTile);
      points.insert(points.end(), darts[t].point, darts[t].point + problem_.d);
    }
    KMEANS_CUDA(cudaMemcpy(dev_seeds_.data() + recent_ * problem_.d, points.data(),
                           points.size() * sizeof(float), cudaMemcpyHostToDevice));
    recent_ += static_cast<std::int64_t>(points.size()) / problem_.d;
    return thrown;
  }

  std::vector<std::int64_t> cells(const float* seeds, std::int64_t count, double scale) override {
    const DeviceBuffer<float> dev_all(count * problem_.d);
    const DeviceBuffer<Integer> dev_cells(count * (problem_.d + 1));
    dev_all.upload(seeds);
    dev_cells.zero();
    add_cells_kernel<<<kFill, kThreads>>>(rows_->data(), problem_.n, problem_.d, dev_all.data(),
                                          dev_kept_.data(), dev_weights_.data(), scale,
                                          dev_cells.data());
    KMEANS_CUDA_LAUNCHED(add_cells_kernel);
    std::vector<std::int64_t> cells(dev_cells.size());
    KMEANS_CUDA(
        cudaMemcpy(cells.data(), dev_cells.data(), dev_cells.bytes(), cudaMemcpyDeviceToHost));
    return cells;
  }

  std::unique_ptr<kmeans::MergeCosts> merge_costs(
      const kmeans::WeightedMeans& clusters) const override {
    return std::make_unique<GpuMergeCosts>(clusters);
  }

 private:
  static constexpr int kThreads = 256;

  [[nodiscard]] std::int64_t recent() const { return recent_; }

  void find_nearest(std::int64_t count) {
    const std::int64_t n = problem_.n;
    const std::int64_t d = problem_.d;
    if (count == 1) return dev_nearest_.zero();
    if (count >= kMatrixSeeds && d >= kMatrixCoordinates && !tried_) {
      tried_ = true;
      const auto make = matrix_unit_seeds();
      if (make != nullptr) matrix_units_ = make(rows_->data(), n, d, most_);
    }
    if (count >= kMatrixSeeds && matrix_units_ != nullptr) {
      return matrix_units_->find(dev_seeds_.data(), count, dev_nearest_.data());
    }
    const auto blocks =
        static_cast<unsigned>(std::min<std::int64_t>(ceil_div(n, kSeedThreads), kFill));
    nearest_seeds_kernel<<<blocks, kSeedThreads>>>(rows_->data(), n, d, dev_seeds_.data(), count,
                                                   filter_factor(d), kTiny, dev_nearest_.data());
    KMEANS_CUDA_LAUNCHED(nearest_seeds_kernel);
  }

  struct Taken {
    std::vector<unsigned> words;  // a row a dart, a bit for each that came before
    std::vector<unsigned> gone;   // by a seed from before all of them
  };

  Taken what_is_taken(const std::vector<Dart<float>>& darts) {
    const auto count = static_cast<std::int64_t>(darts.size());
    const std::int64_t d = problem_.d;
    make_room(count);
    std::vector<Landing> landings;
    std::vector<float> points;
    points.reserve(count * d);
    for (const auto& dart : darts) {
      landings.push_back({dart.row, dart.height, dart.stale});
      points.insert(points.end(), dart.point, dart.point + d);
    }
    KMEANS_CUDA(cudaMemcpy(dev_landings_.data(), landings.data(), count * sizeof(Landing),
                           cudaMemcpyHostToDevice));
    KMEANS_CUDA(cudaMemcpy(dev_darts_.data(), points.data(), points.size() * sizeof(float),
                           cudaMemcpyHostToDevice));
    const std::int64_t words = ceil_div(count, kPairTile);
    const auto rows = static_cast<unsigned>(words);
    dev_gone_.zero();
    taken_kernel<<<dim3(rows, rows), kPairThreads>>>(
        dev_darts_.data(), static_cast<int>(count), dev_landings_.data(), dev_darts_.data(), count,
        true, d, scale_, dev_words_.data(), words, nullptr);
    KMEANS_CUDA_LAUNCHED(taken_kernel);
    if (recent_ > 0) {
      const auto columns = static_cast<unsigned>(ceil_div(recent_, kPairTile));
      taken_kernel<<<dim3(columns, rows), kPairThreads>>>(
          dev_darts_.data(), static_cast<int>(count), dev_landings_.data(), dev_seeds_.data(),
          recent_, false, d, scale_, nullptr, 0, dev_gone_.data());
      KMEANS_CUDA_LAUNCHED(taken_kernel);
    }
    Taken taken{std::vector<unsigned>(count * words), std::vector<unsigned>(count)};
    KMEANS_CUDA(cudaMemcpy(taken.words.data(), dev_words_.data(),
                           taken.words.size() * sizeof(unsigned), cudaMemcpyDeviceToHost));
    KMEANS_CUDA(cudaMemcpy(taken.gone.data(), dev_gone_.data(), count * sizeof(unsigned),
                           cudaMemcpyDeviceToHost));
    return taken;
  }

  /// For so many darts at a time.
  void make_room(std::int64_t darts) {
    if (dev_positions_.size() >= darts) return;
    darts = std::max<std::int64_t>(darts, 1024);
    dev_positions_ = DeviceBuffer<Integer>(darts);
    dev_landings_ = DeviceBuffer<Landing>(darts);
    dev_darts_ = DeviceBuffer<float>(darts * problem_.d);
    dev_words_ = DeviceBuffer<unsigned>(darts * ceil_div(darts, kPairTile));
    dev_gone_ = DeviceBuffer<unsigned>(darts);
  }

  SeedingProblem<float> problem_;
  std::int64_t most_;
  std::int64_t slices_;
  double scale_ = 1;
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
  DeviceBuffer<Integer> dev_positions_;
  DeviceBuffer<Landing> dev_landings_;
  DeviceBuffer<float> dev_darts_;
  DeviceBuffer<unsigned> dev_words_;
  DeviceBuffer<unsigned> dev_gone_;
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

  std::unique_ptr<kmeans::MergeCosts> merge_costs(
      const kmeans::WeightedMeans& clusters) const override {
    return boards_[0]->merge_costs(clusters);
  }

 private:
  template <class Work>
  void on_each(const Work& work) const {
    const auto gpus = static_cast<std::int64_t>(boards_.size());
    kmeans::for_each_part(gpus, static_cast<int>(gpus), [&](std::int64_t gpu) {
      KMEANS_CUDA(cudaSetDevice(static_cast<int>(gpu)));
      work(gpu);
    });
    kmeans::bind_gpu();  // this thread's own again
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
  return n * (6 * d + 160) + k * (16 * d + 64) + 64e6;
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
  const auto memory = kmeans::gpu_memory();
  const int gpus = static_cast<int>(std::min<std::int64_t>(kmeans::gpus_in_use(), problem.n));
  SeedingProblem<float> part = problem;
  part.n = ceil_div(problem.n, gpus);
  if (memory && bytes_of(part, most) > static_cast<double>(memory->free_bytes)) {
    why_not = "it needs " + std::to_string(static_cast<std::int64_t>(bytes_of(part, most))) +
              " bytes of GPU memory, of which " + std::to_string(memory->free_bytes) + " are free";
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
