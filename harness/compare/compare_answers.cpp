// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/compare_answers.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <tuple>
#include <utility>

#include "harness/compare/compare_context.h"
#include "harness/record/agreement.h"
#include "harness/record/answers.h"
#include "harness/support/formatted.h"
#include "harness/support/json_file.h"
#include "harness/support/json_member.h"
#include "harness/support/only.h"
#include "harness/support/text.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

using nlohmann::json;

// A clock and a neighbour on the same core explain a pace of up to about twice the best
// (docs/running.md). What is worse says little of the timed part between two looks.
constexpr double kSlowestClock = 2;
// The verifier lets each side be 1 % away from the exact trajectory (harness/verify/trajectory.cpp).
constexpr double kInertiaTolerance = 0.02;
constexpr double kExactInertiaTolerance = 1e-12;

json dataset_hash(const ResultFile& file, const CellResult& cell) {
  const json& datasets = file.context.at("datasets");
  const auto found = datasets.find(cell.key.points());
  return found == datasets.end() ? json() : found->at("sha256");
}

ComparedSide side_of(const CellResult& cell) {
  ComparedSide side;
  side.status = cell.status;
  side.reason = cell.reason;
  if (!cell.samples.empty()) side.seconds = headline_median(cell.samples);
  side.processes = cell.samples.size();
  for (const auto& process : cell.samples) side.samples += process.size();
  side.unsteady = cell.unsteady;
  side.noted = cell.noted;
  const json summary = member(cell.data, "seconds_per_iteration");
  if (summary.is_object()) {
    const json low = member(summary, "ci95_low");
    const json high = member(summary, "ci95_high");
    if (low.is_number() && high.is_number()) {
      side.low = low.get<double>();
      side.high = high.get<double>();
    }
  }
  return side;
}

double relative_difference(double base, double changed) {
  if (base == changed) return 0;
  return base > 0 ? changed / base - 1 : 1;
}

/// What a change of status means: a sentence, and is it a regression?
void compare_status(const std::string& base, const std::string& changed, const std::string& reason,
                    std::vector<std::string>& sentences, bool& regression, bool& lost) {
  if (base == changed) return;
  std::string sentence = "was " + base + ", is " + changed;
  if (!reason.empty()) sentence += ": " + valid_utf8(reason);
  sentences.push_back(sentence);
  regression = regression || changed == "wrong" || (changed == "error" && base == "ok");
  lost = base == "ok" && changed == "skipped";
}

/// Do the bits of a cell differ from process to process?
bool varies(const CellResult& cell) {
  return member(cell.data, "bit_equal_across_processes") == false;
}

/// Names of the checks that did not pass, of a cell that says it is right.
std::vector<std::string> failed_checks(const CellResult& cell) {
  std::vector<std::string> names;
  const json verification = member(cell.data, "verification");
  if (!verification.is_object()) return names;
  if (member(verification, "passed") == false) names.emplace_back("the verification as a whole");
  const json checks = member(verification, "checks");
  if (!checks.is_array()) return names;
  for (const auto& check : checks) {
    if (!check.is_object() || member(check, "passed") != false) continue;
    const std::string name = text_in(check, "name");
    names.push_back(name.empty() ? "one without a name" : valid_utf8(name));
  }
  return names;
}

template <class Add>
void compare_inertia(const AnswerDifference& inertia, bool exact, const Add& add) {
  if (inertia.after.is_null()) {
    add("the inertia is no longer finite", true);
    return;
  }
  const auto before = inertia.before.get<double>();
  const auto after = inertia.after.get<double>();
  const double difference = relative_difference(before, after);
  const double tolerance = exact ? kExactInertiaTolerance : kInertiaTolerance;
  if (std::abs(difference) <= tolerance) return;
  add(formatted("inertia %.9g in base, %.9g in new, a relative %.3g; at most %.2g is rounding",
                before, after, difference, tolerance),
      true);
}

