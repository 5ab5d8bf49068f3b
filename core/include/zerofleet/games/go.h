// Go by the Tromp-Taylor rules, on square boards.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "zerofleet/game.h"
#include "zerofleet/games/go_board.h"
#include "zerofleet/games/go_notation.h"
#include "zerofleet/games/go_seen.h"
#include "zerofleet/games/go_settings.h"
#include "zerofleet/position_text.h"
#include "zerofleet/symmetry.h"

namespace zerofleet {

// The first player has the black stones. An action and a point are `kSize * row + column`, row 0 at
// the top; action `kSize * kSize` is the pass. A game ends after two passes in a row or after
// `max_length` plies. No move on the board may repeat a position of the game, whoever is to move
// (positional superko, by 64-bit hashes); a pass is always legal. The score is the area.
//
// The first planes are AlphaGo Zero's (Silver et al. 2017, Methods, "Neural network architecture").
// With X the stones of the player to move and Y the opponent's, they are X_t, Y_t, X_{t-1},
// Y_{t-1}, ..., X_{t-7}, Y_{t-7}, C. Time counts plies, including passes; before the start the
// board is empty. C is all ones if Black is to move.
//
// GoObservation::kLiberties adds planes of Silver et al. 2016 and Wu 2019 (appendix A.1) that take
// a network many layers to find. They are X's stones in chains of 1, of 2 and of 3 liberties, and
// the same of Y. The last one has the empty points where the player to move may not play because it
// would repeat a position (ko).
template <int kSize, GoObservation kObservation = GoObservation::kHistory>
class Go {
  static_assert(kSize >= 2 && kSize <= 19);

 public:
  static constexpr std::string_view kName = "go";
  static constexpr int kRows = kSize;
  static constexpr int kColumns = kSize;
  static constexpr int kPass = kSize * kSize;
  static constexpr int kNumActions = kPass + 1;
  static constexpr int kMaxLength = std::max(2 * kSize * kSize, 64);
  static constexpr int kNumSymmetries = 8;
  static constexpr int kHistory = 8;           // boards in an observation
  static constexpr int kCountedLiberties = 3;  // chains with more liberties look the same
  static constexpr int kHistoryPlanes = 2 * kHistory + 1;
  static constexpr int kPlanes =
      kHistoryPlanes + (kObservation == GoObservation::kLiberties ? 2 * kCountedLiberties + 1 : 0);
  static constexpr int kFinalPlanes = 1;

  using Board = GoBoard<kSize, kSize>;
  using Points = typename Board::Points;

  // Komi 7.5, or the board's number of points if that is smaller; suicide allowed; at most twice as
  // many plies as points.
  static constexpr GoRules default_rules() {
    return {std::min(7.5f, static_cast<float>(kPass)), true, 2 * kPass};
  }

  Go() : Go(default_rules()) {}

  // Throws std::invalid_argument for a komi that is not a multiple of 0.5 or exceeds the number of
  // points, and for a max_length outside 1..kMaxLength.
  explicit Go(const GoRules& rules) {
    check_go_rules(rules, kPass, kMaxLength);
    half_komi_ = static_cast<std::int16_t>(2.0f * rules.komi);
    max_length_ = static_cast<std::int16_t>(rules.max_length);
    suicide_ = rules.suicide;
    seen_.insert(board_.hash());
  }

  GoRules rules() const { return {0.5f * static_cast<float>(half_komi_), suicide_, max_length_}; }

  int ply() const { return ply_; }
  Player to_play() const { return static_cast<Player>(ply_ & 1); }
  int result() const { return result_; }
  bool is_terminal() const { return passes_ == 2 || ply_ == max_length_; }

  const Board& board() const { return board_; }

  // Points of each player's area if the game ended here, by player.
  std::array<Points, 2> area() const { return board_.area(); }

  // Reads rows from the top with "X" for Black's stones, "O" for White's and numbers for empty
  // points, then the side to move. The rules are those of `start`. The game begins there: no
  // earlier board counts as a repetition, and an observation shows the position in place of earlier
  // boards. Throws std::invalid_argument for a chain without liberties.
  static Go set_up(const Go& start, std::string_view text) {
    const Diagram diagram = read_diagram(text, kSize, kSize, kLetters);
    Go position(start.rules());
    position.seen_ = {};
    for (int point = 0; point < kPass; ++point) {
      const Player owner = diagram.points[static_cast<std::size_t>(point)];
      if (owner == kNobody) continue;
      position.board_.put(point, owner);
      position.once_held_[owner].set(point);
    }
    for (int point = 0; point < kPass; ++point) {
      if (position.board_.at(point) != kNoStone && !position.board_.has_liberty(point)) {
        throw std::invalid_argument("the chain at " + go_point_to_string(point, kSize) +
                                    " has no liberty");
      }
    }
    position.ply_ = diagram.to_play;
    position.seen_.insert(position.board_.hash());
    position.recent_.fill({position.board_.stones(), position.board_.hash()});
    if (position.is_terminal()) position.find_result();
    return position;
  }

