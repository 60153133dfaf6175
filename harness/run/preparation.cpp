// SPDX-License-Identifier: Apache-2.0
#include "harness/run/preparation.h"

#include "harness/machine/gpu.h"
#include "harness/machine/machine.h"
#include "harness/run/plan_jobs.h"
#include "harness/support/granted.h"
#include "harness/support/sha256.h"
#include "harness/verify/resolution.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

#include "datasets/readers.h"
#include "harness/support/atomic_file.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/text.h"
#include "harness/variants/registry.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

using nlohmann::json;

// Multiply-adds that the exact engine on one thread may be asked for.
constexpr double kSlowExactLimit = 2e9;
// From this many on, a GPU saves more than starting on it costs.
constexpr double kGpuExactFrom = 1e11;
// Beyond this many the exact trajectory takes minutes even there; the certificates of single steps
// then stand alone.
constexpr double kExactLimit = 1e14;

// The same of points that memory does not hold, which the harness's own plain code goes through.
constexpr double kByRowsLimit = 1e12;

// Beyond this many the float64 trajectory, which only the harness's own plain code follows, would
// take longer than a minute.
constexpr double kFloat64Limit = 1e11;

std::string short_hash(const json& identity) {
  const std::string text = to_line(identity);
  return sha256_hex(text.data(), text.size()).substr(0, 32);
}

void create_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw OutputError("cannot create " + folder.string() + ": " + error.message());
}

/// As far as is known without a CUDA context: the others follow where it does not.
bool fits_gpu(const RegisteredVariant& engine, const Shape& shape) {
  const GpuDevice* gpu = current_gpu();
  return gpu != nullptr &&
         device_memory_need(engine, shape) <=
             static_cast<double>(at_most_granted(kGrantedGpuMemory, gpu->memory_bytes));
}

/// The name of the exact engine that follows a trajectory of so many multiply-adds; empty: none.
std::string engine_for(const Shape& shape, double work) {
  const auto runs = [&](const RegisteredVariant* engine) {
    return engine != nullptr && availability(*engine).ok && supports(*engine, shape).ok;
  };
  const auto* gpu = exact_engine(EngineOn::gpu);
  if (work >= kGpuExactFrom && runs(gpu) && fits_gpu(*gpu, shape)) return gpu->traits.name;
  const auto* threads = exact_engine(EngineOn::threads);
  if (runs(threads)) return threads->traits.name;
  const auto* one_thread = exact_engine(EngineOn::one_thread);
  if (work < kSlowExactLimit && runs(one_thread)) return one_thread->traits.name;
  return "";
}

/// Stands next to a kept file of initial centroids: a changed byte there would change every answer.
std::filesystem::path hash_file(const std::filesystem::path& file) {
  return std::filesystem::path(file).replace_extension(".sha256");
}

bool is_as_it_was_made(const std::filesystem::path& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(hash_file(file), ignored))
    return false;  // a pipe would not end
  std::ifstream in(hash_file(file));
  std::string kept;
  return std::getline(in, kept) && kept == sha256_file(file);
}

/// Whether k x d centroids lie there as they were made. What does not fit is said.
bool is_kept(const std::filesystem::path& file, std::int64_t k, std::int64_t d,
             const LoadOptions& options) {
  make_way(file);
  make_way(hash_file(file));
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return false;
  std::string why = "it does not fit its hash";
  try {
    const Points kept = load_points(file, options);
    if (kept.n() == k && kept.d() == d && is_as_it_was_made(file)) return true;
  } catch (const InputError& error) {
    why = printable(error.what());
  }
  std::fprintf(stderr, "kmeans-bench: initial centroids in the cache are made again: %s\n",
               why.c_str());
  return false;
}

/// A kept trajectory with the hash of what it says.
json sealed(json trajectory) {
  const std::string text = trajectory.dump();
  trajectory["sha256"] = sha256_hex(text.data(), text.size());
  return trajectory;
}

}  // namespace

Preparation::Preparation(std::filesystem::path cache, std::string build)
    : cache_(std::move(cache)), build_(std::move(build)) {
  create_folder(cache_ / "centroids");
  create_folder(cache_ / "trajectories");
}

Preparation::Known& Preparation::known(const Task& task, ScalarType scalar) {
  const auto key = std::pair{task.label, scalar};
  auto found = datasets_.find(key);
  if (found == datasets_.end()) {
    found = datasets_.emplace(key, Known{task.dataset, materialise(task.dataset, scalar, cache_)})
                .first;
  }
  return found->second;
}

void Preparation::check_resolution(const Task& task) {
  Known& set = known(task, ScalarType::f32);
  if (!set.lost) {
    const Points points = load_made(set.stored.file, ScalarType::f32);
    set.lost = lost_by_fixed_point(points.data<float>(), points.n(), points.d(), usable_threads());
  }
  if (!set.lost->empty()) throw PointsBeyondExactStep(*set.lost);
}

