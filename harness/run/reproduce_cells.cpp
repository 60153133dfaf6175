// SPDX-License-Identifier: Apache-2.0
//
// The cells of a record, judged by running them again.
#include <algorithm>

#include "harness/run/plan_jobs.h"
#include "harness/run/reproduce_parts.h"
#include "harness/variants/registry.h"

namespace kmeans::reproduce_parts {
namespace {

using nlohmann::json;

constexpr double kCertifiedFactor = 2;     // a certified run does everything twice
constexpr double kShortRepetition = 1e-9;  // seconds: one repetition is enough

bool same_library(const CellResult& cell, const JobResult& here) {
  const json recorded = member(cell.data, "library");
  return std::all_of(here.library.begin(), here.library.end(), [&](const auto& entry) {
    return member(recorded, entry.first.c_str()) == entry.second;
  });
}

}  // namespace

Job CellJudge::untimed_job(const CellKey& key, const TaskFiles& at_hand) const {
  Job job = job_of(key, at_hand);
  job.min_seconds = kShortRepetition;
  job.verify_threads = again_.settings().threads;
  return job;
}

Judgement CellJudge::judge(const CellResult& cell, Finding& finding) {
  const double seconds = again_.costs().cell(cell);
  CellKey key = cell.key;
  const auto* registered = find_variant(key.variant);
  if (registered != nullptr && !registered->traits.parallel) key.threads = 1;  // as it is planned
  const Cell& planned = again_.unit_of(again_.plan().cells, key.text());
  if (const auto reason = again_.reason_not_to_run(planned, cell.key.variant, seconds);
      !reason.empty()) {
    if (cell.status == "ok" && cell.exact) return stand_in(cell, reason, finding);
    throw NotRun{reason};
  }
  const Traits& traits = registered->traits;
  key.threads = std::min(key.threads, again_.settings().threads);
  Job job = untimed_job(key, again_.files(cell.key.points(), planned.task));
  job.beyond_memory = planned.task.beyond_memory;
  if (cell.status != "ok") return judge_wrong_cell(cell, job);

  // Variants that are not deterministic promise nothing, so they are certified at once.
  const bool certified_at_once = !cell.exact && !traits.deterministic;
  finding.promised = cell.exact || bits_promised(cell, traits, key.threads);
  job.repetitions = certified_at_once ? 1 : 0;
  std::string problem;
  auto reply = again_.answer(job, seconds, problem);
  if (!reply) return judge_failure(problem);
  if (reply->status == "ok" || reply->status == "wrong") {
    if (!cell.exact && !same_library(cell, *reply)) finding.promised = false;
    const auto differences = differences_of(cell, *reply);
    if (differences.empty()) {
      if (cell.exact) exact_answers_[exact_key(cell.key).text()] = *reply;
      return {Reproduced::equal, ""};
    }
    if (finding.promised) return {Reproduced::differs, joined(differences)};
    if (!certified_at_once) {
      job.repetitions = 1;
      reply = again_.answer(job, kCertifiedFactor * seconds, problem);
      if (!reply) return judge_failure(problem);
    }
  }
  return judge_certified(cell, *reply, traits, job.points_file);
}

// Deterministic variants promise bits to the same build, on the same machine, with the same
// threads, and only if they kept that promise there.
bool CellJudge::bits_promised(const CellResult& cell, const Traits& traits, int threads) const {
  return traits.deterministic && same_surroundings_ && threads == cell.key.threads &&
         member(cell.data, "bit_equal_across_processes") != false;
}

// Another variant of the same exact step gives the same bits. `reason`: why the recorded one does
// not run.
Judgement CellJudge::stand_in(const CellResult& cell, const std::string& reason, Finding& finding) {
  if (cell.key.variant == fast_exact() || !has_exact_answer(cell)) throw NotRun{reason};
  finding.promised = true;
  std::string why_not;
  const auto found = exact_answer(cell, why_not);
  if (!found) throw NotRun{reason + "; nor could " + fast_exact() + ": " + why_not};
  finding.by = fast_exact();
  const auto differences = differences_of(cell, *found);
  return {differences.empty() ? Reproduced::equal : Reproduced::differs, joined(differences)};
}

// The cell that answers for others of the same problem.
CellKey CellJudge::exact_key(CellKey key) const {
  key.variant = fast_exact();
  key.shape.precision = Precision::f32;
  key.threads = again_.settings().threads;
  key.ranks = 1;
  key.gpus = 1;
  return key;
}

bool CellJudge::has_exact_answer(const CellResult& cell) const {
  return !fast_exact().empty() &&
         again_
             .reason_not_to_run(again_.unit_of(again_.plan().cells, exact_key(cell.key).text()),
                                fast_exact(), again_.costs().exact(cell))
             .empty();
}

std::optional<JobResult> CellJudge::exact_answer(const CellResult& cell, std::string& why_not) {
  const CellKey key = exact_key(cell.key);
  if (const auto known = exact_answers_.find(key.text()); known != exact_answers_.end()) {
    return known->second;
  }
  const auto at_hand = again_.data().files(
      cell.key.dataset, again_.unit_of(again_.plan().cells, key.text()).task, why_not);
  if (!at_hand) return std::nullopt;
  Job job = untimed_job(key, *at_hand);
  job.repetitions = 0;
  auto found = again_.answer(job, again_.costs().exact(cell), why_not);
  if (!found) return std::nullopt;
  if (found->status != "ok") {
    why_not = first_line(found->reason);
    return std::nullopt;
  }
  exact_answers_[key.text()] = *found;
  return found;
}

// A cell that was found wrong must be found wrong again, by the same judge.
Judgement CellJudge::judge_wrong_cell(const CellResult& cell, Job job) {
  std::string why_not;
  if (has_exact_answer(cell)) {
    if (const auto exact = exact_answer(cell, why_not)) {
      compare_with({exact->inertia, exact->any_empty_clusters, exact->scale}, job);
    }
  }
  job.repetitions = 1;
  const auto reply = again_.answer(job, kCertifiedFactor * again_.costs().cell(cell), why_not);
  if (!reply) return judge_failure(why_not);
  if (reply->status == "wrong") {
    return {Reproduced::agrees, "wrong on record, and here: " + first_line(reply->reason)};
  }
  if (reply->status == "skipped" && cell.wrong_because == std::nullopt) {
    throw NotRun{first_line(reply->reason)};
  }
  if (!job.exact_inertia) {
    throw NotRun{"wrong on record; here there is no exact trajectory to judge it by"};
  }
  return {Reproduced::differs, "wrong on record (" + first_line(cell.reason) + "), right here"};
}

}  // namespace kmeans::reproduce_parts
