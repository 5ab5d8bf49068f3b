#include "zerofleet/match.h"

#include "zerofleet/games.h"

namespace zerofleet {

std::unique_ptr<MatchEngine> make_match(const std::string& game, const ActionLists& openings,
                                        const SearchConfig& config, std::uint64_t seed) {
  config.check();
  return visit_game(game, [&](auto type) -> std::unique_ptr<MatchEngine> {
    using G = typename decltype(type)::type;
    return std::make_unique<Match<G>>(openings, config, seed);
  });
}

}  // namespace zerofleet
