// SPDX-License-Identifier: Apache-2.0
#include "harness/support/precision.h"

#include <array>

#include "harness/support/errors.h"

namespace kmeans {

const char* to_string(Precision precision) {
  switch (precision) {
    case Precision::f64: return "f64";
    case Precision::f32: return "f32";
    case Precision::tf32: return "tf32";
    case Precision::f16: return "f16";
    case Precision::bf16: return "bf16";
  }
  return "?";
}

Precision parse_precision(const std::string& text) {
  static constexpr std::array kAll{Precision::f64, Precision::f32, Precision::tf32, Precision::f16,
                                   Precision::bf16};
  for (const Precision precision : kAll) {
    if (text == to_string(precision)) return precision;
  }
  throw InputError("unknown precision '" + text + "'; known: f64, f32, tf32, f16, bf16");
}

}  // namespace kmeans
