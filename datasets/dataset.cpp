// SPDX-License-Identifier: Apache-2.0
#include "datasets/dataset.h"

#include <algorithm>
#include <array>
#include <utility>

#include "datasets/generate.h"
#include "datasets/generators.h"
#include "datasets/readers.h"
#include "harness/support/errors.h"
#include "harness/support/json_reader.h"
#include "harness/support/parallel.h"
#include "harness/support/sha256.h"

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

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const auto& [name, format] : kFormats) names.emplace_back(name);
  return names;
}

/// The value of a generator's parameter, or its default.
json read_parameter(const Parameter& parameter, const JsonReader& value, const std::string& whose) {
  const auto& fallback = parameter.fallback;
  try {
    if (!value.present() && !fallback) value.fail("is missing; " + whose + " needs it");
    if (!value.present() && parameter.kind == Parameter::Kind::real) return *fallback;
    if (!value.present()) return static_cast<std::int64_t>(*fallback);
    if (parameter.kind == Parameter::Kind::real) {
      return value.number(parameter.smallest, parameter.largest);
    }
    return value.integer(static_cast<std::int64_t>(parameter.smallest),
                         static_cast<std::int64_t>(parameter.largest));
  } catch (const InputError& error) {
    throw InputError(std::string(error.what()) + " (" + parameter.meaning + ")");
  }
}

json read_generated(const JsonReader& given) {
  const auto& generator =
      *given["generator"].parsed([](const std::string& name) { return &require_generator(name); });
  const std::string whose = "generator '" + generator.name + "'";
  std::vector<std::string> known{"generator"};
  for (const auto& parameter : generator.parameters) known.push_back(parameter.name);
  given.allow_only(known, whose);
  json spec{{"generator", generator.name}};
  for (const auto& parameter : generator.parameters) {
    spec[parameter.name] = read_parameter(parameter, given[parameter.name], whose);
  }
  if (spec.contains("low") && spec.at("low").get<double>() >= spec.at("high").get<double>()) {
    given["low"].fail("must be less than high (" + spec.at("low").dump() + " and " +
                      spec.at("high").dump() + " were given)");
  }
  const auto count =
      checked_product(spec.at("n").get<std::int64_t>(), spec.at("d").get<std::int64_t>());
  if (!count || !checked_product(*count, 8)) {
    given["n"].fail("n * d coordinates need more than 2^62 bytes");
  }
  return spec;
}

json read_file_spec(const JsonReader& given) {
  given.allow_only({"file", "format", "n", "drop_first", "drop_last", "csv_drop_last", "columns",
                    "header", "drop_nonfinite"},
                   "a file");
  // As the options are called; the older name stays that of records, which must not change.
  const JsonReader drop = given["drop_last"];
  if (drop.present() && given["csv_drop_last"].present()) {
    drop.fail("csv_drop_last means the same; give one");
  }
  json spec{{"file", given["file"].nonempty_text()}, {"format", "automatic"}};
  if (given["format"].present()) spec["format"] = given["format"].one_of(format_names());
  spec["n"] = given["n"].integer(0, 1'000'000'000'000, 0);  // points to read, 0 for all
  spec["csv_drop_last"] = (drop.present() ? drop : given["csv_drop_last"]).integer(0, 1'000'000, 0);
  // Only where they are asked for: the names of other sets stay what they were.
  if (const auto first = given["drop_first"].integer(0, 1'000'000, 0); first > 0) {
    spec["drop_first"] = first;
  }
  if (given["columns"].present()) {
    spec["columns"] = given["columns"].nonempty_text();
    if (spec.contains("drop_first") || spec.at("csv_drop_last") > 0) {
      given["columns"].fail("names the columns that stay; drop_first and drop_last are of no use");
    }
    parse_columns(spec.at("columns"));
  }
  if (given["header"].present()) spec["header"] = given["header"].boolean(false);
  if (given["drop_nonfinite"].boolean(false)) spec["drop_nonfinite"] = true;
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
  for (const auto& parameter : require_generator(name).parameters) {
    const bool shown = parameter.name == "n" || parameter.name == "d" || parameter.name == "k" ||
                       parameter.name == "seed";
    if (!shown && json.at(parameter.name) != *parameter.fallback) {
      return text + "-" + short_hash(json);
    }
  }
  return text;
}

DatasetSpec read_dataset(const JsonReader& given) {
  const json& value = given.value();
  if (!value.is_object() || value.contains("generator") == value.contains("file")) {
    given.fail("must be an object with either \"generator\" or \"file\"");
  }
  return {value.contains("file") ? read_file_spec(given) : read_generated(given)};
}

DatasetSpec parse_dataset(const nlohmann::json& given, const std::string& where) {
  return read_dataset(JsonReader(given, where));
}

FillRows prepare_rows(const DatasetSpec& spec) {
  if (!spec.json.contains("generator")) {
    throw InputError("'" + spec.json.at("file").get<std::string>() +
                     "' is a file; only generated sets can be generated");
  }
  const auto name = spec.json.at("generator").get<std::string>();
  const auto& generator = require_generator(name);
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
  options.csv.drop_first = spec.json.value("drop_first", std::int64_t{0});
  options.csv.drop_last = spec.json.at("csv_drop_last").get<std::int64_t>();
  if (spec.json.contains("columns")) {
    options.csv.kept = parse_columns(spec.json.at("columns").get<std::string>());
  }
  if (spec.json.contains("header")) {
    options.csv.header =
        spec.json.at("header").get<bool>() ? CsvColumns::Header::yes : CsvColumns::Header::no;
  }
  options.drop_nonfinite = spec.json.value("drop_nonfinite", false);
  return options;
}

}  // namespace kmeans
