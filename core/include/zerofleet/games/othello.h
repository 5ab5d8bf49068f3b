// Othello on 8 x 8: enclosed discs change sides; the player with more discs at the end wins.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zerofleet/game.h"
#include "zerofleet/position_text.h"
#include "zerofleet/symmetry.h"

namespace zerofleet {

// An action and a point are `8 * row + column`; row 0 is the top. Action 64 passes and counts as a
// ply. It is the only legal action of a player who cannot flip a disc while the opponent can. The
// game ends when neither player can. Black is the first player.
//
// The planes are the discs of the player to move, the opponent's discs, and the side to move (all
// ones for the second player). Two more show the squares where the player to move and the opponent
// could place a disc. A network needs many layers to find these, since a disc may enclose six
// others in a row.
//
// A symmetry keeps the rules, but not always the start. Symmetries 1, 2 and the two quarter turns
// exchange the colours of the four discs there, so they map a game to one that begins elsewhere.
class Othello {
 public:
  static constexpr std::string_view kName = "othello";
  static constexpr int kRows = 8;
  static constexpr int kColumns = 8;
  static constexpr int kPass = kRows * kColumns;
  static constexpr int kNumActions = kPass + 1;
  static constexpr int kPlanes = 5;
  static constexpr int kFinalPlanes = 1;
  static constexpr int kNumSymmetries = 8;
  // 60 squares are empty at the start. A disc follows every pass, because a pass needs an opponent
  // who can place one.
  static constexpr int kMaxLength = 2 * 60;

  // The start: d4 and e5 are White's, d5 and e4 are Black's.
  constexpr Othello() : Othello(0x0000000810000000, 0x0000001008000000, kFirstPlayer) {}

  // Any position; bit p of a word is point p. `ply` becomes the smallest one that fits the number
  // of discs and the player to move. Throws std::invalid_argument for fewer than four discs, or for
  // two on one square.
  constexpr Othello(std::uint64_t black, std::uint64_t white, Player to_play)
      : discs_{black, white} {
    const int placed = std::popcount(black | white) - 4;
    if (placed < 0) {
      throw std::invalid_argument("a position has at least 4 discs, not " +
                                  std::to_string(placed + 4));
    }
    if ((black & white) != 0) {
      throw std::invalid_argument("square " + square(std::countr_zero(black & white)) +
                                  " has two discs; give it one");
    }
    ply_ = static_cast<std::int8_t>(placed + ((placed ^ to_play) & 1));
    find_placements();
  }

  constexpr int ply() const { return ply_; }
  constexpr Player to_play() const { return static_cast<Player>(ply_ & 1); }
  constexpr bool is_terminal() const { return placements_ == 0 && !must_pass_; }

  constexpr int result() const {
    if (!is_terminal()) return 0;
    const int lead = std::popcount(discs_[0]) - std::popcount(discs_[1]);
    return (lead > 0) - (lead < 0);
  }

  // Owner of each square's disc. `final_score` is Black's lead in discs.
  constexpr std::array<std::int8_t, kPass> final_planes() const {
    std::array<std::int8_t, kPass> owners{};
    for (int point = 0; point < kPass; ++point) {
      owners[point] =
          static_cast<std::int8_t>(((discs_[0] >> point) & 1) - ((discs_[1] >> point) & 1));
    }
    return owners;
  }
  constexpr float final_score() const {
    return static_cast<float>(std::popcount(discs_[0]) - std::popcount(discs_[1]));
  }

  // The hash covers the player to move, because passes make it independent of the number of discs.
  constexpr std::uint64_t hash() const {
    const std::uint64_t bits = mix_bits(mix_bits(discs_[0] + 1) ^ discs_[1]);
    return to_play() == kFirstPlayer ? bits : ~bits;
  }

  constexpr bool is_legal(int action) const {
    if (action == kPass) return must_pass_;
    return action >= 0 && action < kPass && ((placements_ >> action) & 1);
  }

