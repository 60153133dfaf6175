// SPDX-License-Identifier: Apache-2.0
//
// What commands that measure have in common before they do: what the machine takes, what spoils a
// measurement now, and the command as it was typed.
#pragma once

#include <optional>
#include <string>

#include "harness/machine/machine_check.h"
#include "harness/run/coordinator.h"
#include "harness/run/sweep.h"

namespace kmeans {

/// On standard error.
void warn(const std::string& text);

/// The command as typed, the program by its plain name, absolute paths by their last part.
std::string typed_command();

/// For plans on this machine: its memory, its GPU's, and the sizes of data sets from files.
PlanOptions plan_options_here(int threads);

struct LookAround {
  CheckOptions check{0.5, {}};
  bool require_quiet = false;
  /// Ceilings that are not kept yet are measured in a second or two, less certain; after so many seconds
  /// none is begun.
  std::optional<double> quick_ceilings{};
};

/// Warns of what spoils measurements, or refuses. Throws EnvironmentError. An InterruptGuard should
/// live.
RunSurroundings look_around(const LookAround& look, int threads);

}  // namespace kmeans
