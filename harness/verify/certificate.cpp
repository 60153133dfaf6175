// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include "harness/verify/verify.h"

namespace kmeans {

void Certificate::add(std::string name, bool ok, std::string detail) {
  passed = passed && ok;
  checks.push_back({std::move(name), ok, std::move(detail)});
}

void Certificate::merge(const Certificate& other, const std::string& prefix) {
  for (const auto& check : other.checks) {
    add(prefix + check.name, check.passed, check.detail);
  }
  points_checked = std::max(points_checked, other.points_checked);
  points_total = std::max(points_total, other.points_total);
  sample_seed = other.sample_seed;
  labels_differing = std::max(labels_differing, other.labels_differing);
  largest_excess = std::max(largest_excess, other.largest_excess);
  largest_excess_of_bound = std::max(largest_excess_of_bound, other.largest_excess_of_bound);
  centroid_error_of_bound = std::max(centroid_error_of_bound, other.centroid_error_of_bound);
}

std::string Certificate::failure() const {
  for (const auto& check : checks) {
    if (!check.passed) return check.name + ": " + check.detail;
  }
  return "";
}

nlohmann::json to_json(const Certificate& certificate) {
  // JSON has no infinity; a certificate that is infinitely far off says so in its checks.
  const auto number = [](double value) {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
  };
  nlohmann::json checks = nlohmann::json::array();
  for (const auto& check : certificate.checks) {
    checks.push_back({{"name", check.name}, {"passed", check.passed}, {"detail", check.detail}});
  }
  return {
      {"passed", certificate.passed},
      {"checks", checks},
      {"points_checked", certificate.points_checked},
      {"points_total", certificate.points_total},
      {"sample_seed", certificate.sample_seed},
      {"labels_differing", number(certificate.labels_differing)},
      {"largest_excess", number(certificate.largest_excess)},
      {"largest_excess_of_bound", number(certificate.largest_excess_of_bound)},
      {"centroid_error_of_bound", number(certificate.centroid_error_of_bound)},
      {"inertia_relative_difference", certificate.inertia_relative_difference
                                          ? number(*certificate.inertia_relative_difference)
                                          : nlohmann::json(nullptr)},
  };
}

}  // namespace kmeans
