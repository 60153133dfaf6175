// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace kmeans {

/// A sentence on what float32 does not hold of a float64 npy file, with the first such coordinate; empty
/// where it holds all. Other formats are not looked at.
std::string lost_by_float32(const std::filesystem::path& file);

}  // namespace kmeans
