// SPDX-License-Identifier: Apache-2.0
//
// Which cell is measured next: by rounds in random order, as whoever holds standard input asks, or as a
// chooser of the settings says.
#pragma once

#include <functional>
#include <vector>

#include "harness/run/measuring.h"
#include "harness/run/run_state.h"

namespace kmeans {

/// Measures the cells of a run. False: broken off, by an interruption or because whoever asked is gone.
/// Throws InputError for what was asked wrongly.
bool measure_cells(RunState& run, Measuring& measuring);

}  // namespace kmeans
