// SPDX-License-Identifier: Apache-2.0
//
// The catalogue of generated data sets with their SHA-256 (datasets/catalogue.json).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "datasets/dataset.h"

namespace kmeans {

/// For sets that another program makes, whose last bits depend on the machine's BLAS and libm:
/// what must agree to a relative tolerance where the SHA-256 does not.
struct Landmarks {
  struct Coordinate {
    std::int64_t i = 0;
    std::int64_t t = 0;
    double value = 0;
  };
  double relative_tolerance = 0;
  double sum_of_squares = 0;  ///< over all coordinates
  std::vector<Coordinate> coordinates;
};

struct CatalogueEntry {
  DatasetSpec spec;
  ScalarType scalar = ScalarType::f32;
  std::string sha256;  ///< of the coordinates' bytes
  std::optional<Landmarks> landmarks;
};

/// Throws EnvironmentError when the file is not what it should be.
std::vector<CatalogueEntry> read_catalogue(const std::filesystem::path& file);

/// The catalogue of the source tree, read once; empty when the tree has none.
const std::vector<CatalogueEntry>& catalogue();

const CatalogueEntry* find_in_catalogue(const DatasetSpec& spec, ScalarType scalar);

/// Whether points with that SHA-256 are the ones the entry means: empty, or what is different.
std::string difference_from(const CatalogueEntry& entry, const std::string& sha256,
                            const Points& points);

}  // namespace kmeans
