// The Connect Four solver against plain search, and its parts against the rules.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "check.h"
#include "zerofleet/connect_four_solver.h"
#include "zerofleet/games/connect_four.h"
#include "zerofleet/random.h"

namespace zerofleet {
namespace {

using connect_four::Bits;
using connect_four::Board;
using test::check;

// The same position for the rules and for the solver.
struct Pair {
  ConnectFour position;
  Board board;
};

// A random position of this ply that is not over.
Pair random_position(int ply, Random& random) {
  for (;;) {
    Pair pair;
    while (pair.position.ply() < ply && !pair.position.is_terminal()) {
      const auto column = static_cast<int>(random.below(connect_four::kColumns));
      if (!pair.position.is_legal(column)) continue;
      const Bits cell = pair.board.playable(column);
      const Bits own = pair.board.own | cell;
      pair.position.apply(static_cast<Action>(column));
      check(connect_four::has_four(own) == (pair.position.result() != 0));
      pair.board = pair.board.after(cell);
    }
    if (!pair.position.is_terminal()) return pair;
  }
}

// Score of a finished game for the player to move: the winner's discs left, including the last one.
int final_score(const ConnectFour& position) {
  const int discs_of_winner = (position.ply() + 1) / 2;
  return static_cast<int>(terminal_value(position)) * (22 - discs_of_winner);
}

// Alpha-beta over the rules and nothing else.
int plain_score(const ConnectFour& position, int alpha = -kBestScore, int beta = kBestScore) {
  if (position.is_terminal()) return final_score(position);
  int best = -kBestScore;
  for (const Action action : position.legal_actions()) {
    ConnectFour next = position;
    next.apply(action);
    best = std::max(best, -plain_score(next, -beta, -std::max(alpha, best)));
    if (best >= beta) break;
  }
  return best;
}

void boards_agree_with_the_rules() {
  Random random(3);
  for (int i = 0; i < 500; ++i) {
    const auto [position, board] = random_position(static_cast<int>(random.below(36)), random);
    check(board.ply() == position.ply());
    check(board.mirror().mirror().key() == board.key());
    const Bits winning = connect_four::completing_cells(board.own) & board.playable();
    for (int column = 0; column < connect_four::kColumns; ++column) {
      const Bits cell = board.playable(column);
      check((cell != 0) == position.is_legal(column));
      if (!cell) continue;
      ConnectFour next = position;
      next.apply(static_cast<Action>(column));
      check(((winning & cell) != 0) == (next.result() != 0));
    }
  }
}

void late_scores_are_those_of_plain_search() {
  Random random(5);
  ConnectFourSolver solver(1 << 12);  // small: entries get replaced
  for (int i = 0; i < 600; ++i) {
    const int ply = 28 + static_cast<int>(random.below(14));
    const auto [position, board] = random_position(ply, random);
    const int score = plain_score(position);
    const int outcome = std::clamp(score, -1, 1);
    if (i % 2 == 0) check(solver.outcome(board) == outcome);  // the other way round it is known
    check(solver.score(board) == score);
    check(solver.score(board.mirror()) == score);
    check(solver.outcome(board) == outcome);
    check(solver.outcome(board.mirror()) == outcome);
    const Bits threats = connect_four::completing_cells(board.other()) & ~board.occupied;
    check(connect_four::follow_up_bound(board, threats) >= outcome);
  }
}

// The outcome is the best that an action leads to, all the way through random games.
void outcomes_of_actions_add_up() {
  Random random(7);
  ConnectFourSolver solver;
  for (int game = 0; game < 10; ++game) {
    auto [position, board] = random_position(14, random);
    while (!position.is_terminal()) {
      const auto outcomes = solver.action_outcomes(board);
      int best = -1;
      for (int column = 0; column < connect_four::kColumns; ++column) {
        const std::optional<int> outcome = outcomes[static_cast<std::size_t>(column)];
        check(outcome.has_value() == position.is_legal(column));
        if (outcome) best = std::max(best, *outcome);
      }
      check(solver.outcome(board) == best);
      const int score = solver.score(board);
      check(std::clamp(score, -1, 1) == best);
      std::vector<int> keep_score;
      for (int column = 0; column < connect_four::kColumns; ++column) {
        const Bits cell = board.playable(column);
        if (!cell) continue;
        const bool wins = connect_four::has_four(board.own | cell);
        const int after = wins ? score_of_win(board.ply()) : -solver.score(board.after(cell));
        check(after <= score);
        if (after == score) keep_score.push_back(column);
      }
      check(solver.best_actions(board) == keep_score);
      const auto actions = position.legal_actions();
      const Action action =
          actions[static_cast<int>(random.below(static_cast<std::uint64_t>(actions.size())))];
      board = board.after(board.playable(action));
      position.apply(action);
    }
  }
}

void table_keeps_what_was_costly() {
  ScoreTable table(2);
  table.store(1, {0, kBestScore}, 1000);
  for (std::uint64_t key = 2; key <= 20; ++key) table.store(key, {-kBestScore, -3}, 1);
  check(table.find(1).lower == 0 && table.find(1).upper == kBestScore);
  check(table.find(20).lower == -kBestScore && table.find(20).upper == -3);
  const ScoreBounds forgotten = table.find(19);
  check(forgotten.lower == -kBestScore && forgotten.upper == kBestScore);
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"boards agree with the rules", boards_agree_with_the_rules},
      {"late scores are those of plain search", late_scores_are_those_of_plain_search},
      {"outcomes of actions add up", outcomes_of_actions_add_up},
      {"the table keeps what was costly", table_keeps_what_was_costly},
  });
}
