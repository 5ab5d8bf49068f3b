// Half precision (IEEE binary16) without hardware or compiler support for it.
#pragma once

#include <bit>
#include <cstdint>

namespace zerofleet {

// Whether the bits are neither an infinity nor NaN.
constexpr bool is_half_finite(std::uint16_t half) { return (half & 0x7c00) != 0x7c00; }

// Exact float value of a finite half.
constexpr float half_to_float(std::uint16_t half) {
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7fff) << 13;
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  // The shifted exponent is 112 too small as a float's; the product corrects subnormals as well.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

// The half nearest to a number in [0, 1]; ties go to even.
constexpr std::uint16_t unit_float_to_half(float number) {
  if (number < 0x1p-14f) {  // subnormal: adding 0.5 rounds to multiples of 2^-24
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number + 0.5f) -
                                      std::bit_cast<std::uint32_t>(0.5f));
  }
  std::uint32_t bits = std::bit_cast<std::uint32_t>(number);
  bits += 0xfff + ((bits >> 13) & 1);
  return static_cast<std::uint16_t>((bits >> 13) - (112u << 10));
}

}  // namespace zerofleet
