// SPDX-License-Identifier: Apache-2.0
//
// What a cell needs on the disk before its first process: points, initial centroids, and the answer
// of the exact trajectory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "datasets/dataset.h"
#include "harness/run/job.h"
#include "harness/run/sweep.h"

namespace kmeans {

/// A task's files in one scalar type.
struct TaskFiles {
  StoredDataset points;
  std::filesystem::path centroids;
};

/// A task of which nothing can be measured: a property of the task, not a broken file.
class NotMeasurable : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Initial centroids cannot be had as the experiment asks ("only 3 of 5 points are further apart
/// than ...").
class NoInitialCentroids : public NotMeasurable {
 public:
  using NotMeasurable::NotMeasurable;
};

/// The exact step, by which float32 cells are certified, loses some column's digits.
class PointsBeyondExactStep : public NotMeasurable {
 public:
  using NotMeasurable::NotMeasurable;
};

/// A coordinate of the points, or of the initial centroids, is more than float32 can hold.
class PointsBeyondFloat32 : public NotMeasurable {
 public:
  using NotMeasurable::NotMeasurable;
};

/// Where the exact Lloyd step leads from a task's initial centroids.
struct ExactTrajectory {
  double inertia = 0;
  bool met_empty_clusters = false;
  TrajectoryScale scale{};
  ScalarType scalar = ScalarType::f32;  ///< In which it was followed.
};

class Preparation {
 public:
  /// `build`: what identifies a build; answers of another build are not trusted.
  Preparation(std::filesystem::path cache, std::string build);

  /// Makes or finds the files. Throws what materialise throws, and NotMeasurable.
  TaskFiles files(const Task& task, ScalarType scalar);

  /// The same after something wrote to the files: they are checked against their sums, and made
  /// again where they do not fit.
  TaskFiles files_anew(const Task& task, ScalarType scalar);

  /// A job for the exact trajectory's last inertia: by the fast exact variant, by the reference
  /// where that is quick enough, or none. Of float64 files: the float64 trajectory, if it is quick
  /// enough.
  static std::optional<Job> trajectory_job(const Task& task, const TaskFiles& files,
                                           std::int64_t iterations, int threads);

  /// The kept answer; absent when there is none or it is damaged.
  std::optional<ExactTrajectory> kept_trajectory(const Task& task, const TaskFiles& files,
                                                 std::int64_t iterations) const;
  void keep_trajectory(const Task& task, const TaskFiles& files, std::int64_t iterations,
                       const ExactTrajectory& trajectory) const;

  /// All data sets that files() was asked for, as result files name them: the label, for float64
  /// with "/f64" behind it.
  [[nodiscard]] nlohmann::json datasets() const;

 private:
  struct Known {
    DatasetSpec spec;
    StoredDataset stored;
    std::optional<std::string> lost{};  ///< lost_by_fixed_point(), once asked for; float32 only.
  };

  Known& known(const Task& task, ScalarType scalar);
  TaskFiles files_within_range(const Task& task, ScalarType scalar);
  /// Throws PointsBeyondExactStep for points that nothing could be certified on.
  void check_resolution(const Task& task);
  [[nodiscard]] nlohmann::json trajectory_identity(const Task& task, const TaskFiles& files,
                                                   std::int64_t iterations) const;

  std::filesystem::path cache_;
  std::string build_;
  std::map<std::pair<std::string, ScalarType>, Known> datasets_;
  /// Why, by the label of the data set and the initial centroids.
  std::map<std::pair<std::string, std::string>, std::string> beyond_float32_;
};

}  // namespace kmeans
