// exp and log from IEEE arithmetic alone. Unlike the C library's, they give the same bits on every
// platform.
#pragma once

#include <cmath>

#include "zerofleet/lanes.h"

namespace zerofleet {

inline constexpr double kLn2 = 0.693147180559945309417;

// Natural logarithm of a positive finite number; relative error about 1e-16.
inline double portable_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);  // in [0.5, 1)
  if (mantissa < 0.70710678118654752) {
    mantissa *= 2.0;
    --exponent;
  }
  // log m = 2 artanh((m - 1) / (m + 1)), and |s| < 0.172 makes eleven terms enough.
  const double s = (mantissa - 1.0) / (mantissa + 1.0);
  const double square = s * s;
  double series = 0.0;
  for (int k = 21; k >= 1; k -= 2) series = series * square + 1.0 / k;
  return 2.0 * s * series + exponent * kLn2;
}

// Exponential; relative error about 1e-15. Returns 0 where the result would underflow.
inline double portable_exp(double x) {
  if (x < -708.0) return 0.0;
  const double power = std::floor(x / kLn2 + 0.5);
  const double rest = x - power * kLn2;
  double series = 1.0;
  for (int k = 14; k >= 1; --k) series = 1.0 + series * rest / k;
  return std::ldexp(series, static_cast<int>(power));
}

// Exponential of x <= 0 in single precision, relative error below 1e-6; x < -87 counts as -87.
inline Floats exp_of_negative(Floats x) {
  constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23: adding it rounds to the nearest integer
  x = larger(x, broadcast(-87.0f));
  const Floats shifted = x * 1.44269504f + kRounder;
  const Floats power = shifted - kRounder;
  const Floats rest = (x - power * 0.693359375f) + power * 2.12194440e-4f;  // ln 2 in two parts
  Floats series = broadcast(1.0f / 720.0f);
  for (const float coefficient : {1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f}) {
    series = series * rest + coefficient;
  }
  const Ints exponent = (reinterpret_cast<Ints>(shifted) + 127) << 23;
  return series * reinterpret_cast<Floats>(exponent);
}

}  // namespace zerofleet
