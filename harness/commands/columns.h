// SPDX-License-Identifier: Apache-2.0
//
// Tables on a terminal.
#pragma once

#include <string>
#include <vector>

namespace kmeans {

/// Lines of as many entries each, as columns that are as wide as their widest entry: the first two
/// and the last to the left, numbers between them to the right.
std::string aligned(const std::vector<std::vector<std::string>>& lines);

}  // namespace kmeans
