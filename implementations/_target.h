// SPDX-License-Identifier: Apache-2.0
//
// A region of code compiled for instructions that the rest of its file may not use: the code is
// called only where the processor has them.
//
//   KMEANS_BEGIN_TARGET("avx512f,avx512bw")
//   ...
//   KMEANS_END_TARGET
#pragma once

#define KMEANS_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define KMEANS_BEGIN_TARGET(isa) \
  KMEANS_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define KMEANS_END_TARGET KMEANS_PRAGMA(clang attribute pop)
#else
#define KMEANS_BEGIN_TARGET(isa) KMEANS_PRAGMA(GCC push_options) KMEANS_PRAGMA(GCC target(isa))
#define KMEANS_END_TARGET KMEANS_PRAGMA(GCC pop_options)
#endif
