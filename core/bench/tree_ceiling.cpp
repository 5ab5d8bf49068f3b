// Simulations per CPU-second of the tree alone: a constant predictor, no cache, no tree reuse.
// Usage: tree_ceiling [game [games at once [num_simulations]]]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "zerofleet/engine.h"

namespace {

constexpr std::int64_t kSimulations = 4'000'000;

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

int main(int argc, char** argv) {
  using namespace zerofleet;
  const std::string game = argc > 1 ? argv[1] : "connect_four";
  const int games = argc > 2 ? std::atoi(argv[2]) : 64;
  SearchConfig config;
  config.num_simulations = argc > 3 ? std::atoi(argv[3]) : 100;
  config.cache_positions = 0;
  config.reuse_tree = false;
  const auto engine = make_self_play(game, games, config, 7);
  const RowShape shape = engine->row_shape();
  const std::vector<float> logits(static_cast<std::size_t>(games) * shape.num_actions);
  const std::vector<float> value(games);

  const double start = cpu_seconds();
  while (engine->statistics().simulations < kSimulations) {
    for (int batch = 0; batch < 100; ++batch) {
      const std::size_t rows = engine->select().size() / shape.observation_bytes;
      engine->backup(
          {std::span(logits.data(), rows * shape.num_actions), std::span(value.data(), rows), 1});
    }
    engine->take_finished();
  }
  const double seconds = cpu_seconds() - start;
  const EngineStatistics statistics = engine->statistics();
  const auto simulations = static_cast<double>(statistics.simulations);
  std::printf("%s, %d games, %d simulations: %.2f M simulations/CPU-s, %.2f positions each\n",
              game.c_str(), games, config.num_simulations, simulations / seconds * 1e-6,
              static_cast<double>(statistics.positions_evaluated) / simulations);
}
