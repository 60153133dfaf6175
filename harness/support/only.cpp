// SPDX-License-Identifier: Apache-2.0
#include "harness/support/only.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "harness/support/text.h"

namespace kmeans {
namespace {

constexpr std::size_t kShown = 5;           // names
constexpr std::size_t kLongestQuoted = 80;  // bytes

/// Runs of letters, digits, _ and -: what an expression says literally, at least nearly always.
std::vector<std::string> words_of(std::string_view text, std::size_t shortest) {
  std::vector<std::string> words;
  std::string word;
  const auto end = [&] {
    if (word.size() >= shortest) words.push_back(word);
    word.clear();
  };
  for (const char c : text) {
    const bool inside = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
    if (!inside) {
      end();
    } else {
      word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  end();
  return words;
}

/// How much of the words a name has: their letters, half of those that are nearly there.
std::size_t likeness(const std::vector<std::string>& wanted, const UnitName& unit) {
  const std::vector<std::string> parts = words_of(unit.text(), 1);
  std::size_t score = 0;
  for (const auto& word : wanted) {
    bool within = false;
    bool near = false;
    for (const auto& part : parts) {
      within = within || part.find(word) != std::string::npos;
      // Or the part begins like the word.
      const std::size_t distance =
          std::min(edit_distance(word, part), edit_distance(word, part.substr(0, word.size() + 1)));
      near = near || distance <= word.size() / 4;
    }
    score += within ? 2 * word.size() : near ? word.size() : 0;
  }
  return score;
}

/// The nearest names, the first of each variant or trace before the second of any.
std::vector<std::string> nearest(const std::string& only, const std::vector<UnitName>& units) {
  const std::vector<std::string> wanted = words_of(only, 2);
  struct Candidate {
    std::size_t score;
    std::size_t turn;  // among those of its kind
    const UnitName* unit;
  };
  std::vector<Candidate> candidates;
  for (const auto& unit : units) candidates.push_back({likeness(wanted, unit), 0, &unit});
  std::size_t best = 0;
  for (const auto& one : candidates) best = std::max(best, one.score);
  if (best == 0) return {};
  std::erase_if(candidates, [&](const Candidate& one) { return one.score < best; });
  std::multiset<std::string> kinds;
  for (auto& one : candidates) {
    const std::string text = one.unit->text();
    const std::string kind = text.substr(0, text.find('/', one.unit->experiment.size() + 1));
    one.turn = kinds.count(kind);
    kinds.insert(kind);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.turn < b.turn; });
  std::vector<std::string> names;
  for (const auto& one : candidates) names.push_back(one.unit->text());
  return names;
}

}  // namespace

bool takes(const Pattern& only, const UnitName& unit) {
  return only.found_in(unit.experiment) || only.found_in(unit.name) || only.found_in(unit.text());
}

std::string takes_none(const std::string& only, const std::vector<UnitName>& units) {
  std::set<std::string> experiments;
  for (const auto& unit : units) experiments.insert(unit.experiment);
  const std::string quoted =
      only.substr(0, kLongestQuoted) + (only.size() > kLongestQuoted ? "..." : "");
  std::string text =
      "--only '" + valid_utf8(quoted) + "' matches nothing: it was searched for in " +
      counted(units.size(), "name", "names") + " of cells, traces, studies and fits of " +
      counted(experiments.size(), "experiment", "experiments");
  if (units.empty()) return text;
  text += ", alone and as experiment/name";
  std::vector<std::string> names = nearest(only, units);
  if (names.empty()) {
    text += "; the first of them";
    for (const auto& unit : units) names.push_back(unit.text());
  } else {
    text += "; the nearest";
  }
  const std::size_t count = std::min(kShown, names.size());
  text += count == 1 ? " is" : " are";
  for (std::size_t i = 0; i < count; ++i) text += "\n  " + valid_utf8(names[i]);
  if (experiments.size() > 1) {
    std::string all;
    for (const auto& name : experiments) all += (all.empty() ? "" : ", ") + name;
    text += "\nexperiments: " + valid_utf8(all);
  }
  return text;
}

}  // namespace kmeans
