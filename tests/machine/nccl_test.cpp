// SPDX-License-Identifier: Apache-2.0
//
// Loading NCCL, what it says when that fails, and what is asked of it: with a library of the test's own
// (fakes/nccl.cpp) between threads. What NCCL itself does, only several GPUs can show (gpus_test.cpp).
#include "harness/machine/nccl.h"
#include "tests/support/message_of.h"
#include "tests/support/scoped.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace kmeans {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Variable = test::ScopedVariable;

auto fake() { return detail::load_nccl({KMEANS_FAKE_NCCL}); }

std::string problem_with(const std::vector<std::string>& names) {
  return detail::problem_of(*detail::load_nccl(names));
}

/// work(rank) on three ranks, which are threads.
void on_ranks(const NcclLibrary& library, const std::function<void(NcclRank&)>& work) {
  const NcclId id = detail::make_id(library);
  std::vector<std::thread> threads;
  for (int r = 0; r < 3; ++r) {
    threads.emplace_back([&, r] {
      NcclRank rank(library, id, 3, r);
      work(rank);
    });
  }
  for (auto& thread : threads) thread.join();
}

std::string message_of(const std::function<void()>& work) {
  return test::message_of<CommunicationError>(work);
}

TEST(Nccl, IsFoundWithItsVersion) {
  const auto library = fake();
  EXPECT_EQ(detail::problem_of(*library), "");
  EXPECT_EQ(detail::version_of(*library), "2.27.7");
}

TEST(Nccl, AnAbsentLibraryIsNamedWithWhatToDo) {
  EXPECT_THAT(problem_with({"libnccl-that-is-nowhere.so.2"}),
              AllOf(HasSubstr("libnccl-that-is-nowhere.so.2 was not found"), HasSubstr("libnccl2"),
                    HasSubstr("KMEANS_BENCH_NCCL")));
}

TEST(Nccl, ALibraryThatIsNoneIsToldInTheLoadersWords) {
  EXPECT_THAT(problem_with({KMEANS_SOURCE_DIR "/README.md"}),
              AllOf(HasSubstr("NCCL cannot be loaded"), HasSubstr("README.md")));
}

TEST(Nccl, AMissingFunctionIsNamed) {
  EXPECT_EQ(problem_with({KMEANS_FAKE_NCCL_INCOMPLETE}),
            "the NCCL found here has no ncclReduceScatter");
}

TEST(Nccl, AVersionThatIsTooOldIsToldBothWaysOfCounting) {
  {
    const Variable version("FAKE_NCCL_VERSION", "21212");
    EXPECT_EQ(problem_with({KMEANS_FAKE_NCCL}),
              "the NCCL found here is version 2.12.12, at least 2.13.0 is needed");
  }
  const Variable version("FAKE_NCCL_VERSION", "2804");
  EXPECT_EQ(problem_with({KMEANS_FAKE_NCCL}),
            "the NCCL found here is version 2.8.4, at least 2.13.0 is needed");
}

TEST(Nccl, AVersionThatIsNotToldIsSaid) {
  const Variable failing("FAKE_NCCL_FAILS", "ncclGetVersion");
  EXPECT_EQ(problem_with({KMEANS_FAKE_NCCL}), "the NCCL found here does not report its version");
}

TEST(Nccl, MulticastStaysOffUnlessTheUserSetsIt) {
  ::unsetenv("NCCL_NVLS_ENABLE");
  (void)fake();
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "0");
  const Variable chosen("NCCL_NVLS_ENABLE", "1");
  (void)fake();
  EXPECT_STREQ(std::getenv("NCCL_NVLS_ENABLE"), "1");
}

TEST(Nccl, WhatCannotBeLoadedCannotBeUsed) {
  const auto absent = detail::load_nccl({"libnccl-that-is-nowhere.so.2"});
  EXPECT_THAT(message_of([&] { detail::make_id(*absent); }), HasSubstr("was not found"));
}

