// Othello against numbers known from elsewhere, a slow reference and its own symmetries.
#include "zerofleet/games/othello.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "check.h"
#include "zerofleet/random.h"
#include "zerofleet/symmetry.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_throws;

// Deep enough to count in seconds; unoptimised and sanitized builds stop earlier.
#ifdef NDEBUG
constexpr int kSequencesDepth = 10;
constexpr int kPositionsDepth = 9;
#else
constexpr int kSequencesDepth = 9;
constexpr int kPositionsDepth = 7;
#endif

std::vector<int> to_vector(const auto& actions) { return {actions.begin(), actions.end()}; }

Action random_action(const Othello& position, Random& random) {
  const auto actions = position.legal_actions();
  return actions[static_cast<int>(random.below(static_cast<std::uint64_t>(actions.size())))];
}

// Sequences of legal actions from the start.
struct Sequences {
  std::int64_t full = 0;         // as long as asked for
  std::int64_t ended = 0;        // shorter, because the game is over
  std::int64_t last_passes = 0;  // full ones whose last action passes
};

void count_sequences(const Othello& position, int depth, Sequences& count) {
  if (position.is_terminal()) {
    ++count.ended;
    return;
  }
  if (depth == 1) {
    count.full += position.legal_actions().size();
    count.last_passes += position.is_legal(Othello::kPass);
    return;
  }
  for (const Action action : position.legal_actions()) {
    Othello next = position;
    next.apply(action);
    count_sequences(next, depth - 1, count);
  }
}

// Counts of Bik (2009), "Perft for Reversi". They hold a game that ended earlier as one leaf: 228
// games are over after ply 9, so depth 10 is the first where that matters.
void sequences() {
  constexpr std::array<std::int64_t, 11> kKnown = {1,    4,     12,     56,      244,     1396,
                                                   8200, 55092, 390216, 3005288, 24571284};
  for (int depth = 1; depth <= kSequencesDepth; ++depth) {
    Sequences count;
    count_sequences(Othello{}, depth, count);
    check(count.full + count.ended == kKnown[static_cast<std::size_t>(depth)]);
    check(count.ended == (depth < 10 ? 0 : 228));
    check(count.last_passes == (depth == 9 ? 24 : 0));
  }
}

// Told apart by hash alone: a collision would lower a count.
void positions() {
  constexpr std::array<std::size_t, 10> kKnown = {1,    4,    12,    54,     236,
                                                  1288, 7092, 42614, 269352, 1743560};
  std::vector<Othello> level(1);
  for (int ply = 1; ply <= kPositionsDepth; ++ply) {
    std::unordered_set<std::uint64_t> seen;
    std::vector<Othello> next_level;
    for (const Othello& position : level) {
      for (const Action action : position.legal_actions()) {
        Othello next = position;
        next.apply(action);
        if (seen.insert(next.hash()).second) next_level.push_back(next);
      }
    }
    check(next_level.size() == kKnown[static_cast<std::size_t>(ply)]);
    level = std::move(next_level);
  }
}

// The rules by walking from square to square.
class SlowOthello {
 public:
  SlowOthello() {
    at(3, 3) = at(4, 4) = kSecondPlayer;
    at(3, 4) = at(4, 3) = kFirstPlayer;
  }

  SlowOthello(std::uint64_t black, std::uint64_t white, int to_play) : to_play_(to_play) {
    for (int point = 0; point < 64; ++point) {
      if ((black >> point) & 1) owners_[index(point)] = kFirstPlayer;
      if ((white >> point) & 1) owners_[index(point)] = kSecondPlayer;
    }
  }

  std::vector<int> legal_actions() const {
    std::vector<int> actions = placements(to_play_);
    if (actions.empty() && !placements(1 - to_play_).empty()) actions.push_back(Othello::kPass);
    return actions;
  }

  void apply(int action) {
    if (action != Othello::kPass) {
      for (const int point : flipped(action, to_play_)) owners_[index(point)] = to_play_;
      owners_[index(action)] = to_play_;
    }
    to_play_ = 1 - to_play_;
  }

  int count(int player) const {
    int discs = 0;
    for (const int owner : owners_) discs += owner == player;
    return discs;
  }

  int owner(int point) const { return owners_[index(point)]; }

  std::vector<int> placements(int player) const {
    std::vector<int> actions;
    for (int action = 0; action < 64; ++action) {
      if (owner(action) < 0 && !flipped(action, player).empty()) actions.push_back(action);
    }
    return actions;
  }

 private:
  static std::size_t index(int point) { return static_cast<std::size_t>(point); }
  int& at(int row, int column) { return owners_[index(8 * row + column)]; }

