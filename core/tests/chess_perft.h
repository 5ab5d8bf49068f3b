// Counting the lines of legal moves from a position of chess.
#pragma once

#include <cstdint>

#include "zerofleet/games/chess_board.h"
#include "zerofleet/games/chess_moves.h"

namespace zerofleet::test {

inline std::int64_t perft(const ChessBoard& board, int depth) {
  ChessTargets moves;
  board.find_targets(moves);
  std::int64_t lines = 0;
  chess::for_each_action(board, moves, [&](Action action) {
    if (depth == 1) {
      ++lines;
      return;
    }
    ChessBoard next = board;
    next.play(chess::move_of(action));
    lines += perft(next, depth - 1);
  });
  return lines;
}

}  // namespace zerofleet::test
