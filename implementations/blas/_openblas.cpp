// SPDX-License-Identifier: Apache-2.0
#include "implementations/blas/_openblas.h"

#include <dlfcn.h>

#include <type_traits>

#include "harness/machine/openblas_library.h"
#include "harness/support/errors.h"

namespace kmeans::blas {
namespace {

OpenBlas load() {
  OpenBlas blas;
  const OpenBlasLibrary library = load_openblas_without_threads();
  blas.problem = library.problem;
  if (library.handle == nullptr) return blas;
  const auto find = [&](auto& function, const char* name) {
    using Function = std::remove_reference_t<decltype(function)>;
    function = reinterpret_cast<Function>(dlsym(library.handle, name));
    if (function == nullptr) blas.problem = std::string("the OpenBLAS found here has no ") + name;
  };
  find(blas.sgemm, "cblas_sgemm");
  find(blas.dgemm, "cblas_dgemm");
  find(blas.get_config, "openblas_get_config");
  find(blas.get_corename, "openblas_get_corename");
  return blas;
}

}  // namespace

const OpenBlas& openblas() {
  static const OpenBlas library = load();
  return library;
}

void require_openblas(int threads) {
  std::string problem = openblas().problem;
  if (problem.empty()) problem = openblas_lacks_addresses(threads);
  if (!problem.empty()) throw EnvironmentError(problem);
}

}  // namespace kmeans::blas
