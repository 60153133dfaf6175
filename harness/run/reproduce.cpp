// SPDX-License-Identifier: Apache-2.0
#include "harness/run/reproduce.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "harness/machine/environment.h"
#include "harness/machine/machine.h"
#include "harness/run/plan_jobs.h"
#include "harness/run/reproduce_parts.h"
#include "harness/run/workers.h"
#include "harness/study.h"
#include "harness/support/errors.h"
#include "harness/support/process.h"
#include "harness/support/progress_line.h"
#include "harness/support/text.h"
#include "harness/variants/registry.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

using namespace reproduce_parts;
using nlohmann::json;

constexpr double kCertifiedFactor = 2;     // a certified run does everything twice
constexpr double kShortRepetition = 1e-9;  // seconds: one repetition is enough

// The exact variant that answers for others; empty where the build has none.
const std::string& fast_exact() {
  static const auto* engine = exact_engine(EngineOn::threads);
  static const std::string name = engine != nullptr ? engine->traits.name : "";
  return name;
}

bool same_library(const CellResult& cell, const JobResult& here) {
  const json recorded = member(cell.data, "library");
  return std::all_of(here.library.begin(), here.library.end(), [&](const auto& entry) {
    return member(recorded, entry.first.c_str()) == entry.second;
  });
}

// Ends a finding: there is nothing to judge.
struct NotRun {
  std::string reason;
};
struct Interrupted {};

class FileReproduction {
 public:
  FileReproduction(const ResultFile& file, const Pattern& only, const ReproduceSettings& settings,
                   const ReproduceProgress& progress)
      : file_(file),
        only_(only),
        settings_(settings),
        progress_(progress),
        memory_(static_cast<double>(available_memory())),
        costs_(file, settings),
        data_(file, settings, costs_, memory_),
        plan_(planned(file)),
        workers_(settings.worker_command, inspect_environment(), false) {
    report_.file = &file;
    report_.surroundings = surroundings_differences(file.context);
  }

  FileReport run() {
    collect();
    double left = 0;
    for (const auto& item : items_) left += item.seconds;
    for (std::size_t done = 0; done < items_.size() && !InterruptGuard::interrupted(); ++done) {
      const Item& item = items_[done];
      progress_(done, items_.size(), item.finding.name, left);
      left -= item.seconds;
      Finding finding = item.finding;
      try {
        finding.judgement = item.judge(finding);
      } catch (const NotRun& why) {
        finding.judgement = {Reproduced::not_run, why.reason};
      } catch (const Interrupted&) {
        break;
      }
      report_.findings.push_back(std::move(finding));
    }
    return std::move(report_);
  }

 private:
  struct Item {
    Finding finding;     // as it is before it ran
    double seconds = 0;  // 0 where that is left out for being too long
    std::function<Judgement(Finding&)> judge;
  };

  // --- What there is to do -------------------------------------------------------------------

  void add(std::vector<Item>& items, const char* part, const std::string& name, double estimate,
           std::function<Judgement(Finding&)> judge) const {
    Finding finding;
    finding.part = part;
    finding.name = name;
    finding.estimated_seconds = estimate;
    items.push_back(
        {std::move(finding), costs_.too_long(estimate) ? 0 : estimate, std::move(judge)});
  }

  // Is it asked for, and has it an answer?
  bool chosen(const std::string& name, bool answered) {
    if (!only_.found_in(file_.experiment) && !only_.found_in(name)) return false;
    report_.without_answer += answered ? 0 : 1;
    return answered;
  }

