// SPDX-License-Identifier: Apache-2.0
#include "harness/verify/session.h"

#include <algorithm>
#include <clocale>
#include <limits>
#include <locale>
#include <stdexcept>

#include "harness/machine/environment.h"
#include "harness/machine/machine.h"
#include "harness/machine/ranks.h"
#include "harness/support/text.h"
#include "harness/verify/around_steps.h"

namespace kmeans {

Support supports(const RegisteredVariant& variant, const Shape& shape) {
  if (const Support available = availability(variant); !available.ok) return available;
  if (!takes(variant.traits, shape.precision)) {
    std::string known;
    for (const Precision precision : variant.traits.precisions) {
      known += (known.empty() ? "" : ", ") + std::string(to_string(precision));
    }
    return Support::no(variant.traits.name + " takes " + known + ", not " +
                       to_string(shape.precision));
  }
  if (shape.k > shape.n) {
    return Support::no("k = " + std::to_string(shape.k) +
                       " exceeds n = " + std::to_string(shape.n));
  }
  if (shape.k > std::numeric_limits<std::int32_t>::max()) {
    return Support::no("labels are 32-bit: k = " + std::to_string(shape.k) + " is too large");
  }
  return variant.traits.supports ? variant.traits.supports(shape) : Support::yes();
}

double device_memory_need(const RegisteredVariant& variant, const Shape& whole, int gpus,
                          bool counted) {
  if (!variant.traits.gpu) return 0;
  Shape shape = whole;
  shape.n = (whole.n + gpus - 1) / gpus;
  if (counted && variant.traits.counted_device_bytes) {
    return variant.traits.counted_device_bytes(shape);
  }
  if (variant.traits.device_bytes) return variant.traits.device_bytes(shape);
  const Sizes s = shape;
  return s.scalar * s.d * (s.n + 2 * s.k) + 4 * s.n;
}

double memory_need(const RegisteredVariant& variant, const Shape& shape, int threads) {
  const Sizes s = shape;
  return s.n * s.d * s.scalar + memory_need_beside_points(variant, shape, threads);
}

double memory_need_beside_points(const RegisteredVariant& variant, const Shape& shape,
                                 int threads) {
  const Sizes s = shape;
  const MemoryModel& memory = variant.traits.memory_bytes;
  const double own = memory ? memory(shape, threads) : 4 * s.n;
  // What the variant keeps, and what a certificate compares: three sets of labels, four of centroids,
  // and their sums in float64.
  return own + 12 * s.n + s.k * s.d * (4 * s.scalar + 8);
}

template <class T>
Session<T>::Session(const RegisteredVariant& registered, const Problem<T>& problem,
                    const T* centroids)
    : registered_(&registered),
      problem_(problem),
      initial_(centroids, centroids + problem.shape.k * problem.shape.d),
      verify_threads_(problem.threads) {
  const Precision precision = problem.shape.precision;
  if (registered.traits.shards && process_ranks().size() > 1) {
    auto ranked = std::make_unique<RankedVariant<T>>(registered, process_ranks());
    ranked_ = ranked.get();
    variant_ = std::move(ranked);
  } else if constexpr (std::is_same_v<T, float>) {
    if (registered.factory.make_float) variant_ = registered.factory.make_float(precision);
  } else {
    if (registered.factory.make_double) variant_ = registered.factory.make_double(precision);
  }
  if (!variant_) {
    throw std::logic_error(registered.traits.name + " declares " + to_string(precision) +
                           " but is not written for its scalar type");
  }
  if (on_our_gpu()) {
    bind_gpu();
    clock_ = make_gpu_clock();
  }
  stepped_ = variant_.get();
  if (around_steps<T> != nullptr) around_ = around_steps<T>(*variant_);
  if (around_) stepped_ = around_.get();
  const auto start = std::chrono::steady_clock::now();
  variant_->setup(problem_);
  setup_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  restore_process_state();
}

template <class T>
void Session<T>::reset() {
  handed_ = initial_;
  variant_->reset(handed_.data());
}

template <class T>
std::vector<T> Session<T>::rotated() const {
  auto centroids = initial_;
  std::rotate(centroids.begin(), centroids.begin() + problem_.shape.d, centroids.end());
  return centroids;
}

template <class T>
Outcome<T> Session<T>::disturb() {
  handed_ = rotated();
  variant_->reset(handed_.data());
  variant_->step(1);
  return fetch();
}

template <class T>
void Session<T>::doubt(const std::string& sentence) {
  if (std::find(doubts_.begin(), doubts_.end(), sentence) == doubts_.end()) {
    doubts_.push_back(sentence);
  }
}

template <class T>
void Session<T>::restore_process_state() {
  const DenormalMode denormals = denormal_mode();
  if (denormals.flush_to_zero || denormals.denormals_are_zero) {
    honour_denormals();
    doubt("the variant leaves denormal numbers treated as zero (FTZ or DAZ)");
  }
  const char* const locale = std::setlocale(LC_ALL, nullptr);
  const std::string name = locale != nullptr ? locale : "";
  if (name != "C" || std::locale() != std::locale::classic()) {
    std::locale::global(std::locale::classic());
    std::setlocale(LC_ALL, "C");
    doubt("the variant changes the locale of the process to " + valid_utf8(name));
  }
}

template <class T>
double Session<T>::step(std::int64_t iterations) {
  if (clock_) clock_->begin();
  const auto start = std::chrono::steady_clock::now();
  stepped_->step(iterations);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (clock_) {
    device_seconds_ = clock_->end();
  } else {
    device_seconds_ = variant_->remote_device_seconds();
  }
  return stepped_->remote_step_seconds().value_or(seconds);
}

template <class T>
Outcome<T> Session<T>::fetch() {
  Outcome<T> outcome;
  outcome.centroids.assign(initial_.size(), std::numeric_limits<T>::quiet_NaN());
  outcome.labels.assign(problem_.shape.n, -1);
  variant_->fetch(outcome.centroids.data(), outcome.labels.data());
  restore_process_state();
  return outcome;
}

template <class T>
Quality Session<T>::quality(const T* owners, const Outcome<T>& outcome) {
  if (ranked_ != nullptr) return ranked_->quality(owners);
  return quality_of(problem_.points, owners, outcome.labels.data(), problem_.shape,
                    problem_.threads, problem_.counted);
}

template <class T>
StepEvidence<T> Session<T>::evidence(const std::vector<T>& starting,
                                     const Outcome<T>& after) const {
  return {.shape = problem_.shape,
          .points = problem_.points,
          .max_abs = problem_.max_abs,
          .starting = starting.data(),
          .returned = after.centroids.data(),
          .labels = after.labels.data(),
          .threads = verify_threads_};
}

template class Session<float>;
template class Session<double>;

}  // namespace kmeans
