// SPDX-License-Identifier: Apache-2.0
#include "harness/run/shard.h"

#include <charconv>
#include <map>
#include <tuple>

#include "harness/support/errors.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

constexpr std::size_t kMostShards = 10'000;

}  // namespace

Shard parse_shard(const std::string& text) {
  Shard shard;
  const char* end = text.data() + text.size();
  const auto index = std::from_chars(text.data(), end, shard.index);
  bool read = index.ec == std::errc() && index.ptr != end && *index.ptr == '/';
  if (read) {
    const auto count = std::from_chars(index.ptr + 1, end, shard.count);
    read = count.ec == std::errc() && count.ptr == end;
  }
  if (!read || shard.index < 1 || shard.index > shard.count || shard.count > kMostShards) {
    throw InputError("--shard '" + printable(text) +
                     "' is no part of a whole; of three parts the " + "second is 2/3");
  }
  return shard;
}

std::size_t keep_shard(Plan& plan, const Shard& shard) {
  std::map<std::tuple<std::string, std::string, std::int64_t, std::int64_t>, std::size_t> problems;
  std::size_t left = 0;
  const auto keep = [&](bool& selected, std::size_t place) {
    selected = selected && place % shard.count == shard.index - 1;
    left += selected ? 1 : 0;
  };
  for (auto& cell : plan.cells) {
    const auto problem = problems.try_emplace(
        {cell.task.label, cell.task.init, cell.key.shape.k, cell.key.iterations}, problems.size());
    keep(cell.selected, problem.first->second);
  }
  std::size_t place = problems.size();
  for (auto& trace : plan.traces) keep(trace.selected, place++);
  for (auto& study : plan.studies) keep(study.selected, place++);
  return left;
}

}  // namespace kmeans