  std::string setup_text() const {
    Diagram diagram{std::vector<Player>(kPass, kNobody), to_play()};
    for (int point = 0; point < kPass; ++point) {
      if (board_.at(point) != kNoStone) {
        diagram.points[static_cast<std::size_t>(point)] = board_.at(point);
      }
    }
    return write_diagram(diagram, kSize, kLetters);
  }

  // Black's points minus White's if the game ended here, including komi.
  float score() const { return 0.5f * static_cast<float>(half_score()); }

  // Owner of each point's area if the game ended here: +1 Black, -1 White, 0 neither.
  std::array<std::int8_t, kPass> final_planes() const {
    const auto [black, white] = area();
    std::array<std::int8_t, kPass> owners;
    for (int point = 0; point < kPass; ++point) {
      owners[point] = static_cast<std::int8_t>(black.test(point) - white.test(point));
    }
    return owners;
  }
  float final_score() const { return score(); }

  // Covers everything that an observation shows or that legal actions depend on.
  std::uint64_t hash() const {
    std::uint64_t sum = static_cast<std::uint64_t>(passes_ << 2 | is_terminal() << 1 | to_play());
    std::uint64_t salt = 0;
    const auto add = [&](std::uint64_t bits) {
      sum += mix_bits(bits ^ (salt += 0x9e3779b97f4a7c15ULL));
    };
    for (int age = 0; age < kHistory; ++age) add(recent(age).hash);
    const Points points = legal_points();
    for (int word = 0; word < Points::kWords; ++word) add(points.word(word));
    return mix_bits(sum);
  }

  bool is_legal(int action) const {
    if (action < 0 || action > kPass || is_terminal()) return false;
    return action == kPass || (board_.at(action) == kNoStone && is_playable(action));
  }

  ActionList<kNumActions> legal_actions() const {
    ActionList<kNumActions> actions{};
    legal_points().for_each([&](int point) { actions.push_back(point); });
    if (!is_terminal()) actions.push_back(kPass);
    return actions;
  }

  // The second pass in a row, or any action at the last ply.
  ActionList<kNumActions> ending_actions() const {
    if (ply_ + 1 == max_length_) return legal_actions();
    ActionList<kNumActions> actions{};
    if (passes_ == 1) actions.push_back(kPass);
    return actions;
  }

  void apply(Action action) {
    const Player player = to_play();
    ++ply_;
    if (action == kPass) {
      ++passes_;
    } else {
      passes_ = 0;
      board_.play(action, player);
      seen_.insert(board_.hash());
      if (board_.at(action) == player) once_held_[player].set(action);
    }
    recent_[ply_ % kHistory] = {board_.stones(), board_.hash()};
    if (is_terminal()) find_result();
  }

  Planes<kPlanes, kPass> observe() const {
    Planes<kPlanes, kPass> planes;
    const Player player = to_play();
    for (int age = 0; age < kHistory; ++age) {
      planes[2 * age] = recent(age).stones[player];
      planes[2 * age + 1] = recent(age).stones[1 - player];
    }
    planes[2 * kHistory] = Plane<kPass>::filled(player == kFirstPlayer);
    if constexpr (kObservation == GoObservation::kLiberties) {
      std::array<Points, 2 * kCountedLiberties> chains{};
      for (const Player owner : {player, static_cast<Player>(1 - player)}) {
        board_.for_each_chain(owner, [&](const Points& chain, const Points& liberties) {
          const int count = liberties.size();
          if (count > kCountedLiberties) return;
          Points& seen = chains[(owner == player ? 0 : kCountedLiberties) + count - 1];
          seen = seen | chain;
        });
      }
      std::ranges::copy(chains, planes.begin() + kHistoryPlanes);
      planes[kPlanes - 1] = repeating_points();
    }
    return planes;
  }

