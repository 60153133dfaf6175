// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace kmeans::test {

/// Matches a text that holds these parts in this order. Other words may stand between them.
inline ::testing::Matcher<const std::string&> Says(std::initializer_list<std::string> parts) {
  return ::testing::Truly([parts = std::vector<std::string>(parts)](const std::string& text) {
    std::size_t at = 0;
    for (const std::string& part : parts) {
      at = text.find(part, at);
      if (at == std::string::npos) return false;
      at += part.size();
    }
    return true;
  });
}

}  // namespace kmeans::test
