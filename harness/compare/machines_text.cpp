// SPDX-License-Identifier: Apache-2.0
//
// A comparison of machines as people read it: one sentence, then tables.
#include <algorithm>
#include <array>
#include <cmath>

#include "harness/compare/compare.h"
#include "harness/compare/machines.h"
#include "harness/support/formatted.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

constexpr std::size_t kListed = 20;  // disagreements and the like; the JSON has all

std::string name_of(const json& machine) { return machine.at("name").get<std::string>(); }

/// Only a device goes by an article: labels are names of their own.
std::string with_article(const json& machine, const char* article) {
  const bool label = machine.at("name") == machine.at("label");
  return (label ? "" : article) + name_of(machine);
}

std::string factor(double ratio) { return formatted(ratio < 10 ? "%.2f" : "%.3g", ratio); }

std::string joined(const std::vector<std::string>& parts, const char* last) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += (i == 0 ? "" : i + 1 == parts.size() ? last : ", ") + parts[i];
  }
  return text;
}

/// 16.8M, 50k, 1024.
std::string count_text(std::int64_t count) {
  if (count >= 1'000'000) return formatted("%.3gM", static_cast<double>(count) / 1e6);
  if (count >= 10'000 && count % 1000 == 0) return std::to_string(count / 1000) + "k";
  return std::to_string(count);
}

/// What made the points: "gaussian" of "gaussian-1000x2-s1".
std::string origin_of(const MachineCell& cell) {
  return cell.key.dataset.substr(0, cell.key.dataset.find('-'));
}

std::string shape_text(const MachineCell& cell) {
  const Shape& shape = cell.key.shape;
  return count_text(shape.n) + " x " + count_text(shape.d) + ", k " + count_text(shape.k);
}

/// With what made the points, where that is not the same everywhere.
std::string problem_text(const MachinePair& pair, const MachineCell& cell) {
  const bool several =
      std::any_of(pair.cells.begin(), pair.cells.end(),
                  [&](const MachineCell& other) { return origin_of(other) != origin_of(cell); });
  return shape_text(cell) + (several ? ", " + origin_of(cell) : "");
}

const MachineCell& least(const MachinePair& pair, const MachineGroup& group) {
  return pair.cells[group.extremes.first];
}

const MachineCell& most(const MachinePair& pair, const MachineGroup& group) {
  return pair.cells[group.extremes.second];
}

std::string range_text(const MachinePair& pair, const MachineGroup& group) {
  const std::string from = factor(least(pair, group).speed.ratio);
  const std::string to = factor(most(pair, group).speed.ratio);
  return from == to ? from : from + " to " + to;
}

/// "faster at 1, slower at 4 and equal at 3"
std::string counts_text(const MachineGroup& group) {
  std::vector<std::string> parts;
  for (const auto& [word, count] : {std::pair{"faster at ", group.faster},
                                    {"slower at ", group.slower},
                                    {"equal at ", group.equal}}) {
    if (count > 0) parts.push_back(word + std::to_string(count));
  }
  return joined(parts, " and ");
}

/// "equal at 3 of 4 shapes where products bind (0.97 to 1.08)"
std::string clause(const MachinePair& pair, const MachineGroup& group) {
  const std::string where = place_of(group.kind);
  const std::string times = factor(group.speed.ratio) + " times as fast";
  const std::string range = range_text(pair, group);
  const std::string of = " of " + std::to_string(group.shapes) + " shapes ";
  const bool alone = group.shapes == 1;
  switch (group.verdict) {
    case MachineVerdict::faster:
      return times + " " + where + (alone ? "" : " (" + range + " by shape)");
    case MachineVerdict::slower:
      return "slower " + where + " (" + times + (alone ? ")" : "; " + range + " by shape)");
    case MachineVerdict::equal:
      if (group.equal == group.shapes) return "equal " + where;
      // The rest is undecided alone, equal together.
      if (group.faster + group.slower == 0) return "equal " + where + " (" + range + " by shape)";
      return "equal at " + std::to_string(group.equal) + of + where + " (" + range + ")";
    case MachineVerdict::mixed:
      return counts_text(group) + of + where + " (from " + factor(least(pair, group).speed.ratio) +
             " times as fast at " + shape_text(least(pair, group)) + " to " +
             factor(most(pair, group).speed.ratio) + " at " + shape_text(most(pair, group)) + ")";
    case MachineVerdict::undecided: break;
  }
  return "undecided " + where + (alone ? "" : " (" + range + " by shape)");
}

/// Of the kinds that a limit binds, or of the rest.
std::string clauses(const MachinePair& pair, bool on_gpu, bool bound) {
  std::string text;
  for (const auto verdict : {MachineVerdict::faster, MachineVerdict::equal, MachineVerdict::slower,
                             MachineVerdict::mixed, MachineVerdict::undecided}) {
    for (const auto& group : pair.groups) {
      const bool rest = group.kind == WorkKind::several || group.kind == WorkKind::other;
      if (group.on_gpu != on_gpu || group.verdict != verdict || rest == bound) continue;
      text += (text.empty() ? "" : "; ") + clause(pair, group);
    }
  }
  return text;
}

std::string commits_text(const json& commits) {
  std::vector<std::string> names;
  for (const auto& commit : commits) {
    const auto name = commit.get<std::string>();
    const auto space = name.find(' ');  // " with local changes"
    names.push_back(name.substr(0, 7) + (space == std::string::npos ? "" : name.substr(space)));
  }
  return joined(names, " and ");
}

std::string answers_line(const MachinePair& pair) {
  if (!pair.disagreements.empty()) {
    return "ANSWERS DISAGREE: " + counted(pair.disagreements.size(), "finding", "findings") +
           ". One of the two machines, or its build, computes something else";
  }
  if (pair.exact_answers == 0) return "No exact variant has an answer on both";
  return "The answers of all " + counted(pair.exact_answers, "exact cell", "exact cells") +
         " agree to the last bit";
}

std::string counts_line(const MachinePair& pair) {
  std::string line = counted(pair.cells.size(), "cell", "cells") + " timed on both";
  if (pair.untimed > 0) line += ", " + std::to_string(pair.untimed) + " with a time on one alone";
  return line + ", " + std::to_string(pair.first_alone) + " on " + name_of(pair.first) +
         " alone, " + std::to_string(pair.second_alone) + " on " + name_of(pair.second) + " alone";
}

std::string interval_text(const SpeedRatio& speed) {
  if (!speed.low) return "-";
  return factor(*speed.low) + " .. " + factor(*speed.high);
}

std::string variant_text(const MachineCell& cell) {
  std::string text = cell.key.variant + " " + to_string(cell.key.shape.precision);
  const int gpus = std::max(cell.key.gpus, cell.key.ranks);
  if (cell.on_gpu && gpus > 1) text += formatted(" on %d GPUs", gpus);
  if (cell.key.threads != cell.other_threads) {
    text += formatted(" (%d and %d threads)", cell.key.threads, cell.other_threads);
  }
  return text + (cell.changed ? " (changed)" : "") + (cell.unsteady ? " ?" : "");
}

using TextRow = std::array<std::string, 8>;

TextRow cell_row(const MachinePair& pair, const MachineCell& cell) {
  return {to_string(cell.verdict),
          factor(cell.speed.ratio),
          interval_text(cell.speed),
          format_seconds(cell.seconds.first),
          format_seconds(cell.seconds.second),
          problem_text(pair, cell),
          to_string(cell.kind),
          variant_text(cell)};
}

TextRow cell_head(const MachinePair& pair) {
  return {"verdict", "times as fast", "interval", name_of(pair.first), name_of(pair.second),
          "shape",   "what binds",    "variant"};
}

TextRow group_row(const MachinePair& pair, const MachineGroup& group) {
  return {to_string(group.verdict),
          factor(group.speed.ratio),
          interval_text(group.speed),
          range_text(pair, group),
          std::to_string(group.shapes),
          std::to_string(group.faster) + " faster, " + std::to_string(group.slower) + " slower, " +
              std::to_string(group.equal) + " equal",
          group.on_gpu ? "GPU" : "CPU",
          place_of(group.kind)};
}

constexpr std::array<const char*, 8> kGroupHead{"verdict", "times as fast", "interval", "by shape",
                                                "shapes",  "of them",       "on",       "where"};

std::string aligned(const std::vector<TextRow>& rows) {
  std::array<std::size_t, 8> widths{};
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      const bool right = i >= 1 && i <= 4;
      text += "  " + (right ? space + row[i] : row[i] + (i + 1 < row.size() ? space : ""));
    }
    text += "\n";
  }
  return text;
}

