// SPDX-License-Identifier: Apache-2.0
#include "harness/machine/openblas_library.h"

#include <dlfcn.h>

#include <cstdint>
#include <cstdlib>
#include <optional>

#include "harness/support/memory_left.h"
#include "harness/support/text.h"

namespace kmeans {
namespace {

constexpr const char* kThreads = "OPENBLAS_NUM_THREADS";

}  // namespace

OpenBlasLibrary load_openblas() {
  OpenBlasLibrary library;
  for (const char* name : {"libopenblas.so.0", "libopenblas.so"}) {
    library.handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library.handle != nullptr) return {library.handle, ""};
    // The first refusal says more: a library may be installed and yet not fit.
    if (library.problem.empty()) {
      library.problem = std::string("OpenBLAS cannot be loaded: ") + dlerror();
    }
  }
  return library;
}

OpenBlasLibrary load_openblas_without_threads() {
  const char* given = std::getenv(kThreads);
  const std::optional<std::string> before = given == nullptr ? std::nullopt : std::optional(given);
  setenv(kThreads, "1", 1);  // read once, as it is loaded
  OpenBlasLibrary library = load_openblas();
  if (before) {
    setenv(kThreads, before->c_str(), 1);
  } else {
    unsetenv(kThreads);
  }
  return library;
}

std::string openblas_lacks_addresses(int threads) {
  constexpr std::int64_t kBuffer = std::int64_t{128} << 20;  // OpenBLAS's BUFFER_SIZE on x86-64
  constexpr std::int64_t kStack = std::int64_t{16} << 20;
  const std::int64_t need = threads * (kBuffer + kStack);
  const std::optional<std::int64_t> left = address_space_left();
  if (!left || *left >= need) return "";
  return "OpenBLAS needs " + format_bytes(static_cast<double>(need)) + " of addresses for " +
         counted(threads, "thread", "threads") + ", has " +
         format_bytes(static_cast<double>(*left)) + " (ulimit -v)";
}

}  // namespace kmeans
