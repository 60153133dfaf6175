// SPDX-License-Identifier: Apache-2.0
//
// The extension module of the Python package kmeans_exact: arrays in, arrays out. What it is given is
// checked and converted by kmeans_exact/_checks.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kmeans_exact.h"

namespace nb = nanobind;

namespace {

using Matrix = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Labels = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Weights = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// An array that owns its memory.
template <class T, class... Shape>
nb::ndarray<nb::numpy, T> owned(std::unique_ptr<T[]> values, Shape... shape) {
  T* data = values.release();
  const nb::capsule owner(data, [](void* memory) noexcept { delete[] static_cast<T*>(memory); });
  return nb::ndarray<nb::numpy, T>(data, {static_cast<std::size_t>(shape)...}, owner);
}

/// Says how much an array takes.
class NoRoom final : public std::bad_alloc {
 public:
  NoRoom(std::size_t values, std::size_t bytes)
      : what_("kmeans_exact: out of memory: an array of " + std::to_string(values) +
              " values needs " + std::to_string(values * bytes / 1000000 + 1) + " MB") {}
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }

 private:
  std::string what_;
};

/// Not initialised.
template <class T>
std::unique_ptr<T[]> room_for(std::size_t values) {
  try {
    return std::unique_ptr<T[]>(new T[values]);
  } catch (const std::bad_alloc&) {
    throw NoRoom(values, sizeof(T));
  }
}

/// Takes the interpreter's lock again. An interpreter that is ending gives it to no other thread any more, and ends
/// who asks (up to Python 3.13) by unwinding its stack, which C++ does not survive: such a thread stays here for ever.
void take_lock(PyThreadState* thread) {
  try {
    PyEval_RestoreThread(thread);
  } catch (const abi::__forced_unwind&) {
    while (true) ::pause();
  }
}

/// Of this thread, while a call is at work without the interpreter's lock; else null.
thread_local PyThreadState* unlocked_thread = nullptr;

