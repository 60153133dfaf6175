// SPDX-License-Identifier: Apache-2.0
#include "datasets/random.h"

#include <algorithm>
#include <array>

namespace kmeans {
namespace {

// Rational approximations of AS 241, lowest power first: numerator and denominator of each of the
// three ranges.
constexpr std::array<double, 8> kCentreTop{3.3871328727963666080e0,  1.3314166789178437745e+2,
                                           1.9715909503065514427e+3, 1.3731693765509461125e+4,
                                           4.5921953931549871457e+4, 6.7265770927008700853e+4,
                                           3.3430575583588128105e+4, 2.5090809287301226727e+3};
constexpr std::array<double, 8> kCentreBottom{1.0,
                                              4.2313330701600911252e+1,
                                              6.8718700749205790830e+2,
                                              5.3941960214247511077e+3,
                                              2.1213794301586595867e+4,
                                              3.9307895800092710610e+4,
                                              2.8729085735721942674e+4,
                                              5.2264952788528545610e+3};
constexpr std::array<double, 8> kTailTop{1.42343711074968357734e0,  4.63033784615654529590e0,
                                         5.76949722146069140550e0,  3.64784832476320460504e0,
                                         1.27045825245236838258e0,  2.41780725177450611770e-1,
                                         2.27238449892691845833e-2, 7.74545014278341407640e-4};
constexpr std::array<double, 8> kTailBottom{1.0,
                                            2.05319162663775882187e0,
                                            1.67638483018380384940e0,
                                            6.89767334985100004550e-1,
                                            1.48103976427480074590e-1,
                                            1.51986665636164571966e-2,
                                            5.47593808499534494600e-4,
                                            1.05075007164441684324e-9};
constexpr std::array<double, 8> kFarTop{6.65790464350110377720e0,  5.46378491116411436990e0,
                                        1.78482653991729133580e0,  2.96560571828504891230e-1,
                                        2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                        2.71155556874348757815e-5, 2.01033439929228813265e-7};
constexpr std::array<double, 8> kFarBottom{1.0,
                                           5.99832206555887937690e-1,
                                           1.36929880922735805310e-1,
                                           1.48753612908506148525e-2,
                                           7.86869131145613259100e-4,
                                           1.84631831751005468180e-5,
                                           1.42151175831644588870e-7,
                                           2.04426310338993978564e-15};

constexpr double kCentre = 0.425;  // the central range is |p - 1/2| <= kCentre

inline double horner(const std::array<double, 8>& coefficients, double x) {
  double value = coefficients[7];
  for (int power = 6; power >= 0; --power) value = value * x + coefficients[std::size_t(power)];
  return value;
}

// q = p - 1/2.
inline double centre_quantile(double q) {
  const double r = kCentre * kCentre - q * q;
  return q * horner(kCentreTop, r) / horner(kCentreBottom, r);
}

double tail_quantile(double p) {
  const double tail = p < 0.5 ? p : 1 - p;
  const double r = std::sqrt(-natural_logarithm(tail));
  const double magnitude = r <= 5 ? horner(kTailTop, r - 1.6) / horner(kTailBottom, r - 1.6)
                                  : horner(kFarTop, r - 5) / horner(kFarBottom, r - 5);
  return p < 0.5 ? -magnitude : magnitude;
}

inline double magnitude_of(double x) { return x < 0 ? -x : x; }

}  // namespace

double natural_logarithm(double x) {
  // x = m * 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s) with s = (m - 1) / (m + 1).
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<int>((bits >> 52) & 0x7FF) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFU) | 0x3FF0000000000000U);
  if (m > 1.4142135623730951) {
    m = m * 0.5;
    ++exponent;
  }
  const double s = (m - 1) / (m + 1);
  const double z = s * s;
  // The series of artanh; |s| <= 0.172 makes the first omitted term smaller than 2^-56.
  double series = 1.0 / 21;
  for (int odd = 19; odd >= 1; odd -= 2) series = series * z + 1.0 / odd;
  // ln 2 in two parts, the first with trailing zeros, so that its multiples are exact.
  constexpr double kLn2High = 0x1.62e42fee00000p-1;
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  const auto e = static_cast<double>(exponent);
  return e * kLn2High + (2 * s * series + e * kLn2Low);
}

double normal_quantile(double p) {
  const double q = p - 0.5;
  return magnitude_of(q) <= kCentre ? centre_quantile(q) : tail_quantile(p);
}

void fill_normal(const CounterRandom& random, std::uint64_t first, std::span<double> values) {
  // A stretch at a time: the central formula for all, which a compiler can vectorise, and the 15%
  // in the tails once more, each with the same operations as normal_quantile.
  constexpr std::size_t kStretch = 256;
  std::array<double, kStretch> p{};
  for (std::size_t begin = 0; begin < values.size(); begin += kStretch) {
    const auto stretch = values.subspan(begin, std::min(kStretch, values.size() - begin));
    for (std::size_t i = 0; i < stretch.size(); ++i) p[i] = random.open_uniform(first + begin + i);
    for (std::size_t i = 0; i < stretch.size(); ++i) stretch[i] = centre_quantile(p[i] - 0.5);
    for (std::size_t i = 0; i < stretch.size(); ++i) {
      if (magnitude_of(p[i] - 0.5) > kCentre) stretch[i] = tail_quantile(p[i]);
    }
  }
}

}  // namespace kmeans
