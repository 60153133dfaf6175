// SPDX-License-Identifier: Apache-2.0
#include "datasets/dataset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <utility>

#include "datasets/generate.h"
#include "datasets/generators.h"
#include "datasets/readers.h"
#include "harness/support/errors.h"
#include "harness/support/parallel.h"
#include "harness/support/sha256.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<const char*, FileFormat>, 8> kFormats{
    {{"automatic", FileFormat::automatic},
     {"npy", FileFormat::npy},
     {"csv", FileFormat::csv},
     {"fvecs", FileFormat::fvecs},
     {"bvecs", FileFormat::bvecs},
     {"fbin", FileFormat::fbin},
     {"idx", FileFormat::idx},
     {"libsvm", FileFormat::libsvm}}};

// Parts of messages: "/datasets/0/n".
std::string pointer(const std::string& where, const std::string& key) {
  return where + "/" + valid_utf8(key);
}

std::string number_text(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return std::to_string(static_cast<std::int64_t>(value));
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", value);
  return text.data();
}

json checked_value(const Parameter& parameter, const json& value, const std::string& place) {
  const bool integral = parameter.kind == Parameter::Kind::integer;
  const std::string admitted = std::string(integral ? "an integer" : "a number") + " in [" +
                               number_text(parameter.smallest) + ", " +
                               number_text(parameter.largest) + "]";
  const auto refuse = [&] {
    throw InputError(place + ": " +
                     valid_utf8(value.dump(-1, ' ', false, json::error_handler_t::replace)) +
                     " is not " + admitted + " (" + parameter.meaning + ")");
  };
  if (!value.is_number()) refuse();
  const auto number = value.get<double>();
  if (!(number >= parameter.smallest && number <= parameter.largest)) refuse();
  if (!integral) return number;
  if (number != std::floor(number)) refuse();
  return value.is_number_integer() ? value.get<std::int64_t>() : static_cast<std::int64_t>(number);
}

void refuse_unknown_keys(const json& object, const std::vector<std::string>& known,
                         const std::string& where, const std::string& what) {
  for (const auto& item : object.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    throw InputError(pointer(where, item.key()) + ": " + what + " has no key '" +
                     valid_utf8(item.key()) + "'; " + closest_names(item.key(), known));
  }
}

json parse_generated(const json& given, const std::string& where) {
  if (!given.at("generator").is_string()) {
    throw InputError(pointer(where, "generator") + ": must be the name of a generator");
  }
  const auto name = given.at("generator").get<std::string>();
  const auto generator_place = pointer(where, "generator");
  const auto& generator = require_generator(name, generator_place);
  std::vector<std::string> known{"generator"};
  for (const auto& parameter : generator.parameters) known.push_back(parameter.name);
  refuse_unknown_keys(given, known, where, "generator '" + name + "'");

  json spec{{"generator", name}};
  const std::string needed = "generator '" + name + "' needs it";
  for (const auto& parameter : generator.parameters) {
    std::string place = pointer(where, parameter.name);
    if (given.contains(parameter.name)) {
      spec[parameter.name] = checked_value(parameter, given.at(parameter.name), place);
    } else if (parameter.fallback) {
      spec[parameter.name] = checked_value(parameter, *parameter.fallback, place);
    } else {
      throw InputError(place.append(": is missing; ").append(needed) + " (" + parameter.meaning +
                       ")");
    }
  }
  if (spec.contains("low") && spec.at("low").get<double>() >= spec.at("high").get<double>()) {
    throw InputError(pointer(where, "low") + ": must be less than high (" + spec.at("low").dump() +
                     " and " + spec.at("high").dump() + " were given)");
  }
  const auto count =
      checked_product(spec.at("n").get<std::int64_t>(), spec.at("d").get<std::int64_t>());
  if (!count || !checked_product(*count, 8)) {
    throw InputError(pointer(where, "n") + ": n * d coordinates need more than 2^62 bytes");
  }
  return spec;
}

json parse_file(json given, const std::string& where) {
  refuse_unknown_keys(given,
                      {"file", "format", "n", "drop_last", "csv_drop_last", "drop_nonfinite"},
                      where, "a file");
  // As the options are called; the older name stays that of records, which must not change.
  if (given.contains("drop_last")) {
    if (given.contains("csv_drop_last")) {
      throw InputError(pointer(where, "drop_last") + ": csv_drop_last means the same; give one");
    }
    given["csv_drop_last"] = given.at("drop_last");
  }
  if (!given.at("file").is_string() || given.at("file").get<std::string>().empty()) {
    throw InputError(pointer(where, "file") + ": must be the path of a file");
  }
  json spec{{"file", given.at("file")}, {"format", "automatic"}, {"n", 0}, {"csv_drop_last", 0}};
  if (given.contains("format")) {
    std::vector<std::string> names;
    names.reserve(kFormats.size());
    for (const auto& [name, format] : kFormats) names.emplace_back(name);
    const json& format = given.at("format");
    if (!format.is_string() ||
        std::find(names.begin(), names.end(), format.get<std::string>()) == names.end()) {
      throw InputError(pointer(where, "format") + ": unknown format; " +
                       closest_names(format.is_string() ? format.get<std::string>() : "", names));
    }
    spec["format"] = format;
  }
  const Parameter most{"n", "number of points to read, 0 for all", Parameter::Kind::integer, 0, 0,
                       1e12};
  const Parameter drop{"csv_drop_last",
                       "columns to leave out at the end of a line",
                       Parameter::Kind::integer,
                       0,
                       0,
                       1e6};
  for (const auto& parameter : {most, drop}) {
    if (given.contains(parameter.name)) {
      spec[parameter.name] =
          checked_value(parameter, given.at(parameter.name), pointer(where, parameter.name));
    }
  }
  if (given.contains("drop_nonfinite")) {
    if (!given.at("drop_nonfinite").is_boolean()) {
      throw InputError(pointer(where, "drop_nonfinite") + ": must be true or false");
    }
    // Only where it is asked for: the names of other sets stay what they were.
    if (given.at("drop_nonfinite").get<bool>()) spec["drop_nonfinite"] = true;
  }
  return spec;
}

