// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "harness/support/errors.h"

namespace kmeans::test {

/// The message of the `Error` that `call` throws; empty where it throws nothing.
template <class Error = InputError>
std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace kmeans::test
