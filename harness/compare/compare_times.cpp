// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "harness/compare/compare.h"
#include "harness/compare/compare_gate.h"
#include "harness/record/agreement.h"
#include "harness/record/statistics.h"
#include "harness/support/formatted.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

std::vector<double> pooled(const std::vector<std::vector<double>>& samples) {
  std::vector<double> all;
  for (const auto& process : samples) all.insert(all.end(), process.begin(), process.end());
  std::sort(all.begin(), all.end());
  return all;
}

/// By factors: "33 % faster" could be 3/4 of the time or 2/3 of it.
std::string direction(double ratio) {
  const std::string factor = formatted("%.4g", std::max(ratio, 1 / ratio));
  if (factor == "1") return "equal";
  return ratio > 1 ? "takes " + factor + " times as long" : factor + " times as fast";
}

using Interval = std::pair<double, double>;

/// Quotients of the processes that ran next to each other; an odd one at the end has no partner.
std::vector<double> quotients(const std::vector<double>& base, const std::vector<double>& changed) {
  std::vector<double> ratios(std::min(base.size(), changed.size()));
  for (std::size_t i = 0; i < ratios.size(); ++i) ratios[i] = changed[i] / base[i];
  return ratios;
}

// In turns there are two ways to look: at pairs, which is sharp where something slows now both
// processes of a pair, now one, now neither; and at all processes, which needs fewer of them. Each
// way gets a share of the error, so that the better one may be taken; a quiet machine, where the
// second is better, can afford the smaller share.
constexpr double kShareOfPairs = 0.8;
constexpr double kShareOfAll = 1 - kShareOfPairs;

double p_of(const TimePair& pair) {
  const auto base = process_times(pair.base, pair.in_turns);
  const auto changed = process_times(pair.changed, pair.in_turns);
  const double all = mann_whitney(base, changed).p;
  if (!pair.in_turns) return all;
  const double paired = sign_test_p(quotients(base, changed));
  return std::min({1.0, paired / kShareOfPairs, all / kShareOfAll});
}

/// The smallest that p_of could give, whatever the times.
double least_p(const TimePair& pair) {
  const std::size_t m = pair.base.size();
  const std::size_t n = pair.changed.size();
  if (!pair.in_turns) return smallest_p(m, n);
  const double paired = std::exp2(1 - static_cast<double>(std::min(m, n)));
  return std::min({1.0, paired / kShareOfPairs, smallest_p(m, n) / kShareOfAll});
}

std::optional<Interval> interval_of(const TimePair& pair, double confidence) {
  const auto base = process_times(pair.base, pair.in_turns);
  const auto changed = process_times(pair.changed, pair.in_turns);
  if (!pair.in_turns) return ratio_interval(base, changed, confidence);
  const double error = 1 - confidence;
  const auto paired = paired_interval(quotients(base, changed), 1 - kShareOfPairs * error);
  const auto all = ratio_interval(base, changed, 1 - kShareOfAll * error);
  if (!all || !paired) return all ? all : paired;
  const auto width = [](const Interval& interval) { return interval.second / interval.first; };
  return width(*paired) <= width(*all) ? paired : all;
}

double ratio_of(const TimePair& pair) {
  if (!pair.in_turns) return headline_median(pair.changed) / headline_median(pair.base);
  return paired_ratio(quotients(process_times(pair.base, pair.in_turns),
                                process_times(pair.changed, pair.in_turns)));
}

/// Do all samples of one side lie so far from all of the other that a few processes will do? In
/// turns more of them are to be had, and a neighbour gives such gaps to a few.
bool far_apart(const TimePair& pair, double gap, double limit) {
  return !pair.in_turns && std::min(pair.base.size(), pair.changed.size()) >= 2 &&
         gap >= std::max(kClearGap, limit);
}

