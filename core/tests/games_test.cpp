// The rules against numbers known from elsewhere, and the properties that every game must have.
#include "zerofleet/games.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "check.h"
#include "position_reference.h"
#include "zerofleet/random.h"
#include "zerofleet/symmetry.h"

namespace zerofleet {
namespace {

using test::check;

// Counts of all sequences of actions from the start, by ply.
template <Game G>
struct Census {
  std::array<std::int64_t, G::kMaxLength + 1> sequences{};
  std::array<std::int64_t, G::kMaxLength + 1> endings{};
  std::array<std::int64_t, 3> results{};  // second player won, draw, first player won
};

template <Game G>
void walk(const G& position, int depth, Census<G>& census) {
  const auto ply = static_cast<std::size_t>(position.ply());
  ++census.sequences[ply];
  if (position.is_terminal()) {
    ++census.endings[ply];
    ++census.results[static_cast<std::size_t>(position.result() + 1)];
    return;
  }
  if (depth == 0) return;
  for (const Action action : position.legal_actions()) {
    G next = position;
    next.apply(action);
    walk(next, depth - 1, census);
  }
}

// Different positions by ply, told apart by hash alone: a collision would lower a count.
template <Game G>
std::vector<std::vector<G>> positions_by_ply(int depth) {
  std::vector<std::vector<G>> levels(1, std::vector<G>(1));
  for (int ply = 0; ply < depth; ++ply) {
    std::unordered_set<std::uint64_t> seen;
    std::vector<G> next_level;
    for (const G& position : levels.back()) {
      for (const Action action : position.legal_actions()) {
        G next = position;
        next.apply(action);
        if (seen.insert(next.hash()).second) next_level.push_back(next);
      }
    }
    levels.push_back(std::move(next_level));
  }
  return levels;
}

template <Game G>
std::vector<std::int64_t> sizes(const std::vector<std::vector<G>>& levels) {
  std::vector<std::int64_t> counts;
  for (const auto& level : levels) counts.push_back(static_cast<std::int64_t>(level.size()));
  return counts;
}

void tic_tac_toe_sequences() {
  Census<TicTacToe> census;
  walk(TicTacToe{}, TicTacToe::kMaxLength, census);
  check(census.sequences == std::array<std::int64_t, 10>{1, 9, 72, 504, 3024, 15120, 54720, 148176,
                                                         200448,
                                                         127872});  // known numbers of sequences
  check(census.endings == std::array<std::int64_t, 10>{0, 0, 0, 0, 0, 1440, 5328, 47952, 72576,
                                                       127872});  // known numbers of endings
  check(census.results == std::array<std::int64_t, 3>{77904, 46080, 131184});
}

// The least of a position's images: equal for positions that a symmetry makes equal.
std::string canonical(const TicTacToe& position) {
  std::string least;
  for (int symmetry = 0; symmetry < TicTacToe::kNumSymmetries; ++symmetry) {
    Observation<TicTacToe> seen{};
    write_observation(position, symmetry, seen);
    const std::string bytes(seen.begin(), seen.end());
    if (symmetry == 0 || bytes < least) least = bytes;
  }
  return least;
}

void tic_tac_toe_positions() {
  const auto levels = positions_by_ply<TicTacToe>(TicTacToe::kMaxLength);
  check(sizes(levels) == std::vector<std::int64_t>{1, 9, 72, 252, 756, 1260, 1520, 1140, 390, 78});
  std::unordered_set<std::string> classes;
  std::array<int, 3> terminal{};
  for (const auto& level : levels) {
    for (const TicTacToe& position : level) {
      if (position.is_terminal()) ++terminal[static_cast<std::size_t>(position.result() + 1)];
      classes.insert(canonical(position));
    }
  }
  check(terminal == std::array<int, 3>{316, 16, 626});
  check(classes.size() == 765u);
}

// Complete games when actions that lead to symmetric positions count as one.
int games_up_to_symmetry(const TicTacToe& position) {
  if (position.is_terminal()) return 1;
  std::unordered_set<std::string> seen;
  int games = 0;
  for (const Action action : position.legal_actions()) {
    TicTacToe next = position;
    next.apply(action);
    if (seen.insert(canonical(next)).second) games += games_up_to_symmetry(next);
  }
  return games;
}

// Deep enough to count in a blink; unoptimised and sanitized builds stop one ply earlier.
#ifdef NDEBUG
constexpr int kConnectFourDepth = 8;
#else
constexpr int kConnectFourDepth = 7;
#endif

void connect_four_sequences() {
  constexpr std::array<std::int64_t, 9> kSequences = {1,     7,      49,     343,    2401,
                                                      16807, 117649, 823536, 5673234};
  constexpr std::array<std::int64_t, 9> kEndings = {0, 0, 0, 0, 0, 0, 0, 13032, 44430};
  Census<ConnectFour> census;
  walk(ConnectFour{}, kConnectFourDepth, census);
  for (std::size_t ply = 0; ply <= kConnectFourDepth; ++ply) {
    check(census.sequences[ply] == kSequences[ply]);
    check(census.endings[ply] == kEndings[ply]);
  }
}

void connect_four_positions() {
  std::vector<std::int64_t> known = {1, 7, 49, 238, 1120, 4263, 16422, 54859, 184275};
  known.resize(kConnectFourDepth + 1);
  check(sizes(positions_by_ply<ConnectFour>(kConnectFourDepth)) == known);
}

// Plays a game together with each of its symmetric images.
template <Game G>
void play_with_images(Random& random) {
  std::array<G, G::kNumSymmetries> images{};
  while (!images[0].is_terminal()) {
    const G before = images[0];
    const auto actions = before.legal_actions();
    check(!actions.empty());
    check(std::ranges::is_sorted(actions));
    for (int number = -1; number <= G::kNumActions; ++number) {
      check(before.is_legal(number) == (std::ranges::count(actions, number) == 1));
    }
    const Action action =
        actions[static_cast<int>(random.below(static_cast<std::uint64_t>(actions.size())))];
    check(G::string_to_action(G::action_to_string(action)) == action);
    images[0].apply(action);
    Observation<G> seen{};
    write_observation(images[0], 0, seen);
    for (int symmetry = 1; symmetry < G::kNumSymmetries; ++symmetry) {
      G& image = images[static_cast<std::size_t>(symmetry)];
      image.apply(Symmetries<G>::action[symmetry][action]);
      Observation<G> transformed{};
      Observation<G> direct{};
      write_observation(images[0], symmetry, transformed);
      write_observation(image, 0, direct);
      check(transformed == direct);
      check(transform_observation<G>(transformed, Symmetries<G>::inverse[symmetry]) == seen);
      check(image.result() == images[0].result());
      check(image.is_terminal() == images[0].is_terminal());
    }
    check(before != images[0] && before.hash() != images[0].hash());
    check(images[0].ply() == before.ply() + 1);
    check(images[0].to_play() != before.to_play());
    check(images[0].is_terminal() || images[0].result() == 0);
  }
  check(images[0].legal_actions().empty());
  check(images[0].ply() <= G::kMaxLength);
}

template <class... Gs>
void play_games(int games) {
  Random random(17);
  for (int game = 0; game < games; ++game) (play_with_images<Gs>(random), ...);
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"tic-tac-toe: sequences", tic_tac_toe_sequences},
      {"tic-tac-toe: positions", tic_tac_toe_positions},
      {"tic-tac-toe: games up to symmetry",
       [] { check(games_up_to_symmetry(TicTacToe{}) == 26830); }},
      {"tic-tac-toe: perfect play draws", [] { check(test::perfect_result(TicTacToe{}) == 0); }},
      {"Connect Four: sequences", connect_four_sequences},
      {"Connect Four: positions", connect_four_positions},
      {"small games: rules and symmetries agree", [] { play_games<ConnectFour, TicTacToe>(200); }},
      {"large games: rules and symmetries agree", [] { play_games<Go<5>, Go<9>, Gomoku>(10); }},
  });
}
