// Random games of Go, compared with a second, slow implementation of the rules.
#include "go_reference.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>

#include "check.h"
#include "zerofleet/games/go.h"
#include "zerofleet/random.h"

namespace zerofleet {
namespace {

using test::check;
using test::SlowGo;

constexpr std::uint64_t kSeed = 20;

// Unoptimised and sanitized builds play fewer games.
#ifdef NDEBUG
constexpr int kEffort = 4;
#else
constexpr int kEffort = 1;
#endif

char letter(Player colour) { return colour == kNoStone ? '.' : colour == kFirstPlayer ? 'X' : 'O'; }

// Stones, chains, liberties and the hash are what a look at the stones alone says.
template <int kRows, int kColumns>
void check_board(const GoBoard<kRows, kColumns>& board, const SlowGo& slow) {
  std::uint64_t hash = 0;
  for (int point = 0; point < kRows * kColumns; ++point) {
    const Player colour = board.at(point);
    check(letter(colour) == slow.board()[point]);
    check(board.empty_points().test(point) == (colour == kNoStone));
    for (const Player player : {kFirstPlayer, kSecondPlayer}) {
      check(board.stones()[player].test(point) == (colour == player));
    }
    if (colour == kNoStone) continue;
    hash ^= kGoKeys<kRows * kColumns>[colour][point];
    std::set<int> liberties;
    board.liberties(point).for_each([&](int liberty) { liberties.insert(liberty); });
    check(liberties == slow.touched(slow.board(), slow.chain(slow.board(), point), '.'));
    check(!liberties.empty() && board.has_liberty(point));
  }
  check(board.hash() == hash);
}

template <int kSize>
using WatchedGo = Go<kSize, GoObservation::kLiberties>;

// The planes that follow the history: chains of few liberties, own ones first, and repetitions.
template <int kSize>
void check_planes(const WatchedGo<kSize>& game, const SlowGo& slow) {
  using G = WatchedGo<kSize>;
  const auto planes = game.observe();
  const auto history = Go<kSize>::kPlanes;
  check(planes.size() == history + 7);
  const char own = letter(game.to_play());
  for (int point = 0; point < kSize * kSize; ++point) {
    const char stone = slow.board()[point];
    const std::size_t liberties =
        stone == '.' ? 0 : slow.touched(slow.board(), slow.chain(slow.board(), point), '.').size();
    for (std::size_t count = 1; count <= 3; ++count) {
      check(planes[history + count - 1].test(point) == (stone == own && liberties == count));
      check(planes[history + count + 2].test(point) ==
            (stone != '.' && stone != own && liberties == count));
    }
    check(planes[G::kPlanes - 1].test(point) == slow.only_repeats(point, own));
  }
}

template <int kSize>
void check_area(const WatchedGo<kSize>& game, const SlowGo& slow) {
  const auto [first, second] = game.area();
  const std::string area = slow.area();
  float score = -game.rules().komi;
  for (int point = 0; point < kSize * kSize; ++point) {
    const char owner = area[point];
    check(first.test(point) == (owner == 'X'));
    check(second.test(point) == (owner == 'O'));
    score += owner == 'X' ? 1.0f : owner == 'O' ? -1.0f : 0.0f;
  }
  check(game.score() == score);
  check(game.result() == (!game.is_terminal() || score == 0 ? 0 : score > 0 ? 1 : -1));
}

// Plays to the end; passes are as rare as `pass_chance`, so that boards fill and are emptied.
template <int kSize>
int play_game(Random& random, bool suicide, double pass_chance) {
  const float komi = 0.5f * static_cast<float>(random.below(9)) - 2.0f;
  WatchedGo<kSize> game(GoRules{komi, suicide, Go<kSize>::kMaxLength});
  SlowGo slow(kSize, kSize, suicide);
  while (!game.is_terminal()) {
    const char colour = letter(game.to_play());
    ActionList<Go<kSize>::kNumActions> expected;
    for (int point = 0; point < kSize * kSize; ++point) {
      if (slow.is_legal(point, colour)) expected.push_back(point);
    }
    expected.push_back(Go<kSize>::kPass);
    const auto actions = game.legal_actions();
    check(std::equal(actions.begin(), actions.end(), expected.begin(), expected.end()));
    const auto moves = static_cast<std::uint64_t>(actions.size() - 1);
    const bool pass = moves == 0 || random.uniform() < pass_chance;
    const Action action = pass ? Go<kSize>::kPass : actions[static_cast<int>(random.below(moves))];
    game.apply(action);
    if (!pass) slow.play(action, colour);
    check_board(game.board(), slow);
    check_area(game, slow);
    check_planes(game, slow);
  }
  return game.ply();
}

template <int kSize>
void play_games(int plies) {
  std::printf("seed %d, board size %d\n", static_cast<int>(kSeed), kSize);
  Random random(kSeed, kSize);
  for (int played = 0, game = 0; played < plies; ++game) {
    played += play_game<kSize>(random, game % 2 == 0, game % 3 == 0 ? 0.2 : 0.01);
  }
}

// Boards that are no squares, with either colour moving at any time.
template <int kRows, int kColumns>
void play_on_rectangle(int games) {
  Random random(kSeed, 100 + kRows);
  for (int game = 0; game < games; ++game) {
    GoBoard<kRows, kColumns> board;
    SlowGo slow(kRows, kColumns, true);
    for (int ply = 0; ply < 200; ++ply) {
      const auto point = static_cast<int>(random.below(kRows * kColumns));
      const auto colour = static_cast<Player>(random.below(2));
      if (!board.would_be_legal(point, colour, true)) continue;
      board.play(point, colour);
      slow.play(point, letter(colour));
      check_board(board, slow);
    }
  }
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"2 x 2", [] { play_games<2>(kEffort * 2000); }},
      {"3 x 3", [] { play_games<3>(kEffort * 2000); }},
      {"5 x 5", [] { play_games<5>(kEffort * 1000); }},
      {"9 x 9", [] { play_games<9>(kEffort * 500); }},
      {"13 x 13", [] { play_games<13>(kEffort * 150); }},
      {"19 x 19", [] { play_games<19>(kEffort * 50); }},
      {"rectangles",
       [] {
         play_on_rectangle<1, 7>(kEffort * 5);
         play_on_rectangle<4, 3>(kEffort * 5);
         play_on_rectangle<2, 33>(kEffort * 2);
       }},
  });
}
