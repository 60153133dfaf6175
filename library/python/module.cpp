// SPDX-License-Identifier: Apache-2.0
//
// The extension module of the Python package kmeans_exact: arrays in, arrays out. What it is given is
// checked and converted by kmeans_exact/_checks.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>

#include "kmeans_exact.h"

namespace nb = nanobind;

namespace {

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// An array that owns its memory.
template <class T, class... Shape>
nb::ndarray<nb::numpy, T> owned(std::unique_ptr<T[]> values, Shape... shape) {
  T* data = values.release();
  const nb::capsule owner(data, [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
  return nb::ndarray<nb::numpy, T>(data, {static_cast<std::size_t>(shape)...}, owner);
}

void require_same_columns(const Matrix& points, const Matrix& centroids) {
  if (points.shape(1) == centroids.shape(1)) return;
  throw std::invalid_argument("kmeans_exact: points have " + std::to_string(points.shape(1)) +
                              " coordinates, initial centroids " +
                              std::to_string(centroids.shape(1)));
}

/// Handles Ctrl-C and other signals that Python has noted; an exception that a handler raises ends the call.
void look_for_signals() {
  const nb::gil_scoped_acquire acquired;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

nb::tuple lloyd(const Matrix& points, const Matrix& init, std::int64_t iterations, bool stop,
                int threads, int device) {
  require_same_columns(points, init);
  const auto n = static_cast<std::int64_t>(points.shape(0));
  const auto d = static_cast<std::int64_t>(points.shape(1));
  const auto k = static_cast<std::int64_t>(init.shape(0));
  std::unique_ptr<float[]> centroids(new float[init.size()]);
  std::copy_n(init.data(), init.size(), centroids.get());
  std::unique_ptr<std::int32_t[]> labels(new std::int32_t[points.shape(0)]);
  kmeans_exact::Result result;
  {
    const nb::gil_scoped_release released;
    result =
        kmeans_exact::lloyd(points.data(), n, d, k, centroids.get(), labels.get(), iterations,
                            stop ? kmeans_exact::Stop::labels : kmeans_exact::Stop::never, threads,
                            static_cast<kmeans_exact::Device>(device), look_for_signals);
  }
  return nb::make_tuple(owned(std::move(centroids), k, d), owned(std::move(labels), n),
                        result.iterations, result.converged);
}

nb::ndarray<nb::numpy, std::int32_t> nearest(const Matrix& points, const Matrix& centroids,
                                             int threads, int device) {
  require_same_columns(points, centroids);
  const auto n = static_cast<std::int64_t>(points.shape(0));
  std::unique_ptr<std::int32_t[]> labels(new std::int32_t[points.shape(0)]);
  {
    const nb::gil_scoped_release released;
    kmeans_exact::nearest(points.data(), n, static_cast<std::int64_t>(points.shape(1)),
                          static_cast<std::int64_t>(centroids.shape(0)), centroids.data(),
                          labels.get(), threads, static_cast<kmeans_exact::Device>(device));
  }
  return owned(std::move(labels), n);
}

/// By one of the two functions of this form.
template <auto seed_by>
nb::ndarray<nb::numpy, float> seeds(const Matrix& points, std::int64_t k, std::uint64_t seed,
                                    const std::optional<Weights>& weights, int threads) {
  const auto n = static_cast<std::int64_t>(points.shape(0));
  const auto d = static_cast<std::int64_t>(points.shape(1));
  std::unique_ptr<float[]> centroids(new float[std::max<std::int64_t>(0, k) * points.shape(1)]);
  {
    const nb::gil_scoped_release released;
    seed_by(points.data(), n, d, k, seed, centroids.get(), weights ? weights->data() : nullptr,
            threads, look_for_signals);
  }
  return owned(std::move(centroids), k, d);
}

}  // namespace

NB_MODULE(_engine, module) {
  module.def("lloyd", &lloyd);
  module.def("nearest", &nearest);
  module.def("seed_plus_plus", &seeds<&kmeans_exact::seed_plus_plus>, nb::arg(), nb::arg(),
             nb::arg(), nb::arg().none(), nb::arg());
  module.def("seed_ward", &seeds<&kmeans_exact::seed_ward>, nb::arg(), nb::arg(), nb::arg(),
             nb::arg().none(), nb::arg());
  module.def("instructions", &kmeans_exact::instructions);
  module.def("problem_with_gpu", &kmeans_exact::problem_with_gpu);
  module.def("version", &kmeans_exact::version);
}