std::string markdown_table(const std::vector<TextRow>& rows) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const auto& cell : rows[i]) text += "| " + markdown_escaped(cell) + " ";
    text += "|\n";
    if (i == 0) text += "|---|---:|---:|---:|---:|---|---|---|\n";
  }
  return text;
}

/// Three digits, without an exponent: 3180, 65.2.
std::string rate_text(double value) {
  if (value < 1000) return formatted("%.3g", value);
  const double unit = std::pow(10, std::floor(std::log10(value)) - 2);
  return formatted("%.0f", std::round(value / unit) * unit);
}

std::string limits_line(const json& machine) {
  const json& both = machine.at("limits");
  const bool gpu = both.at("gpu").is_object();
  const json limits = gpu ? both.at("gpu") : both.at("cpu");
  std::string line = machine.at("label").get<std::string>() + ": ";
  line += gpu ? machine.at("gpu").get<std::string>() : machine.at("cpu").get<std::string>();
  if (!limits.is_object()) return line + ", limits not measured";
  std::vector<std::string> rates;
  const auto add = [&](const std::string& pointer, double unit, const char* what) {
    const json::json_pointer place(pointer);
    if (!limits.contains(place) || !limits.at(place).is_number()) return;
    rates.push_back(rate_text(limits.at(place).get<double>() / unit) + " " + what);
  };
  add("/read_gbytes_per_second", 1, "GB/s from memory");
  add("/read_gbytes_per_second_l2", 1, "from L2");
  add("/read_gbytes_per_second_cache", 1, "from cache");
  add("/fma_gflops/f32", 1e3, "TFLOP/s float32");
  add("/fma_gflops/f32_all_threads", 1e3, "TFLOP/s float32");
  add("/gemm_gflops/f16", 1e3, "TFLOP/s float16 products");
  add("/gemm_gflops/int8", 1e3, "TOP/s byte products");
  return line + ": " + joined(rates, ", ");
}

