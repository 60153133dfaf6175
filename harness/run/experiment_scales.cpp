// SPDX-License-Identifier: Apache-2.0
//
// The scales of an experiment file: which n, d and k, and how long each cell is measured.
#include "harness/run/experiment_parts.h"

namespace kmeans::experiment_parts {
namespace {

constexpr double kMaxShapes = 1e6;

std::optional<std::int64_t> read_iterations(const JsonReader& object) {
  const JsonReader iterations = object["iterations"];
  if (!iterations.present()) return std::nullopt;
  return iterations.integer(1, kMaxIterations);
}

std::vector<std::string> shape_keys(bool from_file) {
  if (from_file) return {"k", "iterations"};
  return {"n", "d", "k", "iterations"};
}

/// Every combination of the listed n, d and k.
void add_grid(const JsonReader& lists, bool from_file, std::vector<SweepShape>& shapes) {
  lists.allow_only(shape_keys(from_file));
  const auto sizes = [&](const char* key) {
    return lists[key].filled().each(
        [](const JsonReader& size) { return size.integer(1, kMaxSize); });
  };
  const auto iterations = read_iterations(lists);
  const auto all_k = sizes("k");
  if (from_file) {
    for (const auto k : all_k) shapes.push_back({{}, {}, k, iterations});
    return;
  }
  const auto all_n = sizes("n");
  const auto all_d = sizes("d");
  const auto count = [](const auto& list) { return static_cast<double>(list.size()); };
  if (count(all_n) * count(all_d) * count(all_k) + count(shapes) > kMaxShapes) {
    lists.fail("asks for more than a million shapes");
  }
  for (const auto n : all_n) {
    for (const auto d : all_d) {
      for (const auto k : all_k) shapes.push_back({n, d, k, iterations});
    }
  }
}

void add_shape(const JsonReader& object, bool from_file, std::vector<SweepShape>& shapes) {
  object.allow_only(shape_keys(from_file));
  shapes.push_back(read_shape(object, from_file));
  shapes.back().iterations = read_iterations(object);
}

/// One grid, or a list of grids and shapes.
std::vector<SweepShape> read_sweep(const JsonReader& sweep, bool from_file) {
  std::vector<SweepShape> shapes;
  if (!sweep.value().is_array()) {
    if (!sweep.value().is_object()) {
      sweep.fail("must be {\"n\": [...], \"d\": [...], \"k\": [...]} or a list of shapes");
    }
    add_grid(sweep, from_file, shapes);
    return shapes;
  }
  for (const JsonReader& entry : sweep.filled("give at least one shape").elements()) {
    const auto k = entry["k"];
    const bool is_grid = k.present() && k.value().is_array();
    if (is_grid) {
      add_grid(entry, from_file, shapes);
    } else {
      add_shape(entry, from_file, shapes);
    }
  }
  return shapes;
}

Scale read_scale(const JsonReader& object, const std::vector<VariantChoice>& variants,
                 bool from_file) {
  object.allow_only({"sweep", "iterations", "processes", "repetitions", "min_seconds",
                     "max_seconds", "timeout_seconds", "variants"});
  Scale scale;
  scale.iterations = read_iterations(object).value_or(scale.iterations);
  Sampling& own = scale.sampling;
  own.processes = object["processes"].integer<int>(1, 1000, own.processes);
  own.repetitions = object["repetitions"].integer<int>(1, 10000, own.repetitions);
  own.min_seconds = object["min_seconds"].number(0, 3600, own.min_seconds);
  own.max_seconds = object["max_seconds"].number(1e-3, 1e6, own.max_seconds);
  own.timeout_seconds = object["timeout_seconds"].number(0.1, 1e6, own.timeout_seconds);
  const JsonReader chosen = object["variants"];
  scale.variants = chosen.present() ? read_variants(chosen) : variants;
  scale.shapes = read_sweep(object["sweep"], from_file);
  return scale;
}

}  // namespace

SweepShape read_shape(const JsonReader& object, bool from_file) {
  SweepShape shape;
  shape.k = object["k"].integer(1, kMaxSize);
  if (from_file) return shape;
  shape.n = object["n"].integer(1, kMaxSize);
  shape.d = object["d"].integer(1, kMaxSize);
  if (shape.k > *shape.n) {
    object["k"].fail(std::to_string(shape.k) + " clusters of n = " + std::to_string(*shape.n) +
                     " points; k must be at most n");
  }
  return shape;
}

std::map<std::string, Scale> read_scales(const JsonReader& object,
                                         const std::vector<VariantChoice>& variants,
                                         bool from_file) {
  object.allow_only(scale_names());
  std::map<std::string, Scale> scales;
  for (const auto& [name, scale] : object.members()) {
    scales[name] = read_scale(scale, variants, from_file);
  }
  if (scales.empty()) object.fail("names no scale; give quick, paper or both");
  return scales;
}

}  // namespace kmeans::experiment_parts
