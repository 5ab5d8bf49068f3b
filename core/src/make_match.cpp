#include <type_traits>

#include "zerofleet/games.h"
#include "zerofleet/match.h"

namespace zerofleet {

std::unique_ptr<MatchEngine> make_match(const std::string& game, const ActionLists& openings,
                                        const std::array<SearchConfig, 2>& configs,
                                        std::uint64_t seed, const Starts& starts) {
  for (const SearchConfig& config : configs) config.check();
  check_starts(starts, openings);
  return visit_game(game, [&](const auto& rules) -> std::unique_ptr<MatchEngine> {
    using G = typename std::decay_t<decltype(rules)>::Position;
    return std::make_unique<Match<G>>(rules, openings, configs, seed, starts);
  });
}

}  // namespace zerofleet
