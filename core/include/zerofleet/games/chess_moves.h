// The numbering of the moves of chess: 1,858 actions from the mover's side of the board.
#pragma once

#include <array>
#include <cstdint>

#include "zerofleet/game.h"
#include "zerofleet/games/chess_board.h"

namespace zerofleet {

// Every step of a queen or a knight on an empty board is an action: 1,792 pairs of squares, ordered
// by the square that is left, then by the one that is reached. They include the moves of all other
// pieces. A pawn that reaches the last rank by such an action becomes a queen. The other promotions
// follow: 22 steps from the seventh to the eighth rank, in the same order, each to a knight, a
// bishop and a rook.
//
// Squares are the mover's (see Squares), so an action means the same plan for both players: action
// e2e4 is White's e2e4 and Black's e7e5.
inline constexpr int kChessSteps = 1792;
inline constexpr int kChessActions = kChessSteps + 22 * 3;
inline constexpr int kChessPoints = 64;

namespace chess {

struct Numbering {
  std::array<ChessMove, kChessActions> move{};
  std::array<std::array<Action, 64>, 64> step{};                // [from][to]; -1: no such step
  std::array<std::array<Action, 8>, 8> first_underpromotion{};  // [column][column]; -1: none
};

inline constexpr Numbering kNumbering = [] {
  Numbering numbering;
  int count = 0;
  for (int from = 0; from < 64; ++from) {
    const Squares reached = rook_attacks(from, 0) | bishop_attacks(from, 0) | knight_attacks(from);
    for (int to = 0; to < 64; ++to) {
      const bool is_step = (reached >> to) & 1;
      numbering.step[from][to] = is_step ? static_cast<Action>(count) : Action{-1};
      if (!is_step) continue;
      numbering.move[count] = {static_cast<std::int8_t>(from), static_cast<std::int8_t>(to)};
      ++count;
    }
  }
  for (int from = 0; from < 8; ++from) {
    for (int to = 0; to < 8; ++to) {
      const bool is_step = to - from <= 1 && from - to <= 1;
      numbering.first_underpromotion[from][to] = is_step ? static_cast<Action>(count) : Action{-1};
      if (!is_step) continue;
      for (const ChessKind kind : {kKnight, kBishop, kRook}) {
        numbering.move[count] = {static_cast<std::int8_t>(8 + from), static_cast<std::int8_t>(to),
                                 kind};
        ++count;
      }
    }
  }
  return numbering;
}();

static_assert(kNumbering.move[kChessSteps].promotion == kKnight &&
              kNumbering.move[kChessSteps - 1].promotion == kQueen &&
              kNumbering.move[kChessActions - 1] == ChessMove{15, 7, kRook});

// Whether an action stands for a promotion to a knight, a bishop or a rook.
constexpr bool is_underpromotion(int action) { return action >= kChessSteps; }

constexpr const ChessMove& move_of(int action) {
  return kNumbering.move[static_cast<std::size_t>(action)];
}

// The action of a legal move.
constexpr Action action_of(const ChessMove& move, bool is_promotion) {
  if (is_promotion && move.promotion != kQueen) {
    return static_cast<Action>(
        kNumbering.first_underpromotion[column_of(move.from)][column_of(move.to)] +
        (move.promotion - kKnight));
  }
  return kNumbering.step[move.from][move.to];
}

// Calls `visit(action)` for every legal move of a position, in ascending order of the actions.
template <class Visit>
constexpr void for_each_action(const ChessBoard& board, const ChessTargets& moves, Visit&& visit) {
  for (Squares pieces = moves.movers; pieces != 0; pieces &= pieces - 1) {
    const int from = first(pieces);
    const auto& actions = kNumbering.step[static_cast<std::size_t>(from)];
    for (Squares rest = moves.to[static_cast<std::size_t>(from)]; rest != 0; rest &= rest - 1) {
      visit(actions[static_cast<std::size_t>(first(rest))]);
    }
  }
  for (Squares pawns = moves.movers & board.of_kind(kPawn) & kSeventhRank; pawns != 0;
       pawns &= pawns - 1) {
    const int from = first(pawns);
    for (Squares rest = moves.to[static_cast<std::size_t>(from)]; rest != 0; rest &= rest - 1) {
      const Action action = kNumbering.first_underpromotion[column_of(from)][first(rest)];
      for (int kind = 0; kind < 3; ++kind) visit(static_cast<Action>(action + kind));
    }
  }
}

}  // namespace chess
}  // namespace zerofleet
