// Perfect play at the end of Othello: the outcome of any late position, by alpha-beta search.
//
// Outcomes are for the player to move: +1 a win, 0 a draw, -1 a loss.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "zerofleet/games/othello.h"

namespace zerofleet {

// A position with this many empty squares takes a tenth of a second; two more take ten times as
// long.
inline constexpr int kMostSolvedEmpties = 16;

constexpr int empty_squares(const Othello& position) {
  return Othello::kPass - std::popcount(position.discs(kFirstPlayer)) -
         std::popcount(position.discs(kSecondPlayer));
}

// Returns the outcome, or the nearer end of the window if the outcome lies outside. The game may be
// over.
inline int othello_outcome_within(const Othello& position, int low, int high) {
  if (position.is_terminal()) {
    const int result = position.result();
    return std::clamp(position.to_play() == kFirstPlayer ? result : -result, low, high);
  }
  struct Reply {
    Othello position;
    int answers;
  };
  // Try the reply that leaves the opponent the fewest answers first: it is often good, and its
  // subtree is small.
  std::array<Reply, kMostSolvedEmpties> replies;
  int size = 0;
  for (const Action action : position.legal_actions()) {
    Reply reply{position, 0};
    reply.position.apply(action);
    reply.answers = reply.position.legal_actions().size();
    int place = size++;
    for (; place > 0 && replies[place - 1].answers > reply.answers; --place) {
      replies[place] = replies[place - 1];
    }
    replies[place] = reply;
  }
  for (int i = 0; i < size && low < high; ++i) {
    low = std::max(low, -othello_outcome_within(replies[i].position, -high, -low));
  }
  return low;
}

// Outcome after each action for the player who takes it; nullopt for an illegal action. `position`
// must not be terminal and must have at most `kMostSolvedEmpties` empty squares.
inline std::array<std::optional<int>, Othello::kNumActions> othello_action_outcomes(
    const Othello& position) {
  std::array<std::optional<int>, Othello::kNumActions> outcomes;
  for (const Action action : position.legal_actions()) {
    Othello after = position;
    after.apply(action);
    outcomes[action] = -othello_outcome_within(after, -1, 1);
  }
  return outcomes;
}

}  // namespace zerofleet
