// SPDX-License-Identifier: Apache-2.0
#include "harness/run/experiment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <set>
#include <utility>

#include "datasets/dataset.h"
#include "harness/run/fit.h"
#include "harness/run/job.h"
#include "harness/study.h"
#include "harness/support/build_info.h"
#include "harness/support/errors.h"
#include "harness/support/precision.h"
#include "harness/support/text.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr std::int64_t kLargestSize = 1'000'000'000'000;
constexpr std::size_t kLongestName = 100;

enum class Kind { text, name, integer, number, boolean, object, list, anything };

const char* describe(Kind kind) {
  switch (kind) {
    case Kind::text: return "a string";
    case Kind::name: return "a name of A-Z a-z 0-9 . _ - that begins with a letter or digit";
    case Kind::integer: return "an integer";
    case Kind::number: return "a number";
    case Kind::boolean: return "true or false";
    case Kind::object: return "an object {...}";
    case Kind::list: return "a list [...]";
    case Kind::anything: return "any value";
  }
  return "?";
}

bool is_name(const std::string& text) {
  const auto letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && text.size() <= kLongestName && letter_or_digit(text.front()) &&
         std::all_of(text.begin(), text.end(), [&](char c) {
           return letter_or_digit(c) || c == '.' || c == '_' || c == '-';
         });
}

bool is_integer(const json& value) {
  if (value.is_number_integer()) return true;
  if (!value.is_number_float()) return false;
  // 1e6 is an integer to a reader of the file, though not to the parser.
  const double number = value.get<double>();
  return std::trunc(number) == number && std::abs(number) <= 9007199254740992.0;
}

bool fits(const json& value, Kind kind) {
  switch (kind) {
    case Kind::text: return value.is_string();
    case Kind::name: return value.is_string() && is_name(value.get_ref<const std::string&>());
    case Kind::integer: return is_integer(value);
    case Kind::number: return value.is_number();
    case Kind::boolean: return value.is_boolean();
    case Kind::object: return value.is_object();
    case Kind::list: return value.is_array();
    case Kind::anything: return true;
  }
  return false;
}

struct Field {
  const char* key;
  Kind kind;
  bool required = false;
};

std::string shortened(const json& value) {
  std::string text = to_line(value);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return valid_utf8(text);
}

/// One object of the document, checked against the keys that it may have.
class ObjectReader {
 public:
  ObjectReader(const JsonDocument& document, std::string pointer, const json& value,
               const std::vector<Field>& fields)
      : document_(document), pointer_(std::move(pointer)), value_(value) {
    if (!value.is_object()) fail("", "must be " + std::string(describe(Kind::object)));
    std::vector<std::string> known;
    for (const auto& field : fields) known.emplace_back(field.key);
    for (const auto& item : value.items()) {
      const auto field = std::find_if(fields.begin(), fields.end(),
                                      [&](const Field& f) { return item.key() == f.key; });
      if (field == fields.end()) {
        fail(item.key(), "unknown key; " + closest_names(item.key(), known));
      }
      if (!fits(item.value(), field->kind)) {
        fail(item.key(), shortened(item.value()) + " must be " + describe(field->kind));
      }
    }
    for (const auto& field : fields) {
      if (field.required && !value.contains(field.key)) {
        fail("", "lacks \"" + std::string(field.key) + "\", " + describe(field.kind));
      }
    }
  }

  [[nodiscard]] bool has(const char* key) const { return value_.contains(key); }
  [[nodiscard]] const json& at(const char* key) const { return value_.at(key); }
  [[nodiscard]] std::string pointer(const std::string& key = "") const {
    return key.empty() ? pointer_ : pointer_to(pointer_, key);
  }

  [[nodiscard]] std::string text(const char* key, const std::string& otherwise = "") const {
    return has(key) ? at(key).get<std::string>() : otherwise;
  }

