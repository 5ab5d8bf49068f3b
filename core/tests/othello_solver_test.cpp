// The solver of the end of Othello against plain search.
#include "zerofleet/othello_solver.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "check.h"
#include "zerofleet/random.h"

namespace zerofleet {
namespace {

using test::check;

// For the player to move, by looking at everything that can follow.
int plain_outcome(const Othello& position) {
  if (position.is_terminal()) {
    return position.to_play() == kFirstPlayer ? position.result() : -position.result();
  }
  int best = -1;
  for (const Action action : position.legal_actions()) {
    Othello after = position;
    after.apply(action);
    best = std::max(best, -plain_outcome(after));
  }
  return best;
}

void late_outcomes_are_those_of_plain_search() {
  Random random(5);
  int compared = 0, passes = 0;
  std::array<int, 3> found{};  // losses, draws, wins
  while (compared < 200) {
    Othello position;
    while (!position.is_terminal() && empty_squares(position) > 5) {
      const auto actions = position.legal_actions();
      position.apply(
          actions[static_cast<int>(random.below(static_cast<std::uint64_t>(actions.size())))]);
    }
    if (position.is_terminal()) continue;
    ++compared;
    passes += position.is_legal(Othello::kPass);
    const auto outcomes = othello_action_outcomes(position);
    for (Action action = 0; action < Othello::kNumActions; ++action) {
      check(outcomes[action].has_value() == position.is_legal(action));
      if (!outcomes[action]) continue;
      Othello after = position;
      after.apply(action);
      check(*outcomes[action] == -plain_outcome(after));
      ++found[static_cast<std::size_t>(*outcomes[action] + 1)];
    }
  }
  check(passes > 0 && found[0] > 0 && found[1] > 0 && found[2] > 0);
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"late outcomes are those of plain search", late_outcomes_are_those_of_plain_search},
  });
}