/// The verdict from what is known of one cell; `family` is how many cells were tested.
void decide(const TimePair& pair, const CompareSettings& settings, std::size_t family,
            TimeVerdict& result) {
  const auto base = pooled(pair.base);
  const auto changed = pooled(pair.changed);
  const std::size_t m = pair.base.size();
  const std::size_t n = pair.changed.size();
  const double limit = 1 + settings.effect;
  const double beyond = std::max(result.ratio, 1 / result.ratio);
  const CellVerdict side = result.ratio > 1 ? CellVerdict::slower : CellVerdict::faster;
  const std::string processes = formatted("%zu and %zu processes", m, n);
  const std::string by =
      direction(result.ratio) + (pair.in_turns ? " by its pairs" : " by the medians");

  if (result.p_adjusted && *result.p_adjusted <= settings.false_discovery_rate && beyond >= limit) {
    result.verdict = side;
    result.why = formatted("%s; p = %.2g, corrected %.2g, %s", by.c_str(), result.p,
                           *result.p_adjusted, processes.c_str());
    return;
  }
  const double gap = std::max(changed.front() / base.back(), base.front() / changed.back());
  if (far_apart(pair, gap, limit)) {
    result.verdict = side;
    result.why = formatted("%s; even the nearest samples of the two sides are %.3g times apart, %s",
                           by.c_str(), gap, processes.c_str());
    return;
  }
  if (result.low && *result.low >= 1 / limit && *result.high <= limit) {
    result.verdict = CellVerdict::same;
    result.why = "the interval lies within " + format_percent(settings.effect);
    return;
  }
  result.verdict = CellVerdict::unclear;
  if (std::min(m, n) < 2) {
    result.why = by + "; one process on a side cannot show how processes differ";
  } else if (!result.p_adjusted) {
    result.why = formatted("%s; p cannot be below %.2g with %s", by.c_str(), least_p(pair),
                           processes.c_str());
  } else if (*result.p_adjusted <= settings.false_discovery_rate) {
    result.why =
        by + ", surely not equal, but perhaps by less than " + format_percent(settings.effect);
  } else if (beyond >= limit) {
    result.why = formatted("%s; p = %.2g, corrected %.2g, is not a discovery among %s", by.c_str(),
                           result.p, *result.p_adjusted, counted(family, "cell", "cells").c_str());
    const double rate = settings.false_discovery_rate;
    if (least_p(pair) * static_cast<double>(family) > rate) {
      result.why += formatted("; %zu processes a side can show it alone",
                              processes_needed(family, pair.in_turns ? rate * kShareOfAll : rate));
    }
  } else {
    result.why = by + "; the interval reaches beyond " + format_percent(settings.effect);
  }
}

/// By which share new could have been slower as a whole, with the spread that both sides have, and
/// be called so, as the only slow one of `family` cells.
std::optional<double> smallest_seen(const TimePair& pair, const CompareSettings& settings,
                                    std::size_t family, double ratio) {
  if (std::min(pair.base.size(), pair.changed.size()) < 2) return std::nullopt;
  const double limit = 1 + settings.effect;
  // By the gap: new would have to be moved until its quickest sample is that far off.
  std::optional<double> factor;
  if (!pair.in_turns) {
    factor = std::max(kClearGap, limit) * ratio * pooled(pair.base).back() /
             pooled(pair.changed).front();
  }
  // By the test: it rejects where its interval does not hold 1.
  const double rate = settings.false_discovery_rate / std::max<double>(1, family);
  if (const auto interval = interval_of(pair, 1 - rate)) {
    const double by_test = ratio / interval->first;
    factor = factor ? std::min(*factor, by_test) : by_test;
  }
  if (!factor) return std::nullopt;
  return std::max(*factor, limit) - 1;
}

}  // namespace

std::vector<double> process_times(const std::vector<std::vector<double>>& samples, bool in_turns) {
  return in_turns ? process_minima(samples) : process_medians(samples);
}

std::vector<TimeVerdict> judge_times(const std::vector<TimePair>& pairs,
                                     const CompareSettings& settings) {
  std::vector<TimeVerdict> results(pairs.size());
  std::vector<std::size_t> tested;
  std::vector<double> p;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    TimeVerdict& result = results[i];
    result.ratio = ratio_of(pairs[i]);
    result.p = p_of(pairs[i]);
    if (const auto interval = interval_of(pairs[i], settings.confidence)) {
      // Of a few processes the interval may miss the ratio, which is printed.
      result.low = std::min(interval->first, result.ratio);
      result.high = std::max(interval->second, result.ratio);
    }
    // A test that can never reject adds no false discovery, and must not blunt the others.
    if (least_p(pairs[i]) <= settings.false_discovery_rate) {
      tested.push_back(i);
      p.push_back(result.p);
    }
  }
  const auto adjusted = benjamini_hochberg(p);
  for (std::size_t i = 0; i < tested.size(); ++i) results[tested[i]].p_adjusted = adjusted[i];
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    decide(pairs[i], settings, tested.size(), results[i]);
    results[i].clearly_slower = clearly_slower(pairs[i], settings);
    results[i].sees = smallest_seen(pairs[i], settings, tested.size(), results[i].ratio);
  }
  return results;
}

}  // namespace kmeans
