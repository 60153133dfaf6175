// SPDX-License-Identifier: Apache-2.0
#include "harness/preparation.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

#include "datasets/atomic_file.h"
#include "harness/errors.h"
#include "harness/json_file.h"
#include "harness/registry.h"
#include "harness/session.h"
#include "harness/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr const char* kGpuExact = "cuda_exact";
constexpr const char* kFastExact = "openmp_exact";
constexpr const char* kSlowExact = "reference";
// Multiply-adds that the slow exact variant may be asked for.
constexpr double kSlowExactLimit = 2e9;
// From this many on, a GPU saves more than starting on it costs.
constexpr double kGpuExactFrom = 1e11;
// Beyond this many the exact trajectory takes minutes even there; the certificates of single steps
// then stand alone.
constexpr double kExactLimit = 1e14;

std::string short_hash(const json& identity) {
  const std::string text = to_line(identity);
  return sha256_hex(text.data(), text.size()).substr(0, 32);
}

void create_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw OutputError("cannot create " + folder.string() + ": " + error.message());
}

bool runs(const char* variant, const Shape& shape) {
  const auto* registered = find_variant(variant);
  return registered != nullptr && availability(*registered).ok && supports(*registered, shape).ok;
}

/// Stands beside a kept file of initial centroids: a changed byte there would change every answer.
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

const StoredDataset& Preparation::stored(const Task& task, ScalarType scalar) {
  const auto key = std::pair{task.label, scalar};
  auto found = datasets_.find(key);
  if (found == datasets_.end()) {
    found = datasets_.emplace(key, Known{task.dataset, materialise(task.dataset, scalar, cache_)})
                .first;
  }
  return found->second.stored;
}

TaskFiles Preparation::files(const Task& task, ScalarType scalar) {
  TaskFiles files{stored(task, scalar), {}};
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
  LoadOptions as_stored;
  as_stored.scalar = scalar;
  if (is_kept(files.centroids, task.shape.k, files.points.d, as_stored)) return files;
  as_stored.check_finite = false;  // checked when the data set was made
  const Points points = load_points(files.points.file, as_stored);
  try {
    write_npy(files.centroids, initial_centroids(points, task.shape.k, init));
  } catch (const InputError& error) {
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

std::optional<Job> Preparation::trajectory_job(const Task& task, const TaskFiles& float_files,
                                               std::int64_t iterations, int threads) {
  Shape shape = task.shape;
  shape.precision = Precision::f32;
  const double work = static_cast<double>(shape.n) * static_cast<double>(shape.k) *
                      static_cast<double>(shape.d) * static_cast<double>(iterations);
  if (work > kExactLimit) return std::nullopt;
  Job job;
  if (work >= kGpuExactFrom && runs(kGpuExact, shape)) {
    job.variant = kGpuExact;
  } else if (runs(kFastExact, shape)) {
    job.variant = kFastExact;
  } else if (work < kSlowExactLimit && runs(kSlowExact, shape)) {
    job.variant = kSlowExact;
  } else {
    return std::nullopt;
  }
  job.precision = Precision::f32;
  job.points_file = float_files.points.file.string();
  job.centroids_file = float_files.centroids.string();
  job.k = shape.k;
  job.iterations = iterations;
  job.threads = threads;
  job.repetitions = 0;
  return job;
}

json Preparation::trajectory_identity(const Task& task, const TaskFiles& float_files,
                                      std::int64_t iterations) const {
  return {{"points", float_files.points.sha256},
          {"centroids", float_files.centroids.stem().string()},
          {"k", task.shape.k},
          {"iterations", iterations},
          {"build", build_}};
}

std::optional<ExactTrajectory> Preparation::kept_trajectory(const Task& task,
                                                            const TaskFiles& float_files,
                                                            std::int64_t iterations) const {
  const json identity = trajectory_identity(task, float_files, iterations);
  try {
    const json kept = read_json_file(cache_ / "trajectories" / (short_hash(identity) + ".json"));
    json said = kept;
    said.erase("sha256");
    if (kept.at("identity") != identity || sealed(said) != kept) return std::nullopt;
    return ExactTrajectory{kept.at("inertia").get<double>(),
                           kept.at("met_empty_clusters").get<bool>()};
  } catch (const InputError&) {
    return std::nullopt;  // none, or damaged: computed again
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

void Preparation::keep_trajectory(const Task& task, const TaskFiles& float_files,
                                  std::int64_t iterations,
                                  const ExactTrajectory& trajectory) const {
  const json identity = trajectory_identity(task, float_files, iterations);
  const auto file = cache_ / "trajectories" / (short_hash(identity) + ".json");
  make_way(file);
  write_json_file(file, sealed({{"identity", identity},
                                {"inertia", trajectory.inertia},
                                {"met_empty_clusters", trajectory.met_empty_clusters}}));
}

json Preparation::datasets() const {
  json result = json::object();
  for (const auto& [key, known] : datasets_) {
    const auto& [label, scalar] = key;
    result[label + (scalar == ScalarType::f64 ? "/f64" : "")] = {{"spec", known.spec.json},
                                                                 {"scalar", to_string(scalar)},
                                                                 {"sha256", known.stored.sha256},
                                                                 {"n", known.stored.n},
                                                                 {"d", known.stored.d}};
    if (known.spec.json.value("drop_nonfinite", false)) {
      result[label + (scalar == ScalarType::f64 ? "/f64" : "")]["points_dropped"] =
          known.stored.points_dropped;
    }
  }
  return result;
}

}  // namespace kmeans
