// SPDX-License-Identifier: Apache-2.0
//
// The frame of a plain variant: the calls of the contract around `iterate()`, which is what a variant
// is about. cpu_naive.cpp does without, so that there the whole contract can be read in one file.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "harness/variant.h"

namespace kmeans::plain {
// Unnamed on purpose: variants are compiled with different options, and of one inline function the
// linker would keep a single copy, with whichever options it had.
namespace {

template <class T>
class PlainLloyd : public Variant<T> {
 public:
  void setup(const Problem<T>& problem) override {
    problem_ = problem;
    labels_.resize(problem.shape.n);
  }

  void reset(const T* centroids) override {
    centroids_.assign(centroids, centroids + problem_.shape.k * problem_.shape.d);
    std::fill(labels_.begin(), labels_.end(), -1);  // no label yet: all will have changed
  }

  void step(std::int64_t iterations) override {
    for (std::int64_t iteration = 0; iteration < iterations; ++iteration) iterate();
  }

  void fetch(T* centroids, std::int32_t* labels) override {
    std::copy(centroids_.begin(), centroids_.end(), centroids);
    std::copy(labels_.begin(), labels_.end(), labels);
  }

 protected:
  virtual void iterate() = 0;

  [[nodiscard]] const T* point(std::int64_t i) const {
    return problem_.points + i * problem_.shape.d;
  }
  [[nodiscard]] const T* centroid(std::int64_t j) const {
    return centroids_.data() + j * problem_.shape.d;
  }

  Problem<T> problem_;
  std::vector<T> centroids_;          // k x d
  std::vector<std::int32_t> labels_;  // n
};

}  // namespace
}  // namespace kmeans::plain