std::string rule_line(const MachinePair& pair) {
  bool narrow = false;
  for (const auto& cell : pair.cells)
    narrow = narrow || (cell.speed.low && cell.speed.confidence < 0.95);
  std::string line = "Times as fast: seconds on " + name_of(pair.first) + " over seconds on " +
                     name_of(pair.second) +
                     ", by the fastest cell of each shape, an exact one where there is one";
  if (narrow)
    line += "; intervals of cells with three or four processes a side are of 90 % or more";
  return line;
}

template <class Safe>
std::string list_text(const std::vector<std::string>& lines, const char* bullet, bool all,
                      const Safe& safe) {
  std::string text;
  const std::size_t shown = all ? lines.size() : std::min(lines.size(), kListed);
  for (std::size_t i = 0; i < shown; ++i) text += bullet + safe(lines[i]) + "\n";
  if (shown < lines.size()) {
    text += bullet + ("and " + std::to_string(lines.size() - shown)) + " more (--all)\n";
  }
  return text;
}

std::vector<TextRow> cell_rows(const MachinePair& pair, bool all) {
  std::vector<TextRow> rows{cell_head(pair)};
  for (const auto& cell : pair.cells) {
    if (all || cell.fastest) rows.push_back(cell_row(pair, cell));
  }
  return rows;
}

std::vector<TextRow> group_rows(const MachinePair& pair) {
  std::vector<TextRow> rows{TextRow{}};
  std::copy(kGroupHead.begin(), kGroupHead.end(), rows.front().begin());
  for (const auto& group : pair.groups) rows.push_back(group_row(pair, group));
  return rows;
}

}  // namespace

