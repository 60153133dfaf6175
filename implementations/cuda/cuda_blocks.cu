// SPDX-License-Identifier: Apache-2.0
//
// Idea:      points that the GPU's memory need not hold: they stay on the host, in memory or in a
//            larger file, and are sent to the GPU block by block in every iteration, each while the
//            GPU labels and sums the block before
// Parallel:  one stream copies and one computes. 128 points a block of threads, four a lane,
//            against 32 centroids at a time, eight a warp
// Memory:    two blocks of 32 MiB, or of an eighth of the points, and all labels are on the GPU.
//            Points in host memory are page-locked where they lie, in setup; where CUDA refuses
//            that, and where a file is read, threads fill page-locked blocks ahead
// Numerics:  float32 decides where its proven error bound lets it, float64 as defined elsewhere;
//            sums are 64-bit integers. Equals the reference bit for bit, whatever the blocks
// Source:    ours; docs/scaling.md
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "implementations/cuda/_exact.cuh"
#include "implementations/cuda/_label_rows.cuh"
#include "implementations/cuda/_lloyd.cuh"
#include "implementations/cuda/_moves.cuh"
#include "implementations/cuda/_pinned_blocks.cuh"
#include "implementations/cuda/_search.cuh"
#include "implementations/cuda/_streams.cuh"
#include "implementations/cuda/tuning.h"

namespace {

using namespace kmeans::cuda;  // NOLINT: this backend's shared code
using kmeans::Problem;
using kmeans::Shape;

constexpr int kSlots = 2;  // blocks on the GPU

std::int64_t rows_of(const Shape& shape) {
  return std::min(kmeans::rows_of_block(shape, tuning::kBlockBytes),
                  ceil_div(shape.n, tuning::kFewestBlocks));
}

std::int64_t pitch_of(std::int64_t k) { return ceil_div(k, kSearchThreads) * kSearchThreads; }

class CudaBlocks final : public kmeans::Variant<float> {
 public:
  ~CudaBlocks() override { (void)cudaDeviceSynchronize(); }  // no copy reads freed memory

  void setup(const Problem<float>& problem) override {
    problem_ = problem;
    const auto [n, d, k, precision] = problem.shape;
    rows_ = rows_of(problem.shape);
    blocks_ = std::make_unique<PinnedBlocks>(problem, rows_);
    fill_ = static_cast<unsigned>(4 * kmeans::current_gpu()->multiprocessors);
    for (Slot& slot : slots_) {
      slot = {DeviceBuffer<float>(rows_ * d), make_event(), make_event()};
    }
    copies_ = make_stream();
    work_ = make_stream();
    sums_ = MovingSums(problem, rows_, kmeans::current_gpu()->multiprocessors);
    dev_centroids_ = DeviceBuffer<float>(k * d);
    dev_columns_ = DeviceBuffer<float>(pitch_of(k) * d);
    dev_labels_ = DeviceBuffer<std::int32_t>(n);
    dev_nearest_ = DeviceBuffer<std::int32_t>(rows_);
    dev_crowded_ = DeviceBuffer<std::int32_t>(rows_);
    dev_state_ = DeviceBuffer<TensorState>(1);
  }

  void reset(const float* centroids) override {
    dev_centroids_.upload(centroids);
    dev_labels_.fill_bytes(0xff);  // label -1: in no cluster yet
    changed_labels_.restart();
    iterations_ = 0;
    sums_.restart();
    KMEANS_CUDA(cudaDeviceSynchronize());
  }

  void step(std::int64_t iterations) override {
    blocks_->start(iterations);
    taken_ = 0;
    for (std::int64_t iteration = 0; iteration < iterations && iterate(); ++iteration) {
    }
    KMEANS_CUDA(cudaDeviceSynchronize());
    blocks_->finish();
    iterations_ += iterations;
  }

  kmeans::Progress progress() override {
    return {.movement = {}, .changed = changed_labels_.count(dev_labels_, iterations_), .loss = {}};
  }

  void fetch(float* centroids, std::int32_t* labels) override {
    dev_centroids_.download(centroids);
    dev_labels_.download(labels);
  }

  [[nodiscard]] std::vector<std::pair<std::string, std::string>> library_info() const override {
    auto info = cuda_versions();
    info.emplace_back("points read", blocks_->way());
    return info;
  }

 private:
  /// A block of points on the GPU, and the events of its copy and its kernels.
  struct Slot {
    DeviceBuffer<float> dev_points;  // rows_ x d
    Event copied;
    Event done;  // with the block before
  };
  [[nodiscard]] Slot& slot_of(std::int64_t block) {
    return slots_[static_cast<std::size_t>(block % kSlots)];
  }

  /// False where reading points failed.
  bool iterate() {
    const std::int64_t n = problem_.shape.n;
    for (std::int64_t first = 0; first < n; first += rows_) {
      const std::int64_t rows = std::min(rows_, n - first);
      if (!copy(first, rows)) return false;
      Slot& slot = slot_of(taken_);
      KMEANS_CUDA(cudaStreamWaitEvent(work_.get(), slot.copied.get()));
      label(slot.dev_points.data(), rows);
      {
        const auto timed = stage("update");
        sums_.move(slot.dev_points.data(), rows, dev_nearest_.data(), dev_labels_.data() + first,
                   work_.get());
      }
      KMEANS_CUDA(cudaEventRecord(slot.done.get(), work_.get()));
      if (taken_ > 0) release(taken_ - 1);
      ++taken_;
    }
    const auto timed = stage("update");
    sums_.divide(dev_centroids_.data(), work_.get());
    return true;
  }

