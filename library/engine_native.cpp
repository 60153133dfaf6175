// SPDX-License-Identifier: Apache-2.0
//
// The variants as the suite compiled them: the very objects that its charts measure. Here is the registry
// that they register with.
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "library/choose_engine.h"
#include "library/engine.h"

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

kmeans_exact::Engine* kmeans_exact_engine_native(const kmeans::Shape& shape,
                                                 std::int64_t iterations) {
  return kmeans_exact::make_engine(kmeans_exact::engine_for(shape, iterations)).release();
}
