// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the data sets share.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "datasets/points.h"
#include "harness/support/errors.h"
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

/// The message of the `Error` that `call` throws, or a failed test.
template <class Error = InputError>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another exception: " << error.what();
    return "";
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace kmeans::test
