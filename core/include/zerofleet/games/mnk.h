// m,n,k games: k stones in a row win on a board of m columns and n rows.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "zerofleet/game.h"
#include "zerofleet/position_text.h"
#include "zerofleet/symmetry.h"

namespace zerofleet {

// The board of an m,n,k game chosen at run time. An action and a point are `columns * row +
// column`; row 0 is the top. A square board has the eight symmetries of `dihedral_point`. Any other
// board has the first four, which do not transpose.
class RunTimeSizes {
 public:
  static constexpr int kLongestSide = 19;
  static constexpr int kCapacity = kLongestSide * kLongestSide;  // points of the largest board

  // Throws std::invalid_argument for a side outside 1..19, or for a winning row shorter than 1 or
  // longer than the longer side.
  constexpr RunTimeSizes(int columns, int rows, int in_a_row)
      : columns_(checked("columns", columns, kLongestSide)),
        rows_(checked("rows", rows, kLongestSide)),
        in_a_row_(checked("in_a_row", in_a_row, std::max(columns, rows))) {}

  constexpr int columns() const { return columns_; }
  constexpr int rows() const { return rows_; }
  constexpr int in_a_row() const { return in_a_row_; }
  constexpr int planes() const { return 3; }
  constexpr int num_actions() const { return columns_ * rows_; }
  constexpr int max_length() const { return num_actions(); }
  constexpr int num_symmetries() const { return columns_ == rows_ ? 8 : 4; }

  constexpr int symmetric_point(int point, int symmetry) const {
    if (columns_ == rows_) return dihedral_point(point, symmetry, columns_);
    int row = point / columns_;
    int column = point % columns_;
    if (symmetry & 1) column = columns_ - 1 - column;
    if (symmetry & 2) row = rows_ - 1 - row;
    return row * columns_ + column;
  }
  constexpr int symmetric_action(int action, int symmetry) const {
    return symmetric_point(action, symmetry);
  }

  // A letter for the column (every letter, including "i"), then the row counted from the bottom:
  // "a1" is the bottom left point, "h8" the middle of 15 x 15.
  std::string action_to_string(Action action) const {
    return static_cast<char>('a' + action % columns_) + std::to_string(rows_ - action / columns_);
  }

  // Accepts capitals too.
  std::optional<Action> string_to_action(std::string_view text) const {
    if (text.size() < 2 || text.size() > 3 || text[1] == '0') return std::nullopt;
    const bool capital = text[0] >= 'A' && text[0] <= 'Z';
    const int column = text[0] - (capital ? 'A' : 'a');
    int height = 0;
    for (const char digit : text.substr(1)) {
      if (digit < '0' || digit > '9') return std::nullopt;
      height = 10 * height + (digit - '0');
    }
    if (column < 0 || column >= columns_ || height > rows_) return std::nullopt;
    return static_cast<Action>((rows_ - height) * columns_ + column);
  }

  constexpr bool operator==(const RunTimeSizes&) const = default;

 private:
  static constexpr std::int8_t checked(std::string_view name, int number, int largest) {
    if (number < 1 || number > largest) {
      throw std::invalid_argument(std::string(name) + " is " + std::to_string(number) +
                                  "; choose 1 to " + std::to_string(largest));
    }
    return static_cast<std::int8_t>(number);
  }

  std::int8_t columns_;
  std::int8_t rows_;
  std::int8_t in_a_row_;
};

// The same board with sizes known at compile time, and with the constants of a `Game`.
template <int kM, int kN, int kK>
struct FixedSizes {
  static constexpr RunTimeSizes kSizes{kM, kN, kK};
  static constexpr std::string_view kName = kM == 15 && kN == 15 && kK == 5 ? "gomoku" : "mnk";
  static constexpr int kColumns = kM;
  static constexpr int kRows = kN;
  static constexpr int kNumActions = kSizes.num_actions();
  static constexpr int kPlanes = kSizes.planes();
  static constexpr int kMaxLength = kSizes.max_length();
  static constexpr int kNumSymmetries = kSizes.num_symmetries();
  static constexpr int kCapacity = kNumActions;

  static constexpr int columns() { return kM; }
  static constexpr int rows() { return kN; }
  static constexpr int in_a_row() { return kK; }
  static constexpr int planes() { return kPlanes; }
  static constexpr int num_actions() { return kNumActions; }
  static constexpr int max_length() { return kMaxLength; }
  static constexpr int num_symmetries() { return kNumSymmetries; }

