// SPDX-License-Identifier: Apache-2.0
#include "harness/compare/compare_gate.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "harness/record/statistics.h"
#include "harness/support/formatted.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

// A gap between two processes a side is 1 in 6 by chance, where processes fall into two kinds.
constexpr std::size_t kFewestForClearGap = 3;
constexpr std::size_t kFewestInGroup = 2;
constexpr std::size_t kCellsNamed = 3;

struct Member {
  std::size_t cell = 0;
  Stratum processes;
};

std::vector<Stratum> strata_of(const std::vector<Member>& members) {
  std::vector<Stratum> strata;
  strata.reserve(members.size());
  for (const auto& member : members) strata.push_back(member.processes);
  return strata;
}

/// By variant; all of them last, under no name. Only what several cells say together.
std::vector<std::pair<std::string, std::vector<Member>>> groups_of(
    const std::vector<Member>& members, const std::vector<ComparedCell>& cells) {
  std::map<std::string, std::vector<Member>> by_variant;
  for (const auto& member : members) by_variant[cells[member.cell].key.variant].push_back(member);
  std::vector<std::pair<std::string, std::vector<Member>>> groups;
  for (auto& [variant, own] : by_variant) {
    if (own.size() >= kFewestInGroup) groups.emplace_back(variant, std::move(own));
  }
  if (by_variant.size() > 1) groups.emplace_back("", members);
  return groups;
}

std::string name_of(const GroupVerdict& group) {
  return group.variant.empty() ? counted(group.cells, "cell", "cells") + " together"
                               : "the " + counted(group.cells, "cell", "cells") + " of " +
                                     valid_utf8(group.variant) + " together";
}

void decide(const CompareSettings& settings, GroupVerdict& group) {
  const double limit = 1 + settings.effect;
  const bool found = group.p_adjusted <= settings.false_discovery_rate;
  if (found && group.ratio >= limit) {
    group.verdict = CellVerdict::slower;
  } else if (found && group.ratio <= 1 / limit) {
    group.verdict = CellVerdict::faster;
  } else if (group.low && *group.low >= 1 / limit && *group.high <= limit) {
    group.verdict = CellVerdict::same;
  } else {
    group.verdict = CellVerdict::unclear;
  }
}

std::vector<GroupVerdict> judged(
    const std::vector<std::pair<std::string, std::vector<Member>>>& groups,
    const CompareSettings& settings) {
  std::vector<GroupVerdict> verdicts;
  std::vector<double> p;
  const double alone = settings.false_discovery_rate / std::max<double>(1, groups.size());
  for (const auto& [variant, members] : groups) {
    const auto strata = strata_of(members);
    const auto test = stratified_test(strata);
    GroupVerdict group;
    group.variant = variant;
    group.cells = members.size();
    group.ratio = test.ratio;
    group.p = test.p;
    if (const auto interval = stratified_interval(strata, settings.confidence)) {
      group.low = interval->first;
      group.high = interval->second;
    }
    if (const auto interval = stratified_interval(strata, 1 - alone)) {
      group.sees = std::max(settings.effect, test.ratio / interval->first - 1);
    }
    p.push_back(test.p);
    verdicts.push_back(std::move(group));
  }
  const auto adjusted = benjamini_hochberg(p);
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    verdicts[i].p_adjusted = adjusted[i];
    decide(settings, verdicts[i]);
  }
  return verdicts;
}

const GroupVerdict* group_of(const Comparison& comparison, const std::string& variant) {
  const auto find = [&](const std::string& name) {
    return std::find_if(comparison.groups.begin(), comparison.groups.end(),
                        [&](const GroupVerdict& group) { return group.variant == name; });
  };
  auto found = find(variant);
  if (found == comparison.groups.end()) found = find("");
  return found == comparison.groups.end() ? nullptr : &*found;
}

/// A condition that one run met and the other did not explains a difference; one that met two
/// binaries taking turns at random does not. Processes that disagree are another matter: there a
/// cell has to show more.
bool is_doubtful(const Comparison& comparison, const ComparedCell& cell) {
  return !comparison.interleaved && (cell.unsteady() || cell.noted());
}

/// Is the whole interval beyond the effect?
bool surely_beyond(const CompareSettings& settings, const TimeVerdict& times) {
  return times.low && *times.low >= 1 + settings.effect;
}

bool counts_as_slower(const Comparison& comparison, const ComparedCell& cell) {
  if (cell.times->clearly_slower) return true;
  if (is_doubtful(comparison, cell)) return false;
  return !cell.unsteady() || surely_beyond(comparison.settings, *cell.times);
}

