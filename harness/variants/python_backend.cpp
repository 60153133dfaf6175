// SPDX-License-Identifier: Apache-2.0
#include "harness/variants/python_backend.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>

#include "harness/support/build_info.h"
#include "harness/support/precision.h"
#include "harness/support/python_process.h"
#include "harness/support/text.h"
#include "harness/variants/plugins.h"

namespace kmeans {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr double kDescribeSeconds = 30;  // a cold disk is slow, a hang is longer
constexpr std::size_t kLongestDescription = std::size_t{4} << 20;

// What a worker needs whatever the variant: the interpreter with numpy and a library loaded.
constexpr double kInterpreterBytes = 160e6;

/// factor * n^.. * d^.. * k^.. * scalar^..
struct Term {
  double factor = 0;
  std::array<int, 4> powers{};  // of n, d, k, and the bytes of a coordinate

  [[nodiscard]] double operator()(const Sizes& s) const {
    const std::array values{s.n, s.d, s.k, s.scalar};
    double product = factor;
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (int power = 0; power < powers[i]; ++power) product *= values[i];
    }
    return product;
  }
};

using Terms = std::vector<Term>;

double sum(const Terms& terms, const Sizes& sizes) {
  double total = 0;
  for (const auto& term : terms) total += term(sizes);
  return total;
}

/// {"n*k*scalar": 1, "n": 8}; the worker has checked it, so a stranger here is an error of ours.
Terms parse_terms(const json& object) {
  static const std::array<std::string, 4> kNames{"n", "d", "k", "scalar"};
  Terms terms;
  for (const auto& item : object.items()) {
    Term term;
    term.factor = item.value().get<double>();
    std::string product = item.key();
    while (!product.empty()) {
      const auto end = product.find('*');
      const std::string name = product.substr(0, end);
      const auto found = std::find(kNames.begin(), kNames.end(), name);
      if (found != kNames.end()) {
        term.powers[static_cast<std::size_t>(found - kNames.begin())] += 1;
      } else if (name != "1") {
        throw std::runtime_error("'" + item.key() + "' is not a product of n, d, k and scalar");
      }
      product = end == std::string::npos ? "" : product.substr(end + 1);
    }
    terms.push_back(term);
  }
  return terms;
}

struct Limit {
  Terms terms;
  double at_most = std::numeric_limits<double>::infinity();
  double multiple_of = 0;             // 0: any value
  std::vector<Precision> precisions;  // empty: all
  std::string reason;

  [[nodiscard]] bool admits(const Shape& shape) const {
    if (!precisions.empty() &&
        std::find(precisions.begin(), precisions.end(), shape.precision) == precisions.end()) {
      return true;
    }
    const double value = sum(terms, shape);
    return value <= at_most && (multiple_of == 0 || std::fmod(value, multiple_of) == 0);
  }
};

template <class Value>
Value choose(const json& traits, const char* key, const std::string& first, Value is_first,
             const std::string& second, Value is_second) {
  const auto text = traits.at(key).get<std::string>();
  if (text != first && text != second) {
    throw std::runtime_error(std::string(key) + " is '" + text + "'");
  }
  return text == first ? is_first : is_second;
}

std::vector<Precision> parse_precisions(const json& array) {
  std::vector<Precision> precisions;
  for (const auto& text : array) precisions.push_back(parse_precision(text.get<std::string>()));
  return precisions;
}

Limit parse_limit(const json& object) {
  Limit limit;
  limit.terms = parse_terms(object.at("terms"));
  limit.reason = object.at("reason").get<std::string>();
  if (object.contains("at_most")) limit.at_most = object["at_most"].get<double>();
  if (object.contains("multiple_of")) limit.multiple_of = object["multiple_of"].get<double>();
  if (object.contains("precisions")) limit.precisions = parse_precisions(object["precisions"]);
  return limit;
}

