// Perfect play in Connect Four and at the end of Othello, for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "zerofleet/connect_four_solver.h"
#include "zerofleet/games/connect_four.h"
#include "zerofleet/games/othello.h"
#include "zerofleet/othello_solver.h"
#include "zerofleet/replay_moves.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace zerofleet {
namespace {

// Throws std::invalid_argument for an illegal action and for a game that is over.
template <typename Position>
Position unfinished_after(const std::vector<int>& actions) {
  const auto position = position_after(FixedRules<Position>(), std::span<const int>(actions));
  if (position.is_terminal()) {
    throw std::invalid_argument("the game is over: there is no outcome left to reach");
  }
  return position;
}

connect_four::Board board_after(const std::vector<int>& actions) {
  unfinished_after<ConnectFour>(actions);
  connect_four::Board board;
  for (const int column : actions) board = board.after(board.playable(column));
  return board;
}

}  // namespace
}  // namespace zerofleet

void bind_solver(nb::module_& module) {
  using namespace zerofleet;
  // Allocated by the first call; all calls share the results found so far.
  const auto solver = std::make_shared<std::unique_ptr<ConnectFourSolver>>();
  const auto shared_solver = [solver]() -> ConnectFourSolver& {
    if (!*solver) *solver = std::make_unique<ConnectFourSolver>();
    return **solver;
  };
  module.def(
      "connect_four_outcome",
      [shared_solver](const std::vector<int>& actions) {
        const connect_four::Board board = board_after(actions);
        ConnectFourSolver& perfect = shared_solver();
        const nb::gil_scoped_release release;
        return perfect.outcome(board);
      },
      "actions"_a,
      "Return the outcome of perfect play after `actions`, for the player to move: +1, 0 or -1.\n\n"
      "Takes milliseconds from ply 12 on, a tenth of a second at ply 8, seconds before ply 4.\n\n"
      "Raises:\n    ValueError: an illegal action, or the game is over.");
  module.def(
      "connect_four_action_outcomes",
      [shared_solver](const std::vector<int>& actions) -> std::vector<std::optional<int>> {
        const connect_four::Board board = board_after(actions);
        ConnectFourSolver& perfect = shared_solver();
        const nb::gil_scoped_release release;
        const ConnectFourSolver::Scores outcomes = perfect.action_outcomes(board);
        return {outcomes.begin(), outcomes.end()};
      },
      "actions"_a,
      "Return the outcome of perfect play after each column, for the player who moves now: +1, 0\n"
      "or -1; None for a full column.\n\n"
      "Raises:\n    ValueError: an illegal action, or the game is over.");
  module.def(
      "connect_four_score",
      [shared_solver](const std::vector<int>& actions) {
        const connect_four::Board board = board_after(actions);
        ConnectFourSolver& perfect = shared_solver();
        const nb::gil_scoped_release release;
        return perfect.score(board);
      },
      "actions"_a,
      "Return the score of perfect play after `actions`, for the player to move.\n\n"
      "The winner hurries and the loser resists. The score is the number of discs that the winner\n"
      "has left when the game ends, counting the last one played; negative for a loss, 0 for a\n"
      "draw. Takes a few times as long as `connect_four_outcome`.\n\n"
      "Raises:\n    ValueError: an illegal action, or the game is over.");
  module.def(
      "connect_four_best_actions",
      [shared_solver](const std::vector<int>& actions) {
        const connect_four::Board board = board_after(actions);
        ConnectFourSolver& perfect = shared_solver();
        const nb::gil_scoped_release release;
        return perfect.best_actions(board);
      },
      "actions"_a,
      "Return the columns that keep the best score (`connect_four_score`): they win as soon as\n"
      "possible, or resist for as long as possible.\n\n"
      "Takes a second or two at ply 6, a fifth of one at ply 9.\n\n"
      "Raises:\n    ValueError: an illegal action, or the game is over.");
  module.def(
      "othello_action_outcomes",
      [](const std::vector<int>& actions) -> std::vector<std::optional<int>> {
        const auto position = unfinished_after<Othello>(actions);
        if (const int empty = empty_squares(position); empty > kMostSolvedEmpties) {
          throw std::invalid_argument(std::to_string(empty) +
                                      " squares are empty: the Othello solver takes at most " +
                                      std::to_string(kMostSolvedEmpties));
        }
        const nb::gil_scoped_release release;
        const auto outcomes = othello_action_outcomes(position);
        return {outcomes.begin(), outcomes.end()};
      },
      "actions"_a,
      "Return the outcome of perfect play after each action, for the player who moves now: +1, 0\n"
      "or -1; None for an illegal action. Takes milliseconds with 12 empty squares.\n\n"
      "Raises:\n    ValueError: an illegal action, the game is over, or more than 16 squares are "
      "empty.");
}
