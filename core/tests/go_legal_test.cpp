// Go against counts known from elsewhere: legal positions, games and sequences of moves.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "check.h"
#include "zerofleet/games/go.h"

namespace zerofleet {
namespace {

using test::check;

// Unoptimised and sanitized builds leave the largest counts out.
#ifdef NDEBUG
constexpr bool kAllCounts = true;
#else
constexpr bool kAllCounts = false;
#endif

// Colourings that complete this one, of the points from `point` on, such that every chain has a
// liberty.
template <int kRows, int kColumns>
std::int64_t legal_positions(const GoBoard<kRows, kColumns>& board = {}, int point = 0) {
  if (point == kRows * kColumns) {
    for (int stone = 0; stone < point; ++stone) {
      if (board.at(stone) != kNoStone && !board.has_liberty(stone)) return 0;
    }
    return 1;
  }
  std::int64_t count = legal_positions(board, point + 1);
  for (const Player colour : {kFirstPlayer, kSecondPlayer}) {
    GoBoard<kRows, kColumns> next = board;
    next.put(point, colour);
    count += legal_positions(next, point + 1);
  }
  return count;
}

// Squares: OEIS A094777. Rectangles: two programs agree on them.
void legal_position_counts() {
  check(legal_positions<1, 1>() == 1);
  check(legal_positions<1, 2>() == 5);
  check(legal_positions<1, 3>() == 15);
  check(legal_positions<3, 1>() == 15);
  check(legal_positions<1, 4>() == 41);
  check(legal_positions<2, 2>() == 57);
  check(legal_positions<2, 3>() == 489);
  check(legal_positions<3, 2>() == 489);
  check(legal_positions<3, 3>() == 12675);
  if (kAllCounts) check(legal_positions<4, 4>() == 24318165);
}

// Games from here when passes are free, so that either colour may move: the ways on from the
// board, without a position twice.
template <int kRows, int kColumns>
std::int64_t games(const GoBoard<kRows, kColumns>& board, std::vector<std::uint64_t>& path) {
  path.push_back(board.hash());
  std::int64_t count = 1;
  for (int point = 0; point < kRows * kColumns; ++point) {
    for (const Player colour : {kFirstPlayer, kSecondPlayer}) {
      if (!board.would_be_legal(point, colour, true)) continue;
      GoBoard<kRows, kColumns> next = board;
      next.play(point, colour);
      check(next.hash() == board.outcome(point, colour).hash);
      if (std::ranges::count(path, next.hash()) == 0) count += games(next, path);
    }
  }
  path.pop_back();
  return count;
}

template <int kRows, int kColumns>
std::int64_t games() {
  std::vector<std::uint64_t> path;
  return games(GoBoard<kRows, kColumns>{}, path);
}

void game_counts() {
  check(games<1, 1>() == 1);
  check(games<1, 2>() == 9);
  check(games<1, 3>() == 907);
  check(games<3, 1>() == 907);
}

// Adds the sequences of moves and passes from here to their numbers by ply.
template <class G>
void count_sequences(const G& position, int depth, std::vector<std::int64_t>& counts) {
  if (depth == 0 || position.is_terminal()) return;
  const auto actions = position.legal_actions();
  counts[static_cast<std::size_t>(position.ply())] += actions.size();
  if (depth == 1) return;
  for (const Action action : actions) {
    G next = position;
    next.apply(action);
    count_sequences(next, depth - 1, counts);
  }
}

template <int kSize>
std::vector<std::int64_t> sequences(int depth, bool suicide = true) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(depth));
  count_sequences(Go<kSize>(GoRules{0.0f, suicide, Go<kSize>::kMaxLength}), depth, counts);
  return counts;
}

// Not published; two programs agree on them.
void sequence_counts() {
  using Counts = std::vector<std::int64_t>;
  check(sequences<2>(8) == Counts{5, 21, 68, 156, 316, 604, 1088, 2184});
  check(sequences<3>(6) == Counts{10, 91, 738, 5281, 33384, 180768});
  // The first ply that tells the two rules apart.
  check(sequences<3>(6, false) == Counts{10, 91, 738, 5281, 33384, 179712});
  check(sequences<5>(3) == Counts{26, 651, 15650});
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"legal positions", legal_position_counts},
      {"games under positional superko", game_counts},
      {"sequences of alternating moves", sequence_counts},
  });
}
