#include <type_traits>

#include "zerofleet/games.h"
#include "zerofleet/replay_buffer.h"

namespace zerofleet {

std::unique_ptr<ReplayBuffer> make_replay_buffer(const std::string& game, ReplayLimits limits,
                                                 double value_lambda, AuxiliaryTargets auxiliary) {
  return visit_game(game, [&](const auto& rules) -> std::unique_ptr<ReplayBuffer> {
    using G = typename std::decay_t<decltype(rules)>::Position;
    return std::make_unique<ReplayBufferOf<G>>(rules, limits, value_lambda, auxiliary);
  });
}

}  // namespace zerofleet