  void collect() {
    std::vector<Item> items;
    std::set<std::string> labels;
    for (const auto& cell : file_.cells) {
      const std::string key = cell.key.text();
      if (!chosen(key, cell.status == "ok" || cell.status == "wrong")) continue;
      labels.insert(cell.key.points());
      add(items, "cell", key, costs_.cell(cell),
          [this, &cell](Finding& finding) { return judge_cell(cell, finding); });
    }
    for (const auto& trace : file_.traces) {
      const std::string name = text_of(member(trace, "name"));
      if (!chosen(name, member(trace, "status") == "ok")) continue;
      labels.insert(data_of(trace));
      add(items, "trace", name, costs_.trace(trace),
          [this, &trace](Finding& finding) { return judge_trace_anew(trace, finding); });
    }
    for (const auto& study : file_.studies) {
      const std::string name = text_of(member(study, "name"));
      if (!chosen(name, member(study, "status") == "ok")) continue;
      if (const auto label = text_of(member(study, "dataset")); !label.empty()) {
        labels.insert(label);
      }
      add(items, "study", name, costs_.study(study),
          [this, &study](Finding& finding) { return judge_study_anew(study, finding); });
    }
    for (const auto& label : labels) {
      add(items_, "data", label, costs_.data(label), [this, label](Finding& finding) {
        finding.promised = true;
        return data_.judgement(label);
      });
    }
    std::move(items.begin(), items.end(), std::back_inserter(items_));
  }

  static std::string data_of(const json& trace) {
    return points_name(text_of(member(trace, "dataset")), member(trace, "precision") == "f64");
  }

  // --- What all of them need -----------------------------------------------------------------

  TaskFiles files(const std::string& label, const Task& task) {
    std::string why_not;
    auto found = data_.files(label, task, why_not);
    if (!found) throw NotRun{why_not};
    return *found;
  }

  // The exact variant that answers for others is planned beside those on record.
  Plan planned(const ResultFile& file) {
    std::vector<VariantChoice> further;
    if (!fast_exact().empty()) {
      further.push_back({fast_exact(), Precision::f32, settings_.threads, 1, 1, {}, ""});
    }
    try {
      return plan_of_record(file, further, memory_);
    } catch (const InputError& error) {
      not_planned_ = error.what();
    } catch (const json::exception& error) {
      not_planned_ = error.what();
    }
    return {};
  }

  // A cell, trace or study of the plan.
  template <class PlannedUnit>
  const PlannedUnit& unit_of(const std::vector<PlannedUnit>& units, const std::string& name) const {
    const auto found = std::find_if(units.begin(), units.end(),
                                    [&](const auto& unit) { return unit.name() == name; });
    if (found != units.end()) return *found;
    throw NotRun{not_planned_.empty() ? "the experiment on record does not have it" : not_planned_};
  }

  // Why a unit of this variant does not run here; empty if it does.
  [[nodiscard]] std::string reason_not_to_run(const Unit& unit, const std::string& variant,
                                              double seconds) const {
    if (!is_variant(variant)) return "this build knows no such variant (--plugin FILE adds one)";
    if (!unit.skip_reason.empty()) return unit.skip_reason;
    return costs_.too_long(seconds) ? costs_.why_too_long() : std::string();
  }

  // Absent when there is no result; `problem` says why.
  std::optional<JobResult> answer(const Job& job, double estimate, std::string& problem) {
    auto reply = workers_.run(job, RecordCosts::timeout(estimate));
    if (!reply.interrupted && reply.result.status != "error") return std::move(reply.result);
    problem = reply.interrupted ? "interrupted" : reply.result.reason;
    if (InterruptGuard::interrupted()) throw Interrupted{};
    return std::nullopt;
  }

  [[nodiscard]] Job untimed_job(const CellKey& key, const TaskFiles& at_hand) const {
    Job job = job_of(key, at_hand);
    job.min_seconds = kShortRepetition;
    job.verify_threads = settings_.threads;
    return job;
  }

  // --- Cells ---------------------------------------------------------------------------------

