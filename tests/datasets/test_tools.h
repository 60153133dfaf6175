// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the data sets share.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "datasets/points.h"
#include "tests/support/message_of.h"
#include "tests/support/scoped.h"

namespace kmeans::test {

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The bytes of a value, as they lie in a little-endian file.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <class T>
std::vector<T> values_of(const Points& points) {
  const T* begin = points.data<T>();
  return {begin, begin + points.n() * points.d()};
}

}  // namespace kmeans::test
