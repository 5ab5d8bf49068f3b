// Connect Four on 7 columns of 6 cells: discs fall, and four in a row win.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "zerofleet/game.h"
#include "zerofleet/position_text.h"
#include "zerofleet/symmetry.h"

namespace zerofleet {

// An action is a column, 0 at the left. A point is `7 * row + column`; row 0 is the top. The planes
// are the discs of the player to move, the opponent's discs, and the side to move (all ones for the
// second player).
//
// Discs are bits `8 * height + column` of a word, with height 0 at the bottom. The eighth column is
// always empty, so that shifted lines cannot wrap around the board's edge.
class ConnectFour {
 public:
  static constexpr std::string_view kName = "connect_four";
  static constexpr int kRows = 6;
  static constexpr int kColumns = 7;
  static constexpr int kNumActions = kColumns;
  static constexpr int kPlanes = 3;
  static constexpr int kMaxLength = kRows * kColumns;
  static constexpr int kNumSymmetries = 2;

  constexpr int ply() const { return ply_; }
  constexpr Player to_play() const { return static_cast<Player>(ply_ & 1); }
  constexpr int result() const { return result_; }
  constexpr bool is_terminal() const { return result_ != 0 || ply_ == kMaxLength; }

  constexpr std::uint64_t hash() const { return mix_bits(mix_bits(discs_[0] + 1) ^ discs_[1]); }

  constexpr bool is_legal(int action) const {
    return action >= 0 && action < kColumns && !is_terminal() && heights_[action] < kRows;
  }

  constexpr ActionList<kNumActions> legal_actions() const {
    ActionList<kNumActions> actions;
    if (is_terminal()) return actions;
    for (int column = 0; column < kColumns; ++column) {
      if (heights_[column] < kRows) actions.push_back(column);
    }
    return actions;
  }

  constexpr void apply(Action action) {
    const Player player = to_play();
    discs_[player] |= std::uint64_t{1} << (8 * heights_[action] + action);
    ++heights_[action];
    ++ply_;
    if (has_line(discs_[player])) result_ = player == kFirstPlayer ? 1 : -1;
  }

  constexpr Planes<kPlanes, kMaxLength> observe() const {
    using PlaneType = Plane<kMaxLength>;
    const Player player = to_play();
    return {PlaneType(points_of(discs_[player])), PlaneType(points_of(discs_[1 - player])),
            PlaneType::filled(player == kSecondPlayer)};
  }

  // Reads rows from the top with "x" for the first player's discs, "o" for the second's and numbers
  // for empty cells, then the side to move: "7/7/7/3o3/2xx3/2xo3 o". Throws std::invalid_argument
  // for discs that do not rest on others, and for a position that no game reaches.
  static ConnectFour set_up(const ConnectFour&, std::string_view text) {
    const Diagram diagram = read_diagram(text, kRows, kColumns, kLetters);
    ConnectFour position;
    for (int column = 0; column < kColumns; ++column) {
      bool has_gap = false;
      for (int height = 0; height < kRows; ++height) {
        const Player owner = diagram.points[static_cast<std::size_t>(point_at(height, column))];
        if (owner == kNobody) {
          has_gap = true;
          continue;
        }
        if (has_gap) {
          throw std::invalid_argument("column " + action_to_string(static_cast<Action>(column)) +
                                      " has a disc above an empty cell");
        }
        position.discs_[owner] |= std::uint64_t{1} << (8 * height + column);
        ++position.heights_[column];
        ++position.ply_;
      }
    }
    check_turns(diagram, kLetters);
    position.result_ = static_cast<std::int8_t>(result_of_rows(
        diagram, kLetters, [&](Player player) { return has_line(position.discs_[player]); },
        [&](Player player, int point) {
          const int column = point % kColumns;
          const int height = kRows - 1 - point / kColumns;
          if (height + 1 != position.heights_[column]) return true;
          return has_line(position.discs_[player] & ~(std::uint64_t{1} << (8 * height + column)));
        }));
    return position;
  }

  std::string setup_text() const {
    Diagram diagram{std::vector<Player>(kMaxLength, kNobody), to_play()};
    for (int height = 0; height < kRows; ++height) {
      for (int column = 0; column < kColumns; ++column) {
        for (const Player player : {kFirstPlayer, kSecondPlayer}) {
          if (!((discs_[player] >> (8 * height + column)) & 1)) continue;
          diagram.points[static_cast<std::size_t>(point_at(height, column))] = player;
        }
      }
    }
    return write_diagram(diagram, kColumns, kLetters);
  }

  // A player's discs in the layout described above.
  constexpr std::uint64_t discs(Player player) const { return discs_[player]; }

  // Number of discs in a column.
  constexpr int height(int column) const { return heights_[column]; }

  static constexpr int symmetric_point(int point, int symmetry) {
    const int row = point / kColumns;
    return row * kColumns + symmetric_action(point % kColumns, symmetry);
  }
  static constexpr int symmetric_action(int action, int symmetry) {
    return symmetry == 0 ? action : kColumns - 1 - action;
  }

  // Columns are written "1" to "7", from the left.
  static std::string action_to_string(Action action) { return {static_cast<char>('1' + action)}; }

  static std::optional<Action> string_to_action(std::string_view text) {
    if (text.size() != 1 || text[0] < '1' || text[0] > '7') return std::nullopt;
    return static_cast<Action>(text[0] - '1');
  }

  std::string to_string() const {
    std::string picture;
    for (int height = kRows - 1; height >= 0; --height) {
      for (int column = 0; column < kColumns; ++column) {
        const int bit = 8 * height + column;
        picture += (discs_[0] >> bit) & 1 ? 'x' : (discs_[1] >> bit) & 1 ? 'o' : '.';
        picture += column + 1 < kColumns ? ' ' : '\n';
      }
    }
    return picture + "1 2 3 4 5 6 7";
  }

  constexpr bool operator==(const ConnectFour&) const = default;

 private:
  static constexpr std::string_view kLetters = "xo";

  static constexpr int point_at(int height, int column) {
    return kColumns * (kRows - 1 - height) + column;
  }

  static constexpr bool has_line(std::uint64_t discs) {
    for (const int step : {1, 7, 8, 9}) {  // along a row, both diagonals, up a column
      const std::uint64_t pairs = discs & (discs >> step);
      if (pairs & (pairs >> (2 * step))) return true;
    }
    return false;
  }

  // The same discs as board points: top row first, no eighth column.
  static constexpr std::uint64_t points_of(std::uint64_t discs) {
    std::uint64_t points = 0;
    for (int row = 0; row < kRows; ++row) {
      points |= ((discs >> (8 * (kRows - 1 - row))) & 0x7f) << (kColumns * row);
    }
    return points;
  }

  std::array<std::uint64_t, 2> discs_{};  // by player
  std::array<std::uint8_t, kColumns> heights_{};
  std::int8_t ply_ = 0;
  std::int8_t result_ = 0;
};

static_assert(Game<ConnectFour> && SetsUpPositions<ConnectFour>);

}  // namespace zerofleet
