// SPDX-License-Identifier: Apache-2.0
#include "harness/registry.h"

#include <gtest/gtest.h>

#include "harness/errors.h"

namespace kmeans {
namespace {

TEST(Registry, FindsTheReference) {
  const auto* reference = find_variant("reference");
  ASSERT_NE(reference, nullptr);
  EXPECT_EQ(reference->backend, "cpu");
  EXPECT_TRUE(reference->traits.exact);
  EXPECT_EQ(&all_variants().front(), reference);
}

TEST(Registry, NamesBeginWithTheirBackend) {
  for (const auto& variant : all_variants()) {
    if (variant.traits.name == "reference") continue;
    EXPECT_EQ(variant.traits.name.rfind(variant.backend + "_", 0), 0) << variant.traits.name;
    EXPECT_FALSE(variant.traits.summary.empty()) << variant.traits.name;
  }
}

TEST(Registry, UnknownNamesGetASuggestion) {
  try {
    require_variant("referense");
    FAIL() << "accepted an unknown variant";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("did you mean 'reference'"), std::string::npos);
    EXPECT_EQ(error.code(), kExitBadInput);
  }
}

}  // namespace
}  // namespace kmeans