  constexpr ActionList<kNumActions> legal_actions() const {
    ActionList<kNumActions> actions;
    for (std::uint64_t bits = placements_; bits != 0; bits &= bits - 1) {
      actions.push_back(std::countr_zero(bits));
    }
    if (must_pass_) actions.push_back(kPass);
    return actions;
  }

  constexpr void apply(Action action) {
    if (action != kPass) {
      std::uint64_t& own = discs_[to_play()];
      std::uint64_t& opponent = discs_[1 - to_play()];
      const std::uint64_t disc = std::uint64_t{1} << action;
      const std::uint64_t flipped = enclosed(disc, own, opponent);
      own |= disc | flipped;
      opponent ^= flipped;
    }
    ++ply_;
    find_placements();
  }

  constexpr Planes<kPlanes, kRows * kColumns> observe() const {
    using PlaneType = Plane<kRows * kColumns>;
    const Player player = to_play();
    const std::uint64_t own = discs_[player];
    const std::uint64_t opponent = discs_[1 - player];
    return {PlaneType(own), PlaneType(opponent), PlaneType::filled(player == kSecondPlayer),
            PlaneType(placements_), PlaneType(placements(opponent, own))};
  }

  // A player's discs; bit p is point p.
  constexpr std::uint64_t discs(Player player) const { return discs_[player]; }

  static constexpr int symmetric_point(int point, int symmetry) {
    return dihedral_point(point, symmetry, kColumns);
  }
  static constexpr int symmetric_action(int action, int symmetry) {
    return action == kPass ? kPass : symmetric_point(action, symmetry);
  }

  // "a1" is the top left square, "h8" the bottom right one, "pass" the pass.
  static std::string action_to_string(Action action) {
    return action == kPass ? "pass" : square(action);
  }

  // Accepts capitals too.
  static std::optional<Action> string_to_action(std::string_view text) {
    std::string lower(text);
    for (char& letter : lower) {
      if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    }
    if (lower == "pass") return static_cast<Action>(kPass);
    if (lower.size() != 2 || lower[0] < 'a' || lower[0] > 'h' || lower[1] < '1' || lower[1] > '8') {
      return std::nullopt;
    }
    return static_cast<Action>(kColumns * (lower[1] - '1') + (lower[0] - 'a'));
  }

  // Reads 64 characters from a1 to h8, "X" for Black, "O" for White and "-" for an empty square,
  // then the side to move, as in the FFO test files. Also reads rows from the top separated by '/',
  // where numbers stand for empty squares. Throws std::invalid_argument unless the four centre
  // squares, which are never empty in a game, have discs.
  static Othello set_up(const Othello&, std::string_view text) {
    const Diagram diagram = read_diagram(in_rows(text), kRows, kColumns, kLetters);
    std::array<std::uint64_t, 2> discs{};
    for (int point = 0; point < kPass; ++point) {
      const Player owner = diagram.points[static_cast<std::size_t>(point)];
      if (owner != kNobody) discs[owner] |= std::uint64_t{1} << point;
    }
    for (const int centre : {27, 28, 35, 36}) {
      if (diagram.points[static_cast<std::size_t>(centre)] == kNobody) {
        throw std::invalid_argument("square " + square(centre) +
                                    " is empty; the four centre squares always have discs");
      }
    }
    return {discs[0], discs[1], diagram.to_play};
  }

  std::string setup_text() const {
    std::string text;
    for (int point = 0; point < kPass; ++point) {
      text += (discs_[0] >> point) & 1 ? 'X' : (discs_[1] >> point) & 1 ? 'O' : '-';
    }
    return text + ' ' + kLetters[static_cast<std::size_t>(to_play())];
  }

  std::string to_string() const {
    std::string picture = "  a b c d e f g h";
    for (int point = 0; point < kRows * kColumns; ++point) {
      if (point % kColumns == 0) {
        picture += '\n';
        picture += static_cast<char>('1' + point / kColumns);
      }
      picture += ' ';
      picture += (discs_[0] >> point) & 1 ? 'x' : (discs_[1] >> point) & 1 ? 'o' : '.';
    }
    return picture;
  }