  [[nodiscard]] bool boolean(const char* key, bool otherwise) const {
    return has(key) ? at(key).get<bool>() : otherwise;
  }

  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t otherwise, std::int64_t least,
                                     std::int64_t most) const {
    return has(key) ? ranged(at(key), key, least, most) : otherwise;
  }

  [[nodiscard]] double number(const char* key, double otherwise, double least, double most) const {
    if (!has(key)) return otherwise;
    const double value = at(key).get<double>();
    if (!(value >= least && value <= most)) {
      fail(key, shortened(at(key)) + " is not within [" + shortened(least) + ", " +
                    shortened(most) + "]");
    }
    return value;
  }

  /// An integer, or a list of at least one; duplicates are kept.
  [[nodiscard]] std::vector<std::int64_t> integers(const char* key) const {
    const json& list = at(key);
    if (list.empty()) fail(key, "the list is empty; give at least one value");
    std::vector<std::int64_t> result;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string element = std::string(key) + "/" + std::to_string(i);
      if (!is_integer(list[i])) fail(element, shortened(list[i]) + " must be an integer");
      result.push_back(ranged(list[i], element, 1, kLargestSize));
    }
    return result;
  }

  /// A list of strings from a given set.
  [[nodiscard]] std::vector<std::string> choices(const char* key,
                                                 const std::vector<std::string>& known) const {
    const json& list = at(key);
    if (list.empty()) fail(key, "the list is empty; give at least one value");
    std::vector<std::string> result;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string element = std::string(key) + "/" + std::to_string(i);
      if (!list[i].is_string()) fail(element, shortened(list[i]) + " must be a string");
      result.push_back(list[i].get<std::string>());
      choice(element, result.back(), known);
    }
    return result;
  }

  void choice(const std::string& key, const std::string& value,
              const std::vector<std::string>& known) const {
    if (std::find(known.begin(), known.end(), value) == known.end()) {
      fail(key, "unknown value \"" + valid_utf8(value) + "\"; " + closest_names(value, known));
    }
  }

  /// `key` may be a path of keys below this object.
  [[noreturn]] void fail(const std::string& key, const std::string& reason) const {
    const std::string place = key.empty() ? pointer_ : pointer_ + "/" + key;
    throw InputError(document_.where(place) + ": " + (place.empty() ? "/" : place) + ": " + reason);
  }

 private:
  [[nodiscard]] std::int64_t ranged(const json& value, const std::string& key, std::int64_t least,
                                    std::int64_t most) const {
    const double approximate = value.get<double>();
    const bool inside = value.is_number_unsigned()
                            ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                            : approximate <= static_cast<double>(most);
    if (!inside || approximate < static_cast<double>(least)) {
      fail(key, shortened(value) + " is not within [" + std::to_string(least) + ", " +
                    std::to_string(most) + "]");
    }
    return value.is_number_float() ? static_cast<std::int64_t>(approximate)
                                   : value.get<std::int64_t>();
  }

  const JsonDocument& document_;
  std::string pointer_;
  const json& value_;
};

const std::vector<std::string> kScaleNames{"quick", "paper"};

class Parser {
 public:
  explicit Parser(const JsonDocument& document) : document_(document) {}

  void parse(Experiment& experiment) const {
    const ObjectReader top(document_, "", document_.value,
                           {{"$schema", Kind::text},
                            {"name", Kind::name, true},
                            {"title", Kind::text, true},
                            {"description", Kind::text},
                            {"source", Kind::text},
                            {"data", Kind::object, true},
                            {"init", Kind::text, true},
                            {"variants", Kind::list, true},
                            {"baseline", Kind::anything},
                            {"scales", Kind::object, true},
                            {"traces", Kind::list},
                            {"studies", Kind::list},
                            {"published", Kind::list},
                            {"claims", Kind::list},
                            {"figures", Kind::list}});
    experiment.name = top.text("name");
    experiment.title = top.text("title");
    experiment.data = top.at("data");
    experiment.init = checked_init(top, "init");
    check_data(top, "data", experiment.data);
    const auto variants = parse_variants(top, "variants");
    if (top.has("baseline")) {
      static_cast<void>(parse_variant(top.pointer("baseline"), top.at("baseline"), false));
    }
    parse_scales(top, variants, experiment);
    if (top.has("traces")) {
      experiment.traces =
          parse_named<TraceSpec>(top, "traces", [&](const std::string& pointer, const json& value) {
            return parse_trace(pointer, value, experiment);
          });
    }
    if (top.has("studies")) {
      experiment.studies = parse_named<StudySpec>(
          top, "studies", [&](const std::string& pointer, const json& value) {
            return parse_study(pointer, value, experiment);
          });
    }
    // published, claims and figures are read, and checked, by plots/ alone.
  }