/// While it lives, this thread is without the interpreter's lock.
class Unlocked {
 public:
  Unlocked() { unlocked_thread = PyEval_SaveThread(); }
  ~Unlocked() { take_lock(std::exchange(unlocked_thread, nullptr)); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
};

/// While it lives, a thread of the former kind has it.
class LockedAgain {
 public:
  LockedAgain() { take_lock(std::exchange(unlocked_thread, nullptr)); }
  ~LockedAgain() { unlocked_thread = PyEval_SaveThread(); }
  LockedAgain(const LockedAgain&) = delete;
  LockedAgain& operator=(const LockedAgain&) = delete;
};

/// Handles Ctrl-C and other signals that Python has noted; an exception that a handler raises ends the call.
void look_for_signals() {
  const LockedAgain locked;
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// One call at a time. Who waits looks for signals; who comes back from within its own call, as the handler of a
/// signal may, is refused, since it would wait for itself.
class OneAtATime {
 public:
  class Turn {
   public:
    explicit Turn(OneAtATime& all) : all_(all) {
      if (all_.owner_ == std::this_thread::get_id()) {
        throw std::runtime_error(
            "kmeans_exact: these Points are at work in this very thread, which a handler of a "
            "signal "
            "has interrupted; use other Points there");
      }
      while (!all_.mutex_.try_lock_for(std::chrono::milliseconds(50))) look_for_signals();
      all_.owner_ = std::this_thread::get_id();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    ~Turn() {
      all_.owner_ = std::thread::id();
      all_.mutex_.unlock();
    }

   private:
    OneAtATime& all_;
  };

  /// In a forked process: is it the turn of a thread that is not there?
  [[nodiscard]] bool left_by_another_thread() {
    if (owner_ == std::this_thread::get_id()) return false;
    if (!mutex_.try_lock()) return true;
    mutex_.unlock();
    return false;
  }

 private:
  std::timed_mutex mutex_;
  std::atomic<std::thread::id> owner_{};
};

/// An array in a GPU's memory, for whoever takes it by DLPack.
template <class T>
using OnGpu = nb::ndarray<nb::array_api, T, nb::device::cuda>;

struct FreeOnGpu {
  void operator()(void* memory) const { kmeans_exact::free_on_gpu(memory); }
};
template <class T>
using GpuMemory = std::unique_ptr<T, FreeOnGpu>;

template <class T>
GpuMemory<T> room_on_gpu(std::size_t values, const void* neighbour) {
  return GpuMemory<T>(
      static_cast<T*>(kmeans_exact::allocate_on_gpu(values * sizeof(T), neighbour)));
}

template <class T, class... Shape>
OnGpu<T> owned(GpuMemory<T> values, Shape... shape) {
  T* data = values.release();
  const nb::capsule owner(data, [](void* memory) noexcept { FreeOnGpu()(memory); });
  return OnGpu<T>(data, {static_cast<std::size_t>(shape)...}, owner, {}, nb::dtype<T>(),
                  nb::device::cuda::value, kmeans_exact::gpu_of(data));
}

kmeans_exact::Options options_of(std::int64_t iterations, int stop, double tolerance, int labels_of,
                                 int metric) {
  kmeans_exact::Options options;
  options.iterations = iterations;
  options.stop = static_cast<kmeans_exact::Stop>(stop);
  options.tolerance = tolerance;
  options.labels_of = static_cast<kmeans_exact::LabelsOf>(labels_of);
  options.metric = static_cast<kmeans_exact::Metric>(metric);
  options.between = look_for_signals;
  return options;
}

/// First centroids on the GPU that has `neighbour`.
GpuMemory<float> on_gpu(const float* init, std::size_t values, const void* neighbour) {
  auto dev_centroids = room_on_gpu<float>(values, neighbour);
  kmeans_exact::copy_to_or_from_gpu(dev_centroids.get(), init, values * sizeof(float));
  return dev_centroids;
}

/// Points in memory of Python, which lives as long as this.
class Points {
 public:
  Points(const Matrix& rows, int threads, int device)
      : rows_(rows), shape_{rows.shape(0), rows.shape(1)}, threads_(threads), device_(device) {
    make();
  }
  Points(const kmeans_exact::GpuPoints& on_gpu, int threads)
      : on_gpu_(on_gpu),
        shape_{static_cast<std::size_t>(on_gpu.n), static_cast<std::size_t>(on_gpu.d)},
        threads_(threads) {
    make();
  }

  /// Of a process that was forked while another thread was at work with them, that thread is not there, and what
  /// it left is of no use: all is made again. To be called before each call, holding the interpreter's lock.
  void look_for_fork() {
    if (process_ == ::getpid()) return;
    if (one_at_a_time_->left_by_another_thread()) make();
    process_ = ::getpid();
  }

  nb::tuple lloyd(const Matrix& init, std::int64_t iterations, int stop, double tolerance,
                  int labels_of, const std::optional<Weights>& weights, int metric) {
    require_same_columns(init);
    const auto k = static_cast<std::int64_t>(init.shape(0));
    auto centroids = room_for<float>(init.size());
    auto labels = room_for<std::int32_t>(shape_[0]);
    const auto result = run(init, centroids.get(), labels.get(), iterations, stop, tolerance,
                            labels_of, weights ? weights->data() : nullptr, metric);
    return nb::make_tuple(owned(std::move(centroids), k, d()), owned(std::move(labels), n()),
                          result.iterations, result.converged, result.within_tolerance);
  }

  /// Answers stay on the GPU, where the points are.
  nb::tuple lloyd_on_gpu(const Matrix& init, std::int64_t iterations, int stop, double tolerance,
                         int labels_of, const std::optional<Weights>& weights, int metric) {
    require_same_columns(init);
    const auto k = static_cast<std::int64_t>(init.shape(0));
    GpuMemory<float> dev_centroids;
    GpuMemory<std::int32_t> dev_labels;
    {
      const Unlocked released;
      dev_centroids = room_on_gpu<float>(init.size(), on_gpu_->dev_points);
      dev_labels = room_on_gpu<std::int32_t>(shape_[0], on_gpu_->dev_points);
    }
    const auto result = run(init, dev_centroids.get(), dev_labels.get(), iterations, stop,
                            tolerance, labels_of, weights ? weights->data() : nullptr, metric);
    return nb::make_tuple(owned(std::move(dev_centroids), k, d()),
                          owned(std::move(dev_labels), n()), result.iterations, result.converged,
                          result.within_tolerance);
  }

  nb::ndarray<nb::numpy, std::int32_t> nearest(const Matrix& centroids) {
    require_same_columns(centroids);
    auto labels = room_for<std::int32_t>(shape_[0]);
    {
      const Unlocked released;
      const OneAtATime::Turn turn(*one_at_a_time_);
      points_->nearest(static_cast<std::int64_t>(centroids.shape(0)), centroids.data(),
                       labels.get(), look_for_signals);
    }
    return owned(std::move(labels), n());
  }

  /// n x k, as float64 or float32.
  template <class T>
  nb::ndarray<nb::numpy, T> distances(const Matrix& centroids) {
    require_same_columns(centroids);
    const auto k = static_cast<std::int64_t>(centroids.shape(0));
    auto distances = room_for<T>(shape_[0] * centroids.shape(0));
    {
      const Unlocked released;
      const OneAtATime::Turn turn(*one_at_a_time_);
      points_->distances(k, centroids.data(), distances.get(), look_for_signals);
    }
    return owned(std::move(distances), n(), k);
  }

  double inertia(const Matrix& centroids, const Labels& labels,
                 const std::optional<Weights>& weights) {
    require_same_columns(centroids);
    const Unlocked released;
    const OneAtATime::Turn turn(*one_at_a_time_);
    return points_->inertia(static_cast<std::int64_t>(centroids.shape(0)), centroids.data(),
                            labels.data(), weights ? weights->data() : nullptr, look_for_signals);
  }

  /// By one of the two functions of this form.
  template <auto seed_by>
  nb::ndarray<nb::numpy, float> seeds(std::int64_t k, std::uint64_t seed,
                                      const std::optional<Weights>& weights) {
    std::unique_ptr<std::int64_t[]> whole;
    if (weights) {
      whole = room_for<std::int64_t>(shape_[0]);
      kmeans_exact::whole_weights(weights->data(), n(), whole.get());
    }
    auto centroids = room_for<float>(std::max<std::int64_t>(0, k) * shape_[1]);
    {
      const Unlocked released;
      const OneAtATime::Turn turn(*one_at_a_time_);
      ((*points_).*seed_by)(k, seed, centroids.get(), whole.get(), look_for_signals);
    }
    return owned(std::move(centroids), k, d());
  }

  std::int64_t engines() {
    const Unlocked released;
    const OneAtATime::Turn turn(*one_at_a_time_);
    return points_->engines();
  }

 private:
  [[nodiscard]] std::int64_t n() const { return static_cast<std::int64_t>(shape_[0]); }
  [[nodiscard]] std::int64_t d() const { return static_cast<std::int64_t>(shape_[1]); }

  kmeans_exact::Result run(const Matrix& init, float* centroids, std::int32_t* labels,
                           std::int64_t iterations, int stop, double tolerance, int labels_of,
                           const double* weights, int metric) {
    auto options = options_of(iterations, stop, tolerance, labels_of, metric);
    options.weights = weights;
    const Unlocked released;
    const OneAtATime::Turn turn(*one_at_a_time_);
    return points_->lloyd(static_cast<std::int64_t>(init.shape(0)), init.data(), centroids, labels,
                          options);
  }

  void require_same_columns(const Matrix& centroids) const {
    if (shape_[1] == centroids.shape(1)) return;
    throw std::invalid_argument("kmeans_exact: points have " + std::to_string(shape_[1]) +
                                " coordinates, centroids " + std::to_string(centroids.shape(1)));
  }

  void make() {
    auto one_at_a_time = std::make_unique<OneAtATime>();
    std::unique_ptr<kmeans_exact::Points> points;
    {
      const Unlocked released;
      points = on_gpu_ ? std::make_unique<kmeans_exact::Points>(*on_gpu_, threads_)
                       : std::make_unique<kmeans_exact::Points>(
                             rows_->data(), n(), d(), threads_,
                             static_cast<kmeans_exact::Device>(device_));
    }
    // What a thread may have been changing is not even destroyed.
    [[maybe_unused]] const auto* const lost = points_.release();
    [[maybe_unused]] const auto* const waited_for = one_at_a_time_.release();
    points_ = std::move(points);
    one_at_a_time_ = std::move(one_at_a_time);
  }

  std::optional<Matrix> rows_;
  std::optional<kmeans_exact::GpuPoints> on_gpu_;  // or these, which the caller keeps
  std::array<std::size_t, 2> shape_;
  int threads_;
  int device_ = 0;
  pid_t process_ = ::getpid();
  std::unique_ptr<kmeans_exact::Points> points_;
  std::unique_ptr<OneAtATime> one_at_a_time_;
};

nb::ndarray<nb::numpy, float> unit_rows(const Matrix& rows, int threads) {
  const auto n = static_cast<std::int64_t>(rows.shape(0));
  const auto d = static_cast<std::int64_t>(rows.shape(1));
  auto unit = room_for<float>(rows.size());
  {
    const Unlocked released;
    kmeans_exact::unit_rows(rows.data(), n, d, unit.get(), threads);
  }
  return owned(std::move(unit), n, d);
}

kmeans_exact::GpuPoints gpu_points(std::uintptr_t address, std::int64_t n, std::int64_t d,
                                   int numbers, std::uintptr_t stream) {
  kmeans_exact::GpuPoints points;
  points.dev_points = reinterpret_cast<const void*>(address);
  points.n = n;
  points.d = d;
  points.numbers = static_cast<kmeans_exact::GpuNumbers>(numbers);
  points.stream = reinterpret_cast<void*>(stream);
  return points;
}

OnGpu<float> unit_rows_on_gpu(std::uintptr_t address, std::int64_t n, std::int64_t d, int numbers,
                              std::uintptr_t stream) {
  GpuMemory<float> dev_unit;
  {
    const Unlocked released;
    const auto rows = gpu_points(address, n, d, numbers, stream);
    dev_unit = room_on_gpu<float>(static_cast<std::size_t>(n) * static_cast<std::size_t>(d),
                                  rows.dev_points);
    kmeans_exact::unit_rows(rows, dev_unit.get());
  }
  return owned(std::move(dev_unit), n, d);
}

/// Of the labels of an answer, from 0 to k - 1.
std::int64_t clusters_with_points(const Labels& labels, std::int64_t k) {
  std::vector<char> found(static_cast<std::size_t>(k));
  for (std::size_t i = 0; i < labels.size(); ++i) found[labels.data()[i]] = 1;
  return std::count(found.begin(), found.end(), 1);
}

// ---- many problems

using Problems = nb::ndarray<const float, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

std::int64_t extent(const Problems& array, std::size_t axis) {
  return static_cast<std::int64_t>(array.shape(axis));
}

kmeans_exact::Batch batch_of(const Problems& points, std::int64_t k) {
  return {points.data(), extent(points, 0), extent(points, 1), extent(points, 2), k};
}

/// Centroids and labels of either memory, then iterations, and whether they ended early.
template <class Centroids, class Labels>
nb::tuple answers(Centroids centroids, Labels labels,
                  const std::vector<kmeans_exact::Result>& results, std::int64_t n, std::int64_t k,
                  std::int64_t d) {
  auto made = room_for<std::int64_t>(results.size());
  auto converged = room_for<bool>(results.size());
  for (std::size_t problem = 0; problem < results.size(); ++problem) {
    made[problem] = results[problem].iterations;
    converged[problem] = results[problem].converged || results[problem].within_tolerance;
  }
  const auto problems = static_cast<std::int64_t>(results.size());
  return nb::make_tuple(owned(std::move(centroids), problems, k, d),
                        owned(std::move(labels), problems, n), owned(std::move(made), problems),
                        owned(std::move(converged), problems));
}

/// `init` has the problems and columns of the points.
nb::tuple lloyd_batch(const Problems& points, const Problems& init, std::int64_t iterations,
                      int stop, double tolerance, int labels_of, int metric, int threads,
                      int device) {
  const kmeans_exact::Batch batch = batch_of(points, extent(init, 1));
  auto centroids = room_for<float>(init.size());
  std::copy_n(init.data(), init.size(), centroids.get());
  auto labels = room_for<std::int32_t>(points.shape(0) * points.shape(1));
  std::vector<kmeans_exact::Result> results(points.shape(0));
  const auto options = options_of(iterations, stop, tolerance, labels_of, metric);
  {
    const Unlocked released;
    kmeans_exact::lloyd_batch(batch, centroids.get(), labels.get(), results.data(), options,
                              threads, static_cast<kmeans_exact::Device>(device));
  }
  return answers(std::move(centroids), std::move(labels), results, batch.n, batch.k, batch.d);
}

/// Of points on the GPU, where the answers stay if `stays`.
nb::tuple lloyd_batch_on_gpu(std::uintptr_t address, std::int64_t n, int numbers,
                             std::uintptr_t stream, const Problems& init, std::int64_t iterations,
                             int stop, double tolerance, int labels_of, int metric, int threads,
                             bool stays) {
  const std::int64_t problems = extent(init, 0);
  const std::int64_t k = extent(init, 1);
  const std::int64_t d = extent(init, 2);
  const kmeans_exact::GpuBatch batch{gpu_points(address, n, d, numbers, stream), problems, k};
  const auto values = static_cast<std::size_t>(problems * n);
  std::vector<kmeans_exact::Result> results(problems);
  const auto options = options_of(iterations, stop, tolerance, labels_of, metric);
  const auto run = [&](auto& centroids, auto& labels) {
    kmeans_exact::lloyd_batch(batch, centroids.get(), labels.get(), results.data(), options,
                              threads);
  };
  if (!stays) {
    auto centroids = room_for<float>(init.size());
    std::copy_n(init.data(), init.size(), centroids.get());
    auto labels = room_for<std::int32_t>(values);
    {
      const Unlocked released;
      run(centroids, labels);
    }
    return answers(std::move(centroids), std::move(labels), results, n, k, d);
  }
  GpuMemory<float> dev_centroids;
  GpuMemory<std::int32_t> dev_labels;
  {
    const Unlocked released;
    dev_centroids = on_gpu(init.data(), init.size(), batch.first.dev_points);
    dev_labels = room_on_gpu<std::int32_t>(values, batch.first.dev_points);
    run(dev_centroids, dev_labels);
  }
  return answers(std::move(dev_centroids), std::move(dev_labels), results, n, k, d);
}

nb::ndarray<nb::numpy, float> seed_ward_batch(const Problems& points, std::int64_t k,
                                              std::uint64_t seed, int threads) {
  const kmeans_exact::Batch batch = batch_of(points, k);
  auto centroids = room_for<float>(batch.problems * batch.k * batch.d);
  {
    const Unlocked released;
    kmeans_exact::seed_ward_batch(batch, seed, centroids.get(), threads, look_for_signals);
  }
  return owned(std::move(centroids), batch.problems, batch.k, batch.d);
}

/// The same of points on the GPU.
nb::ndarray<nb::numpy, float> seed_ward_batch_on_gpu(std::uintptr_t address, std::int64_t problems,
                                                     std::int64_t n, std::int64_t d, int numbers,
                                                     std::uintptr_t stream, std::int64_t k,
                                                     std::uint64_t seed, int threads) {
  const kmeans_exact::GpuBatch batch{gpu_points(address, n, d, numbers, stream), problems, k};
  auto centroids = room_for<float>(problems * k * d);
  {
    const Unlocked released;
    kmeans_exact::seed_ward_batch(batch, seed, centroids.get(), threads, look_for_signals);
  }
  return owned(std::move(centroids), problems, k, d);
}

/// What DLPack says of an array: its address, shape, strides in elements, kind and bits of its numbers; and what keeps
/// its memory.
nb::tuple gpu_array(const nb::ndarray<nb::ro>& array) {
  const nb::capsule owner(new nb::ndarray<nb::ro>(array), [](void* kept) noexcept {
    delete static_cast<nb::ndarray<nb::ro>*>(kept);
  });
  nb::list shape;
  nb::list strides;
  for (std::size_t axis = 0; axis < array.ndim(); ++axis) {
    shape.append(array.shape(axis));
    strides.append(array.stride(axis));
  }
  return nb::make_tuple(reinterpret_cast<std::uintptr_t>(array.data()), nb::tuple(shape),
                        nb::tuple(strides), static_cast<int>(array.dtype().code),
                        static_cast<int>(array.dtype().bits), owner);
}

/// A member as a function of the capsule.
template <auto member>
struct Call;
template <class R, class... Args, R (Points::*member)(Args...)>
struct Call<member> {
  static R of(const nb::capsule& points, Args... args) {
    auto* const self = static_cast<Points*>(points.data());
    self->look_for_fork();
    return (self->*member)(args...);
  }
};
template <auto member>
constexpr auto call = Call<member>::of;

}  // namespace

NB_MODULE(_engine, module) {
  // Points are a capsule and no class: nanobind would not register one again where the module is loaded twice.
  module.def("points", [](const Matrix& rows, int threads, int device) {
    return nb::capsule(new Points(rows, threads, device),
                       [](void* points) noexcept { delete static_cast<Points*>(points); });
  });
  module.def("points_on_gpu", [](std::uintptr_t address, std::int64_t n, std::int64_t d,
                                 int numbers, std::uintptr_t stream, int threads) {
    return nb::capsule(new Points(gpu_points(address, n, d, numbers, stream), threads),
                       [](void* kept) noexcept { delete static_cast<Points*>(kept); });
  });
  module.def("unit_rows_on_gpu", &unit_rows_on_gpu);
  module.def("gpu_array", &gpu_array);
  module.def("copy_from_gpu",
             [](std::uintptr_t to, std::uintptr_t from, std::size_t bytes, std::uintptr_t stream) {
               const Unlocked released;
               kmeans_exact::copy_to_or_from_gpu(reinterpret_cast<void*>(to),
                                                 reinterpret_cast<const void*>(from), bytes,
                                                 reinterpret_cast<void*>(stream));
             });
  module.def("lloyd_on_gpu", call<&Points::lloyd_on_gpu>, nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  module.def("lloyd", call<&Points::lloyd>, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
             nb::arg(), nb::arg().none(), nb::arg());
  module.def("nearest", call<&Points::nearest>);
  module.def("distances_float64", call<&Points::distances<double>>);
  module.def("distances_float32", call<&Points::distances<float>>);
  module.def("inertia", call<&Points::inertia>, nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  module.def("seed_plus_plus", call<&Points::seeds<&kmeans_exact::Points::seed_plus_plus>>,
             nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  module.def("seed_ward", call<&Points::seeds<&kmeans_exact::Points::seed_ward>>, nb::arg(),
             nb::arg(), nb::arg(), nb::arg().none());
  module.def("unit_rows", &unit_rows);
  module.def("clusters_with_points", &clusters_with_points);
  module.def("lloyd_batch", &lloyd_batch);
  module.def("lloyd_batch_on_gpu", &lloyd_batch_on_gpu);
  module.def("seed_ward_batch", &seed_ward_batch);
  module.def("seed_ward_batch_on_gpu", &seed_ward_batch_on_gpu);
  module.def("engines", call<&Points::engines>);
  module.def("instructions", &kmeans_exact::instructions);
  module.def("problem_with_gpu", &kmeans_exact::problem_with_gpu);
  module.def("gpu_part", [] {
    const kmeans_exact::GpuPart part = kmeans_exact::gpu_part();
    return nb::make_tuple(part.built_for, part.gpus);
  });
  module.def("release_memory", &kmeans_exact::release_memory,
             nb::call_guard<nb::gil_scoped_release>());
  module.def("version", &kmeans_exact::version);
}
