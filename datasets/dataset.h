// SPDX-License-Identifier: Apache-2.0
//
// Data sets by description: a generator with its parameters, or the user's file; kept in a cache.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "datasets/points.h"

namespace kmeans {

/// {"generator": "uniform", "n": 1000, "d": 2, "seed": 1, ...}, or {"file": "x.fvecs", ...}.
/// Which keys a generator takes stands in docs/datasets.md.
struct DatasetSpec {
  nlohmann::json json;  ///< Normalised: defaults filled in, keys sorted.

  /// Short, for tables and file names: "uniform-1000x2-s1". Different sets have different labels.
  [[nodiscard]] std::string label() const;
};

class JsonReader;

/// Checks and completes a description. Throws InputError naming the place of a fault, the nearest
/// valid key for a typo, and the admitted range.
DatasetSpec read_dataset(const JsonReader& given);

/// The same of a value that stands in no document; `where` begins the places.
DatasetSpec parse_dataset(const nlohmann::json& json, const std::string& where = "");

/// A data set on disk as npy, ready to be memory-mapped.
struct StoredDataset {
  std::filesystem::path file;
  std::string sha256;  ///< Of the coordinates' bytes (without the npy header).
  std::int64_t n = 0;
  std::int64_t d = 0;
  ScalarType scalar = ScalarType::f32;
  std::int64_t points_dropped = 0;   ///< For NaN or infinity, where the description asks for it.
  std::vector<std::string> notes{};  ///< On how a file was understood (LoadOptions::notes).
  std::string rounded{};             ///< Of a file (LoadOptions::rounded).
};

/// Returns the cached data set, or makes it. A cached file whose checksum record does not fit is
/// discarded and made again; a generated set that the catalogue (datasets/catalogue.json) knows
/// must have the SHA-256 given there, or EnvironmentError is thrown. float32 is the float64 set
/// rounded to nearest. What a file leaves open is said on standard error, once by each program.
StoredDataset materialise(const DatasetSpec& spec, ScalarType scalar,
                          const std::filesystem::path& cache);

/// Whether materialise() has something to look at: it writes no new file then, unless that is damaged.
bool is_in_cache(const DatasetSpec& spec, ScalarType scalar, const std::filesystem::path& cache);

/// Generates into memory, without the cache. Throws InputError for "file" and scikit-learn sets.
Points generate(const DatasetSpec& spec, ScalarType scalar);

/// How the first centroids are chosen: "first", "random:SEED", "rows:1,3,6,8", "kmeans++:SEED", "ward:SEED",
/// "threshold:T" and "threshold-as-printed:T" (marinai2023: squared distance), or the path of a file
/// with k x d coordinates.
struct InitSpec {
  enum class Method {
    first,
    random,
    rows,
    kmeans_plus_plus,
    ward,
    threshold,
    threshold_as_printed,
    file
  } method;
  std::uint64_t seed = 0;
  std::vector<std::int64_t> rows;
  double threshold = 0;
  std::filesystem::path file;
};

/// Throws InputError naming what is wrong and the admitted forms.
InitSpec parse_init(const std::string& text);

/// k x d initial centroids in the points' scalar. Deterministic: same points, k and spec give the
/// same bytes on every machine. Throws InputError (rows out of range, k > n, threshold: "only 3 of
/// 5 points are further apart than ...", file of a wrong shape). `weights`, n integers that add up to at most
/// 2^53, matter to kmeans++ and ward. `gpu`: these two, of float32 points, are chosen on the GPU in use, if it takes
/// them. `largest`: the largest |coordinate|, where it is known.
Points initial_centroids(const Points& points, std::int64_t k, const InitSpec& init,
                         const std::int64_t* weights = nullptr, bool gpu = false,
                         std::optional<double> largest = std::nullopt);

}  // namespace kmeans
