// SPDX-License-Identifier: Apache-2.0
//
// What a worker checks of a variant besides its certificate, before and after it is timed.
#pragma once

#include "harness/run/job.h"
#include "harness/verify/session.h"

namespace kmeans {

/// The timed run must have computed what was certified. Non-deterministic variants (atomics, races
/// that are allowed) are judged by the quality of what they found instead.
template <class T>
void check_timed_outcome(Session<T>& session, const CertifiedRun<T>& run,
                         const VerifyOptions& options, Certificate& certificate);

template <class T>
void compare_with_trajectory(const Job& job, const Traits& traits, const Problem<T>& problem,
                             CertifiedRun<T>& run);

/// The same centroids under other numbers must give labels as good as the certified ones: a variant
/// that repeats an answer it still holds is found, and is left with another one before it is timed.
template <class T>
void check_disturbance(Session<T>& session, const CertifiedRun<T>& run,
                       const VerifyOptions& options, Certificate& certificate);

}  // namespace kmeans