 private:
  [[nodiscard]] std::string checked_init(const ObjectReader& object, const char* key) const {
    const std::string init = object.text(key);
    try {
      parse_init(init);
    } catch (const InputError& error) {
      object.fail(key, error.what());
    }
    return init;
  }

  static void check_data(const ObjectReader& object, const char* key, const json& data) {
    if (!data.contains("generator") && !data.contains("file")) {
      object.fail(key, "must have \"generator\" or \"file\"");
    }
    for (const char* given : {"n", "d"}) {
      if (!takes_points_from_file(data) && data.contains(given)) {
        object.fail(std::string(key) + "/" + given, "is given by the sweep, not here");
      }
    }
  }

  [[nodiscard]] VariantChoice parse_variant(const std::string& pointer, const json& value,
                                            bool star_allowed) const {
    VariantChoice choice;
    choice.pointer = pointer;
    std::string name_place = pointer;
    if (value.is_string()) {
      choice.name = value.get<std::string>();
    } else {
      const ObjectReader object(document_, pointer, value,
                                {{"variant", Kind::text, true},
                                 {"precision", Kind::text},
                                 {"threads", Kind::integer},
                                 {"at_most_nkd", Kind::integer}});
      choice.name = object.text("variant");
      name_place = object.pointer("variant");
      if (object.has("precision")) {
        try {
          choice.precision = parse_precision(object.text("precision"));
        } catch (const InputError& error) {
          object.fail("precision", error.what());
        }
      }
      if (object.has("threads")) {
        choice.threads = static_cast<int>(object.integer("threads", 1, 1, 4096));
      }
      if (object.has("at_most_nkd")) {
        choice.at_most_nkd =
            static_cast<double>(object.integer("at_most_nkd", 1, 1, std::int64_t{1} << 53));
      }
    }
    if (choice.name == "*" && star_allowed) return choice;
    try {
      require_variant(choice.name);
    } catch (const EnvironmentError&) {
      // Known, but not in this build: its cells are skipped with the reason.
    } catch (const InputError& error) {
      throw InputError(document_.where(name_place) + ": " + name_place + ": " + error.what());
    }
    return choice;
  }

  [[nodiscard]] std::vector<VariantChoice> parse_variants(const ObjectReader& object,
                                                          const char* key) const {
    const json& list = object.at(key);
    if (list.empty()) object.fail(key, "the list is empty; name variants, or \"*\" for all");
    std::vector<VariantChoice> result;
    for (std::size_t i = 0; i < list.size(); ++i) {
      result.push_back(parse_variant(pointer_to(object.pointer(key), i), list[i], true));
    }
    return result;
  }

  void parse_scales(const ObjectReader& top, const std::vector<VariantChoice>& variants,
                    Experiment& experiment) const {
    const ObjectReader scales(document_, top.pointer("scales"), top.at("scales"),
                              {{"quick", Kind::object}, {"paper", Kind::object}});
    for (const auto& item : top.at("scales").items()) {
      experiment.scales[item.key()] =
          parse_scale(scales.pointer(item.key()), item.value(), variants, experiment);
    }
    if (experiment.scales.empty()) scales.fail("", "names no scale; give quick, paper or both");
  }

