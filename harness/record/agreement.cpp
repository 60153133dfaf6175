// SPDX-License-Identifier: Apache-2.0
#include "harness/record/agreement.h"

#include <algorithm>

#include "harness/record/measures.h"
#include "harness/record/statistics.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return percentile(values, 0.5);
}

/// How many values from `first` on agree with it.
std::size_t agreeing_from(const std::vector<double>& sorted, std::size_t first) {
  const double most = kAgreeingProcesses * sorted[first];
  std::size_t count = 0;
  while (first + count < sorted.size() && sorted[first + count] <= most) ++count;
  return count;
}

std::string processes(std::size_t count) {
  return std::to_string(count) + (count == 1 ? " process" : " processes");
}

}  // namespace

double headline_median(const std::vector<std::vector<double>>& samples) {
  return median(process_medians(samples));
}

bool Agreement::settled(std::size_t planned) const {
  return majority() && count >= std::min(kSettlingProcesses, planned);
}

std::string Agreement::groups() const {
  std::string text;
  for (std::size_t at = 0; at < sorted.size();) {
    const std::size_t size = agreeing_from(sorted, at);
    const auto begin = sorted.begin() + static_cast<std::ptrdiff_t>(at);
    const double near = median({begin, begin + static_cast<std::ptrdiff_t>(size)});
    text += text.empty() ? processes(size) : ", " + std::to_string(size);
    text += (size == 1 ? " at " : " near ") + format_seconds(near);
    at += size;
  }
  return text;
}

Agreement agreement_of(const std::vector<double>& medians) {
  Agreement agreement;
  agreement.sorted = medians;
  std::sort(agreement.sorted.begin(), agreement.sorted.end());
  for (std::size_t first = 0; first < agreement.sorted.size(); ++first) {
    const std::size_t count = agreeing_from(agreement.sorted, first);
    if (count > agreement.count) {
      agreement.first = first;
      agreement.count = count;
    }
  }
  return agreement;
}

std::string unsteadiness(const Agreement& agreement) {
  if (agreement.majority()) return "";
  return "its processes disagree: " + agreement.groups();
}

std::string outlying_processes(const Agreement& agreement) {
  if (!agreement.majority() || agreement.count == agreement.sorted.size()) return "";
  const std::size_t apart = agreement.sorted.size() - agreement.count;
  return std::to_string(apart) + " of " + processes(agreement.sorted.size()) +
         (apart == 1 ? " lies" : " lie") + " apart from the others: " + agreement.groups();
}

}  // namespace kmeans
