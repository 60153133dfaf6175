// SPDX-License-Identifier: Apache-2.0
#include "harness/build_info.h"

#include <cstdlib>

namespace kmeans {

std::string source_root() {
  const char* root = std::getenv("KMEANS_BENCH_ROOT");
  return root != nullptr && *root != '\0' ? root : build_info().source_dir;
}

std::string cache_root() {
  const char* cache = std::getenv("KMEANS_BENCH_CACHE");
  return cache != nullptr && *cache != '\0' ? cache : source_root() + "/.cache";
}

}  // namespace kmeans
