// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace kmeans {

/// A sentence on what float32 does not hold of a float64 npy file, or of the digits in a .csv, .tsv or .txt
/// file, with the first such coordinate; empty where it holds all. Other formats are not looked at.
std::string lost_by_float32(const std::filesystem::path& file, std::int64_t csv_drop_last);

}  // namespace kmeans
