// SPDX-License-Identifier: Apache-2.0
//
// The lines that `run --turns` and `compare --run` exchange (docs/comparing.md).
#pragma once

namespace kmeans {

/// Both programs must speak the same version of the lines: `run --turns` says its own first.
constexpr int kTurnsVersion = 2;

}  // namespace kmeans