  [[nodiscard]] Scale parse_scale(const std::string& pointer, const json& value,
                                  const std::vector<VariantChoice>& variants,
                                  const Experiment& experiment) const {
    const ObjectReader object(document_, pointer, value,
                              {{"sweep", Kind::anything, true},
                               {"iterations", Kind::integer},
                               {"processes", Kind::integer},
                               {"repetitions", Kind::integer},
                               {"min_seconds", Kind::number},
                               {"max_seconds", Kind::number},
                               {"timeout_seconds", Kind::number},
                               {"variants", Kind::list}});
    Scale scale;
    scale.iterations = object.integer("iterations", scale.iterations, 1, 1000000);
    Sampling& sampling = scale.sampling;
    sampling.processes = static_cast<int>(object.integer("processes", sampling.processes, 1, 1000));
    sampling.repetitions =
        static_cast<int>(object.integer("repetitions", sampling.repetitions, 1, 10000));
    sampling.min_seconds = object.number("min_seconds", sampling.min_seconds, 0, 3600);
    sampling.max_seconds = object.number("max_seconds", sampling.max_seconds, 1e-3, 1e6);
    sampling.timeout_seconds = object.number("timeout_seconds", sampling.timeout_seconds, 0.1, 1e6);
    scale.variants = object.has("variants") ? parse_variants(object, "variants") : variants;
    scale.shapes = parse_sweep(object, takes_points_from_file(experiment.data));
    return scale;
  }

  [[nodiscard]] std::vector<SweepShape> parse_sweep(const ObjectReader& scale,
                                                    bool from_file) const {
    const json& sweep = scale.at("sweep");
    const std::string pointer = scale.pointer("sweep");
    std::vector<SweepShape> shapes;
    const auto is_grid = [](const json& entry) {
      return entry.is_object() && entry.contains("k") && entry.at("k").is_array();
    };
    if (sweep.is_array()) {
      if (sweep.empty()) scale.fail("sweep", "the list of shapes is empty");
      for (std::size_t i = 0; i < sweep.size(); ++i) {
        const std::string place = pointer_to(pointer, i);
        if (is_grid(sweep[i])) {
          add_grid(place, sweep[i], from_file, shapes);
        } else {
          shapes.push_back(parse_shape(place, sweep[i], from_file));
        }
      }
      return shapes;
    }
    if (!sweep.is_object()) {
      scale.fail("sweep", "must be {\"n\": [...], \"d\": [...], \"k\": [...]} or a list of shapes");
    }
    add_grid(pointer, sweep, from_file, shapes);
    return shapes;
  }

  /// Every combination of the listed n, d and k.
  void add_grid(const std::string& pointer, const json& value, bool from_file,
                std::vector<SweepShape>& shapes) const {
    std::vector<Field> fields{{"k", Kind::list, true}, {"iterations", Kind::integer}};
    if (!from_file) {
      fields.insert(fields.begin(), {{"n", Kind::list, true}, {"d", Kind::list, true}});
    }
    const ObjectReader lists(document_, pointer, value, fields);
    std::optional<std::int64_t> iterations;
    if (lists.has("iterations")) iterations = lists.integer("iterations", 1, 1, 1000000);
    const auto all_k = lists.integers("k");
    if (from_file) {
      for (const auto k : all_k) shapes.push_back({{}, {}, k, iterations});
      return;
    }
    const auto all_n = lists.integers("n");
    const auto all_d = lists.integers("d");
    if (static_cast<double>(all_n.size()) * static_cast<double>(all_d.size()) *
                static_cast<double>(all_k.size()) +
            static_cast<double>(shapes.size()) >
        1e6) {
      lists.fail("", "asks for more than a million shapes");
    }
    for (const auto n : all_n) {
      for (const auto d : all_d) {
        for (const auto k : all_k) shapes.push_back({n, d, k, iterations});
      }
    }
  }

