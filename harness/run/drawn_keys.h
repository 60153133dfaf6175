// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "harness/run/experiment.h"

namespace kmeans {

/// What an experiment says of its source and its pictures (`published`, `claims`, `figures`) is
/// read by plots/ alone, hours after it was written. So that a mistake there is reported before
/// anything is measured, plots/check.py is asked: throws InputError with its lines,
/// "file:line:column: /pointer: reason". Returns why it could not be asked, or "".
std::string check_drawn_keys(const std::vector<const Experiment*>& experiments);

}  // namespace kmeans
