#include "zerofleet/position_search.h"

#include <type_traits>

#include "zerofleet/games.h"

namespace zerofleet {

std::unique_ptr<PositionSearchEngine> make_position_search(const std::string& game,
                                                           const ActionLists& positions,
                                                           const SearchConfig& config,
                                                           std::uint64_t seed,
                                                           const PositionSearchOptions& options) {
  config.check();
  if (options.leaves_per_position < 1) {
    throw std::invalid_argument("leaves_per_position must be at least 1");
  }
  return visit_game(game, [&](const auto& rules) -> std::unique_ptr<PositionSearchEngine> {
    using G = typename std::decay_t<decltype(rules)>::Position;
    return std::make_unique<PositionSearch<G>>(rules, positions, config, seed, options);
  });
}

}  // namespace zerofleet