// Lower-case letters, digits, '.', '_' and '-' survive in names of files.
std::string file_safe(const std::string& text) {
  std::string safe;
  for (const char c : text.substr(0, 60)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-';
    safe += plain ? c : '_';
  }
  return safe.empty() ? "file" : safe;
}

std::string short_hash(const json& spec) {
  const std::string text = spec.dump(-1, ' ', false, json::error_handler_t::replace);
  return sha256_hex(text.data(), text.size()).substr(0, 6);
}

}  // namespace

std::string DatasetSpec::label() const {
  if (json.contains("file")) {
    const std::filesystem::path file(json.at("file").get<std::string>());
    const auto n = json.at("n").get<std::int64_t>();
    return file_safe(file.stem().string()) + (n > 0 ? "-first" + std::to_string(n) : "") + "-" +
           short_hash(json);
  }
  const auto name = json.at("generator").get<std::string>();
  std::string text = name + "-" + std::to_string(json.at("n").get<std::int64_t>()) + "x" +
                     std::to_string(json.at("d").get<std::int64_t>());
  if (json.contains("k")) text += "-k" + std::to_string(json.at("k").get<std::int64_t>());
  if (json.contains("seed")) text += "-s" + std::to_string(json.at("seed").get<std::int64_t>());
  // Two sets that differ in another parameter must not share a name.
  for (const auto& parameter : require_generator(name, "").parameters) {
    const bool shown = parameter.name == "n" || parameter.name == "d" || parameter.name == "k" ||
                       parameter.name == "seed";
    if (!shown && json.at(parameter.name) != *parameter.fallback) {
      return text + "-" + short_hash(json);
    }
  }
  return text;
}

DatasetSpec parse_dataset(const nlohmann::json& given, const std::string& where) {
  if (!given.is_object() || given.contains("generator") == given.contains("file")) {
    throw InputError((where.empty() ? "data set" : where) +
                     ": must be an object with either \"generator\" or \"file\"");
  }
  DatasetSpec spec{given.contains("file") ? parse_file(given, where)
                                          : parse_generated(given, where)};
  return spec;
}

FillRows prepare_rows(const DatasetSpec& spec) {
  if (!spec.json.contains("generator")) {
    throw InputError("'" + spec.json.at("file").get<std::string>() +
                     "' is a file; only generated sets can be generated");
  }
  const auto name = spec.json.at("generator").get<std::string>();
  const std::string place = "/generator";
  const auto& generator = require_generator(name, place);
  if (!generator.prepare) {
    throw InputError("'" + name + "' is made by scikit-learn and kept in the cache; it cannot be " +
                     "generated into memory");
  }
  return generator.prepare(spec.json);
}

void fill_rows(const FillRows& fill, std::int64_t d, ScalarType scalar, std::int64_t begin,
               std::int64_t end, void* out) {
  constexpr std::int64_t kCoordinatesPerRange = 8192;  // float64 rows of a range stay in the cache
  const std::int64_t rows = std::max<std::int64_t>(1, kCoordinatesPerRange / d);
  parallel_ranges(end - begin, rows, [&](std::int64_t first, std::int64_t last) {
    if (scalar == ScalarType::f64) {
      fill(begin + first, begin + last, static_cast<double*>(out) + first * d);
      return;
    }
    std::vector<double> wide(static_cast<std::size_t>((last - first) * d));
    fill(begin + first, begin + last, wide.data());
    float* narrow = static_cast<float*>(out) + first * d;
    for (const double value : wide) *narrow++ = static_cast<float>(value);
  });
}

Points generate(const DatasetSpec& spec, ScalarType scalar) {
  const FillRows fill = prepare_rows(spec);
  const auto n = spec.json.at("n").get<std::int64_t>();
  const auto d = spec.json.at("d").get<std::int64_t>();
  const auto memory = allocate_bytes(n * d * size_of(scalar));
  fill_rows(fill, d, scalar, 0, n, memory.get());
  return {memory, memory.get(), n, d, scalar};
}

LoadOptions load_options(const DatasetSpec& spec) {
  LoadOptions options;
  for (const auto& [name, format] : kFormats) {
    if (spec.json.at("format") == name) options.format = format;
  }
  options.max_points = spec.json.at("n").get<std::int64_t>();
  options.csv_drop_last = spec.json.at("csv_drop_last").get<std::int64_t>();
  options.drop_nonfinite = spec.json.value("drop_nonfinite", false);
  return options;
}

}  // namespace kmeans
