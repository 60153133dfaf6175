// SPDX-License-Identifier: Apache-2.0
//
// One variant on one problem, driven through its contract: what worker, fit and verify share.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "datasets/points.h"
#include "harness/machine/gpu.h"
#include "harness/support/hash.h"
#include "harness/variants/registry.h"
#include "harness/verify/ranked_variant.h"
#include "harness/verify/verify.h"

namespace kmeans {

/// What a variant hands out: centroids (k x d) and labels (n).
template <class T>
struct Outcome {
  std::vector<T> centroids;
  std::vector<std::int32_t> labels;

  [[nodiscard]] std::string label_hash() const {
    return fnv1a_hex(labels.data(), labels.size() * sizeof(std::int32_t));
  }
  [[nodiscard]] std::string centroid_hash() const {
    return fnv1a_hex(centroids.data(), centroids.size() * sizeof(T));
  }
};

/// Is this shape within the variant's reach? Precision, its own limits, k <= n.
Support supports(const RegisteredVariant& variant, const Shape& shape);

/// Host bytes that points, labels and the variant's own memory need on this many CPU threads.
double memory_need(const RegisteredVariant& variant, const Shape& shape, int threads);

/// The same where memory does not hold the points, of a variant with the trait `streams`: what a mapped
/// file is in memory can be taken back at any time, and does not count.
double memory_need_beside_points(const RegisteredVariant& variant, const Shape& shape, int threads);

/// Device bytes that the variant needs on each of the GPUs that share the points; 0 for those that use
/// no GPU. `counted`: as Problem::is_counted().
double device_memory_need(const RegisteredVariant& variant, const Shape& shape, int gpus = 1,
                          bool counted = false);

/// Makes the variant and sets it up. Throws what the variant throws.
template <class T>
class Session {
 public:
  /// `points` must outlive the session; `centroids` holds k x d coordinates.
  Session(const RegisteredVariant& registered, const Problem<T>& problem, const T* centroids);

  /// Back to the initial centroids.
  void reset();
  /// One iteration from the initial centroids under other numbers (rotated()). What a variant still
  /// holds afterwards is no longer the answer of an earlier run, so a step that does nothing is
  /// seen.
  Outcome<T> disturb();
  /// The initial centroids, each with the number of the one before it.
  [[nodiscard]] std::vector<T> rotated() const;
  /// Runs iterations; returns the seconds they took, by the remote clock where there is one.
  double step(std::int64_t iterations);
  /// Of the last step, by device events; absent without a GPU.
  [[nodiscard]] std::optional<double> device_seconds() const { return device_seconds_; }
  /// Is the variant a kernel of ours, so that this process can wait for the device?
  [[nodiscard]] bool on_our_gpu() const {
    return registered_->traits.gpu && registered_->backend != "python";
  }
  /// CPU threads of the verifier; the variant's own unless set.
  void set_verify_threads(int threads) { verify_threads_ = threads; }
  [[nodiscard]] int verify_threads() const { return verify_threads_; }
  /// Fetches into poisoned buffers, so that what a variant does not write is seen.
  Outcome<T> fetch();
  /// Of labels that the last fetch() gave; `owners` (k x d): the centroids that they belong to.
  Quality quality(const T* owners, const Outcome<T>& outcome);
  /// Of the last step, where several ranks share its work.
  std::optional<RankTimes> rank_times() {
    return ranked_ != nullptr ? std::optional(ranked_->times()) : std::nullopt;
  }
  /// Evidence of one step that led from `starting` to `after`.
  StepEvidence<T> evidence(const std::vector<T>& starting, const Outcome<T>& after) const;

  [[nodiscard]] Variant<T>& variant() { return *variant_; }
  [[nodiscard]] const Problem<T>& problem() const { return problem_; }
  [[nodiscard]] const std::vector<T>& initial() const { return initial_; }
  [[nodiscard]] double setup_seconds() const { return setup_seconds_; }
  [[nodiscard]] const Traits& traits() const { return registered_->traits; }
  /// What the variant changed in this process and should not have, one sentence each. It has been
  /// restored: locale and denormal numbers decide what the harness itself computes and writes.
  [[nodiscard]] const std::vector<std::string>& doubts() const { return doubts_; }

