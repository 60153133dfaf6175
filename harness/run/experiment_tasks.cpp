// SPDX-License-Identifier: Apache-2.0
//
// What an experiment file wants besides its sweeps: traces, studies and fits.
#include <algorithm>
#include <set>

#include "datasets/dataset.h"
#include "harness/run/estimators.h"
#include "harness/run/experiment_parts.h"
#include "harness/run/follow.h"
#include "harness/study.h"

namespace kmeans::experiment_parts {
namespace {

using nlohmann::json;

/// The entries of a list, no two of the same name. `kinds`: what they are, in the plural.
template <class ReadOne>
auto read_named(const JsonReader& list, const std::string& kinds, const ReadOne& read_one) {
  std::set<std::string> names;
  return list.each([&](const JsonReader& object) {
    auto entry = read_one(object);
    if (!names.insert(entry.name).second) {
      object["name"].fail("two " + kinds + " are named \"" + entry.name + "\"");
    }
    return entry;
  });
}

/// Does a trace, study or fit take its points from a file, its own or the experiment's?
bool is_from_file(const JsonReader& object, const Experiment& experiment) {
  const JsonReader own = object["data"];
  return takes_points_from_file(own.present() ? own.value() : experiment.data);
}

/// What traces, studies and fits say alike: name, data, scales.
template <class Spec>
void read_common(const JsonReader& object, const Experiment& experiment, Spec& spec) {
  spec.pointer = object.pointer();
  spec.name = read_name(object["name"]);
  const auto given = [&](const char* key) { return object[key].present(); };
  spec.data = given("data") ? read_data(object["data"]) : experiment.data;
  spec.scales = !given("scales") ? scale_names()
                                 : object["scales"].filled().each([](const JsonReader& scale) {
                                     return scale.one_of(scale_names());
                                   });
  for (const char* key : {"n", "d"}) {
    if (takes_points_from_file(spec.data) && given(key)) {
      object[key].fail("is given by the data file, not here");
    }
  }
}

/// The first centroids of a trace or study: its own or the experiment's.
std::string own_init(const JsonReader& object, const Experiment& experiment) {
  return object["init"].present() ? read_init(object["init"]) : experiment.init;
}

/// k centroids of d numbers that are known beforehand, after an iteration.
void check_known_centroids(const JsonReader& object, const TraceSpec& spec) {
  object.allow_only({"iteration", "values", "absolute_tolerance"});
  object["iteration"].integer(1, spec.iterations);
  object["absolute_tolerance"].positive();
  const auto rows = object["values"].elements();
  bool fits = static_cast<std::int64_t>(rows.size()) == spec.shape.k;
  for (const JsonReader& row : rows) {
    const json& values = row.value();
    fits = fits && values.is_array() &&
           (!spec.shape.d || static_cast<std::int64_t>(values.size()) == spec.shape.d) &&
           std::all_of(values.begin(), values.end(), [](const json& v) { return v.is_number(); });
  }
  if (!fits) object["values"].fail("must hold k lists of d numbers");
}

json read_expectation(const JsonReader& object, const TraceSpec& spec) {
  object.allow_only({"inertia", "relative_tolerance", "labels_begin", "centroids"});
  if (const auto centroids = object["centroids"]; centroids.present()) {
    for (const JsonReader& known : centroids.elements()) check_known_centroids(known, spec);
  }
  object["relative_tolerance"].number(0, 1, 0);
  if (const auto inertia = object["inertia"]; inertia.present()) {
    const auto values = inertia.each([](const JsonReader& value) { return value.number(); });
    if (static_cast<std::int64_t>(values.size()) > spec.iterations) {
      inertia.fail("holds more values than there are iterations");
    }
    if (!object["relative_tolerance"].present()) {
      object.fail("lacks \"relative_tolerance\", needed to judge \"inertia\"");
    }
  }
  if (const auto labels = object["labels_begin"]; labels.present()) {
    for (const JsonReader& label : labels.elements()) label.integer(0, spec.shape.k - 1);
  }
  return object.value();
}

TraceSpec read_trace(const JsonReader& object, const Experiment& experiment) {
  object.allow_only({"name", "variant", "precision", "threads", "n", "d", "k", "iterations", "data",
                     "init", "scales", "keep_points", "keep_centroids", "stop", "expected"});
  TraceSpec trace;
  read_common(object, experiment, trace);
  trace.init = own_init(object, experiment);
  trace.variant = read_choice(object, false);
  trace.shape = read_shape(object, is_from_file(object, experiment));
  trace.iterations = object["iterations"].integer(1, kMaxIterations);
  trace.keep_points = object["keep_points"].integer(0, 1000000, 0);
  trace.keep_centroids = object["keep_centroids"].boolean(true);
  if (const auto expected = object["expected"]; expected.present()) {
    trace.expected = read_expectation(expected, trace);
  }
  trace.stop = object["stop"].text("");
  try {
    static_cast<void>(parse_stop(trace.stop));
  } catch (const InputError&) {
    object["stop"].fail_type("labels, movement:E or loss:E");
  }
  return trace;
}

StudySpec read_study(const JsonReader& object, const Experiment& experiment) {
  object.allow_only(
      {"name", "study", "n", "d", "k", "data", "init", "scales", "timeout_seconds", "parameters"});
  StudySpec spec;
  read_common(object, experiment, spec);
  spec.init = own_init(object, experiment);
  const Study& study =
      *object["study"].parsed([](const std::string& name) { return &require_study(name); });
  spec.study = study.name;
  const bool with_data = object["k"].present() || object["n"].present();
  if (study.needs_data && !with_data) {
    object.fail("lacks \"n\", \"d\" and \"k\": this study needs data");
  }
  if (with_data) spec.shape = read_shape(object, is_from_file(object, experiment));
  spec.timeout_seconds = object["timeout_seconds"].number(0.1, 1e6, spec.timeout_seconds);
  if (const auto parameters = object["parameters"]; parameters.present()) {
    parameters.require_object();
    spec.parameters = parameters.value();
  }
  return spec;
}

/// An estimator by the name of its file, implementations/python/fit_<name>.py.
std::string read_estimator(const JsonReader& value) {
  return value.parsed([](const std::string& name) { return require_estimator(name); });
}

/// A way to choose first centroids, without its seed: "random".
std::string read_way(const JsonReader& value) {
  return value.parsed([](const std::string& way) {
    static_cast<void>(parse_init(way + ":1"));
    return way;
  });
}

/// Of columns that are cut into several problems.
void read_problems(const JsonReader& object, const FitSpec& fit) {
  const JsonReader problems = object["problems"];
  if (fit.shape.d && *fit.shape.d % fit.problems != 0) {
    problems.fail("cuts the columns into parts of one width: d has to be a multiple of it");
  }
  if (fit.starts > 0 || object["from"].present()) {
    problems.fail("goes with neither \"starts\" nor \"from\"");
  }
}

/// An entry, still without its k.
FitSpec read_fit(const JsonReader& object, const Experiment& experiment) {
  object.allow_only({"name", "n", "d", "k", "data", "scales", "estimators", "seeds", "processes",
                     "max_seconds", "timeout_seconds", "from", "iterations", "starts", "problems",
                     "known_inertia"});
  FitSpec fit;
  read_common(object, experiment, fit);
  fit.init = "random:1";
  if (!is_from_file(object, experiment)) {
    fit.shape.n = object["n"].integer(1, kMaxSize);
    fit.shape.d = object["d"].integer(1, kMaxSize);
  }
  fit.estimators = object["estimators"].filled().each(read_estimator);
  if (std::set<std::string>(fit.estimators.begin(), fit.estimators.end()).size() !=
      fit.estimators.size()) {
    object["estimators"].fail("names an estimator twice");
  }
  fit.seeds = object["seeds"].integer<int>(1, 1000, fit.seeds);
  fit.processes = object["processes"].integer<int>(1, 100, fit.processes);
  if (fit.processes > fit.seeds) object.fail("has more processes than seeds to share out");
  fit.max_seconds = object["max_seconds"].number(0.01, 1e6, fit.max_seconds);
  fit.timeout_seconds = object["timeout_seconds"].number(0.1, 1e6, fit.timeout_seconds);
  fit.starts = object["starts"].integer<int>(1, 1000, fit.starts);
  fit.problems = object["problems"].integer<int>(1, 4096, fit.problems);
  if (fit.problems > 1) read_problems(object, fit);
  if (object["known_inertia"].present()) fit.known_inertia = object["known_inertia"].positive();
  if (object["from"].present() != object["iterations"].present()) {
    object.fail(
        "needs both \"from\" and \"iterations\", or neither: given first centroids, and how "
        "many iterations they are to see");
  }
  if (object["from"].present()) {
    fit.from = read_way(object["from"]);
    fit.iterations = object["iterations"].integer(1, kMaxIterations);
    if (fit.starts > 0) object["starts"].fail("means nothing where first centroids are given");
  }
  return fit;
}

}  // namespace

std::vector<FitSpec> read_fits(const JsonReader& list, const Experiment& experiment) {
  std::vector<FitSpec> fits;
  std::set<std::string> names;
  for (const JsonReader& object : list.elements()) {
    const FitSpec fit = read_fit(object, experiment);
    const JsonReader k = object["k"];
    const std::int64_t most = fit.shape.n.value_or(kMaxSize);
    const auto read_k = [most](const JsonReader& one) { return one.integer(1, most); };
    const std::vector<std::int64_t> sizes =
        k.present() && k.value().is_array() ? k.filled().each(read_k) : std::vector{read_k(k)};
    if (object["known_inertia"].present() && sizes.size() > 1) {
      object["known_inertia"].fail("belongs to one k, and there are several");
    }
    for (const std::int64_t size : sizes) {
      fits.push_back(fit);
      fits.back().name += "-k" + std::to_string(size);
      fits.back().shape.k = size;
      if (!names.insert(fits.back().name).second) {
        object["name"].fail("two fits are named \"" + fits.back().name + "\"");
      }
    }
  }
  return fits;
}

std::vector<TraceSpec> read_traces(const JsonReader& list, const Experiment& experiment) {
  return read_named(list, "traces",
                    [&](const JsonReader& object) { return read_trace(object, experiment); });
}

std::vector<StudySpec> read_studies(const JsonReader& list, const Experiment& experiment) {
  return read_named(list, "studies",
                    [&](const JsonReader& object) { return read_study(object, experiment); });
}

}  // namespace kmeans::experiment_parts