  std::vector<int> flipped(int action, int player) const {
    std::vector<int> all;
    for (int step = 0; step < 9; ++step) {
      const int down = step / 3 - 1;
      const int right = step % 3 - 1;
      if (down == 0 && right == 0) continue;
      std::vector<int> walked;
      int row = action / 8 + down;
      int column = action % 8 + right;
      while (row >= 0 && row < 8 && column >= 0 && column < 8) {
        const int owner = owners_[index(8 * row + column)];
        if (owner == player) all.insert(all.end(), walked.begin(), walked.end());
        if (owner != 1 - player) break;
        walked.push_back(8 * row + column);
        row += down;
        column += right;
      }
    }
    return all;
  }

  std::vector<int> owners_ = std::vector<int>(64, -1);  // by point; -1 for an empty square
  int to_play_ = kFirstPlayer;
};

std::vector<int> points(const Plane<64>& plane) {
  std::vector<int> set;
  for (int point = 0; point < 64; ++point) {
    if (plane.test(point)) set.push_back(point);
  }
  return set;
}

void agrees_with_reference(const Othello& position, const SlowOthello& reference) {
  const std::vector<int> actions = reference.legal_actions();
  check(to_vector(position.legal_actions()) == actions);
  check(position.is_terminal() == actions.empty());
  const int lead = reference.count(kFirstPlayer) - reference.count(kSecondPlayer);
  const int winner = lead > 0 ? 1 : lead < 0 ? -1 : 0;
  check(position.result() == (actions.empty() ? winner : 0));
  const auto planes = position.observe();
  check(points(planes[3]) == reference.placements(position.to_play()));
  check(points(planes[4]) == reference.placements(1 - position.to_play()));
  for (int point = 0; point < 64; ++point) {
    const int owner = reference.owner(point);
    check(((position.discs(kFirstPlayer) >> point) & 1) == (owner == kFirstPlayer));
    check(((position.discs(kSecondPlayer) >> point) & 1) == (owner == kSecondPlayer));
  }
}

void random_games_agree_with_reference() {
  Random random(5);
  int passes = 0;
  std::array<int, 3> results{};
  for (int game = 0; game < 300; ++game) {
    Othello position;
    SlowOthello reference;
    agrees_with_reference(position, reference);
    while (!position.is_terminal()) {
      const Action action = random_action(position, random);
      passes += action == Othello::kPass;
      position.apply(action);
      reference.apply(action);
      agrees_with_reference(position, reference);
    }
    check(position.ply() <= Othello::kMaxLength);
    ++results[static_cast<std::size_t>(position.result() + 1)];
  }
  check(passes > 100);
  for (const int count : results) check(count > 0);
}

// Boards that no game reaches: long rows, and discs on every edge that a wrapped bit could join.
void random_boards_agree_with_reference() {
  Random random(7);
  std::array<int, 64> flips{};  // placements by the number of discs that they flip
  for (int board = 0; board < 2000; ++board) {
    const std::uint64_t sparse = random.next() & random.next() & random.next();
    const std::uint64_t empty = random.next() & random.next();
    const std::uint64_t black = sparse & ~empty;
    const std::uint64_t white = ~sparse & ~empty;
    const auto to_play = static_cast<Player>(board & 1);
    const Othello position(black, white, to_play);
    agrees_with_reference(position, SlowOthello(black, white, to_play));
    for (const Action action : position.legal_actions()) {
      Othello next = position;
      SlowOthello reference(black, white, to_play);
      next.apply(action);
      reference.apply(action);
      agrees_with_reference(next, reference);
      ++flips[static_cast<std::size_t>(std::popcount(next.discs(to_play)) -
                                       std::popcount(position.discs(to_play)))];
    }
  }
  check(flips[2] > 0 && flips[13] > 0);
}

constexpr std::uint64_t disc(int row, int column) { return std::uint64_t{1} << (8 * row + column); }

// Both players have one row of two; only White, in the corners, can enclose.
Othello two_rows(Player to_play) {
  return {disc(0, 1) | disc(7, 1), disc(0, 0) | disc(7, 0), to_play};
}

void passes_are_forced() {
  Othello position = two_rows(kFirstPlayer);
  check(position.ply() == 0 && !position.is_terminal() && position.result() == 0);
  check(to_vector(position.legal_actions()) == std::vector<int>{Othello::kPass});
  check(position.is_legal(Othello::kPass) && !position.is_legal(2));
  const Othello before = position;
  position.apply(Othello::kPass);
  check(position.ply() == 1 && position.to_play() == kSecondPlayer);
  check(position.discs(kFirstPlayer) == before.discs(kFirstPlayer));
  check(position.hash() != before.hash());
  check(to_vector(position.legal_actions()) == std::vector<int>{2, 58});
  check(!position.is_legal(Othello::kPass));
  position.apply(2);
  check(to_vector(position.legal_actions()) == std::vector<int>{Othello::kPass});
}

