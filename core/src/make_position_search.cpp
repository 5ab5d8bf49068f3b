#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "zerofleet/games.h"
#include "zerofleet/position_search.h"

namespace zerofleet {

std::unique_ptr<PositionSearchEngine> make_position_search(
    const std::string& game, const ActionLists& positions, const SearchConfig& config,
    std::uint64_t seed, const PositionSearchOptions& options, const Starts& starts) {
  config.check();
  check_starts(starts, positions);
  if (!options.root_actions.empty() && options.root_actions.size() != positions.size()) {
    throw std::invalid_argument("there are " + std::to_string(options.root_actions.size()) +
                                " lists of root_actions for " + std::to_string(positions.size()) +
                                " positions");
  }
  constexpr int kMostLeaves = std::numeric_limits<std::uint16_t>::max();  // Tree::leaves_out
  if (options.leaves_per_position < 1 || options.leaves_per_position > kMostLeaves) {
    throw std::invalid_argument("leaves_per_position is " +
                                std::to_string(options.leaves_per_position) + "; choose 1 to " +
                                std::to_string(kMostLeaves));
  }
  return visit_game(game, [&](const auto& rules) -> std::unique_ptr<PositionSearchEngine> {
    using G = typename std::decay_t<decltype(rules)>::Position;
    return std::make_unique<PositionSearch<G>>(rules, positions, config, seed, options, starts);
  });
}

}  // namespace zerofleet
