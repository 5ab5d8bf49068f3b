// Perfect play of Connect Four and of the end of Othello, for Python.
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
  // Allocated by the first call; all calls share what the others found out.
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
      "The outcome of perfect play after `actions`, for the player to move: +1, 0 or -1.\n\n"
      "Milliseconds from ply 12 on, a tenth of a second at ply 8, seconds before ply 4.\n\n"
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
      "The outcome of perfect play after each column, for the player who moves now: +1, 0, -1, or\n"
      "None where the column is full.\n\n"
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
      "The score of perfect play after `actions`, for the player to move, when the winner hurries\n"
      "and the loser resists: the discs that the winner has left when the game ends, counting the\n"
      "last one played; negative for a loss, 0 for a draw.\n\n"
      "A few times as long as `connect_four_outcome`.\n\n"
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
      "The columns after which the score (`connect_four_score`) is the best there is: they win as\n"
      "soon as possible, or resist for as long as possible.\n\n"
      "A second or two at ply 6, a fifth of one at ply 9.\n\n"
      "Raises:\n    ValueError: an illegal action, or the game is over.");
  module.def(
      "othello_action_outcomes",
      [](const std::vector<int>& actions) -> std::vector<std::optional<int>> {
        const auto position = unfinished_after<Othello>(actions);
        if (const int empty = empty_squares(position); empty > kMostSolvedEmpties) {
          throw std::invalid_argument(std::to_string(empty) +
                                      " squares are empty: the solver of Othello takes " +
                                      std::to_string(kMostSolvedEmpties) + " at most");
        }
        const nb::gil_scoped_release release;
        const auto outcomes = othello_action_outcomes(position);
        return {outcomes.begin(), outcomes.end()};
      },
      "actions"_a,
      "The outcome of perfect play after each action, for the player who moves now: +1, 0, -1, or\n"
      "None where it is illegal. With 12 empty squares milliseconds.\n\n"
      "Raises:\n    ValueError: an illegal action, the game is over, or more than 16 squares are "
      "empty.");
}