/// Answers of two certified runs. Those of exact variants are defined to the last bit, on every
/// machine; of all others each side has passed its certificate, and other bits are but news: none
/// at all where they differ within one side.
void compare_answers(const CellResult& base, const CellResult& changed, ComparedCell& cell) {
  const auto add = [&](const std::string& sentence, bool regression) {
    cell.correctness.push_back(sentence);
    cell.correctness_regression = cell.correctness_regression || regression;
  };
  // What base did not know is not lost.
  auto differences = answer_differences(base, changed);
  std::erase_if(differences, [](const AnswerDifference& one) { return one.before.is_null(); });
  std::string others;
  for (const auto& [what, before, after] : differences) {
    if (what == "inertia" || what == "empty clusters") continue;
    if (after.is_null()) {
      add("the hash of its " + what + " is missing", true);
    } else if (base.exact) {
      add("other " + what + ": hash " + before.get<std::string>() + " in base, " +
              after.get<std::string>() + " in new, of an exact variant",
          true);
    } else {
      others += (others.empty() ? "other " : " and ") + what;
    }
  }
  if (!others.empty() && !bits_vary(base, changed)) add(others + ", both certified", false);
  const auto difference_in = [&](const char* what) {
    return std::find_if(differences.begin(), differences.end(),
                        [&](const AnswerDifference& one) { return one.what == what; });
  };
  if (const auto found = difference_in("inertia"); found != differences.end()) {
    compare_inertia(*found, base.exact, add);
  }
  const auto empty_clusters = difference_in("empty clusters");
  const bool uncounted = empty_clusters != differences.end() && empty_clusters->after.is_null();
  if (uncounted) add("the count of empty clusters is missing", true);
  for (const auto& check : failed_checks(changed)) {
    add("called verified although a check did not pass: " + check, true);
  }
  if (empty_clusters != differences.end() && !uncounted) {
    add(spoken("empty clusters", empty_clusters->before, empty_clusters->after), base.exact);
  }
  if (member(base.data, "bit_equal_across_processes") == true && varies(changed)) {
    add("its processes no longer agree bit for bit", base.exact);
  }
}

/// A cell's key with the hash of its points instead of the name of the file that they came from;
/// empty where they came from no file. The same file at another place is the same work.
std::string key_by_content(const ResultFile& file, const CellResult& cell) {
  const json hash = dataset_hash(file, cell);
  if (!hash.is_string()) return "";
  const json spec = member(file.context.at("datasets").at(cell.key.points()), "spec");
  if (!spec.is_object() || !spec.contains("file")) return "";
  CellKey key = cell.key;
  key.dataset = hash.get<std::string>();
  return key.text();
}

/// Pairs what is left by `name`, where that is unmistakable; what has no name is left.
template <class NameInBase, class NameInNew>
void match_rest(std::vector<MatchedCell>& matches, std::map<std::string, const CellResult*>& rest,
                const NameInBase& in_base, const NameInNew& in_new) {
  std::map<std::string, std::vector<const CellResult*>> offered;
  std::map<std::string, int> wanted;
  for (const auto& [key, cell] : rest) offered[in_new(*cell)].push_back(cell);
  for (const auto& match : matches) {
    if (match.changed == nullptr) ++wanted[in_base(*match.base)];
  }
  for (auto& match : matches) {
    if (match.changed != nullptr) continue;
    const std::string name = in_base(*match.base);
    const auto found = offered.find(name);
    if (name.empty() || found == offered.end()) continue;
    if (found->second.size() != 1 || wanted[name] != 1) continue;
    match.changed = found->second.front();
    rest.erase(match.changed->key.text());
  }
}

bool is_exact_variant(const std::string& name, const ResultFile& file) {
  const auto cell = std::find_if(file.cells.begin(), file.cells.end(),
                                 [&](const CellResult& c) { return c.key.variant == name; });
  if (cell != file.cells.end()) return cell->exact;
  const RegisteredVariant* registered = find_variant(name);
  return registered != nullptr && registered->traits.exact;
}

/// Do they differ in one of these? It is said, and no more is compared.
bool is_other_work(std::initializer_list<const char*> keys, const json& base, const json& changed,
                   ComparedRecord& record) {
  for (const char* key : keys) {
    if (member(base, key) == member(changed, key)) continue;
    record.correctness.push_back("not compared, being other work: " +
                                 spoken(key, member(base, key), member(changed, key)));
    return true;
  }
  return false;
}

