// The bitboard of the Connect Four solver. A column has seven bits: six cells and one that is
// always empty.
//
//    6 13 20 27 34 41 48   <- never occupied, so that no line runs into the next column
//    5 12 19 26 33 40 47
//    . .  .  .  .  .  .
//    0  7 14 21 28 35 42   <- bottom row
#pragma once

#include <bit>
#include <cstdint>

namespace zerofleet::connect_four {

using Bits = std::uint64_t;

inline constexpr int kColumns = 7;
inline constexpr int kRows = 6;
inline constexpr int kCells = kColumns * kRows;
inline constexpr int kColumnBits = kRows + 1;

constexpr Bits column_bits(int column) {
  return ((Bits{1} << kRows) - 1) << (column * kColumnBits);
}

constexpr Bits row_bits(int row) {
  Bits bits = 0;
  for (int column = 0; column < kColumns; ++column) bits |= Bits{1} << (column * kColumnBits + row);
  return bits;
}

inline constexpr Bits kBottom = row_bits(0);
inline constexpr Bits kBoard = kBottom * ((Bits{1} << kRows) - 1);
inline constexpr Bits kEvenRows = row_bits(1) | row_bits(3) | row_bits(5);  // second, fourth, sixth

// Distances in bits between neighbours on a line: vertical, falling diagonal, horizontal, rising
// diagonal.
inline constexpr int kSteps[] = {1, kColumnBits - 1, kColumnBits, kColumnBits + 1};

constexpr bool has_four(Bits stones) {
  for (const int step : kSteps) {
    const Bits pairs = stones & (stones >> step);
    if (pairs & (pairs >> 2 * step)) return true;
  }
  return false;
}

// Cells, occupied ones included, that would complete four in a line with `stones`.
constexpr Bits completing_cells(Bits stones) {
  Bits cells = (stones << 1) & (stones << 2) & (stones << 3);
  for (const int step : {kColumnBits - 1, kColumnBits, kColumnBits + 1}) {
    const Bits below = (stones << step) & (stones << 2 * step);  // the two cells before this one
    const Bits above = (stones >> step) & (stones >> 2 * step);  // the two cells after it
    cells |= below & ((stones << 3 * step) | (stones >> step));
    cells |= above & ((stones >> 3 * step) | (stones << step));
  }
  return cells & kBoard;
}

constexpr Bits mirrored(Bits bits) {
  constexpr Bits kColumn = (Bits{1} << kColumnBits) - 1;
  Bits mirror = 0;
  for (int column = 0; column < kColumns; ++column) {
    mirror = (mirror << kColumnBits) | ((bits >> (column * kColumnBits)) & kColumn);
  }
  return mirror;
}

// A position in which neither player has four yet.
struct Board {
  Bits own = 0;       // stones of the player to move
  Bits occupied = 0;  // stones of both

  constexpr Bits other() const { return own ^ occupied; }
  constexpr int ply() const { return std::popcount(occupied); }

  // The lowest empty cell of every column that is not full.
  constexpr Bits playable() const { return (occupied + kBottom) & kBoard; }

  constexpr Bits playable(int column) const { return playable() & column_bits(column); }

  // The position after the player to move has taken `cell`.
  constexpr Board after(Bits cell) const { return {other(), occupied | cell}; }

  // Unique for each position and below 2^49: the carry marks the height of each column.
  constexpr Bits key() const { return own + occupied + kBottom; }

  constexpr Board mirror() const { return {mirrored(own), mirrored(occupied)}; }
};

}  // namespace zerofleet::connect_four