  static constexpr int symmetric_point(int point, int symmetry) {
    return kSizes.symmetric_point(point, symmetry);
  }
  static constexpr int symmetric_action(int action, int symmetry) {
    return kSizes.symmetric_action(action, symmetry);
  }
  static std::string action_to_string(Action action) { return kSizes.action_to_string(action); }
  static std::optional<Action> string_to_action(std::string_view text) {
    return kSizes.string_to_action(text);
  }

  constexpr bool operator==(const FixedSizes&) const = default;
};

// Longer rows also win (freestyle). A full board without a winning row is a draw. The planes are
// the stones of the player to move, the opponent's stones, and the side to move (all ones for the
// second player). `Sizes` is FixedSizes or RunTimeSizes; a position has its members too.
template <class Sizes>
class MnkPosition : public Sizes {
 public:
  using Sizes::columns;
  using Sizes::in_a_row;
  using Sizes::num_actions;
  using Sizes::rows;

  static constexpr bool kIsFixed = std::is_empty_v<Sizes>;
  static constexpr int kCapacity = Sizes::kCapacity;

  // The start position.
  constexpr MnkPosition()
    requires kIsFixed
      : MnkPosition(Sizes{}) {}
  explicit constexpr MnkPosition(const Sizes& sizes)
      : Sizes(sizes), hash_(mix_bits(columns() << 16 | rows() << 8 | in_a_row())) {}

  constexpr int ply() const { return ply_; }
  constexpr Player to_play() const { return static_cast<Player>(ply_ & 1); }
  constexpr int result() const { return result_; }
  constexpr bool is_terminal() const { return result_ != 0 || ply_ == num_actions(); }

  // Covers the stones and the sizes. The stones tell the player to move.
  constexpr std::uint64_t hash() const { return hash_; }

  constexpr bool is_legal(int action) const {
    return action >= 0 && action < num_actions() && !is_terminal() && !stones_[0].test(action) &&
           !stones_[1].test(action);
  }

  constexpr ActionList<kCapacity> legal_actions() const {
    ActionList<kCapacity> actions;
    if (is_terminal()) return actions;
    for (int word = 0; 64 * word < num_actions(); ++word) {
      std::uint64_t empty = points_of_word(word) & ~(stones_[0].word(word) | stones_[1].word(word));
      for (; empty != 0; empty &= empty - 1) {
        actions.push_back(64 * word + std::countr_zero(empty));
      }
    }
    return actions;
  }

  // Actions that complete a row, or the last empty point.
  constexpr ActionList<kCapacity> ending_actions() const {
    const ActionList<kCapacity> actions = legal_actions();
    if (actions.size() == 1) return actions;
    ActionList<kCapacity> ending;
    for (const Action action : actions) {
      if (completes_row(stones_[to_play()], action)) ending.push_back(action);
    }
    return ending;
  }

  constexpr void apply(Action action) {
    const Player player = to_play();
    stones_[player].set(action);
    hash_ ^= key(player, action);
    ++ply_;
    if (completes_row(stones_[player], action)) result_ = player == kFirstPlayer ? 1 : -1;
  }

  constexpr Planes<3, kCapacity> observe() const
    requires kIsFixed
  {
    const Player player = to_play();
    return {stones_[player], stones_[1 - player],
            Plane<kCapacity>::filled(player == kSecondPlayer)};
  }

  // Writes the packed observation, ceil(3 * num_actions / 8) bytes: planes, then rows, then
  // columns, most significant bit first. Unused bits of the last byte are zero.
  constexpr void write_observation(std::span<std::uint8_t> packed) const {
    std::array<std::uint64_t, (3 * kCapacity + 63) / 64 + 1> stream{};
    const Player player = to_play();
    for (int plane = 0; plane < 3; ++plane) {
      for (int word = 0; 64 * word < num_actions(); ++word) {
        const std::uint64_t bits = plane == 2 ? (player == kFirstPlayer ? 0 : points_of_word(word))
                                              : stones_[plane ^ player].word(word);
        const int offset = plane * num_actions() + 64 * word;
        const int shift = offset % 64;
        stream[offset / 64] |= bits << shift;
        if (shift != 0) stream[offset / 64 + 1] |= bits >> (64 - shift);
      }
    }
    for (int byte = 0; byte < (3 * num_actions() + 7) / 8; ++byte) {
      packed[byte] =
          static_cast<std::uint8_t>(reverse_bits_in_bytes(stream[byte / 8]) >> (byte % 8 * 8));
    }
  }

