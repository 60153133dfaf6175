// SPDX-License-Identifier: Apache-2.0
#include "harness/commands/run_table.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <vector>

#include "harness/support/formatted.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

using nlohmann::json;

struct Line {
  std::string variant;
  std::string word;  ///< In place of a time; empty where there is one.
  double median = 0;
  double error = 0;  ///< Half the spread of the middle half of the samples.
  std::size_t processes = 0;
  std::size_t samples = 0;  ///< Of all processes.
  std::string work;         ///< What part of the distances it formed, where it counts them.
};

bool has_entries(const json& cell, const char* key) {
  return cell.contains(key) && cell.at(key).is_array() && !cell.at(key).empty();
}

Line row_of(const json& cell) {
  Line row;
  row.variant = cell.at("variant").get<std::string>();
  if (const int ranks = cell.value("ranks", 1); ranks > 1) {
    row.variant += ", " + std::to_string(ranks) + " ranks";
  }
  if (const int gpus = cell.value("gpus", 1); gpus > 1) {
    row.variant += ", " + std::to_string(gpus) + " GPUs";
  }
  if (cell.at("threads").get<int>() > 1) {
    row.variant += ", " + std::to_string(cell.at("threads").get<int>()) + " threads";
  }
  const std::string status = cell.at("status").get<std::string>();
  const json& times = cell.at("seconds_per_iteration");
  if (status != "ok") {
    row.word = status == "error" ? "failed" : status;
  } else if (has_entries(cell, "unsteady") || !times.is_object()) {
    row.word = "unsteady";
  } else {
    row.median = times.at("median").get<double>();
    for (const auto& process : cell.value("samples_seconds_per_iteration", json::array())) {
      ++row.processes;
      row.samples += process.size();
    }
    row.error = (times.at("p75").get<double>() - times.at("p25").get<double>()) / 2;
    if (const json& share = cell.at("computed_share"); share.is_number()) {
      row.work = formatted(", %.3g %% of the distances", 100 * share.get<double>());
    }
  }
  return row;
}

/// "uniform-1000x3-s1, k 10, 10 iterations, f32"
std::string title_of(const json& cell) {
  return cell.at("dataset").get<std::string>() + ", k " +
         std::to_string(cell.at("k").get<std::int64_t>()) + ", " +
         counted(cell.at("iterations").get<std::int64_t>(), "iteration", "iterations") + ", " +
         cell.at("precision").get<std::string>();
}

/// "3 processes with 9 samples each", or of each side where they differ.
std::string basis_of(const Line& fast, const Line& slow) {
  const auto side = [](const Line& line) {
    return counted(line.processes, "process", "processes") + " with " +
           counted(line.samples, "sample", "samples");
  };
  if (side(fast) != side(slow)) return side(fast) + " against " + side(slow);
  return side(fast) + (fast.samples == 1 ? " each" : " on each side");
}

std::string sentence(const Line& fast, const Line& slow) {
  const double ratio = slow.median / fast.median;
  const std::string basis = basis_of(fast, slow);
  // One process may differ from the next by more than its samples from each other.
  if (fast.processes < 2 || slow.processes < 2) {
    return slow.variant + formatted(" took %.2f times as long as ", ratio) + fast.variant +
           ", by " + basis + ": too few to say how much of that is chance (--processes 3)";
  }
  const double relative = std::hypot(slow.error / slow.median, fast.error / fast.median);
  if (ratio * (1 - relative) <= 1) {
    return fast.variant + " and " + slow.variant + " take the same time as far as " + basis +
           " can tell";
  }
  std::array<char, 64> numbers{};
  const double error = ratio * relative;
  const int digits = error >= 1 ? 0 : error >= 0.1 ? 1 : 2;
  std::snprintf(numbers.data(), numbers.size(), "%.*f ± %.*f", digits, ratio, digits, error);
  return fast.variant + " is " + numbers.data() + " times faster than " + slow.variant + " (" +
         basis + ")";
}

std::string lines_of(const std::vector<Line>& rows) {
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.variant.size());
  std::string text;
  for (const auto& row : rows) {
    text +=
        "  " + row.variant + std::string(width - row.variant.size() + 2, ' ') +
        (row.word.empty() ? format_seconds(row.median) + " per iteration" + row.work : row.word) +
        "\n";
  }
  return text;
}

}  // namespace

std::string run_table(const json& result, std::size_t most_rows) {
  std::map<std::string, std::vector<Line>> shapes;
  std::vector<std::string> order;
  std::size_t count = 0;
  for (const auto& cell : result.at("cells")) {
    if (cell.at("status") == "skipped") continue;
    const std::string title = title_of(cell);
    auto& rows = shapes[title];
    if (rows.empty()) order.push_back(title);
    rows.push_back(row_of(cell));
    ++count;
  }
  std::string text;
  for (const auto& title : order) {
    auto& rows = shapes[title];
    std::stable_sort(rows.begin(), rows.end(), [](const Line& a, const Line& b) {
      if (a.word.empty() != b.word.empty()) return a.word.empty();
      return a.word.empty() ? a.median < b.median : a.word < b.word;
    });
    text += title + "\n";
    if (count <= most_rows) text += lines_of(rows);
    if (rows.size() > 1 && rows[1].word.empty()) text += "  " + sentence(rows[0], rows[1]) + "\n";
  }
  return text;
}

}  // namespace kmeans