  [[nodiscard]] SweepShape parse_shape(const std::string& pointer, const json& value,
                                       bool from_file) const {
    std::vector<Field> fields{{"k", Kind::integer, true}};
    if (!from_file) {
      fields.insert(fields.begin(), {{"n", Kind::integer, true}, {"d", Kind::integer, true}});
    }
    fields.push_back({"iterations", Kind::integer});
    const ObjectReader object(document_, pointer, value, fields);
    SweepShape shape = read_shape(object, from_file);
    if (object.has("iterations")) shape.iterations = object.integer("iterations", 1, 1, 1000000);
    return shape;
  }

  [[nodiscard]] static SweepShape read_shape(const ObjectReader& object, bool from_file) {
    SweepShape shape;
    shape.k = object.integer("k", 1, 1, kLargestSize);
    if (from_file) return shape;
    shape.n = object.integer("n", 1, 1, kLargestSize);
    shape.d = object.integer("d", 1, 1, kLargestSize);
    if (shape.k > *shape.n) {
      object.fail("k", std::to_string(shape.k) + " clusters of n = " + std::to_string(*shape.n) +
                           " points; k must be at most n");
    }
    return shape;
  }

  /// The entries of a list, no two of the same name. `kinds`: what they are, in the plural.
  template <class Spec, class ParseOne>
  std::vector<Spec> parse_named(const ObjectReader& top, const char* kinds,
                                const ParseOne& parse_one) const {
    std::vector<Spec> entries;
    std::set<std::string> names;
    const json& list = top.at(kinds);
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string pointer = pointer_to(top.pointer(kinds), i);
      entries.push_back(parse_one(pointer, list[i]));
      if (!names.insert(entries.back().name).second) {
        throw InputError(document_.where(pointer + "/name") + ": " + pointer + "/name: two " +
                         kinds + " are named \"" + entries.back().name + "\"");
      }
    }
    return entries;
  }

  /// Does a trace or study take its points from a file, its own or the experiment's?
  static bool is_from_file(const json& value, const Experiment& experiment) {
    const bool own_data = value.is_object() && value.contains("data");
    return takes_points_from_file(own_data ? value.at("data") : experiment.data);
  }

  /// What traces and studies say alike: name, data, first centroids, scales.
  template <class Spec>
  void read_common(const ObjectReader& object, const Experiment& experiment, Spec& spec) const {
    spec.pointer = object.pointer();
    spec.name = object.text("name");
    const bool own_data = object.has("data");
    spec.data = own_data ? object.at("data") : experiment.data;
    if (own_data) check_data(object, "data", spec.data);
    spec.init = object.has("init") ? checked_init(object, "init") : experiment.init;
    spec.scales = object.has("scales") ? object.choices("scales", kScaleNames) : kScaleNames;
    if (takes_points_from_file(spec.data) && (object.has("n") || object.has("d"))) {
      object.fail(object.has("n") ? "n" : "d", "is given by the data file, not here");
    }
  }

  [[nodiscard]] TraceSpec parse_trace(const std::string& pointer, const json& value,
                                      const Experiment& experiment) const {
    const bool from_file = is_from_file(value, experiment);
    const ObjectReader object(document_, pointer, value,
                              {{"name", Kind::name, true},
                               {"variant", Kind::text, true},
                               {"precision", Kind::text},
                               {"threads", Kind::integer},
                               {"n", Kind::integer, !from_file},
                               {"d", Kind::integer, !from_file},
                               {"k", Kind::integer, true},
                               {"iterations", Kind::integer, true},
                               {"data", Kind::object},
                               {"init", Kind::text},
                               {"scales", Kind::list},
                               {"keep_points", Kind::integer},
                               {"keep_centroids", Kind::boolean},
                               {"stop", Kind::text},
                               {"expected", Kind::object}});
    TraceSpec trace;
    read_common(object, experiment, trace);
    json choice{{"variant", object.at("variant")}};
    for (const char* key : {"precision", "threads"}) {
      if (object.has(key)) choice[key] = object.at(key);
    }
    trace.variant = parse_variant(pointer, choice, false);
    trace.shape = read_shape(object, from_file);
    trace.iterations = object.integer("iterations", 1, 1, 1000000);
    trace.keep_points = object.integer("keep_points", 0, 0, 1000000);
    trace.keep_centroids = object.boolean("keep_centroids", true);
    if (object.has("expected")) trace.expected = checked_expectation(object, trace);
    trace.stop = object.text("stop");
    try {
      static_cast<void>(parse_stop(trace.stop));
    } catch (const InputError&) {
      object.fail("stop", shortened(trace.stop) + " must be labels, movement:E or loss:E");
    }
    return trace;
  }

  [[nodiscard]] StudySpec parse_study(const std::string& pointer, const json& value,
                                      const Experiment& experiment) const {
    const bool from_file = is_from_file(value, experiment);
    const bool with_data = value.is_object() && (value.contains("k") || value.contains("n"));
    const ObjectReader object(document_, pointer, value,
                              {{"name", Kind::name, true},
                               {"study", Kind::text, true},
                               {"n", Kind::integer, with_data && !from_file},
                               {"d", Kind::integer, with_data && !from_file},
                               {"k", Kind::integer, with_data},
                               {"data", Kind::object, false},
                               {"init", Kind::text},
                               {"scales", Kind::list},
                               {"timeout_seconds", Kind::number},
                               {"parameters", Kind::object}});
    StudySpec spec;
    read_common(object, experiment, spec);
    spec.study = object.text("study");
    const Study* study = nullptr;
    try {
      study = &require_study(spec.study);
    } catch (const InputError& error) {
      object.fail("study", error.what());
    }
    if (study->needs_data && !with_data) {
      object.fail("", "lacks \"n\", \"d\" and \"k\": this study needs data");
    }
    if (with_data) spec.shape = read_shape(object, from_file);
    spec.timeout_seconds = object.number("timeout_seconds", spec.timeout_seconds, 0.1, 1e6);
    if (object.has("parameters")) spec.parameters = object.at("parameters");
    return spec;
  }

  [[nodiscard]] json checked_expectation(const ObjectReader& trace, const TraceSpec& spec) const {
    const json& expected = trace.at("expected");
    const ObjectReader object(document_, trace.pointer("expected"), expected,
                              {{"inertia", Kind::list},
                               {"relative_tolerance", Kind::number},
                               {"labels_begin", Kind::list},
                               {"centroids", Kind::list}});
    if (object.has("centroids")) check_known_centroids(object, spec);
    if (object.has("inertia")) {
      for (const auto& value : object.at("inertia")) {
        if (!value.is_number()) object.fail("inertia", "must hold numbers alone");
      }
      if (static_cast<std::int64_t>(object.at("inertia").size()) > spec.iterations) {
        object.fail("inertia", "holds more values than there are iterations");
      }
      if (!object.has("relative_tolerance")) {
        object.fail("", "lacks \"relative_tolerance\", needed to judge \"inertia\"");
      }
    }
    static_cast<void>(object.number("relative_tolerance", 0, 0, 1));
    if (object.has("labels_begin")) {
      for (const auto& value : object.at("labels_begin")) {
        if (!is_integer(value) || value.get<double>() < 0 ||
            value.get<double>() >= static_cast<double>(spec.shape.k)) {
          object.fail("labels_begin", "must hold labels from 0 to k - 1");
        }
      }
    }
    return expected;
  }

  void check_known_centroids(const ObjectReader& expected, const TraceSpec& spec) const {
    const json& list = expected.at("centroids");
    for (std::size_t i = 0; i < list.size(); ++i) {
      const ObjectReader object(document_, pointer_to(expected.pointer("centroids"), i), list[i],
                                {{"iteration", Kind::integer, true},
                                 {"values", Kind::list, true},
                                 {"absolute_tolerance", Kind::number, true}});
      static_cast<void>(object.integer("iteration", 1, 1, spec.iterations));
      if (object.number("absolute_tolerance", 0, 0, 1e300) <= 0) {
        object.fail("absolute_tolerance", "must be above 0");
      }
      const json& rows = object.at("values");
      bool fits = static_cast<std::int64_t>(rows.size()) == spec.shape.k;
      for (const auto& row : rows) {
        fits = fits && row.is_array() &&
               (!spec.shape.d || static_cast<std::int64_t>(row.size()) == spec.shape.d) &&
               std::all_of(row.begin(), row.end(), [](const json& v) { return v.is_number(); });
      }
      if (!fits) object.fail("values", "must hold k lists of d numbers");
    }
  }

  const JsonDocument& document_;
};

}  // namespace

