// SPDX-License-Identifier: Apache-2.0
#include "harness/variants/registry.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <utility>

#include "harness/support/errors.h"
#include "tests/support/message_of.h"

namespace kmeans {
namespace {

TEST(Registry, FindsTheReference) {
  const auto* reference = find_variant("reference");
  ASSERT_NE(reference, nullptr);
  EXPECT_EQ(reference->backend, "cpu");
  EXPECT_TRUE(reference->traits.exact);
  EXPECT_EQ(&all_variants().front(), reference);
}

TEST(Registry, HandsVariantsToOthersByName) {
  const auto found = registered_variant("reference");
  EXPECT_EQ(found.traits.summary, find_variant("reference")->traits.summary);
  EXPECT_NE(found.factory.make_float(Precision::f32), nullptr);
  EXPECT_THROW(registered_variant("openmp_absent"), std::logic_error);
}

TEST(Registry, HasExactEnginesByTrait) {
  EXPECT_EQ(&definition(), find_variant("reference"));
  EXPECT_EQ(exact_engine(EngineOn::one_thread), &definition());
  for (const EngineOn where : {EngineOn::threads, EngineOn::gpu}) {
    const auto* engine = exact_engine(where);
    if (engine == nullptr) continue;  // this build has none there
    EXPECT_TRUE(engine->traits.exact) << engine->traits.name;
    EXPECT_EQ(engine->traits.gpu, where == EngineOn::gpu) << engine->traits.name;
    EXPECT_EQ(engine->traits.parallel, where == EngineOn::threads) << engine->traits.name;
  }
}

// Who is asked must not depend on the order of names.
TEST(Registry, HasOneEngineAtAPlace) {
  std::set<std::pair<bool, bool>> places;
  for (const auto& variant : all_variants()) {
    const Traits& traits = variant.traits;
    if (!traits.engine) continue;
    EXPECT_TRUE(places.insert({traits.gpu, traits.parallel}).second) << traits.name;
  }
}

TEST(Registry, NamesBeginWithTheirBackend) {
  for (const auto& variant : all_variants()) {
    if (variant.traits.name == "reference") continue;
    EXPECT_EQ(variant.traits.name.rfind(variant.backend + "_", 0), 0) << variant.traits.name;
    EXPECT_FALSE(variant.traits.summary.empty()) << variant.traits.name;
  }
}

TEST(Registry, UnknownNamesGetASuggestion) {
  const std::string message = test::message_of([] { require_variant("referense"); });
  EXPECT_NE(message.find("did you mean 'reference'"), std::string::npos);
}

}  // namespace
}  // namespace kmeans
