// SPDX-License-Identifier: Apache-2.0
//
// What the suite's compiled variants register with, in a library without the suite.
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/variant.h"

namespace kmeans {
namespace {

std::vector<Registration>& registrations() {
  static std::vector<Registration> all;
  return all;
}

}  // namespace

bool register_variant(Traits traits, Factory factory, const char* /*file*/) {
  registrations().push_back({std::move(traits), std::move(factory)});
  return true;
}

Registration registered_variant(const std::string& name) {
  for (const Registration& one : registrations()) {
    if (one.traits.name == name) return one;
  }
  throw std::logic_error("no variant '" + name + "' is in this library");
}

}  // namespace kmeans
