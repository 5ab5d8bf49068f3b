// Four floats at a time. The vector extension that GCC and Clang share turns one source into SSE,
// AVX or NEON. Loops over the edges of a node are too short to leave them to the optimizer.
#pragma once

#include <cstdint>
#include <cstring>

namespace zerofleet {

inline constexpr int kLanes = 4;

using Floats [[gnu::vector_size(16)]] = float;       // [kLanes]
using Ints [[gnu::vector_size(16)]] = std::int32_t;  // [kLanes]; in a mask -1 or 0

constexpr int round_up_to_lanes(int count) { return (count + kLanes - 1) / kLanes * kLanes; }

inline Floats load_floats(const float* from) {
  Floats lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return lanes;
}

inline void store_floats(Floats lanes, float* to) { std::memcpy(to, &lanes, sizeof lanes); }

inline Floats load_as_floats(const std::int32_t* from) {
  Ints lanes;
  std::memcpy(&lanes, from, sizeof lanes);
  return __builtin_convertvector(lanes, Floats);
}

inline Floats load_as_floats(const std::uint16_t* from) {
  const Ints lanes = {from[0], from[1], from[2], from[3]};
  return __builtin_convertvector(lanes, Floats);
}

inline Floats broadcast(float number) { return Floats{number, number, number, number}; }

// Lane by lane `mask ? if_set : otherwise`, in operations that every vector unit has.
inline Floats choose(Ints mask, Floats if_set, Floats otherwise) {
  return reinterpret_cast<Floats>((mask & reinterpret_cast<Ints>(if_set)) |
                                  (~mask & reinterpret_cast<Ints>(otherwise)));
}
inline Ints choose(Ints mask, Ints if_set, Ints otherwise) {
  return (mask & if_set) | (~mask & otherwise);
}

inline Floats larger(Floats a, Floats b) { return choose(a > b, a, b); }

inline float sum_of(Floats lanes) { return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]); }

inline float largest_of(Floats lanes) {
  const float first = lanes[0] > lanes[1] ? lanes[0] : lanes[1];
  const float second = lanes[2] > lanes[3] ? lanes[2] : lanes[3];
  return first > second ? first : second;
}

}  // namespace zerofleet