TaskFiles Preparation::files(const Task& task, ScalarType scalar) {
  if (scalar == ScalarType::f64) return files_within_range(task, scalar);
  const std::pair subject{task.label, task.init};
  if (const auto known = beyond_float32_.find(subject); known != beyond_float32_.end()) {
    throw PointsBeyondFloat32(known->second);
  }
  try {
    return files_within_range(task, scalar);
  } catch (const BeyondFloat32& error) {
    const std::string why = std::string(error.what()) + ", with \"precision\": \"f64\"";
    beyond_float32_.emplace(subject, why);
    throw PointsBeyondFloat32(why);
  }
}

TaskFiles Preparation::files_within_range(const Task& task, ScalarType scalar) {
  TaskFiles files{known(task, scalar).stored, {}};
  if (scalar == ScalarType::f32) check_resolution(task);
  const InitSpec init = parse_init(task.init);
  // n and d too: sets of one generator with equal n * d can hold the same bytes.
  json identity{{"points", files.points.sha256},
                {"n", files.points.n},
                {"d", files.points.d},
                {"scalar", to_string(scalar)},
                {"init", task.init},
                {"k", task.shape.k},
                {"build", build_}};
  if (init.method == InitSpec::Method::file) identity["file"] = sha256_file(init.file);
  files.centroids = cache_ / "centroids" / (short_hash(identity) + ".npy");
  if (is_kept(files.centroids, task.shape.k, files.points.d, {.scalar = scalar})) return files;
  const Points points = load_made(files.points.file, scalar);
  try {
    write_npy(files.centroids, initial_centroids(points, task.shape.k, init));
  } catch (const InputError& error) {
    // What the user wrote down is wrong; a method that finds no centroids in these points is not.
    if (init.method == InitSpec::Method::file || init.method == InitSpec::Method::rows) throw;
    throw NoInitialCentroids(std::string("no initial centroids: ") + error.what());
  }
  write_file_atomically(hash_file(files.centroids), sha256_file(files.centroids) + "\n");
  return files;
}

TaskFiles Preparation::files_anew(const Task& task, ScalarType scalar) {
  datasets_.erase({task.label, scalar});
  const TaskFiles known = files(task, scalar);
  std::error_code ignored;
  std::filesystem::remove(known.centroids, ignored);
  return files(task, scalar);
}

std::optional<Job> Preparation::trajectory_job(const Task& task, const TaskFiles& files,
                                               std::int64_t iterations, int threads) {
  Shape shape = task.shape;
  const bool float64 = files.points.scalar == ScalarType::f64;
  shape.precision = float64 ? Precision::f64 : Precision::f32;
  const double work = static_cast<double>(shape.n) * static_cast<double>(shape.k) *
                      static_cast<double>(shape.d) * static_cast<double>(iterations);
  const bool by_rows = task.beyond_memory && !float64;
  if (work > (float64 ? kFloat64Limit : by_rows ? kByRowsLimit : kExactLimit)) return std::nullopt;
  const std::string engine = float64   ? kFloat64Trajectory
                             : by_rows ? kExactByRows
                                       : engine_for(shape, work);
  if (engine.empty()) return std::nullopt;
  Job job = job_of(CellKey{engine, task.label, shape, iterations, threads}, files);
  job.repetitions = 0;
  return job;
}

json Preparation::trajectory_identity(const Task& task, const TaskFiles& files,
                                      std::int64_t iterations) const {
  return {{"points", files.points.sha256},
          {"centroids", files.centroids.stem().string()},
          {"k", task.shape.k},
          {"iterations", iterations},
          {"build", build_}};
}

std::optional<ExactTrajectory> Preparation::kept_trajectory(const Task& task,
                                                            const TaskFiles& files,
                                                            std::int64_t iterations) const {
  const json identity = trajectory_identity(task, files, iterations);
  try {
    const json kept = read_json_file(cache_ / "trajectories" / (short_hash(identity) + ".json"));
    json said = kept;
    said.erase("sha256");
    if (kept.at("identity") != identity || sealed(said) != kept) return std::nullopt;
    return ExactTrajectory{kept.at("inertia").get<double>(),
                           kept.at("met_empty_clusters").get<bool>(),
                           scale_from_json(kept.at("scale")), files.points.scalar};
  } catch (const InputError&) {
    return std::nullopt;  // none, or damaged: computed again
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

void Preparation::keep_trajectory(const Task& task, const TaskFiles& files, std::int64_t iterations,
                                  const ExactTrajectory& trajectory) const {
  const json identity = trajectory_identity(task, files, iterations);
  const auto file = cache_ / "trajectories" / (short_hash(identity) + ".json");
  make_way(file);
  write_json_file(file, sealed({{"identity", identity},
                                {"inertia", trajectory.inertia},
                                {"met_empty_clusters", trajectory.met_empty_clusters},
                                {"scale", to_json(trajectory.scale)}}));
}

json Preparation::datasets() const {
  json result = json::object();
  for (const auto& [key, known] : datasets_) {
    const auto& [label, scalar] = key;
    json& set = result[points_name(label, scalar == ScalarType::f64)];
    set = {{"spec", known.spec.json},
           {"scalar", to_string(scalar)},
           {"sha256", known.stored.sha256},
           {"n", known.stored.n},
           {"d", known.stored.d}};
    if (known.spec.json.value("drop_nonfinite", false)) {
      set["points_dropped"] = known.stored.points_dropped;
    }
  }
  return result;
}

}  // namespace kmeans
