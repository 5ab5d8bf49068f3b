// Bounds from answering in the same column: the strongest pruning of the Connect Four solver.
//
// A player who always answers directly above the opponent's disc gets every second cell of a
// column. In the end the opponent must play below a threat. Allis calls this claimeven ("A
// Knowledge-based Approach of Connect-Four", 1988, chapter 3).
//
// The mover is the player to move. The follower answers directly above. If the mover plays in a
// column with an odd number of cells left, the follower answers in another such column. So from
// each such pair of columns the mover may choose one of two playable cells. The mover also gets the
// lower cell of every pair of cells above them.
//
// The follower does not lose if no four lies within the mover's discs and those cells. If the
// follower has a threat whose lower neighbour falls to the mover, the mover can never play that
// high in its column. The mover then runs out of other cells and loses.
#pragma once

#include <bit>

#include "zerofleet/connect_four_board.h"

namespace zerofleet::connect_four {

// Fills every column from its lowest cell in `bits` to the top.
constexpr Bits upwards(Bits bits) {
  for (int row = 1; row < kRows; ++row) bits |= bits << 1 & kBoard;
  return bits;
}

// Whether a player with these discs gets no four from all `cells` and then at most one cell of
// `last`. After a cell of `last` the other player wins at once.
constexpr bool stays_without_four(Bits discs, Bits cells, Bits last) {
  const Bits most = discs | cells;
  return !has_four(most) && !(completing_cells(most) & last);
}

// Upper bound of the mover's outcome when the second player follows and the first player moves. An
// even number of columns have an odd number of cells left.
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

// Upper bound of the mover's outcome when the first player follows and has a threat on an odd row.
// The follower gets the odd rows in the threat's column and the even rows in all others. Now an odd
// number of columns have an odd number of cells left, so one of them has no partner. It is the
// threat's own column, or else the threat's column is its partner.
constexpr int bound_by_first_player(const Board& board, Bits threats) {
  const Bits playable = board.playable();
  const Bits empty = kBoard ^ board.occupied;
  const Bits even_traps = threats & kEvenRows & ~playable;
  const Bits reachable = ((empty & ~kEvenRows) | playable) & ~upwards(even_traps >> 1);
  Bits traps = threats & ~kEvenRows & ~playable;
  while (traps) {
    const Bits trap = traps & -traps;  // the lowest in its column
    const Bits column = column_bits(std::countr_zero(trap) / kColumnBits);
    const Bits below = trap >> 1;
    const Bits inside = column & ((empty & kEvenRows) | playable) & (below - 1);
    const Bits last = (even_traps >> 1 & ~column) | below;
    if (stays_without_four(board.own, (reachable & ~column) | inside, last)) return -1;
    traps &= ~column;
  }
  return has_four(board.own | empty) ? 1 : 0;
}

// Upper bound of the outcome for the player to move: -1, 0 or +1. `threats` are the empty cells on
// which the other player would complete four.
constexpr int follow_up_bound(const Board& board, Bits threats) {
  return board.ply() % 2 == 0 ? bound_by_second_player(board, threats)
                              : bound_by_first_player(board, threats);
}

}  // namespace zerofleet::connect_four
