// SPDX-License-Identifier: Apache-2.0
#include "datasets/catalogue.h"

#include <algorithm>
#include <cmath>
#include <fstream>

#include "harness/support/build_info.h"
#include "harness/support/errors.h"

namespace kmeans {
namespace {

using nlohmann::json;

double coordinate(const Points& points, std::int64_t index) {
  return points.scalar() == ScalarType::f32 ? static_cast<double>(points.data<float>()[index])
                                            : points.data<double>()[index];
}

CatalogueEntry parse_entry(const json& item, const std::string& where) {
  CatalogueEntry entry;
  entry.spec = parse_dataset(item.at("spec"), where + "/spec");
  const auto scalar = item.at("scalar").get<std::string>();
  if (scalar != "f32" && scalar != "f64") throw InputError(where + "/scalar: must be f32 or f64");
  entry.scalar = scalar == "f32" ? ScalarType::f32 : ScalarType::f64;
  entry.sha256 = item.at("sha256").get<std::string>();
  if (item.contains("landmarks")) {
    const json& given = item.at("landmarks");
    Landmarks landmarks;
    landmarks.relative_tolerance = given.at("relative_tolerance").get<double>();
    landmarks.sum_of_squares = given.at("sum_of_squares").get<double>();
    for (const auto& row : given.at("coordinates")) {
      landmarks.coordinates.push_back(
          {row.at(0).get<std::int64_t>(), row.at(1).get<std::int64_t>(), row.at(2).get<double>()});
    }
    entry.landmarks = std::move(landmarks);
  }
  return entry;
}

std::string difference_from(const Landmarks& landmarks, const Points& points) {
  const auto agrees = [&](double value, double expected) {
    return std::abs(value - expected) <= landmarks.relative_tolerance * std::abs(expected);
  };
  for (const auto& mark : landmarks.coordinates) {
    const double value = coordinate(points, mark.i * points.d() + mark.t);
    if (!agrees(value, mark.value)) {
      return "point " + std::to_string(mark.i) + ", coordinate " + std::to_string(mark.t) + " is " +
             json(value).dump() + " instead of " + json(mark.value).dump();
    }
  }
  double sum = 0;
  for (std::int64_t i = 0; i < points.n(); ++i) {
    double row = 0;  // sums of rows keep the rounding error far below the tolerance
    for (std::int64_t t = 0; t < points.d(); ++t) {
      const double value = coordinate(points, i * points.d() + t);
      row += value * value;
    }
    sum += row;
  }
  if (agrees(sum, landmarks.sum_of_squares)) return "";
  return "the sum of squares is " + json(sum).dump() + " instead of " +
         json(landmarks.sum_of_squares).dump();
}

}  // namespace

std::vector<CatalogueEntry> read_catalogue(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) throw EnvironmentError(file.string() + ": cannot be opened");
  std::vector<CatalogueEntry> entries;
  try {
    const json content = json::parse(in);
    const json& items = content.at("entries");
    for (std::size_t i = 0; i < items.size(); ++i) {
      entries.push_back(parse_entry(items.at(i), "/entries/" + std::to_string(i)));
    }
  } catch (const std::exception& error) {
    throw EnvironmentError(file.string() + ": is not a valid catalogue: " + error.what());
  }
  return entries;
}

const std::vector<CatalogueEntry>& catalogue() {
  static const std::vector<CatalogueEntry> entries = [] {
    const std::filesystem::path file =
        std::filesystem::path(source_root()) / "datasets" / "catalogue.json";
    // A program that was moved away from its sources still works; nothing is known then.
    return std::filesystem::exists(file) ? read_catalogue(file) : std::vector<CatalogueEntry>();
  }();
  return entries;
}

const CatalogueEntry* find_in_catalogue(const DatasetSpec& spec, ScalarType scalar) {
  const auto& entries = catalogue();
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) {
    return entry.scalar == scalar && entry.spec.json == spec.json;
  });
  return found == entries.end() ? nullptr : &*found;
}

std::string difference_from(const CatalogueEntry& entry, const std::string& sha256,
                            const Points& points) {
  if (sha256 == entry.sha256) return "";
  if (entry.landmarks) return difference_from(*entry.landmarks, points);
  return "SHA-256 " + sha256 + " instead of " + entry.sha256;
}

}  // namespace kmeans
