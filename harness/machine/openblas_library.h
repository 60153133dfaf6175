// SPDX-License-Identifier: Apache-2.0
//
// OpenBLAS, loaded when it is first needed. It starts its threads as it is loaded, and each reserves a buffer
// that it asks for again and again where a limit on addresses (`ulimit -v`) leaves no room: a program that is
// linked with it then never ends, whatever it was started for.
#pragma once

#include <string>

namespace kmeans {

struct OpenBlasLibrary {
  void* handle = nullptr;  ///< For dlsym(); stays open.
  std::string problem;     ///< Why there is none, as one clause.
};

/// With as many threads of its own as its environment says.
OpenBlasLibrary load_openblas();
/// With none of its own: each thread that calls it multiplies alone.
OpenBlasLibrary load_openblas_without_threads();

/// What is said where the limit on addresses leaves too little for so many threads that multiply; else empty.
std::string openblas_lacks_addresses(int threads);

}  // namespace kmeans
