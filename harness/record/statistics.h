// SPDX-License-Identifier: Apache-2.0
//
// Statistics of a comparison (docs/comparing.md). The unit of repetition is the process: the
// repetitions of one process share its memory layout and its moment, so they are not independent
// evidence, and enter as the median of their process.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace kmeans {

/// The median of each process, in order. Every process has samples.
std::vector<double> process_medians(const std::vector<std::vector<double>>& samples);

/// The fastest repetition of each process, in order.
std::vector<double> process_minima(const std::vector<std::vector<double>>& samples);

struct RankTest {
  double u = 0;  ///< Pairs in which the second sample is larger, ties counted half.
  double p = 1;  ///< Two-sided.
  bool exact = true;
};

/// Mann-Whitney U test of two samples, neither empty: could values this far apart come from one
/// distribution? Up to 40 values in all, p is exact, also with ties: the share of all ways of
/// dealing out the mid-ranks, doubled from the nearer tail. Beyond, the normal approximation with
/// corrections for ties and continuity.
RankTest mann_whitney(const std::vector<double>& a, const std::vector<double>& b);

/// The smallest p that the test can give for samples of these sizes: 2 / C(m + n, m).
double smallest_p(std::size_t m, std::size_t n);

/// The fewest processes on each side with which one difference among `cells` can survive the
/// correction at `rate`.
std::size_t processes_needed(std::size_t cells, double rate);

/// p-values adjusted for the number of tests, in the order given: those of at most q may be called
/// discoveries, of which at most a share q are false on average (Benjamini and Hochberg 1995).
std::vector<double> benjamini_hochberg(const std::vector<double>& p);

/// Interval of the factor between two distributions of positive values, second over first: the
/// order statistics of all pairwise ratios whose ranks belong to the Mann-Whitney test at this
/// confidence. Absent where the samples are too small for it, as below 4 on both sides at 0.95.
std::optional<std::pair<double, double>> ratio_interval(const std::vector<double>& base,
                                                        const std::vector<double>& changed,
                                                        double confidence);

/// The sign test, two-sided, of quotients new / base of processes that ran next to each other:
/// could as many of them be above 1, or below? What slowed both processes of a pair has no say in
/// it, and what slowed only one has a single voice, however much it did: of ranks it would have the
/// loudest. Quotients of exactly 1 are left out.
double sign_test_p(const std::vector<double>& ratios);

/// The factor between the two sides by their pairs: the median quotient. There is one at least.
double paired_ratio(std::vector<double> ratios);

/// Interval of that factor, by inverting the sign test. Absent where there are too few pairs for
/// it, as below 6 at 0.95.
std::optional<std::pair<double, double>> paired_interval(std::vector<double> ratios,
                                                         double confidence);

/// One cell among several that are judged together.
struct Stratum {
  std::vector<double> base;  ///< Medians of its processes.
  std::vector<double> changed;
};

/// What several cells say together of a factor that they have in common. Processes are compared
/// within their cell only: van Elteren's (1960) sum of Mann-Whitney statistics, whose chances are
/// those of dealing out every cell's processes to the two sides at random. A cell counts with ranks, so
/// one whose processes lie far apart cannot outshout the others.
struct StratifiedTest {
  double p = 1;      ///< Two-sided.
  double ratio = 1;  ///< Weighted median of all quotients within the cells (Hodges-Lehmann).
};

/// No stratum may be empty on a side.
StratifiedTest stratified_test(const std::vector<Stratum>& strata);

/// Interval of the common factor, by inverting that test as ratio_interval does for one cell.
/// Absent where there are too few processes in all.
std::optional<std::pair<double, double>> stratified_interval(const std::vector<Stratum>& strata,
                                                             double confidence);

}  // namespace kmeans
