// SPDX-License-Identifier: Apache-2.0
#include "harness/run/reproduce.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "harness/run/estimators.h"
#include "harness/run/plan_jobs.h"
#include "harness/run/reproduce_parts.h"
#include "harness/study.h"
#include "harness/support/only.h"
#include "harness/support/process.h"
#include "harness/variants/registry.h"
#include "harness/verify/session.h"

namespace kmeans {
namespace {

using namespace reproduce_parts;
using nlohmann::json;

class FileReproduction {
 public:
  FileReproduction(const ResultFile& file, const Pattern& only, const ReproduceSettings& settings,
                   const ReproduceProgress& progress)
      : file_(file),
        only_(only),
        progress_(progress),
        report_{&file, surroundings_differences(file.context), {}, 0},
        again_(file, settings),
        cells_(again_, report_.surroundings.empty()) {}

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
        {std::move(finding), again_.costs().too_long(estimate) ? 0 : estimate, std::move(judge)});
  }

  // Is it asked for, and has it an answer?
  bool chosen(const std::string& name, bool answered) {
    if (!takes(only_, {file_.experiment, name})) return false;
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
      add(items, "cell", key, again_.costs().cell(cell),
          [this, &cell](Finding& finding) { return cells_.judge(cell, finding); });
    }
    for (const auto& trace : file_.traces) {
      const std::string name = text_of(member(trace, "name"));
      if (!chosen(name, member(trace, "status") == "ok")) continue;
      labels.insert(data_of(trace));
      add(items, "trace", name, again_.costs().trace(trace),
          [this, &trace](Finding& finding) { return judge_trace_anew(trace, finding); });
    }
    for (const auto& study : file_.studies) {
      const std::string name = text_of(member(study, "name"));
      if (!chosen(name, member(study, "status") == "ok")) continue;
      if (const auto label = text_of(member(study, "dataset")); !label.empty()) {
        labels.insert(label);
      }
      add(items, "study", name, again_.costs().study(study),
          [this, &study](Finding& finding) { return judge_study_anew(study, finding); });
    }
    for (const auto& fit : file_.fits) {
      const std::string name = text_of(member(fit, "name"));
      if (!chosen(name, !exact_estimators(fit).empty())) continue;
      labels.insert(text_of(member(fit, "dataset")));
      add(items, "fit", name, again_.costs().fit(fit),
          [this, &fit](Finding& finding) { return judge_fit_anew(fit, finding); });
    }
    for (const auto& label : labels) {
      add(items_, "data", label, again_.costs().data(label), [this, label](Finding& finding) {
        finding.promised = true;
        return again_.data().judgement(label);
      });
    }
    std::move(items.begin(), items.end(), std::back_inserter(items_));
  }

  static std::string data_of(const json& trace) {
    return points_name(text_of(member(trace, "dataset")), member(trace, "precision") == "f64");
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
           memory_need(*engine, shape, again_.settings().threads) <= again_.memory();
  }

  Judgement judge_trace_anew(const json& trace, Finding& finding) {
    PlannedTrace planned = again_.unit_of(again_.plan().traces, finding.name);
    const double seconds = again_.costs().trace(trace);
    const std::string variant = text_of(member(trace, "variant"));
    const bool exact = is_exact(variant);
    const int recorded_threads = planned.threads;
    planned.spec.variant.name = variant;
    if (const auto reason = again_.reason_not_to_run(planned, variant, seconds); !reason.empty()) {
      const bool another =
          exact && !again_.costs().too_long(seconds) && fast_exact_fits(planned.task.shape);
      if (!another) throw NotRun{reason};
      planned.spec.variant.name = fast_exact();
      finding.by = fast_exact();
    }
    const TaskFiles at_hand = again_.files(data_of(trace), planned.task);
    const Traits& traits = find_variant(planned.spec.variant.name)->traits;
    planned.threads = traits.parallel ? std::min(recorded_threads, again_.settings().threads) : 1;
    // They are drawn, and judged where they are measured.
    planned.spec.keep_points = 0;
    planned.spec.expected = nullptr;
    const TraceJob job = job_of(planned, at_hand, again_.settings().threads);
    finding.promised = exact || (traits.deterministic && report_.surroundings.empty() &&
                                 job.threads == recorded_threads);
    const json here = result_of(again_.workers().run(job, RecordCosts::timeout(seconds)));
    if (member(here, "status") == "error") return judge_failure(text_of(member(here, "reason")));
    return judge_trace(trace, here, finding.promised, [&] {
      const json trajectory = member(here, "trajectory");
      const json largest = member(trajectory, "max_abs");
      return repetition_floor(traits, planned.task.shape,
                              scale_from_json(member(trajectory, "scale")),
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
    const PlannedStudy& planned = again_.unit_of(again_.plan().studies, finding.name);
    const double seconds = again_.costs().study(study);
    if (again_.costs().too_long(seconds)) throw NotRun{again_.costs().why_too_long()};
    std::optional<TaskFiles> at_hand;
    if (planned.task) at_hand = again_.files(text_of(member(study, "dataset")), *planned.task);
    const StudyJob job = job_of(planned, at_hand ? &*at_hand : nullptr, again_.settings().threads);
    const json here = result_of(again_.workers().run(job, RecordCosts::timeout(seconds)));
    if (member(here, "status") == "error") return judge_failure(text_of(member(here, "reason")));
    return judge_study(study, here);
  }

  Judgement judge_fit_anew(const json& fit, Finding& finding) {
    finding.promised = true;
    const PlannedFit& planned = again_.unit_of(again_.plan().fits, finding.name);
    const double seconds = again_.costs().fit(fit);
    if (again_.costs().too_long(seconds)) throw NotRun{again_.costs().why_too_long()};
    const TaskFiles at_hand = again_.files(text_of(member(fit, "dataset")), planned.task);
    FitJob job = job_of(planned, at_hand, again_.settings().threads);
    const auto promised = exact_estimators(fit);
    std::erase_if(job.estimators, [&](const std::string& name) {
      return std::find(promised.begin(), promised.end(), estimator_name(name)) == promised.end();
    });
    if (job.estimators.empty()) throw NotRun{"this build has none of its exact estimators"};
    job.max_seconds = RecordCosts::timeout(seconds);
    const json here = result_of(again_.workers().run(job, RecordCosts::timeout(seconds)));
    if (member(here, "status") == "error") return judge_failure(text_of(member(here, "reason")));
    if (member(here, "status") == "skipped") throw NotRun{text_of(member(here, "reason"))};
    return judge_fit(fit, here);
  }

  const ResultFile& file_;
  const Pattern& only_;
  const ReproduceProgress& progress_;
  FileReport report_;
  Repetition again_;
  CellJudge cells_;
  std::vector<Item> items_;
};

}  // namespace

FileReport reproduce(const ResultFile& file, const Pattern& only, const ReproduceSettings& settings,
                     const ReproduceProgress& progress) {
  return FileReproduction(file, only, settings, progress).run();
}

}  // namespace kmeans