  Judgement judge_cell(const CellResult& cell, Finding& finding) {
    const double seconds = costs_.cell(cell);
    CellKey key = cell.key;
    const auto* registered = find_variant(key.variant);
    if (registered != nullptr && !registered->traits.parallel) key.threads = 1;  // as it is planned
    const Cell& planned = unit_of(plan_.cells, key.text());
    if (const auto reason = reason_not_to_run(planned, cell.key.variant, seconds);
        !reason.empty()) {
      if (cell.status == "ok" && cell.exact) return stand_in(cell, reason, finding);
      throw NotRun{reason};
    }
    const Traits& traits = registered->traits;
    key.threads = std::min(key.threads, settings_.threads);
    Job job = untimed_job(key, files(cell.key.points(), planned.task));
    if (cell.status != "ok") return judge_wrong_cell(cell, job);

    // Variants that are not deterministic promise nothing, so they are certified at once.
    const bool certified_at_once = !cell.exact && !traits.deterministic;
    finding.promised = cell.exact || bits_promised(cell, traits, key.threads);
    job.repetitions = certified_at_once ? 1 : 0;
    std::string problem;
    auto reply = answer(job, seconds, problem);
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
        reply = answer(job, kCertifiedFactor * seconds, problem);
        if (!reply) return judge_failure(problem);
      }
    }
    return judge_certified(cell, *reply, traits, job.points_file);
  }

  // Deterministic variants promise bits to the same build, on the same machine, with the same
  // threads, and only if they kept that promise there.
  [[nodiscard]] bool bits_promised(const CellResult& cell, const Traits& traits,
                                   int threads) const {
    return traits.deterministic && report_.surroundings.empty() && threads == cell.key.threads &&
           member(cell.data, "bit_equal_across_processes") != false;
  }

  // Another variant of the same exact step gives the same bits. `reason`: why the recorded one does
  // not run.
  Judgement stand_in(const CellResult& cell, const std::string& reason, Finding& finding) {
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
  [[nodiscard]] CellKey exact_key(CellKey key) const {
    key.variant = fast_exact();
    key.shape.precision = Precision::f32;
    key.threads = settings_.threads;
    key.ranks = 1;
    key.gpus = 1;
    return key;
  }

  [[nodiscard]] bool has_exact_answer(const CellResult& cell) const {
    return !fast_exact().empty() &&
           reason_not_to_run(unit_of(plan_.cells, exact_key(cell.key).text()), fast_exact(),
                             costs_.exact(cell))
               .empty();
  }

  std::optional<JobResult> exact_answer(const CellResult& cell, std::string& why_not) {
    const CellKey key = exact_key(cell.key);
    if (const auto known = exact_answers_.find(key.text()); known != exact_answers_.end()) {
      return known->second;
    }
    const auto at_hand =
        data_.files(cell.key.dataset, unit_of(plan_.cells, key.text()).task, why_not);
    if (!at_hand) return std::nullopt;
    Job job = untimed_job(key, *at_hand);
    job.repetitions = 0;
    auto found = answer(job, costs_.exact(cell), why_not);
    if (!found) return std::nullopt;
    if (found->status != "ok") {
      why_not = first_line(found->reason);
      return std::nullopt;
    }
    exact_answers_[key.text()] = *found;
    return found;
  }

  // A cell that was found wrong must be found wrong again, by the same judge.
  Judgement judge_wrong_cell(const CellResult& cell, Job job) {
    std::string why_not;
    if (has_exact_answer(cell)) {
      if (const auto exact = exact_answer(cell, why_not)) {
        compare_with({exact->inertia, exact->any_empty_clusters, exact->scale}, job);
      }
    }
    job.repetitions = 1;
    const auto reply = answer(job, kCertifiedFactor * costs_.cell(cell), why_not);
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

  // --- Traces and studies --------------------------------------------------------------------

  [[nodiscard]] bool is_exact(const std::string& variant) const {
    if (const auto* registered = find_variant(variant)) return registered->traits.exact;
    return std::any_of(file_.cells.begin(), file_.cells.end(), [&](const CellResult& cell) {
      return cell.key.variant == variant && cell.exact;
    });
  }

  // May the fast exact variant answer for another on this shape?
  [[nodiscard]] bool fast_exact_fits(const Shape& shape) const {
    const auto* engine = find_variant(fast_exact());
    return engine != nullptr && availability(*engine).ok && supports(*engine, shape).ok &&
           memory_need(*engine, shape, settings_.threads) <= memory_;
  }

  Judgement judge_trace_anew(const json& trace, Finding& finding) {
    PlannedTrace planned = unit_of(plan_.traces, finding.name);
    const double seconds = costs_.trace(trace);
    const std::string variant = text_of(member(trace, "variant"));
    const bool exact = is_exact(variant);
    const int recorded_threads = planned.threads;
    planned.spec.variant.name = variant;
    if (const auto reason = reason_not_to_run(planned, variant, seconds); !reason.empty()) {
      const bool another =
          exact && !costs_.too_long(seconds) && fast_exact_fits(planned.task.shape);
      if (!another) throw NotRun{reason};
      planned.spec.variant.name = fast_exact();
      finding.by = fast_exact();
    }
    const TaskFiles at_hand = files(data_of(trace), planned.task);
    const Traits& traits = find_variant(planned.spec.variant.name)->traits;
    planned.threads = traits.parallel ? std::min(recorded_threads, settings_.threads) : 1;
    // They are drawn, and judged where they are measured.
    planned.spec.keep_points = 0;
    planned.spec.expected = nullptr;
    const TraceJob job = job_of(planned, at_hand, settings_.threads);
    finding.promised = exact || (traits.deterministic && report_.surroundings.empty() &&
                                 job.threads == recorded_threads);
    const json here = result_of(workers_.run(job, RecordCosts::timeout(seconds)));
    if (member(here, "status") == "error") return judge_failure(text_of(member(here, "reason")));
    return judge_trace(trace, here, finding.promised, [&] {
      const json told = member(here, "trajectory");
      const json largest = member(told, "max_abs");
      return repetition_floor(traits, planned.task.shape, scale_from_json(member(told, "scale")),
                              largest.is_number() ? largest.get<double>() : 0);
    });
  }

  static json result_of(Workers::Record reply) {
    if (reply.interrupted) throw Interrupted{};
    return std::move(reply.result);
  }

  Judgement judge_study_anew(const json& study, Finding& finding) {
    finding.promised = true;
    const std::string kind = text_of(member(study, "study"));
    const auto& known = all_studies();
    if (std::none_of(known.begin(), known.end(),
                     [&](const Study& one) { return one.name == kind; })) {
      throw NotRun{"this build knows no study '" + kind + "'"};
    }
    const PlannedStudy& planned = unit_of(plan_.studies, finding.name);
    const double seconds = costs_.study(study);
    if (costs_.too_long(seconds)) throw NotRun{costs_.why_too_long()};
    std::optional<TaskFiles> at_hand;
    if (planned.task) at_hand = files(text_of(member(study, "dataset")), *planned.task);
    const StudyJob job = job_of(planned, at_hand ? &*at_hand : nullptr, settings_.threads);
    const json here = result_of(workers_.run(job, RecordCosts::timeout(seconds)));
    if (member(here, "status") == "error") return judge_failure(text_of(member(here, "reason")));
    return judge_study(study, here);
  }

  const ResultFile& file_;
  const Pattern& only_;
  const ReproduceSettings& settings_;
  const ReproduceProgress& progress_;
  const double memory_;
  const RecordCosts costs_;
  RecordedData data_;
  std::string not_planned_;  ///< Why there is no plan.
  const Plan plan_;
  Workers workers_;
  FileReport report_;
  std::vector<Item> items_;
  std::map<std::string, JobResult> exact_answers_;
};

}  // namespace

FileReport reproduce(const ResultFile& file, const Pattern& only, const ReproduceSettings& settings,
                     const ReproduceProgress& progress) {
  return FileReproduction(file, only, settings, progress).run();
}

}  // namespace kmeans
