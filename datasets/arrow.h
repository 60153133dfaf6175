// SPDX-License-Identifier: Apache-2.0
//
// Parquet, Feather and Arrow files, which pyarrow reads.
#pragma once

#include <filesystem>

#include "datasets/readers.h"

namespace kmeans {

/// By the name's ending: .parquet, .feather or .arrow.
bool is_arrow(const std::filesystem::path& file);

/// The file's table as the bytes of an npy file, under the file's own name. Throws InputError where the table
/// is not one of numbers, EnvironmentError where there is no pyarrow.
FileBytes arrow_as_npy(const std::filesystem::path& file);

}  // namespace kmeans