 private:
  void restore_process_state();
  void doubt(const std::string& sentence);

  const RegisteredVariant* registered_;
  Problem<T> problem_;
  std::vector<T> initial_;
  std::vector<T> handed_;  // a copy for the variant, which may write into it or keep its address
  std::vector<std::string> doubts_;
  std::unique_ptr<Variant<T>> variant_;
  RankedVariant<T>* ranked_ = nullptr;  // variant_, where several ranks share its work
  std::unique_ptr<Variant<T>> around_;  // absent outside of tests (around_steps.h)
  Variant<T>* stepped_ = nullptr;       // whose steps are timed: the variant itself, or around_
  std::unique_ptr<GpuClock> clock_;
  std::optional<double> device_seconds_;
  double setup_seconds_ = 0;
  int verify_threads_ = 1;
};

/// Are all labels in [0, k)?
inline bool in_range(const std::vector<std::int32_t>& labels, std::int64_t k) {
  return std::all_of(labels.begin(), labels.end(),
                     [&](auto label) { return label >= 0 && label < k; });
}

/// The full certificate of a variant on a problem: one step from the initial centroids, and the
/// last of `iterations` steps from whatever centroids the variant has then.
template <class T>
struct CertifiedRun {
  Certificate certificate;
  Outcome<T> first;       ///< after one iteration
  std::vector<T> before;  ///< centroids after T - 1 iterations
  Outcome<T> last;        ///< after T
  Quality quality;        ///< of the last labels; only when they are in range
  bool any_empty = false;
  bool labels_in_range = true;
  double seconds = 0;  ///< T iterations took this long, roughly
};

/// Runs the variant through reset, 1 step; reset, T-1 steps, 1 step. `certify` is asked whether an
/// outcome (joined hashes) still needs a certificate.
template <class T, class NeedsCertificate>
CertifiedRun<T> certified_run(Session<T>& session, std::int64_t iterations,
                              const VerifyOptions& options, std::string& outcome,
                              const NeedsCertificate& needs_certificate) {
  CertifiedRun<T> run;
  session.reset();
  run.seconds = session.step(1);
  run.first = session.fetch();
  if (iterations > 1) {
    session.reset();
    run.seconds = session.step(iterations - 1);
    run.before = session.fetch().centroids;
    run.seconds += session.step(1);
    run.last = session.fetch();
  } else {  // the first step is the last one
    run.before = session.initial();
    run.last = run.first;
  }
  outcome = run.first.label_hash() + ":" + run.first.centroid_hash() + ":" +
            fnv1a_hex(run.before.data(), run.before.size() * sizeof(T)) + ":" +
            run.last.label_hash() + ":" + run.last.centroid_hash();

  const Shape& shape = session.problem().shape;
  run.labels_in_range = in_range(run.first.labels, shape.k) && in_range(run.last.labels, shape.k);
  if (run.labels_in_range) {
    const bool returned = session.traits().labels_of == LabelsOf::returned;
    const T* owner = returned ? run.last.centroids.data() : run.before.data();
    run.quality = quality_of(session.problem().points, owner, run.last.labels.data(), shape,
                             session.verify_threads());
    std::vector<char> used(shape.k, 0);
    for (const std::int32_t label : run.first.labels) used[label] = 1;
    run.any_empty =
        run.quality.empty_clusters > 0 || std::find(used.begin(), used.end(), 0) != used.end();
  }
  if (needs_certificate(outcome)) {
    run.certificate.merge(
        certify_step(session.traits(), session.evidence(session.initial(), run.first), options),
        "first iteration: ");
    if (iterations > 1 && run.labels_in_range) {
      run.certificate.merge(
          certify_step(session.traits(), session.evidence(run.before, run.last), options),
          "last iteration: ");
    }
  }
  return run;
}

}  // namespace kmeans
