// SPDX-License-Identifier: Apache-2.0
#include "harness/run/plan_part.h"

#include <charconv>
#include <map>
#include <tuple>

#include "harness/support/errors.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

constexpr std::size_t kMaxParts = 10'000;

}  // namespace

PlanPart parse_plan_part(const std::string& text) {
  PlanPart part;
  const char* end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, part.index);
  bool read = index.ec == std::errc() && index.ptr != end && *index.ptr == '/';
  if (read) {
    const auto count = std::from_chars(index.ptr + 1, end, part.count);
    read = count.ec == std::errc() && count.ptr == end;
  }
  if (!read || part.index < 1 || part.index > part.count || part.count > kMaxParts) {
    throw InputError("--shard '" + printable(text) +
                     "' is not a part of a whole; of three parts the second is 2/3");
  }
  return part;
}

std::size_t keep_part(Plan& plan, const PlanPart& part) {
  std::map<std::tuple<std::string, std::string, std::int64_t, std::int64_t>, std::size_t> problems;
  std::size_t left = 0;
  const auto keep = [&](bool& selected, std::size_t place) {
    selected = selected && place % part.count == part.index - 1;
    left += selected ? 1 : 0;
  };
  for (auto& cell : plan.cells) {
    const auto problem = problems.try_emplace(
        {cell.task.label, cell.task.init, cell.key.shape.k, cell.key.iterations}, problems.size());
    keep(cell.selected, problem.first->second);
  }
  std::size_t place = problems.size();
  each_unit(plan, [&](auto& unit) {
    if (unit.kPart != Part::cell) keep(unit.selected, place++);
  });
  return left;
}

}  // namespace kmeans
