// SPDX-License-Identifier: Apache-2.0
//
// What every part of an experiment file names: data sets, first centroids, variants.
#include <algorithm>
#include <utility>

#include "datasets/dataset.h"
#include "harness/run/experiment_parts.h"
#include "harness/support/precision.h"
#include "harness/variants/registry.h"

namespace kmeans::experiment_parts {
namespace {

constexpr std::size_t kLongestName = 100;

bool is_name(const std::string& text) {
  const auto letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && text.size() <= kLongestName && letter_or_digit(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return letter_or_digit(c) || c == '.' || c == '_' || c == '-';
         });
}

/// A variant that is known, but not in this build, is right: its cells are skipped with the reason.
std::string known_variant(std::string name) {
  try {
    require_variant(name);
  } catch (const EnvironmentError&) {
  }
  return name;
}

}  // namespace

const std::vector<std::string>& scale_names() {
  static const std::vector<std::string> names{"quick", "paper"};
  return names;
}

std::string read_name(const JsonReader& value) {
  if (!value.present() || !value.value().is_string() || !is_name(value.text())) {
    value.fail_type("a name of A-Z a-z 0-9 . _ - that begins with a letter or digit");
  }
  return value.text();
}

nlohmann::json read_data(const JsonReader& value) {
  value.require_object();
  if (!value["generator"].present() && !value["file"].present()) {
    value.fail("must have \"generator\" or \"file\"");
  }
  for (const char* key : {"n", "d"}) {
    if (!takes_points_from_file(value.value()) && value[key].present()) {
      value[key].fail("is given by the sweep, not here");
    }
  }
  return value.value();
}

std::string read_init(const JsonReader& value) {
  value.parsed(parse_init);
  return value.text();
}

VariantChoice read_choice(const JsonReader& object, bool star_allowed) {
  VariantChoice choice;
  choice.pointer = object.pointer();
  choice.name = object["variant"].text();
  if (choice.name != "*" || !star_allowed) object["variant"].parsed(known_variant);
  const auto given = [&](const char* key) { return object[key].present(); };
  if (given("precision")) choice.precision = object["precision"].parsed(parse_precision);
  if (given("threads")) choice.threads = object["threads"].integer<int>(1, 4096);
  if (given("ranks")) choice.ranks = object["ranks"].integer<int>(1, 4096);
  if (given("gpus")) choice.gpus = object["gpus"].integer<int>(1, 4096);
  if (choice.gpus > 1 && choice.ranks > 1) {
    object["gpus"].fail("are those of one process; with \"ranks\" each rank has one");
  }
  if (given("at_most_nkd")) {
    choice.at_most_nkd =
        static_cast<double>(object["at_most_nkd"].integer(1, std::int64_t{1} << 53));
  }
  return choice;
}

VariantChoice read_variant(const JsonReader& value, bool star_allowed) {
  if (!value.value().is_string()) {
    value.allow_only({"variant", "precision", "threads", "ranks", "gpus", "at_most_nkd"});
    return read_choice(value, star_allowed);
  }
  VariantChoice choice;
  choice.pointer = value.pointer();
  choice.name = value.text();
  if (choice.name != "*" || !star_allowed) value.parsed(known_variant);
  return choice;
}

std::vector<VariantChoice> read_variants(const JsonReader& list) {
  return list.filled("name variants, or \"*\" for all").each([](const JsonReader& entry) {
    return read_variant(entry, true);
  });
}

}  // namespace kmeans::experiment_parts
