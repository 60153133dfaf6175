// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/pace.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <limits>
#include <thread>
#include <vector>

namespace kmeans {
namespace {

using Clock = std::chrono::steady_clock;

// Squared distances of a few points to a few centroids, again and again: additions, products, loads
// and comparisons at the rate that a core can do them, so that whoever shares it is felt.
constexpr std::size_t kPoints = 500;  // 16 KB, in the nearest cache
constexpr std::size_t kCoordinates = 8;
constexpr std::size_t kCentroids = 8;
constexpr int kRounds = 14;
// The threads of a library that was used before spin for a while before they sleep.
constexpr std::chrono::microseconds kAlone{600};
constexpr std::chrono::microseconds kTogether{4000};

struct Work {
  std::array<float, kPoints * kCoordinates> points{};
  std::array<float, kCentroids * kCoordinates> centroids{};
  float sum = 0;

  Work() {
    for (std::size_t i = 0; i < points.size(); ++i) {
      points[i] = static_cast<float>(i * 7919 % 1000) * 1e-3F;
    }
    for (std::size_t i = 0; i < centroids.size(); ++i) {
      centroids[i] = static_cast<float>(i * 31 % 17) * 0.1F;
    }
  }

  void once() {
    for (int round = 0; round < kRounds; ++round) {
      for (std::size_t i = 0; i < kPoints; ++i) {
        float nearest = std::numeric_limits<float>::infinity();
        for (std::size_t j = 0; j < kCentroids; ++j) {
          float square = 0;
          for (std::size_t t = 0; t < kCoordinates; ++t) {
            const float difference = points[i * kCoordinates + t] - centroids[j * kCoordinates + t];
            square += difference * difference;
          }
          nearest = std::min(nearest, square);
        }
        sum += nearest;
      }
      points[static_cast<std::size_t>(round)] += 1e-6F;  // or one round would do for all
    }
  }
};

double fastest_within(Clock::duration span) {
  Work work;
  double fastest = std::numeric_limits<double>::infinity();
  const auto begin = Clock::now();
  for (auto now = begin; now - begin < span;) {
    work.once();
    const auto after = Clock::now();
    fastest = std::min(fastest, std::chrono::duration<double>(after - now).count());
    now = after;
  }
  // Used, so that nothing of it may be left out.
  volatile float sink = work.sum;
  static_cast<void>(sink);
  return fastest;
}

}  // namespace

double measure_pace(int threads) {
  if (threads <= 1) return fastest_within(kAlone);
  std::vector<double> paces(static_cast<std::size_t>(threads));
  std::vector<std::thread> others;
  others.reserve(paces.size() - 1);
  for (std::size_t t = 1; t < paces.size(); ++t) {
    others.emplace_back([&pace = paces[t]] { pace = fastest_within(kTogether); });
  }
  paces[0] = fastest_within(kTogether);
  for (auto& other : others) other.join();
  return *std::max_element(paces.begin(), paces.end());
}

QuietMoments::QuietMoments(int threads, double best, double patience)
    : threads_(threads), best_(best), patience_(best > 0 ? patience : 0) {}

bool QuietMoments::slow(double pace) const { return best_ > 0 && pace > kDisturbedPace * best_; }

void QuietMoments::wait() {
  pending_ = true;
  if (!patient() && before_ > 0) return;
  auto now = Clock::now();
  while (true) {
    before_ = measure_pace(threads_);
    const auto after = Clock::now();
    if (!patient() || !slow(before_)) return;
    patience_ -= std::chrono::duration<double>(after - now).count();
    now = after;
  }
}

bool QuietMoments::should_repeat(double seconds) {
  const double after = measure_pace(threads_);
  if (patient() && slow(std::max(before_, after))) {
    patience_ -= seconds;
    return true;
  }
  count(after);
  return false;
}

void QuietMoments::finish() {
  if (pending_) count(measure_pace(threads_));
}

void QuietMoments::count(double after) {
  slowest_before_ = std::max(slowest_before_, before_);
  slowest_after_ = std::max(slowest_after_, after);
  pending_ = false;
}

std::vector<double> QuietMoments::paces() const {
  if (slowest_after_ <= 0) return {};
  return {slowest_before_, slowest_after_};
}

}  // namespace kmeans
