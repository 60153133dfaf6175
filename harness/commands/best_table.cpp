// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/best_table.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "harness/commands/columns.h"
#include "harness/record/agreement.h"
#include "harness/record/limit.h"
#include "harness/run/best.h"
#include "harness/support/formatted.h"
#include "harness/support/precision.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

/// A cell with a headline number.
struct Row {
  std::string variant;
  std::string precision;
  AnswerKind kind = AnswerKind::exact;
  double iteration = 0;  ///< Seconds, as the others.
  double setup = 0;
  double whole = 0;
  std::optional<double> share;  ///< Of the machine's limit.
  std::optional<double> differing;
  std::size_t processes = 0;
};

bool has_number(const json& cell) {
  return cell.at("status") == "ok" && cell.at("unsteady").empty() &&
         cell.at("seconds_per_iteration").is_object() && cell.at("setup_seconds").is_number();
}

Shape shape_of(const json& cell) {
  return {cell.at("n"), cell.at("d"), cell.at("k"),
          parse_precision(cell.at("precision").get<std::string>())};
}

Row row_of(const json& cell, const json& ceilings, const BestAsked& asked) {
  Row row;
  row.variant = cell.at("variant");
  row.precision = cell.at("precision");
  const Shape shape = shape_of(cell);
  row.kind = answer_kind(cell.at("exact").get<bool>(), shape.precision);
  row.iteration = cell.at("seconds_per_iteration").at("median");
  row.setup = cell.at("setup_seconds");
  row.whole = row.setup + static_cast<double>(asked.call) * row.iteration;
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

constexpr std::array kKinds{AnswerKind::exact, AnswerKind::certified, AnswerKind::approximate};

std::string block(AnswerKind kind, const std::vector<Row>& rows, const Row* baseline,
                  std::int64_t call) {
  std::vector<std::vector<std::string>> lines{
      {"variant", "", "iteration", "setup",
       counted(call, "iteration", "iterations") + " with setup", "of the limit",
       "scikit-learn takes", "processes", "answer"}};
  for (const auto& row : rows) {
    if (row.kind != kind) continue;
    lines.push_back({row.variant, row.precision, format_seconds(row.iteration),
                     format_seconds(row.setup), format_seconds(row.whole),
                     row.share ? format_percent(*row.share) : "-", against(row, baseline),
                     std::to_string(row.processes), answer_of(row)});
  }
  if (lines.size() == 1) return "";
  return std::string(title_of(kind)) + "\n" + aligned(lines) + "\n";
}

/// One line for every reason, with all that it holds for.
class Reasons {
 public:
  void add(const std::string& reason, const std::string& who) {
    const auto found = places_.find(reason);
    if (found != places_.end()) {
      entries_[found->second].second += ", " + who;
      return;
    }
    places_[reason] = entries_.size();
    entries_.emplace_back(reason, who);
  }
  [[nodiscard]] std::string text() const {
    std::string lines;
    for (const auto& [reason, who] : entries_) lines += "  " + who + ": " + reason + "\n";
    return lines;
  }

 private:
  std::map<std::string, std::size_t> places_;
  std::vector<std::pair<std::string, std::string>> entries_;
};

/// The first line of a reason: what follows is the output of a program.
std::string reason_of(const json& cell) {
  const std::string status = cell.at("status");
  if (status == "ok") {
    const json& unsteady = cell.at("unsteady");
    return unsteady.empty() ? "no time" : "unsteady: " + unsteady.front().get<std::string>();
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
  return text.empty() ? "" : "Not measured\n" + text + "\n";
}

/// What the columns mean where that is not plain.
std::string notes_on(const std::vector<Row>& rows, const Row* baseline) {
  std::string text =
      "Of the limit: the least time of an iteration by brute force that this machine's measured\n"
      "bandwidth and arithmetic allow, over the iteration's; what skips work may exceed 100 %.\n";
  if (baseline != nullptr) {
    text += "scikit-learn takes: its time of an iteration over the variant's.\n";
  }
  const bool python = std::any_of(rows.begin(), rows.end(), [](const Row& row) {
    return row.variant.rfind("python_", 0) == 0;
  });
  if (python) text += "Setup of Python variants holds the interpreter's start and imports.\n";
  return text + "\n";
}

std::string why_no_baseline(const json& cells) {
  for (const auto& cell : cells) {
    if (cell.at("variant") == kBestBaseline) return reason_of(cell);
  }
  return "left out, or not among the variants here";
}

std::string sentence_of(const Row& first, const Row* second, const Row* baseline,
                        std::int64_t call) {
  static constexpr std::array kWords{"exact", "certified", "approximate"};
  std::string text = "The fastest " + std::string(kWords.at(static_cast<std::size_t>(first.kind))) +
                     " variant here is " + first.variant + " (" + first.precision +
                     "): " + format_seconds(first.whole) + " for " +
                     counted(call, "iteration", "iterations") + " with setup";
  if (baseline != nullptr && baseline != &first) {
    text += "; an iteration of scikit-learn takes " + against(first, baseline) + " as long";
  }
  text += ".";
  if (second != nullptr && second->whole <= kAgreeingProcesses * first.whole) {
    text += formatted(" %s takes %.2f times as long: two processes may differ by that.",
                      second->variant.c_str(), second->whole / first.whole);
  }
  return text;
}

std::optional<BestWinner> winner_of(const std::vector<Row>& rows, const Row* baseline,
                                    std::int64_t call) {
  for (const AnswerKind kind : kKinds) {
    std::vector<const Row*> own;
    for (const auto& row : rows) {
      if (row.kind == kind) own.push_back(&row);
    }
    if (own.empty()) continue;
    const Row& first = *own.front();
    std::string sentence = sentence_of(first, own.size() > 1 ? own[1] : nullptr, baseline, call);
    // Whoever needs no bit for bit may have it faster.
    for (const auto& row : rows) {
      if (row.kind == kind || row.whole * kAgreeingProcesses >= first.whole) continue;
      sentence +=
          formatted(" %s (%s) takes %.2f of that time; its answer is %s.", row.variant.c_str(),
                    row.precision.c_str(), row.whole / first.whole, answer_of(row).c_str());
      break;
    }
    if (kind != AnswerKind::exact) {
      sentence = "No exact variant has a steady time here. " + sentence;
    }
    return BestWinner{first.variant, first.precision, sentence};
  }
  return std::nullopt;
}

}  // namespace

BestTable best_table(const json& result, const BestAsked& asked,
                     const std::vector<Absent>& absent) {
  const json& ceilings = result.at("context").at("ceilings");
  const json& cells = result.at("cells");
  std::vector<Row> rows;
  for (const auto& cell : cells) {
    if (has_number(cell)) rows.push_back(row_of(cell, ceilings, asked));
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.whole < b.whole; });
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [](const Row& row) { return row.variant == kBestBaseline; });
  const Row* baseline = found == rows.end() ? nullptr : &*found;
  BestTable table;
  if (!rows.empty()) {
    for (const AnswerKind kind : kKinds) table.text += block(kind, rows, baseline, asked.call);
    table.text += notes_on(rows, baseline);
    if (baseline == nullptr) {
      table.text += "Nothing is held against scikit-learn (" + std::string(kBestBaseline) +
                    "): " + why_no_baseline(cells) + "\n\n";
    }
  }
  table.text += not_measured(cells, absent);
  table.unsteady = std::any_of(cells.begin(), cells.end(), [](const json& cell) {
    return cell.at("status") == "ok" && !has_number(cell);
  });
  table.winner = winner_of(rows, baseline, asked.call);
  return table;
}

}  // namespace kmeans
