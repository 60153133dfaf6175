// SPDX-License-Identifier: Apache-2.0
//
// The plan of a record, its data, and processes that run its units again.
#include "harness/machine/environment.h"
#include "harness/machine/machine.h"
#include "harness/run/reproduce_parts.h"
#include "harness/support/errors.h"
#include "harness/support/process.h"
#include "harness/variants/registry.h"

namespace kmeans::reproduce_parts {

using nlohmann::json;

const std::string& fast_exact() {
  static const auto* engine = exact_engine(EngineOn::threads);
  static const std::string name = engine != nullptr ? engine->traits.name : "";
  return name;
}

Repetition::Repetition(const ResultFile& file, const ReproduceSettings& settings)
    : settings_(settings),
      memory_(static_cast<double>(available_memory())),
      costs_(file, settings),
      data_(file, settings, costs_, memory_),
      plan_(planned(file)),
      workers_(settings.worker_command, inspect_environment(), false) {}

TaskFiles Repetition::files(const std::string& label, const Task& task) {
  std::string why_not;
  auto found = data_.files(label, task, why_not);
  if (!found) throw NotRun{why_not};
  return *found;
}

// The exact variant that answers for others is planned next to those on record.
Plan Repetition::planned(const ResultFile& file) {
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

std::string Repetition::reason_not_to_run(const Unit& unit, const std::string& variant,
                                          double seconds) const {
  if (!is_variant(variant)) return "this build knows no such variant (--plugin FILE adds one)";
  if (!unit.skip_reason.empty()) return unit.skip_reason;
  return costs_.too_long(seconds) ? costs_.why_too_long() : std::string();
}

std::optional<JobResult> Repetition::answer(const Job& job, double estimate, std::string& problem) {
  auto reply = workers_.run(job, RecordCosts::timeout(estimate));
  if (!reply.interrupted && reply.result.status != "error") return std::move(reply.result);
  problem = reply.interrupted ? "interrupted" : reply.result.reason;
  if (InterruptGuard::interrupted()) throw Interrupted{};
  return std::nullopt;
}

}  // namespace kmeans::reproduce_parts