void compare_trace(const ResultFile& file, const json& base, const json& changed,
                   ComparedRecord& record) {
  if (is_other_work({"variant", "precision", "dataset", "n", "d", "k", "init", "stop"}, base,
                    changed, record)) {
    return;
  }
  compare_status(text_in(base, "status"), text_in(changed, "status"), text_in(changed, "reason"),
                 record.correctness, record.correctness_regression, record.lost);
  if (text_in(base, "status") != "ok" || text_in(changed, "status") != "ok") return;
  const bool exact = is_exact_variant(text_in(base, "variant"), file);
  const auto add = [&](const std::string& sentence) {
    record.correctness.push_back(sentence);
    record.correctness_regression = record.correctness_regression || exact;
  };
  for (const auto& [what, before, after] : trace_differences(base, changed)) {
    if (what == "iterations") {
      add(to_line(before) + " iterations in base, " + to_line(after) + " in new");
    } else if (what == "labels" && after.is_null()) {
      add("the hash of its labels is missing");
      record.correctness_regression = true;
    } else if (what == "labels" && !before.is_null()) {
      add(spoken("label hash", before, after));
    }
  }
}

}  // namespace

std::string incomparable(const ResultFile& base_file, const CellResult& base,
                         const ResultFile& new_file, const CellResult& changed) {
  const Shape& was = base.key.shape;
  const Shape& is = changed.key.shape;
  if (was.n != is.n || was.d != is.d) {
    return formatted("the data have other sizes: %lld x %lld in base, %lld x %lld in new",
                     static_cast<long long>(was.n), static_cast<long long>(was.d),
                     static_cast<long long>(is.n), static_cast<long long>(is.d));
  }
  if (base.init != changed.init) {
    return "the first centroids differ: " + valid_utf8(base.init) + " in base, " +
           valid_utf8(changed.init) + " in new";
  }
  const json before = dataset_hash(base_file, base);
  const json after = dataset_hash(new_file, changed);
  // A cell that never ran may have no data set on file; one that did computed with something.
  for (const auto& [side, cell, hash] :
       {std::tuple{"base", &base, &before}, std::tuple{"new", &changed, &after}}) {
    if (hash->is_null() && cell->status == "ok") {
      return std::string("the SHA-256 of its data is not on record in ") + side;
    }
  }
  if (!before.is_null() && !after.is_null() && before != after) {
    return "the data differ: SHA-256 " + before.get<std::string>().substr(0, 12) + " in base, " +
           after.get<std::string>().substr(0, 12) + " in new";
  }
  if (base.exact != changed.exact) {
    return std::string("the variant is ") + (base.exact ? "" : "not ") + "exact in base, " +
           (changed.exact ? "" : "not ") + "exact in new";
  }
  return "";
}

bool goes_with_pace(const CellResult& cell) {
  return !cell.paces.empty() && !member(cell.data, "gpu").is_object();
}

CellResult at_pace(const CellResult& cell, double pace) {
  CellResult result = cell;
  for (std::size_t process = 0; process < result.samples.size(); ++process) {
    const double slower = std::min(cell.paces[process] / pace, kSlowestClock);
    for (double& sample : result.samples[process]) sample /= slower;
  }
  result.median = headline_median(result.samples);
  result.data.erase("seconds_per_iteration");  // its interval is that of the times as measured
  return result;
}

bool bits_vary(const CellResult& base, const CellResult& changed) {
  return !base.exact && (varies(base) || varies(changed));
}

ComparedCell compare_cell(const ResultFile& base_file, const CellResult& base,
                          const CellResult& changed) {
  ComparedCell cell;
  cell.experiment = base_file.experiment;
  cell.key = base.key;
  cell.new_key = changed.key;
  cell.backend = base.backend;
  cell.base = side_of(base);
  cell.changed = side_of(changed);
  compare_status(base.status, changed.status, changed.reason, cell.correctness,
                 cell.correctness_regression, cell.lost);
  const auto broken = [](const CellResult& one) {
    return (one.status == "wrong" || one.status == "error") && !one.wrong_because;
  };
  cell.still_broken = broken(base) && broken(changed);
  if (base.status == "ok" && changed.status == "ok") {
    compare_answers(base, changed, cell);
  } else {
    cell.why = "untimed: " + base.status + " in base, " + changed.status + " in new";
  }
  return cell;
}

std::vector<MatchedCell> match_cells(const ResultFile& base, const ResultFile& changed,
                                     bool cross_hardware) {
  std::map<std::string, const CellResult*> rest;
  for (const auto& cell : changed.cells) rest.emplace(cell.key.text(), &cell);
  std::vector<MatchedCell> matches;
  for (const auto& cell : base.cells) {
    const auto found = rest.find(cell.key.text());
    matches.push_back({&cell, found == rest.end() ? nullptr : found->second});
    if (found != rest.end()) rest.erase(found);
  }
  match_rest(
      matches, rest, [&](const CellResult& cell) { return key_by_content(base, cell); },
      [&](const CellResult& cell) { return key_by_content(changed, cell); });
  if (cross_hardware) {
    const auto work = [](const CellResult& cell) { return cell.key.work(); };
    match_rest(matches, rest, work, work);
  }
  for (const auto& cell : changed.cells) {
    if (rest.contains(cell.key.text())) matches.push_back({nullptr, &cell});
  }
  return matches;
}