GateOutcome outcome_of(const Comparison& comparison, ComparedCell& cell) {
  const double limit = 1 + comparison.settings.effect;
  const TimeVerdict& times = *cell.times;
  if (cell.verdict == CellVerdict::slower) {
    if (counts_as_slower(comparison, cell)) return GateOutcome::failed;
    cell.outcome_why = "slower, but its measurement is doubtful";
    return GateOutcome::undecided;
  }
  if (cell.verdict == CellVerdict::faster || cell.verdict == CellVerdict::same) {
    return GateOutcome::passed;
  }
  if (times.high && *times.high <= limit) {
    cell.outcome_why = "at most as much slower as does not matter";
    return GateOutcome::passed;
  }
  const GroupVerdict* group = group_of(comparison, cell.key.variant);
  const bool like_the_others = !cell.unsteady() && times.ratio <= limit && group != nullptr &&
                               group->high && *group->high <= limit;
  if (like_the_others) {
    cell.outcome_why = name_of(*group) + " are within the effect, and its medians too";
    return GateOutcome::passed;
  }
  cell.outcome_why = cell.unsteady() ? "its processes disagree" : "too little is known of it";
  return GateOutcome::undecided;
}

class Gate {
 public:
  explicit Gate(Comparison& comparison) : comparison_(comparison), gate_(comparison.gate) {}

  void judge() {
    judge_answers();
    judge_cells();
    judge_variants();
    judge_presence();
    if (comparison_.cells.empty()) {
      fail("no cell is in both");
    } else if (comparison_.timed == 0) {
      undecided("no cell has a time on both sides");
    }
    note_the_rest();
    gate_.outcome = !gate_.reasons.empty()     ? GateOutcome::failed
                    : !gate_.undecided.empty() ? GateOutcome::undecided
                                               : GateOutcome::passed;
  }

 private:
  void fail(const std::string& reason) { gate_.reasons.push_back(reason); }
  void undecided(const std::string& reason) { gate_.undecided.push_back(reason); }
  void tolerable(const std::string& reason) {
    if (comparison_.settings.allow_missing) {
      gate_.notes.push_back(reason + ", as --allow-missing allows");
    } else {
      fail(reason);
    }
  }

  void judge_answers() {
    if (const std::size_t wrong = comparison_.correctness_regressions(); wrong > 0) {
      fail(counted(wrong, "answer is no longer what it was",
                   "answers are no longer what they were"));
    }
  }

  void judge_cells() {
    std::vector<std::string> doubtful;
    std::vector<std::string> unclear;
    for (auto& cell : comparison_.cells) {
      if (!cell.times) continue;
      cell.outcome = outcome_of(comparison_, cell);
      if (*cell.outcome == GateOutcome::failed) ++slower_alone_;
      if (*cell.outcome != GateOutcome::undecided) continue;
      (cell.verdict == CellVerdict::slower ? doubtful : unclear).push_back(cell.key.text());
    }
    if (slower_alone_ > 0) fail(counted(slower_alone_, "cell is", "cells are") + " slower");
    if (!doubtful.empty()) {
      undecided(counted(doubtful.size(), "cell is", "cells are") +
                " slower by a doubtful measurement: " + names(doubtful));
    }
    if (!unclear.empty()) {
      undecided(counted(unclear.size(), "cell is", "cells are") + " undecided: " + names(unclear));
    }
  }

  static std::string names(const std::vector<std::string>& keys) {
    std::string text;
    for (std::size_t i = 0; i < std::min(keys.size(), kCellsNamed); ++i) {
      text += (i == 0 ? "" : ", ") + keys[i];
    }
    return keys.size() > kCellsNamed ? text + " and more" : text;
  }

  void judge_variants() {
    std::set<std::string> named;
    for (const auto& group : comparison_.groups) {
      if (group.verdict != CellVerdict::slower) continue;
      // All cells together are slower where some are: that is reported once.
      if (group.variant.empty() && (!named.empty() || slower_alone_ > 0)) continue;
      named.insert(group.variant);
      const std::string sentence = formatted("%s take %.4g times as long (corrected p = %.2g)",
                                             name_of(group).c_str(), group.ratio, group.p_adjusted);
      if (group.doubtful) {
        undecided(sentence + ", by doubtful measurements");
      } else {
        fail(sentence);
      }
    }
  }