TEST(Nccl, SumsReachEveryRank) {
  const auto library = fake();
  on_ranks(*library, [](NcclRank& rank) {
    const std::int64_t big = std::int64_t{1} << 60;  // beyond what float64 resolves
    const std::vector<std::int64_t> values{rank.rank() + 1, big, -rank.rank()};
    std::vector<std::int64_t> sums(3);
    rank.all_reduce_sum(values.data(), sums.data(), 3, nullptr);
    EXPECT_EQ(sums, (std::vector<std::int64_t>{6, 3 * big, -3}));
    EXPECT_NO_THROW(rank.check_enqueued());
  });
}

TEST(Nccl, EveryRankGetsTheSumOfItsBlock) {
  const auto library = fake();
  on_ranks(*library, [](NcclRank& rank) {
    std::vector<std::int64_t> values(6);
    for (std::int64_t i = 0; i < 6; ++i) values[static_cast<std::size_t>(i)] = 10 * i + rank.rank();
    std::vector<std::int64_t> own(2);
    rank.reduce_scatter_sum(values.data(), own.data(), 2, nullptr);
    const std::int64_t first = 60 * rank.rank() + 3;
    EXPECT_EQ(own, (std::vector<std::int64_t>{first, first + 30}));
  });
}

TEST(Nccl, BlocksOfAllRanksReachEveryRank) {
  const auto library = fake();
  on_ranks(*library, [](NcclRank& rank) {
    std::vector<float> values(6, -1);
    const std::size_t own = 2 * static_cast<std::size_t>(rank.rank());
    values[own] = 0.5F + static_cast<float>(rank.rank());
    values[own + 1] = 7;
    rank.all_gather(values.data(), 2, nullptr);
    EXPECT_EQ(values, (std::vector<float>{0.5F, 7, 1.5F, 7, 2.5F, 7}));
  });
}

TEST(Nccl, AMutedRankTellsNothingAndWaitsForNobody) {
  const auto library = fake();
  on_ranks(*library, [](NcclRank& rank) {
    if (rank.rank() != 0) return;
    EXPECT_FALSE(rank.muted());
    rank.mute(true);
    EXPECT_TRUE(rank.muted());
    std::int64_t value = 5;
    std::int64_t sum = -1;
    rank.all_reduce_sum(&value, &sum, 1, nullptr);
    EXPECT_EQ(sum, -1);
  });
}

TEST(Nccl, AnErrorHasRankCallAndTheLibrarysWords) {
  const auto library = fake();
  const NcclId id = detail::make_id(*library);
  {
    NcclRank rank(*library, id, 1, 0);
    const Variable failing("FAKE_NCCL_FAILS", "ncclAllReduce");
    std::int64_t value = 1;
    EXPECT_EQ(message_of([&] { rank.all_reduce_sum(&value, &value, 1, nullptr); }),
              "rank 0 of 1: ncclAllReduce failed: invalid usage (in its own words)");
  }
  const Variable failing("FAKE_NCCL_FAILS", "ncclCommInitRank");
  EXPECT_THAT(message_of([&] { const NcclRank rank(*library, id, 1, 0); }),
              HasSubstr("rank 0 of 1: ncclCommInitRank failed: invalid usage"));
}

TEST(Nccl, WhatFailsAfterwardsIsTold) {
  const auto library = fake();
  const NcclRank rank(*library, detail::make_id(*library), 1, 0);
  {
    const Variable under_way("FAKE_NCCL_ASYNC", "7");  // in progress
    EXPECT_NO_THROW(rank.check_enqueued());
  }
  const Variable failed("FAKE_NCCL_ASYNC", "6");
  EXPECT_THAT(message_of([&] { rank.check_enqueued(); }), HasSubstr("remote process exited"));
}

TEST(Nccl, AnAbortedRankIsOfNoMoreUse) {
  const auto library = fake();
  NcclRank rank(*library, detail::make_id(*library), 1, 0);
  rank.abort();
  rank.abort();  // harmless
  std::int64_t value = 1;
  EXPECT_THAT(message_of([&] { rank.all_reduce_sum(&value, &value, 1, nullptr); }),
              HasSubstr("ncclAllReduce failed"));
}

}  // namespace
}  // namespace kmeans
