// SPDX-License-Identifier: Apache-2.0
//
// Between a description and its bytes: what generating into memory and into the cache share.
#pragma once

#include <cstdint>

#include "datasets/dataset.h"
#include "datasets/generators.h"

namespace kmeans {

/// The row generator of a description. Throws InputError for files and scikit-learn sets.
FillRows prepare_rows(const DatasetSpec& spec);

/// Writes rows [begin, end) to `out` from all threads; float32 is the float64 rounded to nearest.
void fill_rows(const FillRows& fill, std::int64_t d, ScalarType scalar, std::int64_t begin,
               std::int64_t end, void* out);

/// How a "file" description wants its file read.
LoadOptions load_options(const DatasetSpec& spec);

}  // namespace kmeans
