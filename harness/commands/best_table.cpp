// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/best_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "harness/commands/columns.h"
#include "harness/record/agreement.h"
#include "harness/record/limit.h"
#include "harness/record/measures.h"
#include "harness/run/best.h"
#include "harness/run/fit_length.h"
#include "harness/support/formatted.h"
#include "harness/support/precision.h"
#include "harness/support/text.h"
#include "harness/variants/plugins.h"
#include "harness/variants/registry.h"

namespace kmeans {
namespace {

using nlohmann::json;

// Of one reason; `list` has all.
constexpr std::size_t kNamesOfReason = 4;

/// A cell with a time.
struct Row {
  std::string variant;
  std::string precision;
  AnswerKind kind = AnswerKind::exact;
  double iteration =
      0;  ///< Seconds, as the others. Of processes that disagree that of the slowest.
  double low =
      0;  ///< The median's interval, as a run has it; of processes that disagree their medians.
  double high = 0;
  double setup = 0;
  /// None of Python variants: their setup holds an interpreter's start, which is no part of a fit.
  std::optional<double> fit;
  std::optional<double> share;  ///< Of the machine's limit.
  std::optional<double> differing;
  std::int64_t iterations = 0;  ///< That were timed: those of a fit, or the first of them.
  std::size_t processes = 0;
  std::size_t samples = 0;  ///< Of all processes.
  std::string apart;        ///< Which processes disagree with the others; empty: none.
  bool unsteady = false;    ///< So many do that no number speaks for all.
  bool yours = false;       ///< Of a plugin.
};

bool has_number(const json& cell) {
  return cell.at("status") == "ok" && cell.at("seconds_per_iteration").is_object() &&
         cell.at("setup_seconds").is_number();
}

Shape shape_of(const json& cell) {
  return {cell.at("n"), cell.at("d"), cell.at("k"),
          parse_precision(cell.at("precision").get<std::string>())};
}

/// The interval of the median, or, of too few samples for one, the smallest and the largest.
void take_spread(const json& cell, Row& row) {
  const json& times = cell.at("seconds_per_iteration");
  const bool interval = times.contains("ci95_low") && times.at("ci95_low").is_number();
  row.low = times.value(interval ? "ci95_low" : "min", row.iteration);
  row.high = times.value(interval ? "ci95_high" : "max", row.iteration);
  std::vector<double> medians;
  for (const auto& process : cell.value("samples_seconds_per_iteration", json::array())) {
    row.samples += process.size();
    medians.push_back(median_of(process.get<std::vector<double>>()));
  }
  if (medians.empty()) return;
  const Agreement agreement = agreement_of(medians);
  row.unsteady = !agreement.majority();
  row.apart = row.unsteady ? agreement.groups() : outlying_processes(agreement);
  if (!row.unsteady) return;
  row.low = agreement.sorted.front();
  row.high = row.iteration = agreement.sorted.back();
}

Row row_of(const json& cell, const json& ceilings, const BestAsked& asked) {
  Row row;
  row.variant = cell.at("variant");
  row.precision = cell.at("precision");
  const Shape shape = shape_of(cell);
  row.kind = answer_kind(cell.at("exact").get<bool>(), shape.precision);
  row.iteration = cell.at("seconds_per_iteration").at("median");
  take_spread(cell, row);
  row.setup = cell.at("setup_seconds");
  row.yours = cell.at("backend") == kPluginBackend;
  if (cell.at("backend") != "python") {
    row.fit = row.setup + static_cast<double>(asked.fit) * row.iteration;
  }
  row.iterations = cell.value("iterations", asked.fit);
  row.processes = cell.at("processes");
  const bool gpu = cell.at("gpu").is_object();
  if (const auto limit = machine_limit(ceilings, asked.cache_bytes, shape, cell.at("threads"), gpu,
                                       cell.value("streamed", json()))) {
    row.share = limit->seconds / row.iteration;
  }
  const json& verification = cell.at("verification");
  if (verification.is_object() && verification.contains("labels_differing") &&
      verification.at("labels_differing").is_number()) {
    row.differing = verification.at("labels_differing");
  }
  return row;
}

/// "2.06 ms (1.9-2.3)", or with both units where they differ; "2.06 ms (one sample)"; "up to 2.1 ms (from 1 ms)"
/// where processes disagree.
std::string with_spread(const Row& row) {
  if (row.unsteady) {
    return "up to " + format_seconds(row.high) + " (from " + format_seconds(row.low) + ")";
  }
  if (row.samples == 1) return format_seconds(row.iteration) + " (one sample)";
  const std::string low = format_seconds(row.low);
  const std::string high = format_seconds(row.high);
  const std::string middle = format_seconds(row.iteration);
  const auto unit = [](const std::string& text) { return text.substr(text.find(' ')); };
  const auto number = [](const std::string& text) { return text.substr(0, text.find(' ')); };
  const bool same = unit(low) == unit(middle) && unit(high) == unit(middle);
  return middle + " (" + (same ? number(low) + "-" + number(high) : low + " - " + high) + ")";
}

std::string answer_of(const Row& row) {
  if (row.kind == AnswerKind::exact) return "exact";
  const std::string word = row.kind == AnswerKind::certified ? "certified" : "approximate";
  if (!row.differing) return word;
  return word + ", " + format_percent(*row.differing) + " of labels differ";
}

std::string against(const Row& row, const Row* baseline) {
  if (baseline == nullptr) return "-";
  if (&row == baseline) return "1 x";
  const double ratio = baseline->iteration / row.iteration;
  return formatted(ratio >= 100 ? "%.0f x" : "%.3g x", ratio);
}

/// Of fits where both have one, of iterations where neither has; else nothing is known.
std::optional<double> time_over(const Row& row, const Row& other) {
  if (row.fit.has_value() != other.fit.has_value()) return std::nullopt;
  return row.fit ? *row.fit / *other.fit : row.iteration / other.iteration;
}

/// Whom a plugin is held against: the first of its kind that is not its own.
std::string of_yours(const Row& row, const std::vector<Row>& rows) {
  const auto other = std::find_if(
      rows.begin(), rows.end(), [&](const Row& one) { return one.kind == row.kind && !one.yours; });
  if (other == rows.end()) return "yours, alone of its kind";
  const auto ratio = time_over(row, *other);
  if (!ratio) return "yours";
  return *ratio >= 1
             ? formatted("yours, %.3g times behind %s", *ratio, other->variant.c_str())
             : formatted("yours, %.3g times ahead of %s", 1 / *ratio, other->variant.c_str());
}

constexpr std::ptrdiff_t kTimedColumn = 3;

constexpr std::array kKinds{AnswerKind::exact, AnswerKind::certified, AnswerKind::approximate};

std::string block(AnswerKind kind, const std::vector<Row>& rows, const Row* baseline,
                  std::int64_t fit) {
  const bool all_whole =
      std::ranges::all_of(rows, [&](const Row& row) { return row.iterations >= fit; });
  std::vector<std::vector<std::string>> lines;
  const auto add = [&](std::vector<std::string> line, const std::string& timed) {
    if (!all_whole) line.insert(line.begin() + kTimedColumn, timed);
    lines.push_back(std::move(line));
  };
  add({"variant", "", "iteration", "setup", "fit of " + counted(fit, "iteration", "iterations"),
       "of the limit", "scikit-learn takes", "processes", "answer"},
      "timed");
  for (const auto& row : rows) {
    if (row.kind != kind) continue;
    add({row.variant, row.precision, with_spread(row), format_seconds(row.setup),
         row.fit ? format_seconds(*row.fit) : "-", row.share ? format_percent(*row.share) : "-",
         against(row, baseline), std::to_string(row.processes),
         answer_of(row) + (row.yours ? "; " + of_yours(row, rows) : "")},
        row.iterations >= fit ? "all" : "first " + std::to_string(row.iterations));
  }
  if (lines.size() == 1) return "";
  return std::string(title_of(kind)) + "\n" + aligned(lines) + "\n";
}

/// One line for every reason, with all that it holds for.
class Reasons {
 public:
  void add(const std::string& reason, const std::string& who) {
    const auto [place, added] = places_.emplace(reason, entries_.size());
    if (added) entries_.push_back({reason, {}});
    entries_[place->second].second.push_back(who);
  }
  [[nodiscard]] std::string text() const {
    std::string lines;
    for (const auto& [reason, names] : entries_) {
      lines += "  " + listed(names) + ": " + reason + "\n";
    }
    return lines;
  }

