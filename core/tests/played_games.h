// Games of self-play with a predictor that needs no network.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "hash_predictor.h"
#include "zerofleet/engine.h"
#include "zerofleet/games.h"
#include "zerofleet/self_play.h"

namespace zerofleet::test {

inline SearchConfig small_config() {
  SearchConfig config;
  config.num_simulations = 40;
  config.temperature_moves = 8;
  config.reuse_tree = false;
  return config;
}

inline std::vector<GameColumns> play(SelfPlayEngine& engine, std::size_t wanted) {
  HashPredictor predictor(engine.row_shape());
  std::vector<GameColumns> games;
  while (games.size() < wanted) {
    engine.backup(predictor.predict(engine.select(), 1));
    for (GameColumns& game : engine.take_finished()) games.push_back(std::move(game));
  }
  return games;
}

inline std::vector<GameColumns> play(const SearchConfig& config, std::size_t wanted,
                                     const char* game = "connect_four") {
  return play(*make_self_play(game, 16, config, 3), wanted);
}

}  // namespace zerofleet::test
