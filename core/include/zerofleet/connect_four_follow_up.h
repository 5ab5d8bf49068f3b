// When Connect Four is decided by answering in the same column: the solver's strongest pruning.
//
// A player who always answers directly above the opponent's disc gets every second cell of a
// column, and in the end the opponent must play below a threat. Allis calls it claimeven ("A
// Knowledge-based Approach of Connect-Four", 1988, chapter 3). Here:
//
// The mover is the player to move; the follower answers above, or, when the mover plays in a column
// of which an odd number of cells was left, in another such column. So from each such pair of
// columns the mover may choose one of two playable cells, and gets the lower cell of every pair of
// cells above them. The follower does not lose if no four lies within the mover's discs and those
// cells. And if the follower has a threat whose lower neighbour falls to the mover, the mover can
// never touch that column up there, runs out of other cells, and loses.
#pragma once

#include <bit>

#include "zerofleet/connect_four_board.h"

namespace zerofleet::connect_four {

// From the lowest cells in `bits` to the top of their columns.
constexpr Bits upwards(Bits bits) {
  for (int row = 1; row < kRows; ++row) bits |= bits << 1 & kBoard;
  return bits;
}

// Whether a player with these discs stays without four who gets all `cells` and then at most one
// cell of `last`, after which the other player wins at once.
constexpr bool stays_without_four(Bits discs, Bits cells, Bits last) {
  const Bits most = discs | cells;
  return !has_four(most) && !(completing_cells(most) & last);
}

// The second player follows; the first player is the mover, and an even number of columns have an
// odd number of cells left. Returns an upper bound of the mover's outcome.
constexpr int bound_by_second_player(const Board& board, Bits threats) {
  const Bits playable = board.playable();
  const Bits empty = kBoard ^ board.occupied;
  const Bits traps = threats & kEvenRows & ~playable;
  const Bits below = traps >> 1;
  const Bits cells = ((empty & ~kEvenRows) | playable) & ~upwards(below);
  if (!stays_without_four(board.own, cells, below)) return 1;
  if (traps) return -1;
  return has_four(board.other() | (empty & kEvenRows & ~playable)) ? -1 : 0;
}

// The first player follows, with a threat on an odd row: in its column he gets the odd rows, in all
// others the even ones. An odd number of columns have an odd number of cells left now, so one of
// them has no partner: it is the threat's own column, or else that column is its partner.
constexpr int bound_by_first_player(const Board& board, Bits threats) {
  const Bits playable = board.playable();
  const Bits empty = kBoard ^ board.occupied;
  const Bits even_traps = threats & kEvenRows & ~playable;
  const Bits reachable = ((empty & ~kEvenRows) | playable) & ~upwards(even_traps >> 1);
  Bits traps = threats & ~kEvenRows & ~playable;
  while (traps) {
    const Bits trap = traps & -traps;  // the lowest of its column
    const Bits column = column_bits(std::countr_zero(trap) / kColumnBits);
    const Bits below = trap >> 1;
    const Bits inside = column & ((empty & kEvenRows) | playable) & (below - 1);
    const Bits last = (even_traps >> 1 & ~column) | below;
    if (stays_without_four(board.own, (reachable & ~column) | inside, last)) return -1;
    traps &= ~column;
  }
  return has_four(board.own | empty) ? 1 : 0;
}

// An upper bound of the outcome for the player to move, in -1, 0, +1. `threats` are the empty cells
// on which the other player would complete four.
constexpr int follow_up_bound(const Board& board, Bits threats) {
  return board.ply() % 2 == 0 ? bound_by_second_player(board, threats)
                              : bound_by_first_player(board, threats);
}

}  // namespace zerofleet::connect_four