 private:
  /// All of a few names; of many the first ones, and how many more there are.
  static std::string listed(const std::vector<std::string>& names) {
    const std::size_t shown = names.size() <= kNamesOfReason ? names.size() : kNamesOfReason - 1;
    std::string text;
    for (std::size_t i = 0; i < shown; ++i) text += (i == 0 ? "" : ", ") + names[i];
    if (shown < names.size()) text += " and " + std::to_string(names.size() - shown) + " more";
    return text;
  }

  std::map<std::string, std::size_t> places_;
  std::vector<std::pair<std::string, std::vector<std::string>>> entries_;
};

/// The first line of a reason: what follows is the output of a program.
std::string reason_of(const json& cell) {
  const std::string status = cell.at("status");
  if (status == "ok") {
    return "no time";
  }
  const std::string reason = cell.at("reason").is_string() ? cell.at("reason") : json("");
  const std::string first = reason.substr(0, reason.find('\n'));
  return status == "skipped" ? first : status == "wrong" ? "WRONG: " + first : "failed: " + first;
}

bool is_absent_python(const json& cell) {
  return cell.at("backend") == "python" && cell.at("status") == "skipped" &&
         cell.at("processes") == 0;
}

/// Where none of Python's variants can run, one line says so: each lacks other packages.
std::string without_python(const json& cells) {
  std::vector<std::string> names;
  std::string reason;
  for (const auto& cell : cells) {
    if (cell.at("backend") != "python") continue;
    if (!is_absent_python(cell)) return "";
    const std::string name = cell.at("variant");
    if (names.empty() || names.back() != name) names.push_back(name);
    if (reason.empty() || name == kBestBaseline) reason = name + ": " + reason_of(cell);
  }
  if (names.size() < 2) return "";
  return counted(names.size(), "Python variant", "Python variants") + " (" + reason +
         "; `kmeans-bench list` has the others' reasons)";
}

/// A variant by its name alone where all its cells share a reason, else cell by cell.
std::string not_measured(const json& cells, const std::vector<Absent>& absent) {
  std::map<std::string, std::set<std::string>> fates;
  for (const auto& cell : cells) {
    fates[cell.at("variant")].insert(has_number(cell) ? std::string() : reason_of(cell));
  }
  Reasons reasons;
  std::set<std::string> named;
  const std::string python = without_python(cells);
  for (const auto& cell : cells) {
    if (has_number(cell) || (!python.empty() && is_absent_python(cell))) continue;
    std::string who = cell.at("variant");
    if (fates.at(who).size() > 1) who += " " + cell.at("precision").get<std::string>();
    if (named.insert(who).second) reasons.add(reason_of(cell), who);
  }
  for (const auto& one : absent) {
    for (const auto& variant : one.variants) reasons.add(one.reason, variant);
  }
  const std::string text = reasons.text() + (python.empty() ? "" : "  " + python + "\n");
  return text.empty() ? "" : "Not measured (`kmeans-bench list` names all)\n" + text + "\n";
}

/// What the columns mean where that is not plain.
std::string notes_on(const std::vector<Row>& rows, const Row* baseline) {
  std::string text =
      "Of the limit: the least time of an iteration by brute force that this machine's measured\n"
      "bandwidth and arithmetic allow, over the iteration's; what skips work may exceed 100 %.\n"
      "In brackets: the 95 % interval of the iteration's median, or the smallest and the "
      "largest.\n"
      "A fit: setup and all iterations; seeding, the same for all, comes on top.\n";
  if (std::any_of(rows.begin(), rows.end(), [](const Row& row) { return row.unsteady; })) {
    text += "Up to: processes disagree, so the slowest one counts.\n";
  }
  if (baseline != nullptr) {
    text += "scikit-learn takes: its time of an iteration over the variant's";
    const bool mixed = std::ranges::any_of(
        rows, [&](const Row& row) { return row.iterations != baseline->iterations; });
    text += mixed ? ", each of those that were timed.\n" : ".\n";
  }
  const bool python =
      std::any_of(rows.begin(), rows.end(), [](const Row& row) { return !row.fit; });
  if (python) {
    text +=
        "Setup of Python variants holds the interpreter's start and imports, which a program pays\n"
        "once: they have no fit here (`run fits` times theirs), and stand last, in the order of\n"
        "their iterations.\n";
  }
  return text + "\n";
}

std::string why_no_baseline(const json& cells) {
  for (const auto& cell : cells) {
    if (cell.at("variant") == kBestBaseline) return reason_of(cell);
  }
  return "left out, or not among the variants here";
}

std::string sentence_of(const Row& first, const Row* second, const Row* baseline,
                        const BestAsked& asked) {
  static constexpr std::array kWords{"exact", "certified", "approximate"};
  std::string kind = kWords.at(static_cast<std::size_t>(first.kind));
  std::string text = second == nullptr ? "Only one " + kind + " variant was measured, " +
                                             first.variant + " (" + first.precision + "): "
                                       : "The fastest " + kind + " variant here is " +
                                             first.variant + " (" + first.precision + "): ";
  text += first.fit ? format_seconds(*first.fit) + " for a fit of " +
                          counted(asked.fit, "iteration", "iterations")
                    : format_seconds(first.iteration) + " an iteration";
  if (baseline != nullptr && baseline != &first) {
    text += "; an iteration of scikit-learn";
    if (baseline->iterations < first.iterations) {
      text += ", of its first " + std::to_string(baseline->iterations) + ",";
    }
    text += " takes " + against(first, baseline) + " as long";
  }
  text += ".";
  if (first.iterations < asked.fit) {
    text += " That is expected from its first " +
            counted(first.iterations, "iteration", "iterations") + ".";
  }
  if (first.processes == 1) text += " One process has timed it.";
  if (second == nullptr && !asked.all_measured) {
    text += " Whether others are faster, more --seconds would show.";
  }
  if (first.unsteady) {
    text += " Its processes disagree (" + first.apart + "), and the slowest is meant.";
  } else if (!first.apart.empty()) {
    text += " Its processes do not all agree: " + first.apart + ".";
  }
  const auto ratio = second == nullptr ? std::nullopt : time_over(*second, first);
  if (ratio && *ratio <= kAgreeingProcesses) {
    text += formatted(" %s takes %.2f times as long: two processes may differ by that.",
                      second->variant.c_str(), *ratio);
  }
  return text;
}

/// Which Python variant of the same kind has a surely shorter iteration, if one has.
std::string shorter_iteration(const std::vector<const Row*>& own) {
  const Row& first = *own.front();
  const Row* best = nullptr;
  for (const Row* row : own) {
    if (row->fit || row->high >= first.low || row->iterations != first.iterations) continue;
    if (best == nullptr || row->iteration < best->iteration) best = row;
  }
  if (best == nullptr || !first.fit) return "";
  return formatted(" An iteration of %s takes %.2f of one of it; its fit is not known.",
                   best->variant.c_str(), best->iteration / first.iteration);
}

/// Who of the same kind has the shorter iteration, and from how many on that makes up for its setup.
std::string in_longer_fits(const std::vector<const Row*>& own, std::int64_t fit) {
  const Row& first = *own.front();
  const Row* other = nullptr;
  auto from = static_cast<double>(kLongestFit);
  for (const Row* row : own) {
    if (!row->fit || !first.fit || row->high >= first.low) continue;
    if (row->iterations != first.iterations) continue;  // later iterations may be quicker
    const double even = (row->setup - first.setup) / (first.iteration - row->iteration);
    if (even >= from || even < static_cast<double>(fit)) continue;
    from = even;
    other = row;
  }
  if (other == nullptr) return "";
  return formatted(" From about %.0f iterations on %s is faster.", std::ceil(from),
                   other->variant.c_str());
}

/// Why the first one is not exact. By that of the cells: some may have been measured in vain.
std::string why_none_exact(const json& cells) {
  bool tried = false;
  std::set<std::string> precisions;
  for (const auto& cell : cells) {
    precisions.insert(cell.at("precision").get<std::string>());
    if (!cell.at("exact").get<bool>()) continue;
    tried = true;
  }
  if (tried) return "No exact variant was measured here.";
  const auto& all = all_variants();
  const bool taken = std::any_of(precisions.begin(), precisions.end(), [&](const auto& name) {
    return std::any_of(all.begin(), all.end(), [&](const RegisteredVariant& variant) {
      return variant.traits.exact && takes(variant.traits, parse_precision(name));
    });
  });
  if (taken) return "No exact variant is among these.";
  std::string names;
  for (const auto& name : precisions) names += (names.empty() ? "" : " or ") + name;
  return "No exact variant takes " + names + ".";
}

/// What `fit` takes where nobody chooses, if it is another.
std::string of_unchosen(const std::vector<const Row*>& own, const std::string& unchosen) {
  const auto row = std::find_if(own.begin(), own.end(),
                                [&](const Row* one) { return one->variant == unchosen; });
  if (row == own.end() || row == own.begin()) return "";
  const auto ratio = time_over(**row, *own.front());
  if (!ratio) return "";
  return formatted(" Without --variant, fit runs %s: %.2f times as long.", unchosen.c_str(),
                   *ratio);
}

std::string of_plugins(const std::vector<const Row*>& own, const std::vector<Row>& rows) {
  std::string text;
  for (const Row* row : own) {
    if (row->yours) text += " " + row->variant + ": " + of_yours(*row, rows) + ".";
  }
  return text;
}

std::optional<BestWinner> winner_of(const std::vector<Row>& rows, const json& cells,
                                    const Row* baseline, const BestAsked& asked) {
  for (const AnswerKind kind : kKinds) {
    std::vector<const Row*> own;
    for (const auto& row : rows) {
      if (row.kind == kind) own.push_back(&row);
    }
    if (own.empty()) continue;
    const Row& first = *own.front();
    std::string sentence = sentence_of(first, own.size() > 1 ? own[1] : nullptr, baseline, asked);
    sentence += in_longer_fits(own, asked.fit) + shorter_iteration(own) +
                of_unchosen(own, asked.unchosen) + of_plugins(own, rows);
    // Whoever needs no bit for bit may have it faster.
    for (const auto& row : rows) {
      const auto ratio = time_over(row, first);
      if (row.kind == kind || !ratio || *ratio * kAgreeingProcesses >= 1) continue;
      sentence +=
          formatted(" %s (%s) takes %.2f of that time; its answer is %s.", row.variant.c_str(),
                    row.precision.c_str(), *ratio, answer_of(row).c_str());
      break;
    }
    if (kind != AnswerKind::exact) {
      sentence = why_none_exact(cells) + " " + sentence;
    }
    return BestWinner{first.variant, first.precision, sentence};
  }
  return std::nullopt;
}

/// Of the cells of a variant that have a fit's first iterations and all of them: all, where these were measured.
json standing(const json& cells) {
  json all = json::array();
  for (const auto& cell : cells) {
    const auto same = [&](const json& other) {
      return other.at("variant") == cell.at("variant") &&
             other.at("precision") == cell.at("precision");
    };
    const auto other = std::find_if(all.begin(), all.end(), same);
    if (other == all.end()) {
      all.push_back(cell);
      continue;
    }
    const bool more = cell.value("iterations", 0) > other->value("iterations", 0);
    const json& whole = more ? cell : *other;
    if (more == (whole.at("status") != "skipped")) *other = cell;
  }
  return all;
}

}  // namespace

BestTable best_table(const json& result, const BestAsked& asked,
                     const std::vector<Absent>& absent) {
  const json& ceilings = result.at("context").at("ceilings");
  const json cells = standing(result.at("cells"));
  std::vector<Row> rows;
  for (const auto& cell : cells) {
    if (has_number(cell)) rows.push_back(row_of(cell, ceilings, asked));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    if (a.fit && b.fit) return *a.fit < *b.fit;
    return a.fit.has_value() != b.fit.has_value() ? a.fit.has_value() : a.iteration < b.iteration;
  });
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [](const Row& row) { return row.variant == kBestBaseline; });
  const Row* baseline = found == rows.end() ? nullptr : &*found;
  BestTable table;
  if (!rows.empty()) {
    for (const AnswerKind kind : kKinds) table.text += block(kind, rows, baseline, asked.fit);
    table.text += notes_on(rows, baseline);
    if (baseline == nullptr) {
      table.text += "Nothing is held against scikit-learn (" + std::string(kBestBaseline) +
                    "): " + why_no_baseline(cells) + "\n\n";
    }
  }
  table.text += not_measured(cells, absent);
  table.winner = winner_of(rows, cells, baseline, asked);
  for (const auto& row : rows) {
    if (row.kind == AnswerKind::exact && row.fit) table.exact_fits.emplace(row.variant, *row.fit);
  }
  return table;
}

}  // namespace kmeans