std::string absence(const CellKey& key, const std::vector<MatchedCell>& matches) {
  for (const auto& match : matches) {
    if (match.base != nullptr || match.changed->key.variant != key.variant) continue;
    const CellKey& other = match.changed->key;
    const int differing =
        (other.shape.precision != key.shape.precision ? 1 : 0) +
        (other.dataset != key.dataset ? 1 : 0) + (other.shape.k != key.shape.k ? 1 : 0) +
        (other.iterations != key.iterations ? 1 : 0) + (other.threads != key.threads ? 1 : 0);
    if (differing == 1) {
      return "not in new, which has " + other.text() + ": other work is not compared";
    }
  }
  return "not in new";
}

namespace {

/// The call of the same estimator with the same seed; null where there is none.
const json* same_call(const json& fit, const json& call) {
  for (const auto& other : member(fit, "calls")) {
    if (member(other, "estimator") == member(call, "estimator") &&
        member(other, "seed") == member(call, "seed")) {
      return &other;
    }
  }
  return nullptr;
}

/// An exact estimator has the same bits everywhere, given a seed; what a library answers is its own matter.
void compare_calls(const json& base, const json& changed, const std::string& estimator,
                   ComparedRecord& record) {
  for (const auto& call : member(base, "calls")) {
    const json* other = same_call(changed, call);
    if (text_in(call, "estimator") != estimator || other == nullptr) continue;
    for (const char* key : {"label_hash", "centroid_hash"}) {
      if (member(call, key) == member(*other, key)) continue;
      record.correctness.push_back(estimator + ", seed " + to_line(member(call, "seed")) + ": " +
                                   spoken(key, member(call, key), member(*other, key)));
      record.correctness_regression = true;
    }
  }
}

void compare_fit(const json& base, const json& changed, ComparedRecord& record) {
  if (is_other_work({"dataset", "n", "d", "k", "from", "iterations", "starts", "problems"}, base,
                    changed, record)) {
    return;
  }
  compare_status(text_in(base, "status"), text_in(changed, "status"), text_in(changed, "reason"),
                 record.correctness, record.correctness_regression, record.lost);
  for (const auto& row : member(base, "rows")) {
    const std::string estimator = text_in(row, "estimator");
    for (const auto& other : member(changed, "rows")) {
      const bool both = text_in(row, "status") == "ok" && text_in(other, "status") == "ok";
      if (text_in(other, "estimator") != estimator || !both) continue;
      if (member(row, "exact") == true) compare_calls(base, changed, estimator, record);
    }
  }
}

}  // namespace

void compare_records(const ResultFile& base, const ResultFile& changed,
                     const CompareSettings& settings, Comparison& comparison) {
  const auto selected = [&](const std::string& name) {
    return !settings.only || takes(*settings.only, {base.experiment, name});
  };
  const auto compare_list = [&](const char* kind, const json& before, const json& after) {
    std::map<std::string, const json*> by_name;
    for (const auto& record : after) by_name.emplace(text_in(record, "name"), &record);
    for (const auto& record : before) {
      const std::string name = text_in(record, "name");
      if (!selected(name)) continue;
      const auto found = by_name.find(name);
      if (found == by_name.end()) {
        if (text_in(record, "status") != "skipped") {
          comparison.missing.push_back(
              {base.experiment, std::string(kind) + " " + name, "not in new", true});
        }
        continue;
      }
      ComparedRecord compared{base.experiment, kind, name, {}, false, false};
      if (std::string_view(kind) == "trace") {
        compare_trace(base, record, *found->second, compared);
      } else if (std::string_view(kind) == "fit") {
        compare_fit(record, *found->second, compared);
      } else {
        compare_status(text_in(record, "status"), text_in(*found->second, "status"),
                       text_in(*found->second, "reason"), compared.correctness,
                       compared.correctness_regression, compared.lost);
      }
      if (!compared.correctness.empty()) comparison.records.push_back(std::move(compared));
    }
  };
  compare_list("trace", base.traces, changed.traces);
  compare_list("study", base.studies, changed.studies);
  compare_list("fit", base.fits, changed.fits);
}

}  // namespace kmeans