  // Reads rows from the top with "x", "o" and numbers for empty points, then the side to move. The
  // board is the one of `start`. Throws std::invalid_argument for a position that no game reaches.
  static MnkPosition set_up(const MnkPosition& start, std::string_view text) {
    MnkPosition position(static_cast<const Sizes&>(start));
    const Diagram diagram = read_diagram(text, start.rows(), start.columns(), kLetters);
    check_turns(diagram, kLetters);
    for (int point = 0; point < start.num_actions(); ++point) {
      const Player owner = diagram.points[static_cast<std::size_t>(point)];
      if (owner == kNobody) continue;
      position.stones_[owner].set(point);
      position.hash_ ^= key(owner, point);
      ++position.ply_;
    }
    position.result_ = static_cast<std::int8_t>(result_of_rows(
        diagram, kLetters,
        [&](Player player) { return position.has_row(position.stones_[player]); },
        [&](Player player, int point) {
          if (!position.completes_row(position.stones_[player], point)) return true;
          Plane<kCapacity> rest;
          for (int other = 0; other < start.num_actions(); ++other) {
            if (other != point && position.stones_[player].test(other)) rest.set(other);
          }
          return position.has_row(rest);
        }));
    return position;
  }

  std::string setup_text() const {
    Diagram diagram{std::vector<Player>(static_cast<std::size_t>(num_actions()), kNobody),
                    to_play()};
    for (int point = 0; point < num_actions(); ++point) {
      for (const Player player : {kFirstPlayer, kSecondPlayer}) {
        if (has_stone(player, point)) diagram.points[static_cast<std::size_t>(point)] = player;
      }
    }
    return write_diagram(diagram, columns(), kLetters);
  }

  // Whether the player has a stone on the point.
  constexpr bool has_stone(Player player, int point) const { return stones_[player].test(point); }

  std::string to_string() const {
    std::string picture = "  ";
    for (int column = 0; column < columns(); ++column) {
      picture += {' ', static_cast<char>('a' + column)};
    }
    for (int point = 0; point < num_actions(); ++point) {
      if (point % columns() == 0) {
        const int height = rows() - point / columns();
        picture += (height < 10 ? "\n " : "\n") + std::to_string(height);
      }
      picture += {' ', stones_[0].test(point) ? 'x' : stones_[1].test(point) ? 'o' : '.'};
    }
    return picture;
  }

  constexpr bool operator==(const MnkPosition&) const = default;

 private:
  static constexpr std::string_view kLetters = "xo";

  // A Zobrist key (1970) for each stone, computed rather than looked up.
  static constexpr std::uint64_t key(Player player, int point) {
    return mix_bits(static_cast<std::uint64_t>(2 * point + player + 1));
  }

  constexpr bool has_row(const Plane<kCapacity>& stones) const {
    for (int point = 0; point < num_actions(); ++point) {
      if (stones.test(point) && completes_row(stones, point)) return true;
    }
    return false;
  }

  // Bits of a word of stones that stand for points of the board.
  constexpr std::uint64_t points_of_word(int word) const {
    return ~std::uint64_t{0} >> std::max(0, 64 * (word + 1) - num_actions());
  }

  // Checks rows through the last stone only: no other row can be new.
  constexpr bool completes_row(const Plane<kCapacity>& stones, int last) const {
    struct Step {
      int column;
      int row;
    };
    constexpr std::array<Step, 4> kSteps = {{{1, 0}, {0, 1}, {1, 1}, {1, -1}}};
    for (const Step& step : kSteps) {
      const int length = 1 + stones_beside(stones, last, step.column, step.row) +
                         stones_beside(stones, last, -step.column, -step.row);
      if (length >= in_a_row()) return true;
    }
    return false;
  }

  // Number of stones in an unbroken row on one side of a point.
  constexpr int stones_beside(const Plane<kCapacity>& stones, int point, int column_step,
                              int row_step) const {
    int column = point % columns() + column_step;
    int row = point / columns() + row_step;
    int count = 0;
    while (column >= 0 && column < columns() && row >= 0 && row < rows() &&
           stones.test(row * columns() + column)) {
      ++count;
      column += column_step;
      row += row_step;
    }
    return count;
  }

  std::array<Plane<kCapacity>, 2> stones_{};  // by player
  std::uint64_t hash_;
  std::int16_t ply_ = 0;
  std::int8_t result_ = 0;
};

using Gomoku = MnkPosition<FixedSizes<15, 15, 5>>;
using RunTimeMnk = MnkPosition<RunTimeSizes>;

static_assert(Game<Gomoku> && SetsUpPositions<Gomoku> && SetsUpPositions<RunTimeMnk>);
static_assert(std::is_trivially_copyable_v<RunTimeMnk>);

}  // namespace zerofleet