void the_game_ends_when_neither_can_place() {
  Othello position = two_rows(kSecondPlayer);
  for (const int action : {2, Othello::kPass, 58}) position.apply(static_cast<Action>(action));
  check(position.discs(kFirstPlayer) == 0);
  check(position.is_terminal() && position.result() == -1);
  check(position.legal_actions().empty() && !position.is_legal(Othello::kPass));
  const Othello draw(disc(0, 0) | disc(0, 7), disc(7, 0) | disc(7, 7), kSecondPlayer);
  check(draw.is_terminal() && draw.result() == 0);
  const Othello won(disc(0, 0) | disc(0, 7) | disc(0, 4), disc(7, 0), kSecondPlayer);
  check(won.is_terminal() && won.result() == 1);
  check(won.final_score() == 2.0f && draw.final_score() == 0.0f);
  const auto owners = won.final_planes();
  check(owners[0] == 1 && owners[4] == 1 && owners[7] == 1 && owners[56] == -1);
  check(std::ranges::count(owners, 0) == 60);
}

// Nine plies wipe out White; no game is shorter.
void the_shortest_game() {
  Othello position;
  for (const char* text : {"e6", "f4", "e3", "f6", "g5", "d6", "e7", "f5", "c5"}) {
    check(!position.is_terminal());
    const auto action = Othello::string_to_action(text);
    check(action.has_value() && position.is_legal(*action));
    position.apply(*action);
  }
  check(position.discs(kSecondPlayer) == 0);
  check(position.is_terminal() && position.result() == 1);
}

std::uint64_t image_of(std::uint64_t discs, int symmetry) {
  return transform_plane<Othello>(Plane<64>(discs), symmetry).word(0);
}

Othello image_of(const Othello& position, int symmetry) {
  return {image_of(position.discs(kFirstPlayer), symmetry),
          image_of(position.discs(kSecondPlayer), symmetry), position.to_play()};
}

void agrees_with_image(const Othello& position, const Othello& image, int symmetry) {
  for (int action = 0; action < Othello::kNumActions; ++action) {
    check(position.is_legal(action) ==
          image.is_legal(Symmetries<Othello>::action[symmetry][action]));
  }
  Observation<Othello> transformed{};
  Observation<Othello> direct{};
  write_observation(position, symmetry, transformed);
  write_observation(image, 0, direct);
  check(transformed == direct);
  check(position.is_terminal() == image.is_terminal() && position.result() == image.result());
}

void symmetries_commute() {
  Random random(6);
  for (int game = 0; game < 40; ++game) {
    Othello position;
    std::vector<Othello> images;
    for (int symmetry = 0; symmetry < 8; ++symmetry) {
      images.push_back(image_of(position, symmetry));
    }
    while (!position.is_terminal()) {
      const Action action = random_action(position, random);
      position.apply(action);
      for (int symmetry = 0; symmetry < 8; ++symmetry) {
        Othello& image = images[static_cast<std::size_t>(symmetry)];
        image.apply(Symmetries<Othello>::action[symmetry][action]);
        // The hash of a position does not depend on how many passes led to it.
        check(image.hash() == image_of(position, symmetry).hash());
        agrees_with_image(position, image, symmetry);
      }
    }
  }
}

void symmetries_of_the_start() {
  for (int symmetry = 0; symmetry < 8; ++symmetry) {
    const bool keeps = symmetry == 0 || symmetry == 3 || symmetry == 4 || symmetry == 7;
    check((image_of(Othello{}, symmetry) == Othello{}) == keeps);
  }
}

void notation() {
  check(Othello::action_to_string(0) == "a1" && Othello::action_to_string(7) == "h1");
  check(Othello::action_to_string(19) == "d3" && Othello::action_to_string(64) == "pass");
  for (int number = 0; number < Othello::kNumActions; ++number) {
    const auto action = static_cast<Action>(number);
    check(Othello::string_to_action(Othello::action_to_string(action)) == action);
  }
  check(Othello::string_to_action("D3") == Action{19});
  check(Othello::string_to_action("Pass") == Action{64});
  for (const char* text : {"", "a", "a0", "a9", "i1", "a10", "1a", "pas", "d3 ", "passs"}) {
    check(!Othello::string_to_action(text));
  }
  check(to_vector(Othello{}.legal_actions()) == std::vector<int>{19, 26, 37, 44});
  check(!Othello{}.is_legal(-1) && !Othello{}.is_legal(65) && !Othello{}.is_legal(1 << 20));
}

void refused_positions() {
  check_throws<std::invalid_argument>([] { Othello(1, 2, kFirstPlayer); });
  check_throws<std::invalid_argument>([] { Othello(0x1f, 0x10, kFirstPlayer); });
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"sequences", sequences},
      {"positions", positions},
      {"random games agree with a slow reference", random_games_agree_with_reference},
      {"random boards agree with a slow reference", random_boards_agree_with_reference},
      {"passes are forced", passes_are_forced},
      {"the game ends when neither player can place", the_game_ends_when_neither_can_place},
      {"the shortest game", the_shortest_game},
      {"symmetries commute with everything", symmetries_commute},
      {"four symmetries keep the start", symmetries_of_the_start},
      {"notation", notation},
      {"refused positions", refused_positions},
  });
}