  bool copy(std::int64_t first, std::int64_t rows) {
    const float* points = nullptr;
    {
      const auto timed = stage("read");
      points = blocks_->take(first);
    }
    if (points == nullptr) return false;
    const auto timed = stage("upload");
    Slot& slot = slot_of(taken_);
    KMEANS_CUDA(cudaStreamWaitEvent(copies_.get(), slot.done.get()));
    KMEANS_CUDA(cudaMemcpyAsync(slot.dev_points.data(), points,
                                static_cast<std::size_t>(rows * kmeans::row_bytes(problem_.shape)),
                                cudaMemcpyHostToDevice, copies_.get()));
    KMEANS_CUDA(cudaEventRecord(slot.copied.get(), copies_.get()));
    return true;
  }

  /// Lets the block's host buffer be refilled. The next copy is under way, so the link has work.
  void release(std::int64_t block) {
    if (blocks_->in_place()) return;
    KMEANS_CUDA(cudaEventSynchronize(slot_of(block).copied.get()));
    blocks_->release();
  }

  void label(const float* dev_points, std::int64_t rows) {
    const auto timed = stage("assign");
    const auto [n, d, k, precision] = problem_.shape;
    const float factor = filter_factor(d);
    cudaStream_t stream = work_.get();
    dev_state_.zero(stream);
    label_rows_kernel<<<blocks_for(rows, LabelTile::kRows), LabelTile::kThreads, 0, stream>>>(
        dev_points, rows, d, dev_centroids_.data(), k, factor, dev_nearest_.data(),
        dev_crowded_.data(), dev_state_.data());
    KMEANS_CUDA_LAUNCHED(label_rows_kernel);
    transpose_centroids_kernel<<<fill_, 256, 0, stream>>>(
        dev_centroids_.data(), k, d, pitch_of(k), &dev_state_.data()->crowded, dev_columns_.data());
    KMEANS_CUDA_LAUNCHED(transpose_centroids_kernel);
    search_kernel<<<fill_, kSearchThreads, 0, stream>>>(
        dev_points, d, dev_columns_.data(), k, pitch_of(k), factor, true, dev_state_.data(),
        dev_crowded_.data(), dev_nearest_.data());
    KMEANS_CUDA_LAUNCHED(search_kernel);
  }

  Problem<float> problem_;
  std::int64_t rows_ = 1;        // of a block
  std::int64_t iterations_ = 0;  // since reset(), before this step()
  std::int64_t taken_ = 0;       // blocks of this step
  unsigned fill_ = 1;            // thread blocks that fill the GPU
  std::unique_ptr<PinnedBlocks> blocks_;
  Slot slots_[kSlots];
  Stream copies_;
  Stream work_;
  MovingSums sums_;
  ChangedLabels changed_labels_;
  DeviceBuffer<float> dev_centroids_;      // k x d
  DeviceBuffer<float> dev_columns_;        // the centroids, column-major, for the search
  DeviceBuffer<std::int32_t> dev_labels_;  // n
  DeviceBuffer<std::int32_t> dev_nearest_;
  DeviceBuffer<std::int32_t> dev_crowded_;
  DeviceBuffer<TensorState> dev_state_;
};

}  // namespace

KMEANS_VARIANT(
    CudaBlocks, .name = "cuda_blocks",
    .summary =
        "the exact Lloyd step on points that the GPU's memory need not hold: sent block by "
        "block in every iteration, while the block before is labelled, integer sums",
    .exact = true, .parallel = true, .streams = true, .sums = Sums::wide,
    .timing_note = "all points are sent to the GPU in every iteration",
    .setup_note = "page-locks the points where they lie in memory, if CUDA can",
    .memory_bytes =
        [](const Shape& s, int threads) {
          return PinnedBlocks::bytes(static_cast<double>(rows_of(s) * row_bytes(s)), threads);
        },
    .device_bytes =
        [](const Shape& s) {
          Shape block = s;
          block.n = rows_of(s);
          const Sizes sizes = s;
          const auto rows = static_cast<double>(block.n);
          return 4 * kSlots * rows * sizes.d + 8 * rows + 8 * sizes.n +
                 4 * (sizes.k + static_cast<double>(pitch_of(s.k))) * sizes.d +
                 MovingSums::device_bytes(block);
        },
    .traffic =
        [](const Shape& s) {
          const Sizes sizes = s;
          const double points = 4 * sizes.n * sizes.d;
          const double groups = static_cast<double>(ceil_div(s.k, LabelTile::kCentroids));
          const double tiles = static_cast<double>(ceil_div(s.n, LabelTile::kRows));
          // Written as it comes, read by tiles, and again where its label has changed.
          return Traffic{.read_bytes = points * (s.d > LabelTile::kCoordinates ? groups : 1) +
                                       4 * tiles * sizes.k * sizes.d + 16 * sizes.n,
                         .written_bytes = points + 8 * sizes.n};
        })