std::vector<std::string> machine_sentences(const MachinePair& pair) {
  const bool gpus = std::any_of(pair.groups.begin(), pair.groups.end(),
                                [](const MachineGroup& group) { return group.on_gpu; });
  std::vector<std::string> parts;
  for (const bool on_gpu : {true, false}) {
    for (const bool bound : {true, false}) {
      const std::string text = clauses(pair, on_gpu, bound);
      if (text.empty()) continue;
      const bool leads = parts.empty();
      const char* subject = leads ? "is " : gpus && !on_gpu ? "On the processors it is " : "It is ";
      parts.push_back(subject + text);
    }
  }
  std::string first =
      with_article(pair.second, "The ") + ", against " + with_article(pair.first, "the ") + ", ";
  first += parts.empty() ? "shares no cell" : parts.front();
  if (!pair.commits.first.empty()) {
    first += "; the programs differ too (commits " + commits_text(pair.commits.first) +
             " against " + commits_text(pair.commits.second) +
             "), so a ratio is of machine and program together";
  }
  std::vector<std::string> sentences{first + ".", answers_line(pair) + "."};
  for (std::size_t i = 1; i < parts.size(); ++i) sentences.push_back(parts[i] + ".");
  return sentences;
}

std::string machines_to_text(const std::vector<MachinePair>& pairs, bool all) {
  std::string text;
  for (const auto& pair : pairs) {
    if (!text.empty()) text += "\n";
    for (const auto& sentence : pair.sentences) text += printable(sentence) + "\n";
    text += list_text(pair.disagreements, "  ", all, printable);
    text += printable(counts_line(pair)) + ".\n\n";
    for (const auto* machine : {&pair.first, &pair.second}) {
      text += printable(limits_line(*machine)) + "\n";
    }
    if (!pair.groups.empty()) text += "\n" + printable(aligned(group_rows(pair)));
    const auto rows = cell_rows(pair, all);
    if (rows.size() > 1) text += "\n" + printable(aligned(rows));
    text += "\n" + printable(rule_line(pair)) + ".\n";
    for (const auto& note : pair.notes) text += printable(note) + ".\n";
    if (!pair.left_out.empty()) {
      text += "Not compared:\n" + list_text(pair.left_out, "  ", all, printable);
    }
    if (all && !pair.differences.empty()) {
      text +=
          "What differs besides the times:\n" + list_text(pair.differences, "  ", all, printable);
    }
  }
  return text;
}

std::string machines_to_markdown(const std::vector<MachinePair>& pairs, bool all) {
  const auto safe = [](const std::string& text) { return markdown_escaped(text); };
  std::string text;
  for (const auto& pair : pairs) {
    text += "## " + safe(name_of(pair.second)) + " against " + safe(name_of(pair.first)) + "\n\n";
    for (const auto& sentence : pair.sentences) {
      const bool loud = sentence.starts_with("ANSWERS DISAGREE");
      text += (loud ? "**" : "") + safe(sentence) + (loud ? "**" : "") + "\n\n";
    }
    if (!pair.disagreements.empty()) {
      text += list_text(pair.disagreements, "- ", all, safe) + "\n";
    }
    text += safe(counts_line(pair)) + ".\n\n";
    for (const auto* machine : {&pair.first, &pair.second}) {
      text += "- " + safe(limits_line(*machine)) + "\n";
    }
    if (!pair.groups.empty()) text += "\n" + markdown_table(group_rows(pair));
    const auto rows = cell_rows(pair, all);
    if (rows.size() > 1) {
      text +=
          "\n<details><summary>By shape</summary>\n\n" + markdown_table(rows) + "\n</details>\n";
    }
    text += "\n" + safe(rule_line(pair)) + ".\n";
    for (const auto& note : pair.notes) text += "\n" + safe(note) + ".\n";
    if (!pair.left_out.empty()) {
      text += "\nNot compared:\n\n" + list_text(pair.left_out, "- ", all, safe);
    }
    text += "\n";
  }
  return text;
}

}  // namespace kmeans
