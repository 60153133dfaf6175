// SPDX-License-Identifier: Apache-2.0
//
// A unit of work: what cells, traces, studies and fits have in common. Each is planned, prepared, run by worker
// processes, journalled and assembled into the result file.
#pragma once

#include <string>

namespace kmeans {

enum class Part { cell, trace, study, fit };

inline const char* to_string(Part part) {
  switch (part) {
    case Part::cell: return "cell";
    case Part::trace: return "trace";
    case Part::study: return "study";
    case Part::fit: return "fit";
  }
  return "";
}

struct Unit {
  std::string skip_reason;  ///< Not empty: it is not run, and this is why.
  bool selected = true;     ///< By --only and --shard.

  [[nodiscard]] bool to_run() const { return selected && skip_reason.empty(); }
};

/// All units of a plan: cells, then traces, studies and fits.
template <class AnyPlan, class Visit>
void each_unit(AnyPlan& plan, const Visit& visit) {
  for (auto& cell : plan.cells) visit(cell);
  for (auto& trace : plan.traces) visit(trace);
  for (auto& study : plan.studies) visit(study);
  for (auto& fit : plan.fits) visit(fit);
}

}  // namespace kmeans
