// SPDX-License-Identifier: Apache-2.0
//
// Variants that misbehave on one of several ranks.
#include <stdexcept>

#include "harness/communicator.h"
#include "tests/faults/variants/_well_behaved.h"

namespace {

using kmeans::faults::WellBehaved;

bool second(const kmeans::Problem<float>& problem) {
  return problem.shard.communicator != nullptr && problem.shard.communicator->rank() == 1;
}

class RankThrowsInSetup final : public WellBehaved {
  void setup(const kmeans::Problem<float>& problem) override {
    if (second(problem)) throw std::runtime_error("nothing to set up with");
    WellBehaved::setup(problem);
  }
};

class RankThrows final : public WellBehaved {
  void step(std::int64_t iterations) override {
    if (second(problem_)) throw std::runtime_error("no such luck");
    WellBehaved::step(iterations);
    if (problem_.shard.communicator != nullptr) problem_.shard.communicator->barrier();
  }
};

// Every rank has the means of its own points.
class RanksAlone final : public WellBehaved {};

}  // namespace

KMEANS_VARIANT(RankThrowsInSetup, .name = "fault_rank_throws_in_setup",
               .summary = "the second rank cannot be set up", .shards = true)
KMEANS_VARIANT(RankThrows, .name = "fault_rank_throws",
               .summary = "the second rank throws while the others wait for it", .shards = true)
KMEANS_VARIANT(RanksAlone, .name = "fault_ranks_alone",
               .summary = "ranks that send each other nothing", .shards = true)
