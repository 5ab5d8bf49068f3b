// A board as one line of text: rows from the top, separated by '/', then the side to move.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "zerofleet/game.h"

namespace zerofleet {

inline constexpr Player kNobody = -1;

// A longer text is no position of any game here.
inline constexpr std::size_t kLongestPositionText = 1000;

// A board that a person wrote. `points` has an owner for each point, row by row from the top.
struct Diagram {
  std::vector<Player> points;
  Player to_play = kFirstPlayer;

  int count(Player player) const;
};

// Reads a board such as "3x3/7/.../7 o". `letters` are those of the first and of the second player,
// in either case. A number is a run of empty points; '.' and '-' are one each. Throws
// std::invalid_argument that names what is wrong.
Diagram read_diagram(std::string_view text, int rows, int columns, std::string_view letters);

// Writes what `read_diagram` reads.
std::string write_diagram(const Diagram& diagram, int columns, std::string_view letters);

// Throws std::invalid_argument unless the players have moved in turn, one stone a ply.
void check_turns(const Diagram& diagram, std::string_view letters);

// The result of a board where a row of stones wins: +1 the first player, -1 the second, 0 nobody.
// `wins(player)` is whether the player has such a row. `wins_without(player, point)` is the same
// without the stone there, and true for a stone that cannot be the latest. Throws
// std::invalid_argument if the game would have ended earlier.
template <class Wins, class WinsWithout>
int result_of_rows(const Diagram& diagram, std::string_view letters, Wins&& wins,
                   WinsWithout&& wins_without) {
  const bool first = wins(kFirstPlayer);
  const bool second = wins(kSecondPlayer);
  if (!first && !second) return 0;
  const auto refuse = [&](const std::string& reason) { throw std::invalid_argument(reason); };
  if (first && second) refuse("both players have a winning row");
  const Player winner = first ? kFirstPlayer : kSecondPlayer;
  const std::string name(1, letters[static_cast<std::size_t>(winner)]);
  if (winner == diagram.to_play) {
    refuse(name + " has a winning row already, so the other player cannot have moved after it");
  }
  for (int point = 0; point < static_cast<int>(diagram.points.size()); ++point) {
    if (diagram.points[static_cast<std::size_t>(point)] == winner && !wins_without(winner, point)) {
      return first ? 1 : -1;
    }
  }
  refuse("the game was over earlier: no last move of " + name + " completes its winning rows");
  return 0;
}

}  // namespace zerofleet
