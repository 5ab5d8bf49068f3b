// Tic-tac-toe: three in a row on a board of 3 x 3.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "zerofleet/game.h"
#include "zerofleet/position_text.h"
#include "zerofleet/symmetry.h"

namespace zerofleet {

// An action and a point are `3 * row + column`; row 0 is the top. The planes are the first player's
// marks, the second player's marks, and the side to move (all ones for the second player).
class TicTacToe {
 public:
  static constexpr std::string_view kName = "tic_tac_toe";
  static constexpr int kNumActions = 9;
  static constexpr int kPlanes = 3;
  static constexpr int kRows = 3;
  static constexpr int kColumns = 3;
  static constexpr int kMaxLength = 9;
  static constexpr int kNumSymmetries = 8;

  constexpr int ply() const { return ply_; }
  constexpr Player to_play() const { return static_cast<Player>(ply_ & 1); }
  constexpr int result() const { return result_; }
  constexpr bool is_terminal() const { return result_ != 0 || ply_ == kMaxLength; }

  constexpr std::uint64_t hash() const {
    return mix_bits((std::uint64_t{marks_[1]} << 9 | marks_[0]) + 1);
  }

  constexpr bool is_legal(int action) const {
    return action >= 0 && action < kNumActions && !is_terminal() && !((occupied() >> action) & 1);
  }

  constexpr ActionList<kNumActions> legal_actions() const {
    ActionList<kNumActions> actions;
    if (is_terminal()) return actions;
    for (int action = 0; action < kNumActions; ++action) {
      if (!((occupied() >> action) & 1)) actions.push_back(action);
    }
    return actions;
  }

  constexpr void apply(Action action) {
    const Player player = to_play();
    marks_[player] = static_cast<std::uint16_t>(marks_[player] | 1 << action);
    ++ply_;
    if (has_line(marks_[player])) result_ = player == kFirstPlayer ? 1 : -1;
  }

  constexpr Planes<kPlanes, 9> observe() const {
    return {Plane<9>(marks_[0]), Plane<9>(marks_[1]), Plane<9>::filled(to_play() == kSecondPlayer)};
  }

  static constexpr int symmetric_point(int point, int symmetry) {
    return dihedral_point(point, symmetry, 3);
  }
  static constexpr int symmetric_action(int action, int symmetry) {
    return symmetric_point(action, symmetry);
  }

  // "a1" is the top left square, "c3" the bottom right one.
  static std::string action_to_string(Action action) {
    return {static_cast<char>('a' + action % 3), static_cast<char>('1' + action / 3)};
  }

  // Accepts capitals too.
  static std::optional<Action> string_to_action(std::string_view text) {
    if (text.size() != 2 || text[1] < '1' || text[1] > '3') return std::nullopt;
    const bool capital = text[0] >= 'A' && text[0] <= 'Z';
    const int column = text[0] - (capital ? 'A' : 'a');
    if (column < 0 || column >= kColumns) return std::nullopt;
    return static_cast<Action>(3 * (text[1] - '1') + column);
  }

  // Reads rows from the top with "x", "o" and numbers for empty squares, then the side to move:
  // "x2/1o1/3 x". Throws std::invalid_argument for a position that no game reaches.
  static TicTacToe set_up(const TicTacToe&, std::string_view text) {
    const Diagram diagram = read_diagram(text, kRows, kColumns, kLetters);
    TicTacToe position;
    for (int point = 0; point < kNumActions; ++point) {
      const Player owner = diagram.points[static_cast<std::size_t>(point)];
      if (owner == kNobody) continue;
      position.marks_[owner] = static_cast<std::uint16_t>(position.marks_[owner] | 1 << point);
      ++position.ply_;
    }
    check_turns(diagram, kLetters);
    position.result_ = static_cast<std::int8_t>(result_of_rows(
        diagram, kLetters, [&](Player player) { return has_line(position.marks_[player]); },
        [&](Player player, int point) {
          return has_line(position.marks_[player] & ~(1 << point));
        }));
    return position;
  }

  std::string setup_text() const {
    Diagram diagram{std::vector<Player>(kNumActions, kNobody), to_play()};
    for (int point = 0; point < kNumActions; ++point) {
      for (const Player player : {kFirstPlayer, kSecondPlayer}) {
        if ((marks_[player] >> point) & 1) diagram.points[static_cast<std::size_t>(point)] = player;
      }
    }
    return write_diagram(diagram, kColumns, kLetters);
  }

  std::string to_string() const {
    std::string picture = "  a b c\n";
    for (int row = 0; row < kRows; ++row) {
      picture += static_cast<char>('1' + row);
      for (int column = 0; column < kColumns; ++column) {
        const int point = 3 * row + column;
        picture += ' ';
        picture += (marks_[0] >> point) & 1 ? 'x' : (marks_[1] >> point) & 1 ? 'o' : '.';
      }
      if (row + 1 < kRows) picture += '\n';
    }
    return picture;
  }

  constexpr bool operator==(const TicTacToe&) const = default;

 private:
  static constexpr std::string_view kLetters = "xo";

  constexpr int occupied() const { return marks_[0] | marks_[1]; }

  static constexpr bool has_line(int marks) {
    constexpr std::array<int, 8> kLines = {0007, 0070, 0700, 0111, 0222, 0444, 0421, 0124};
    for (const int line : kLines) {
      if ((marks & line) == line) return true;
    }
    return false;
  }

  std::array<std::uint16_t, 2> marks_{};  // by player; point p is bit p
  std::int8_t ply_ = 0;
  std::int8_t result_ = 0;
};

static_assert(Game<TicTacToe> && SetsUpPositions<TicTacToe>);

}  // namespace zerofleet