  static constexpr int symmetric_point(int point, int symmetry) {
    return dihedral_point(point, symmetry, kSize);
  }
  static constexpr int symmetric_action(int action, int symmetry) {
    return action == kPass ? kPass : symmetric_point(action, symmetry);
  }

  // "D4" as in the Go Text Protocol: column, then row from the bottom; or "pass".
  static std::string action_to_string(Action action) {
    return action == kPass ? "pass" : go_point_to_string(action, kSize);
  }

  static std::optional<Action> string_to_action(std::string_view text) {
    std::string capitals(text);
    for (char& letter : capitals) {
      if (letter >= 'a' && letter <= 'z') letter = static_cast<char>(letter - 'a' + 'A');
    }
    if (capitals == "PASS") return static_cast<Action>(kPass);
    const std::optional<int> point = string_to_go_point(capitals, kSize);
    if (!point) return std::nullopt;
    return static_cast<Action>(*point);
  }

  std::string to_string() const {
    std::string picture;
    for (int row = 0; row < kSize; ++row) {
      const std::string number = std::to_string(kSize - row);
      picture += (number.size() == 1 ? " " : "") + number;
      for (int column = 0; column < kSize; ++column) {
        const Player player = board_.at(kSize * row + column);
        picture += ' ';
        picture += player == kNoStone ? '.' : player == kFirstPlayer ? 'X' : 'O';
      }
      picture += '\n';
    }
    picture += "  ";
    for (int column = 0; column < kSize; ++column) {
      picture += ' ';
      picture += kGoColumns[static_cast<std::size_t>(column)];
    }
    return picture;
  }

  bool operator==(const Go& other) const {
    return rules() == other.rules() && ply_ == other.ply_ && passes_ == other.passes_ &&
           board_ == other.board_ && seen_ == other.seen_ && recent_ == other.recent_;
  }

 private:
  static constexpr std::string_view kLetters = "XO";

  struct Moment {
    std::array<Points, 2> stones;  // by player
    std::uint64_t hash;            // of the board

    bool operator==(const Moment&) const = default;
  };

  // The board `age` plies ago.
  const Moment& recent(int age) const { return recent_[(ply_ - age + kHistory) % kHistory]; }

  // Whether the player to move may put a stone on this empty point.
  bool is_playable(int point) const {
    const auto outcome = board_.outcome(point, to_play());
    return (suicide_ || !outcome.is_suicide) && !seen_.contains(outcome.hash);
  }

  // Points that are legal without a closer look. A move with an empty neighbour is not suicide, so
  // its stone stays. The position is new if the player never had a stone on that point.
  Points surely_playable(const Points& empty) const {
    return empty.neighbours().without(once_held_[to_play()]);
  }

  // Empty points where the player to move may put a stone; none after the end of the game.
  Points legal_points() const {
    if (is_terminal()) return {};
    Points legal = board_.empty_points();
    legal.without(surely_playable(legal)).for_each([&](int point) {
      if (!is_playable(point)) legal.reset(point);
    });
    return legal;
  }

  // Empty points where only repetition forbids a move.
  Points repeating_points() const {
    Points repeating;
    const Points empty = board_.empty_points();
    empty.without(surely_playable(empty)).for_each([&](int point) {
      const auto outcome = board_.outcome(point, to_play());
      const bool allowed = suicide_ || !outcome.is_suicide;
      if (allowed && seen_.contains(outcome.hash)) repeating.set(point);
    });
    return repeating;
  }

  void find_result() {
    const int half_points = half_score();
    result_ = static_cast<std::int8_t>((half_points > 0) - (half_points < 0));
  }

  int half_score() const {
    const auto [black, white] = area();
    return 2 * (black.size() - white.size()) - half_komi_;
  }

  Board board_;
  SeenPositions<kMaxLength + 1> seen_;     // the start and the boards after moves
  std::array<Moment, kHistory> recent_{};  // by ply % kHistory; the last boards
  std::array<Points, 2> once_held_{};      // by player; points where a stone ever stood
  std::int16_t half_komi_;
  std::int16_t max_length_;
  std::int16_t ply_ = 0;
  std::uint8_t passes_ = 0;  // the latest passes in a row
  bool suicide_;
  std::int8_t result_ = 0;
};

static_assert(Game<Go<2>> && Game<Go<9>> && Game<Go<19>> && SetsUpPositions<Go<9>>);
static_assert(Game<Go<9, GoObservation::kLiberties>>);

}  // namespace zerofleet
