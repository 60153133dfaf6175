// SPDX-License-Identifier: Apache-2.0
//
// Headers of NumPy's npy format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kmeans {

/// The bytes that precede the coordinates of a C-ordered npy 1.0 file; a multiple of 64 long, so
/// that mapped coordinates are aligned. `descr` is NumPy's name of the type, e.g. "<f4".
std::string npy_header(const std::string& descr, const std::vector<std::int64_t>& shape);

}  // namespace kmeans
