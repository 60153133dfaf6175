// SPDX-License-Identifier: Apache-2.0
//
// Products of points and centroids by BLAS, on the calling thread alone.
#pragma once

#include <cstdint>

#include "implementations/blas/_openblas.h"

namespace kmeans::blas {

/// products (rows x columns, column-major) = -x.c of points rows x d and centroids columns x d, both
/// row-major.
inline void negated_products(std::int64_t rows, std::int64_t columns, std::int64_t d,
                             const float* points, const float* centroids, float* products) {
  openblas().sgemm(CblasColMajor, CblasTrans, CblasNoTrans, static_cast<blasint>(rows),
                   static_cast<blasint>(columns), static_cast<blasint>(d), -1.0F, points,
                   static_cast<blasint>(d), centroids, static_cast<blasint>(d), 0.0F, products,
                   static_cast<blasint>(rows));
}

inline void negated_products(std::int64_t rows, std::int64_t columns, std::int64_t d,
                             const double* points, const double* centroids, double* products) {
  openblas().dgemm(CblasColMajor, CblasTrans, CblasNoTrans, static_cast<blasint>(rows),
                   static_cast<blasint>(columns), static_cast<blasint>(d), -1.0, points,
                   static_cast<blasint>(d), centroids, static_cast<blasint>(d), 0.0, products,
                   static_cast<blasint>(rows));
}

}  // namespace kmeans::blas
