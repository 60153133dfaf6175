// SPDX-License-Identifier: Apache-2.0
#include "harness/run/job.h"

#include <gtest/gtest.h>

#include "harness/run/study_job.h"
#include "harness/run/trace_job.h"

namespace kmeans {
namespace {

Job cell_job() {
  Job job;
  job.variant = "openmp_exact";
  job.precision = Precision::f64;
  job.points_file = "points.npy";
  job.centroids_file = "centroids.npy";
  job.k = 3;
  job.threads = 2;
  job.certified_outcomes = {"ab"};
  job.exact_inertia = 0.5;
  job.verify_seed = 0xffffffffffffffff;
  return job;
}

// Every member, byte for byte.
TEST(Jobs, OfACellKeepTheirForm) {
  EXPECT_EQ(
      to_json(cell_job()).dump(),
      R"({"best_pace":0.0,"beyond_memory":false,"centroids_file":"centroids.npy","certified_outcomes":["ab"],)"
      R"("exact_had_empty_clusters":false,"exact_inertia":0.5,"exact_scalar":"f32",)"
      R"("exact_scale":{"scatter":0.0,"weight":0.0},"gpus":1,"iterations":1,"k":3,)"
      R"("max_seconds":10.0,"min_seconds":0.02,"patience":0.0,"points_file":"points.npy",)"
      R"("precision":"f64","profile":false,"ranks":1,"repetitions":3,"threads":2,)"
      R"("variant":"openmp_exact","verify_budget":2000000000.0,)"
      R"("verify_seed":18446744073709551615,"verify_threads":0})");
}

TEST(Jobs, OfATraceKeepTheirForm) {
  TraceJob job;
  job.variant = "reference";
  job.points_file = "points.npy";
  job.expected = {{"inertia", {1.5}}};
  job.keep_centroids = true;
  EXPECT_EQ(to_json(job).dump(),
            R"({"centroids_file":"","expected":{"inertia":[1.5]},"iterations":1,"k":0,)"
            R"("keep_centroids":true,"keep_points":0,"max_seconds":10.0,)"
            R"("points_file":"points.npy","precision":"f32","runs":0,"runs_of":0,"sample_seed":1,)"
            R"("stop":"","threads":1,"variant":"reference","verify_threads":0})");
}

TEST(Jobs, OfAStudyKeepTheirForm) {
  StudyJob job;
  job.study = "ties";
  job.parameters = {{"rows", 2}};
  EXPECT_EQ(to_json(job).dump(),
            R"({"centroids_file":"","k":0,"parameters":{"rows":2},"points_file":"",)"
            R"("study":"ties","threads":1})");
}

}  // namespace
}  // namespace kmeans