  void judge_presence() {
    const auto missing_records = static_cast<std::size_t>(
        std::count_if(comparison_.missing.begin(), comparison_.missing.end(),
                      [](const MissingCell& one) { return one.record; }));
    if (!comparison_.missing.empty()) {
      const std::size_t cells = comparison_.missing.size() - missing_records;
      std::string what = cells > 0 ? counted(cells, "cell", "cells") : "";
      if (missing_records > 0) {
        what += (what.empty() ? "" : " and ") +
                counted(missing_records, "trace or study", "traces and studies");
      }
      tolerable(what + " of base " + (comparison_.missing.size() == 1 ? "is" : "are") +
                " missing or not comparable");
    }
    const auto lost = std::count_if(comparison_.cells.begin(), comparison_.cells.end(),
                                    [](const ComparedCell& cell) { return cell.lost; });
    if (lost > 0) {
      tolerable(counted(lost, "cell", "cells") + " measured in base " + (lost == 1 ? "is" : "are") +
                " skipped in new");
    }
    const auto lost_records =
        std::count_if(comparison_.records.begin(), comparison_.records.end(),
                      [](const ComparedRecord& record) { return record.lost; });
    if (lost_records > 0) {
      tolerable(
          counted(lost_records, "trace or study of base is", "traces and studies of base are") +
          " skipped in new");
    }
    // A run that --only narrowed has ended; what it lacks of base's cells is missing above.
    for (const auto& file : comparison_.changed.at("files")) {
      if (file.at("complete") == false && file.at("ended") == false) {
        tolerable("new is incomplete: " + file.at("experiment").get<std::string>());
      }
    }
  }

  void note_the_rest() {
    const auto broken = std::count_if(comparison_.cells.begin(), comparison_.cells.end(),
                                      [](const ComparedCell& cell) { return cell.still_broken; });
    if (broken > 0) {
      gate_.notes.push_back(counted(broken, "cell is", "cells are") +
                            " wrong or failed on both sides, which is not a regression");
    }
    const auto untested = std::count_if(
        comparison_.cells.begin(), comparison_.cells.end(), [](const ComparedCell& cell) {
          return cell.times && cell.verdict == CellVerdict::unclear && !cell.times->p_adjusted;
        });
    if (untested > 0) {
      gate_.notes.push_back(counted(untested, "cell has", "cells have") +
                            " too few processes for a test");
    }
  }

  Comparison& comparison_;
  GateResult& gate_;
  std::size_t slower_alone_ = 0;
};

}  // namespace

const char* to_string(GateOutcome outcome) {
  switch (outcome) {
    case GateOutcome::passed: return "passed";
    case GateOutcome::failed: return "failed";
    case GateOutcome::undecided: return "undecided";
  }
  return "?";
}

bool clearly_slower(const TimePair& pair, const CompareSettings& settings) {
  if (pair.in_turns) return false;  // there the tests say so, or more rounds will
  if (std::min(pair.base.size(), pair.changed.size()) < kFewestForClearGap) return false;
  const auto base = process_medians(pair.base);
  const auto changed = process_medians(pair.changed);
  const double gap = *std::min_element(changed.begin(), changed.end()) /
                     *std::max_element(base.begin(), base.end());
  return gap >= std::max(kClearGap, 1 + settings.effect);
}

void judge_groups(const std::vector<TimePair>& pairs, const std::vector<std::size_t>& timed,
                  Comparison& comparison) {
  std::vector<Member> steady;
  std::vector<Member> undoubted;
  for (std::size_t i = 0; i < timed.size(); ++i) {
    const ComparedCell& cell = comparison.cells[timed[i]];
    // Ranks within a cell bear any spread, if both sides met the same conditions.
    if (cell.unsteady() && !comparison.interleaved) continue;
    const TimePair& pair = pairs[i];
    const Member member{
        timed[i],
        {process_times(pair.base, pair.in_turns), process_times(pair.changed, pair.in_turns)}};
    steady.push_back(member);
    if (!is_doubtful(comparison, cell)) undoubted.push_back(member);
  }
  const CompareSettings& settings = comparison.settings;
  comparison.groups = judged(groups_of(steady, comparison.cells), settings);
  // What is slower has to be so without the doubtful cells, too.
  const auto sure = judged(groups_of(undoubted, comparison.cells), settings);
  for (auto& group : comparison.groups) {
    group.doubtful = std::none_of(sure.begin(), sure.end(), [&](const GroupVerdict& one) {
      return one.variant == group.variant && one.verdict == group.verdict;
    });
  }
}

void judge_gate(Comparison& comparison) { Gate(comparison).judge(); }

}  // namespace kmeans