  constexpr bool operator==(const Othello&) const = default;

 private:
  static constexpr std::string_view kLetters = "XO";

  // The text with '/' between the rows of a board of 64 characters.
  static std::string in_rows(std::string_view text) {
    const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
    const std::string_view board = text.substr(first, text.find(' ', first) - first);
    if (board.size() != kPass || board.find('/') != std::string_view::npos) {
      return std::string(text);
    }
    std::string rows;
    for (int row = 0; row < kRows; ++row) {
      if (row > 0) rows += '/';
      rows += board.substr(static_cast<std::size_t>(kColumns * row), kColumns);
    }
    return rows.append(text.substr(first + board.size()));
  }

  // Steps in point numbers of the eight directions.
  using Steps = std::integer_sequence<int, 1, 7, 8, 9, -1, -7, -8, -9>;

  static constexpr std::string square(int point) {
    return {static_cast<char>('a' + point % kColumns), static_cast<char>('1' + point / kColumns)};
  }

  // Moves every bit by kStep points; a bit may wrap around a side edge.
  template <int kStep>
  static constexpr std::uint64_t shift(std::uint64_t bits) {
    if constexpr (kStep > 0) {
      return bits << kStep;
    } else {
      return bits >> -kStep;
    }
  }

  // The opponent's discs in an unbroken row, one step from any of `starts` on. A row that can be
  // enclosed is at most six long and, unless vertical, has no disc on a side edge. Leaving edge
  // discs out stops every wrapped bit. The row grows as in a parallel prefix: 1, 2, 4, 6 discs.
  template <int kStep>
  static constexpr std::uint64_t row_behind(std::uint64_t starts, std::uint64_t opponent) {
    constexpr bool kVertical = kStep == kColumns || kStep == -kColumns;
    const std::uint64_t links = kVertical ? opponent : opponent & 0x7e7e7e7e7e7e7e7e;
    const std::uint64_t double_links = links & shift<kStep>(links);
    std::uint64_t row = links & shift<kStep>(starts);
    row |= links & shift<kStep>(row);
    row |= double_links & shift<2 * kStep>(row);
    row |= double_links & shift<2 * kStep>(row);
    return row;
  }

  // The discs that flip when `disc` is placed.
  static constexpr std::uint64_t enclosed(std::uint64_t disc, std::uint64_t own,
                                          std::uint64_t opponent) {
    const auto along = [&]<int kStep>(std::integral_constant<int, kStep>) {
      const std::uint64_t row = row_behind<kStep>(disc, opponent);
      return (shift<kStep>(row) & own) != 0 ? row : 0;
    };
    return [&]<int... kSteps>(std::integer_sequence<int, kSteps...>) {
      return (along(std::integral_constant<int, kSteps>{}) | ...);
    }(Steps{});
  }

  // Empty squares where the owner of `own` can enclose a disc.
  static constexpr std::uint64_t placements(std::uint64_t own, std::uint64_t opponent) {
    const std::uint64_t ends = [&]<int... kSteps>(std::integer_sequence<int, kSteps...>) {
      return (shift<kSteps>(row_behind<kSteps>(own, opponent)) | ...);
    }(Steps{});
    return ends & ~(own | opponent);
  }

  constexpr void find_placements() {
    const std::uint64_t own = discs_[to_play()];
    const std::uint64_t opponent = discs_[1 - to_play()];
    placements_ = placements(own, opponent);
    must_pass_ = placements_ == 0 && placements(opponent, own) != 0;
  }

  std::array<std::uint64_t, 2> discs_;  // by player; point p is bit p
  std::uint64_t placements_ = 0;        // for the player to move; derived from the rest
  std::int8_t ply_ = 0;
  bool must_pass_ = false;  // derived from the rest, too
};

static_assert(Game<Othello> && SetsUpPositions<Othello>);

}  // namespace zerofleet