Traits parse_traits(const std::string& name, const json& json_traits) {
  Traits traits;
  traits.name = name;
  traits.summary = json_traits.at("summary").get<std::string>();
  traits.source = json_traits.at("source").get<std::string>();
  traits.precisions = parse_precisions(json_traits.at("precisions"));
  if (traits.precisions.empty()) throw std::runtime_error("no precisions");
  traits.exact = json_traits.at("exact").get<bool>();
  traits.deterministic = json_traits.at("deterministic").get<bool>();
  traits.parallel = json_traits.at("parallel").get<bool>();
  traits.skips_work = json_traits.at("skips_work").get<bool>();
  traits.distance =
      choose(json_traits, "distance", "direct", Distance::direct, "expanded", Distance::expanded);
  traits.centres = json_traits.at("centres").get<bool>();
  traits.labels_of = choose(json_traits, "labels_of", "starting", LabelsOf::starting, "returned",
                            LabelsOf::returned);
  traits.empty_clusters = choose(json_traits, "empty_clusters", "keep", EmptyClusters::keep,
                                 "relocate", EmptyClusters::relocate);
  traits.timing_note = json_traits.at("timing_note").get<std::string>();
  traits.setup_note = "an interpreter's start, imports, and the way of the points to it";
  if (const auto own = json_traits.at("setup_note").get<std::string>(); !own.empty()) {
    traits.setup_note += "; " + own;
  }
  traits.gpu = json_traits.at("gpu").get<bool>();
  traits.many_gpus = json_traits.at("many_gpus").get<bool>();

  std::vector<Limit> limits;
  for (const auto& limit : json_traits.at("limits")) limits.push_back(parse_limit(limit));
  traits.supports = [limits](const Shape& shape) {
    for (const auto& limit : limits) {
      if (!limit.admits(shape)) return Support::no(limit.reason);
    }
    return Support::yes();
  };
  const Terms own_bytes = parse_terms(json_traits.at("memory_bytes"));
  traits.memory_bytes = [own_bytes](const Sizes& s) {
    // The worker's copy of the points, and the labels and centroids that both processes see.
    return kInterpreterBytes + s.n * s.d * s.scalar + s.k * s.d * s.scalar + 4 * s.n +
           sum(own_bytes, s);
  };
  const Terms device_bytes = parse_terms(json_traits.at("device_bytes"));
  if (!device_bytes.empty()) {
    traits.device_bytes = [device_bytes](const Sizes& s) { return sum(device_bytes, s); };
  }
  return traits;
}

/// A variant that can be listed and named, but not run.
RegisteredVariant unavailable(const std::string& name, const std::string& reason) {
  RegisteredVariant variant;
  variant.traits.name = name;
  variant.traits.summary = "a Python variant, described by its file when Python can be asked";
  // The likeliest ones: asked for either, the answer should be the reason, not a wrong precision.
  variant.traits.precisions = {Precision::f64, Precision::f32};
  variant.backend = "python";
  variant.available = Support::no(reason);
  return variant;
}

