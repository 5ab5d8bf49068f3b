#include <type_traits>

#include "zerofleet/games.h"
#include "zerofleet/self_play.h"

namespace zerofleet {

std::unique_ptr<SelfPlayEngine> make_self_play(const std::string& game, int games,
                                               const SearchConfig& config, std::uint64_t seed) {
  config.check();
  if (games < 1) throw std::invalid_argument("games must be at least 1");
  return visit_game(game, [&](const auto& rules) -> std::unique_ptr<SelfPlayEngine> {
    using G = typename std::decay_t<decltype(rules)>::Position;
    return std::make_unique<SelfPlay<G>>(rules, static_cast<std::size_t>(games), config, seed);
  });
}

}  // namespace zerofleet
