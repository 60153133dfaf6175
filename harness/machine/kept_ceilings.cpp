// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/kept_ceilings.h"

#include <cmath>
#include <cstdio>
#include <system_error>

#include "harness/support/atomic_file.h"
#include "harness/support/errors.h"
#include "harness/support/json_file.h"
#include "harness/support/sha256.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

// Decades beyond any machine there is, so that only nonsense is refused.
constexpr double kLeastRate = 1e-3;  // GB/s or GFLOP/s
constexpr double kMaxGigabytes = 1e6;
constexpr double kMaxGigaflops = 1e9;
constexpr double kLeastSeconds = 1e-12;
constexpr double kMaxSeconds = 10;

struct Range {
  double least;
  double most;
};

/// By the name of the outermost key, which says the unit.
Range range_of(const std::string& quantity) {
  if (quantity.find("gflops") != std::string::npos) return {kLeastRate, kMaxGigaflops};
  if (quantity.find("gbytes") != std::string::npos) return {kLeastRate, kMaxGigabytes};
  return {kLeastSeconds, kMaxSeconds};
}

std::string unreasonable_value(const json& value, const std::string& name, const Range& range) {
  if (value.is_null()) return "";  // could not be measured
  if (!value.is_number()) return name + " is " + to_line(value).substr(0, 40) + ", not a number";
  const auto number = value.get<double>();
  if (std::isfinite(number) && number >= range.least && number <= range.most) return "";
  return name + " is " + to_line(value).substr(0, 40) + ", outside of [" +
         json(range.least).dump() + ", " + json(range.most).dump() + "]";
}

std::string unreasonable_quantity(const json& value, const std::string& name) {
  const Range range = range_of(name);
  if (!value.is_object()) return unreasonable_value(value, name, range);
  for (const auto& [key, part] : value.items()) {
    if (key == "library" && !part.is_string() && !part.is_null()) {
      return pointer_to(name, key) + " is not a name";
    }
    if (key == "library") continue;
    const auto why = unreasonable_value(part, pointer_to(name, key), range);
    if (!why.empty()) return why;
  }
  return "";
}

std::string unreasonable_details(const json& details) {
  if (!details.is_object()) return "details is not an object";
  if (details.value("disturbed", json()) != json(false)) return "details/disturbed is not false";
  const json notes = details.value("notes", json());
  if (!notes.is_array()) return "details/notes is not a list";
  for (const auto& note : notes) {
    if (!note.is_string()) return "details/notes holds what is not text";
  }
  return "";
}

/// Why the file's measurements cannot be used, or "".
std::string unreasonable_file(const json& kept) {
  if (kept.contains("ceilings")) {
    const auto why = detail::unreasonable_ceilings(kept["ceilings"]);
    if (!why.empty()) return why;
  }
  if (!kept.contains("gpus")) return "";
  if (!kept["gpus"].is_object()) return "gpus is not an object";
  for (const auto& [key, ceilings] : kept["gpus"].items()) {
    const auto why = detail::unreasonable_ceilings(ceilings);
    if (!why.empty()) return "of a GPU, " + why;
  }
  return "";
}

std::string why_not(const json& kept) {
  if (!kept.is_object() || !kept.contains("fingerprint")) return "it holds no measurements";
  json said = kept;
  said.erase("sha256");
  if (!kept.contains("sha256")) return "its hash is missing";
  if (detail::sealed(said) != kept) return "its hash does not fit what it says";
  return unreasonable_file(kept);
}

}  // namespace

namespace detail {

json sealed(json measurements) {
  measurements.erase("sha256");
  const std::string text = to_line(measurements);
  measurements["sha256"] = sha256_hex(text.data(), text.size());
  return measurements;
}

std::string unreasonable_ceilings(const json& ceilings) {
  if (!ceilings.is_object()) return "the ceilings are not an object";
  for (const char* needed :
       {"read_gbytes_per_second", "copy_gbytes_per_second", "fma_gflops", "gemm_gflops"}) {
    if (!ceilings.contains(needed)) return std::string(needed) + " is missing";
  }
  for (const char* needed : {"fma_gflops", "gemm_gflops"}) {
    if (!ceilings[needed].is_object()) return std::string(needed) + " is not an object";
  }
  for (const auto& [name, value] : ceilings.items()) {
    const auto why =
        name == "details" ? unreasonable_details(value) : unreasonable_quantity(value, name);
    if (!why.empty()) return why;
  }
  return ceilings.contains("details") ? "" : "details are missing";
}

}  // namespace detail

json read_kept_ceilings(const std::filesystem::path& file, const std::string& fingerprint) {
  const json nothing{{"fingerprint", fingerprint}};
  std::error_code error;
  if (std::filesystem::symlink_status(file, error).type() ==
      std::filesystem::file_type::not_found) {
    return nothing;
  }
  std::string why;
  try {
    json kept = read_json_file(file);
    why = why_not(kept);
    if (why.empty()) return kept["fingerprint"] == fingerprint ? kept : nothing;
  } catch (const std::exception& problem) {
    why = problem.what();
  }
  std::fprintf(stderr, "kmeans-bench: the kept ceilings are not used, and measured again: %s: %s\n",
               printable(file.filename().string()).c_str(), printable(why).c_str());
  return nothing;
}

void keep_ceilings(const std::filesystem::path& file, const json& measurements) {
  try {
    std::error_code ignored;
    std::filesystem::create_directories(file.parent_path(), ignored);
    make_way(file);
    write_json_file(file, detail::sealed(measurements));
  } catch (const OutputError&) {
    // Said by those whose output matters.
  }
}

}  // namespace kmeans