bool is_variant_name(const std::string& name) {
  return name.rfind("python_", 0) == 0 && std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

std::vector<std::string> names_by_file(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto& path = entry->path();
    if (path.extension() == ".py" && is_variant_name(path.stem().string())) {
      names.push_back(path.stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Everything that arrives until the other end closes; nothing when that takes too long.
std::optional<std::string> read_all(int descriptor, double seconds) {
  const auto deadline = std::chrono::steady_clock::now() +
                        std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * seconds));
  std::string text;
  std::array<char, 65536> buffer{};
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd waiting{descriptor, POLLIN, 0};
    const int ready = poll(&waiting, 1, static_cast<int>(std::max<long long>(0, left.count())));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    const auto count = read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
    if (text.size() > kLongestDescription) return std::nullopt;
  }
}

/// The last line of a small file that says something: where a Python traceback names its error.
std::string last_line(int descriptor) {
  std::string text(65536, '\0');
  const auto count = pread(descriptor, text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  text.erase(text.find_last_not_of(" \r\n") + 1);
  return valid_utf8(text.substr(text.find_last_of('\n') + 1));
}

/// The worker's description of the folder. Throws std::runtime_error saying what was wrong.
json ask(const PythonLocation& location) {
  // The answer has a socket of its own: start-up files may print to standard output.
  auto [ours, theirs] = make_socket_pair();
  const FileDescriptor messages = make_memory_file();
  std::vector<std::string> words{location.interpreter,
                                 location.worker,
                                 "--describe",
                                 "--folder",
                                 location.folder,
                                 "--control",
                                 std::to_string(theirs.get())};
  if (!location.plugin.empty()) words.insert(words.end(), {"--plugin", location.plugin});
  ChildProcess process(words, {theirs.get()}, messages.get());
  theirs = FileDescriptor();
  const double seconds = location.plugin.empty() ? kDescribeSeconds : plugin_seconds();
  const auto text = read_all(ours.get(), seconds);
  if (!text) {
    throw std::runtime_error("no description within " + format_seconds(seconds));
  }
  if (text->empty()) {
    const std::string end = process.wait_for_end();
    const std::string line = last_line(messages.get());
    throw std::runtime_error("it ended with " + end + (line.empty() ? "" : ": " + line));
  }
  json description = json::parse(*text, nullptr, false);
  if (!description.is_object() || !description.contains("variants") ||
      !description["variants"].is_array()) {
    throw std::runtime_error("its answer is not a description: '" +
                             valid_utf8(text->substr(0, 80)) + "'");
  }
  return description;
}

RegisteredVariant parse_variant(const PythonLocation& location, const std::string& name,
                                const json& description) {
  const auto reason = description.at("reason").get<std::string>();
  if (!description.at("traits").is_object()) return unavailable(name, reason);
  RegisteredVariant variant;
  variant.traits = parse_traits(name, description.at("traits"));
  variant.backend = "python";
  variant.available = reason.empty() ? Support::yes() : Support::no(reason);
  variant.factory.make_float = [location, name](Precision precision) {
    return make_python_variant<float>(location, name, precision);
  };
  variant.factory.make_double = [location, name](Precision precision) {
    return make_python_variant<double>(location, name, precision);
  };
  return variant;
}

}  // namespace

PythonLocation find_python() {
  const fs::path root = source_root();
  const fs::path folder = root / "implementations" / "python";
  PythonLocation location{"", (folder / "worker.py").string(), folder.string()};
  location.missing = missing_source_tree();
  if (!location.missing.empty()) return location;
  const PythonProgram python = find_python_program(root.string());
  location.interpreter = python.found;
  location.missing = python.chosen ? "KMEANS_BENCH_PYTHON is '" + valid_utf8(python.sought) +
                                         "', which is not a program"
                                   : "neither .venv/bin/python nor a python3 on PATH was found";
  return location;
}

RegisteredVariant describe_plugin(const PythonLocation& location, const std::string& name) {
  RegisteredVariant variant;
  try {
    if (location.interpreter.empty()) throw std::runtime_error(location.missing);
    variant = parse_variant(location, name, ask(location).at("variants").at(0));
    if (variant.traits.many_gpus) {
      throw std::runtime_error("it takes several GPUs, which plugins are not given");
    }
    variant.traits.setup_note =
        "the start of a Python interpreter, and the way of the points to it";
  } catch (const std::exception& error) {
    variant = unavailable(name, "it cannot be described: " + valid_utf8(error.what()));
  }
  variant.backend = "plugin";
  return variant;
}

std::vector<RegisteredVariant> describe_python_variants(const PythonLocation& location) {
  std::vector<RegisteredVariant> variants;
  std::set<std::string> described;
  std::string reason;
  try {
    if (location.interpreter.empty()) {
      reason = location.missing.empty() ? "there is no Python interpreter" : location.missing;
    } else {
      const json answer = ask(location);
      for (const auto& description : answer.at("variants")) {
        const auto name = description.at("name").get<std::string>();
        if (!is_variant_name(name) || !described.insert(name).second) continue;
        try {
          variants.push_back(parse_variant(location, name, description));
        } catch (const std::exception& error) {
          variants.push_back(
              unavailable(name, "its description is wrong: " + valid_utf8(error.what())));
        }
      }
    }
  } catch (const std::exception& error) {
    reason = location.interpreter + " cannot be used: " + valid_utf8(error.what());
  }
  if (reason.empty()) reason = "the worker did not describe it";
  for (const auto& name : names_by_file(location.folder)) {
    if (described.count(name) == 0) variants.push_back(unavailable(name, reason));
  }
  return variants;
}

void discover_python_variants() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto variants = describe_python_variants(find_python());
    // A compiled variant of the same name was there first; the registry would end the program.
    variants.erase(std::remove_if(variants.begin(), variants.end(),
                                  [](const RegisteredVariant& variant) {
                                    return find_variant(variant.traits.name) != nullptr;
                                  }),
                   variants.end());
    register_runtime_variants(std::move(variants));
  });
}

const RegisteredVariant& require_variant_of_worker(const std::string& name) {
  // A plugin may take long to say what it is: cells of others do not wait for that.
  if (find_variant(name) == nullptr) discover_plugins(FirstLoad::here);  // a death costs one cell
  if (find_variant(name) == nullptr) discover_python_variants();
  return require_variant(name);
}

}  // namespace kmeans
