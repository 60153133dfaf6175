// SPDX-License-Identifier: Apache-2.0
//
// What is used of OpenBLAS, looked up by name: nothing links with it (harness/machine/openblas_library.h).
#pragma once

#include <cblas.h>

#include <string>

namespace kmeans::blas {

struct OpenBlas {
  std::string problem;  ///< Why it cannot be used; empty: it can.
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&cblas_dgemm) dgemm = nullptr;
  decltype(&openblas_get_config) get_config = nullptr;
  decltype(&openblas_get_corename) get_corename = nullptr;
};

/// Loaded by the first call, without threads of its own.
const OpenBlas& openblas();

/// Throws EnvironmentError where it cannot be used, or so many threads that multiply find too few addresses.
void require_openblas(int threads);

}  // namespace kmeans::blas
