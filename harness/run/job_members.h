// SPDX-License-Identifier: Apache-2.0
//
// The members that jobs share, by their names in JSON (harness/support/json_members.h).
#pragma once

#include "harness/run/job.h"
#include "harness/support/json_members.h"

namespace kmeans {

template <class AnyJob, class Visit>
void data_members(AnyJob& job, const Visit& visit) {
  visit("points_file", job.points_file);
  visit("centroids_file", job.centroids_file);
  visit("k", job.k);
  visit("threads", job.threads);
}

template <class AnyJob, class Visit>
void variant_members(AnyJob& job, const Visit& visit) {
  data_members(job, visit);
  visit("variant", job.variant);
  visit("precision", job.precision);
  visit("iterations", job.iterations);
  visit("max_seconds", job.max_seconds);
  visit("verify_threads", job.verify_threads);
}

}  // namespace kmeans
