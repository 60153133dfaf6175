// SPDX-License-Identifier: Apache-2.0
//
// The table of generators: what each takes, and how it fills rows.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kmeans {

/// Raised by one when any generator's bytes change, so that no cache serves the old ones.
inline constexpr int kGeneratorVersion = 1;

struct Parameter {
  enum class Kind { integer, real };

  std::string name;
  std::string meaning;
  Kind kind = Kind::integer;
  std::optional<double> fallback;  ///< The default; absent: must be given. Integers below 2^53.
  double smallest = 0;
  double largest = 0;
};

/// Writes rows [begin, end) of a set in float64, d to a row. Called from several threads at once;
/// what it writes depends on the row's number alone.
using FillRows = std::function<void(std::int64_t begin, std::int64_t end, double* rows)>;

struct Generator {
  std::string name;
  std::string summary;
  std::vector<Parameter> parameters;
  /// Draws what the rows share (centres). Given a complete and checked description; `where` is its
  /// place for messages. Absent for sets that Python has
  /// (python_sets.h).
  std::function<FillRows(const nlohmann::json& spec)> prepare;
};

const std::vector<Generator>& generators();

/// The clusters of a set of "globular" or "globular-as-printed", whose description is complete.
struct GlobularClusters {
  std::vector<double> centres;                         ///< k x d
  std::function<std::int64_t(std::int64_t i)> centre;  ///< Of point i.
};
GlobularClusters globular_clusters(const nlohmann::json& spec);

/// Throws InputError naming the nearest known one.
const Generator& require_generator(const std::string& name);

}  // namespace kmeans
