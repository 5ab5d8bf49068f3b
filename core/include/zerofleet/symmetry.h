// Symmetries of the board, as tables computed at compile time from a game's two functions.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "zerofleet/game.h"

namespace zerofleet {

// Where a point of a square board lands: bit 0 mirrors columns, bit 1 mirrors rows, bit 2 then
// transposes. There are eight symmetries; 0 is the identity.
constexpr int dihedral_point(int point, int symmetry, int size) {
  int row = point / size;
  int column = point % size;
  if (symmetry & 1) column = size - 1 - column;
  if (symmetry & 2) row = size - 1 - row;
  return symmetry & 4 ? column * size + row : row * size + column;
}

template <FixedGame G>
struct Symmetries {
  // point[symmetry][p] is where point p lands; action[symmetry][a] where action a does.
  using PointTable = std::array<std::array<std::int16_t, kPoints<G>>, G::kNumSymmetries>;
  using ActionTable = std::array<std::array<Action, G::kNumActions>, G::kNumSymmetries>;

  static constexpr PointTable point = [] {
    PointTable table{};
    for (int s = 0; s < G::kNumSymmetries; ++s) {
      for (int p = 0; p < kPoints<G>; ++p) {
        table[s][p] = static_cast<std::int16_t>(G::symmetric_point(p, s));
      }
    }
    return table;
  }();

  static constexpr ActionTable action = [] {
    ActionTable table{};
    for (int s = 0; s < G::kNumSymmetries; ++s) {
      for (int a = 0; a < G::kNumActions; ++a) {
        table[s][a] = static_cast<Action>(G::symmetric_action(a, s));
      }
    }
    return table;
  }();

  // inverse[s] undoes s.
  static constexpr std::array<int, G::kNumSymmetries> inverse = [] {
    std::array<int, G::kNumSymmetries> inverses{};
    for (int s = 0; s < G::kNumSymmetries; ++s) {
      for (int t = 0; t < G::kNumSymmetries; ++t) {
        bool undoes = true;
        for (int p = 0; p < kPoints<G>; ++p) undoes &= point[t][point[s][p]] == p;
        if (undoes) inverses[s] = t;
      }
    }
    return inverses;
  }();
};

// Moves every point of a plane. Planes that are all zeros or all ones stay as they are.
template <FixedGame G>
constexpr Plane<kPoints<G>> transform_plane(const Plane<kPoints<G>>& plane, int symmetry) {
  using PlaneType = Plane<kPoints<G>>;
  if (symmetry == 0 || plane == PlaneType::filled(true)) return plane;
  PlaneType moved;
  for (int word = 0; word < PlaneType::kWords; ++word) {
    for (std::uint64_t bits = plane.word(word); bits != 0; bits &= bits - 1) {
      moved.set(Symmetries<G>::point[symmetry][64 * word + std::countr_zero(bits)]);
    }
  }
  return moved;
}

// Writes the packed observation of a position as seen under a symmetry.
// `packed` has kObservationBytes<G> bytes.
template <FixedGame G>
constexpr void write_observation(const G& position, int symmetry, std::span<std::uint8_t> packed) {
  auto planes = position.observe();
  for (auto& plane : planes) plane = transform_plane<G>(plane, symmetry);
  pack_planes<G::kPlanes, kPoints<G>>(planes, packed);
}

// Applies a symmetry to a packed observation.
template <FixedGame G>
constexpr Observation<G> transform_observation(std::span<const std::uint8_t> packed, int symmetry) {
  auto planes = unpack_planes<G::kPlanes, kPoints<G>>(packed);
  for (auto& plane : planes) plane = transform_plane<G>(plane, symmetry);
  Observation<G> moved{};
  pack_planes<G::kPlanes, kPoints<G>>(planes, moved);
  return moved;
}

// Moves a policy of [num_actions] entries: the entry of action a moves to where a lands.
template <FixedGame G>
constexpr void transform_policy(std::span<const float> policy, int symmetry,
                                std::span<float> moved) {
  for (int a = 0; a < G::kNumActions; ++a) moved[Symmetries<G>::action[symmetry][a]] = policy[a];
}

}  // namespace zerofleet