const Scale& Experiment::scale(const std::string& wanted) const {
  const auto found = scales.find(wanted);
  if (found != scales.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name_of_scale, scale] : scales) names.push_back(name_of_scale);
  throw InputError(document.source + ": experiment " + name + " has no scale '" + wanted + "'; " +
                   closest_names(wanted, names));
}

bool takes_points_from_file(const json& data) { return data.is_object() && data.contains("file"); }

Experiment parse_experiment(JsonDocument document) {
  Experiment experiment;
  experiment.document = std::move(document);
  Parser(experiment.document).parse(experiment);
  return experiment;
}

std::vector<std::string> known_experiments() {
  std::vector<std::string> names;
  std::error_code error;
  const auto folder = std::filesystem::path(source_root()) / "experiments";
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".json" && entry.path().stem() != "schema") {
      names.push_back(entry.path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

/// A relative path is one from the experiment's own folder, wherever the command was given. One
/// that is there not, but in the current folder, is taken with a note: so it was meant once.
std::string found_file(const std::string& name, const std::filesystem::path& folder) {
  const std::filesystem::path file = name;
  if (file.is_absolute()) return name;
  const auto beside = (folder / file).lexically_normal();
  std::error_code ignored;
  if (beside == file.lexically_normal() || std::filesystem::exists(beside, ignored) ||
      !std::filesystem::exists(file, ignored)) {
    return beside.string();
  }
  std::fprintf(stderr,
               "note: %s is not beside the experiment; that of the current folder is read\n",
               printable(name).c_str());
  return name;
}

void find_data(json& data, const std::filesystem::path& folder) {
  if (!takes_points_from_file(data) || !data.at("file").is_string()) return;
  data["file"] = found_file(data.at("file").get<std::string>(), folder);
}

void find_init(std::string& init, const std::filesystem::path& folder) {
  // A name without a folder or ending is a file only where there is one.
  if (init.find_first_of("/.") == std::string::npos || init.find(':') != std::string::npos) return;
  init = found_file(init, folder);
}

void find_files(Experiment& experiment, const std::filesystem::path& folder) {
  find_data(experiment.data, folder);
  find_init(experiment.init, folder);
  for (auto& trace : experiment.traces) {
    find_data(trace.data, folder);
    find_init(trace.init, folder);
  }
  for (auto& study : experiment.studies) {
    find_data(study.data, folder);
    find_init(study.init, folder);
  }
}

}  // namespace

Experiment load_experiment(const std::string& name_or_path) {
  std::filesystem::path file = name_or_path;
  const bool is_path = file.has_parent_path() || file.extension() == ".json";
  if (!is_path) {
    require_source_root();
    const auto names = known_experiments();
    if (std::find(names.begin(), names.end(), name_or_path) == names.end()) {
      throw InputError("unknown experiment '" + valid_utf8(name_or_path) + "'; " +
                       closest_names(name_or_path, names) + " (or give the path of a .json file)");
    }
    file = std::filesystem::path(source_root()) / "experiments" / (name_or_path + ".json");
  }
  Experiment experiment = parse_experiment(read_json_document(file));
  find_files(experiment, file.parent_path());
  if (file.stem() != experiment.name) {
    throw InputError(experiment.document.where("/name") + ": /name: \"" + experiment.name +
                     "\" must be the file's stem, \"" + file.stem().string() + "\"");
  }
  return experiment;
}

}  // namespace kmeans
