// The replay buffer: what it refuses, what it forgets, and that its batches are its games.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <new>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"
#include "zerofleet/random.h"
#include "zerofleet/replay_buffer.h"

namespace {

std::atomic<std::int64_t> blocks_in_heap = 0;

}  // namespace

void* operator new(std::size_t bytes) {
  ++blocks_in_heap;
  if (void* block = std::malloc(bytes)) return block;
  throw std::bad_alloc();
}
void operator delete(void* block) noexcept {
  if (block != nullptr) --blocks_in_heap;
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept { operator delete(block); }

namespace zerofleet {
namespace {

using test::check;
using test::check_near;

// A game record with the memory behind its columns.
struct OwnedGame {
  std::vector<std::int16_t> action;
  int result = 0;
  std::array<bool, 64> full_search{};
  std::vector<std::int32_t> offsets = {0};
  std::vector<std::int16_t> legal_actions;
  std::vector<std::int32_t> policy_weights;
  std::vector<float> root_value;

  StoredGame view() const {
    return {.action = action,
            .result = result,
            .full_search = std::span(full_search).first(action.size()),
            .offsets = offsets,
            .legal_actions = legal_actions,
            .policy_weights = policy_weights,
            .root_value = root_value};
  }
};

// Random actions and visit counts; every `period`-th ply has a full search.
template <Game G>
OwnedGame random_game(Random& random, int period = 1) {
  OwnedGame game;
  G position;
  while (!position.is_terminal()) {
    const auto actions = position.legal_actions();
    game.full_search[static_cast<std::size_t>(position.ply())] = position.ply() % period == 0;
    for (const Action action : actions) {
      game.legal_actions.push_back(action);
      game.policy_weights.push_back(1 + static_cast<int>(random.below(100)));
    }
    game.offsets.push_back(static_cast<std::int32_t>(game.legal_actions.size()));
    const auto choice = random.below(static_cast<std::uint64_t>(actions.size()));
    game.action.push_back(actions[static_cast<int>(choice)]);
    position.apply(game.action.back());
  }
  game.result = position.result();
  return game;
}

// A batch with the memory behind its rows.
struct OwnedBatch {
  std::vector<std::uint8_t> observations;
  std::vector<float> policy_targets;
  std::vector<float> value_targets;

  bool operator==(const OwnedBatch&) const = default;
};

// The call must throw std::invalid_argument with a message that contains `reason`.
template <class Call>
void check_invalid(Call&& call, std::string_view reason) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    if (std::string_view(error.what()).find(reason) != std::string_view::npos) return;
    throw test::Failure("'" + std::string(error.what()) + "' lacks '" + std::string(reason) + "'");
  }
  throw test::Failure("nothing was thrown, expected '" + std::string(reason) + "'");
}

OwnedBatch sample(const ReplayBuffer& buffer, std::size_t rows, std::uint64_t seed,
                  bool symmetry = true) {
  OwnedBatch batch;
  batch.observations.resize(rows * static_cast<std::size_t>(buffer.observation_bytes()));
  batch.policy_targets.resize(rows * static_cast<std::size_t>(buffer.num_actions()));
  batch.value_targets.resize(rows);
  buffer.sample(seed, symmetry, {batch.observations, batch.policy_targets, batch.value_targets});
  return batch;
}

// All rows that a game can give, under every symmetry: observation, then policy and value.
template <Game G>
std::map<Observation<G>, std::vector<float>> rows_of(const OwnedGame& game) {
  std::map<Observation<G>, std::vector<float>> rows;
  G position;
  for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
    const auto counts = game.view().policy_weights_at(ply);
    float total = 0.0f;
    for (const std::int32_t count : counts) total += static_cast<float>(count);
    for (int symmetry = 0; symmetry < G::kNumSymmetries; ++symmetry) {
      Observation<G> observation{};
      write_observation(position, symmetry, observation);
      std::vector<float> targets(G::kNumActions + 1);
      for (std::size_t i = 0; i < counts.size(); ++i) {
        const auto action = game.view().actions_at(ply)[i];
        targets[static_cast<std::size_t>(Symmetries<G>::action[symmetry][action])] +=
            static_cast<float>(counts[i]) / total;
      }
      targets.back() = static_cast<float>(ply % 2 == 0 ? game.result : -game.result);
      if (game.full_search[ply]) rows.try_emplace(observation, targets);
    }
    position.apply(game.action[ply]);
  }
  return rows;
}

template <Game G>
void batches_are_the_games_positions() {
  Random random(11);
  // The first plies are symmetric to themselves, so that several policies fit one observation:
  // leave them out.
  OwnedGame game = random_game<G>(random);
  for (std::size_t ply = 0; ply < 4; ++ply) game.full_search[ply] = false;
  const auto buffer = make_replay_buffer(std::string(G::kName), {1000, 10});
  buffer->add(game.view());
  const auto rows = rows_of<G>(game);
  const OwnedBatch batch = sample(*buffer, 500, 1);
  std::map<Observation<G>, int> drawn;
  for (std::size_t row = 0; row < 500; ++row) {
    const auto* bytes = batch.observations.data() + row * kObservationBytes<G>;
    Observation<G> observation{};
    std::copy_n(bytes, observation.size(), observation.begin());
    const auto found = rows.find(observation);
    check(found != rows.end());
    for (std::size_t action = 0; action < G::kNumActions; ++action) {
      check(batch.policy_targets[row * G::kNumActions + action] == found->second[action]);
    }
    check(batch.value_targets[row] == found->second.back());
    ++drawn[observation];
  }
  check(drawn.size() > rows.size() * 3 / 4);
  check(sample(*buffer, 50, 7) == sample(*buffer, 50, 7));
  check(!(sample(*buffer, 50, 7) == sample(*buffer, 50, 8)));
}

// A long game gives more rows than a short one, as many more as it has positions.
void positions_are_drawn_uniformly() {
  Random random(29);
  const auto buffer = make_replay_buffer("connect_four", {1000, 10});
  const auto plies = static_cast<std::size_t>(buffer->add(random_game<ConnectFour>(random).view()));
  const std::size_t rows = 400 * plies;
  const OwnedBatch batch = sample(*buffer, rows, 2, false);
  const auto width = static_cast<std::size_t>(buffer->observation_bytes());
  std::map<std::vector<std::uint8_t>, double> drawn;
  for (std::size_t row = 0; row < rows; ++row) {
    const auto* first = batch.observations.data() + row * width;
    ++drawn[std::vector<std::uint8_t>(first, first + width)];
  }
  check(drawn.size() == plies);
  for (const auto& [observation, count] : drawn) test::check_near(count, 400, 6 * 20);
}

template <Game G>
void every_symmetry_is_drawn() {
  Random random(31);
  OwnedGame game = random_game<G>(random);
  game.full_search.fill(false);
  game.full_search[4] = true;
  const auto buffer = make_replay_buffer(std::string(G::kName), {100, 10});
  check(buffer->add(game.view()) == 1);
  const auto images = rows_of<G>(game);
  const OwnedBatch batch = sample(*buffer, 200, 1);
  std::map<Observation<G>, int> drawn;
  for (std::size_t row = 0; row < 200; ++row) {
    Observation<G> observation{};
    std::copy_n(batch.observations.data() + row * kObservationBytes<G>, observation.size(),
                observation.begin());
    ++drawn[observation];
  }
  check(drawn.size() == images.size());
}

// The same in a window that many games have left again.
void positions_of_all_games_are_drawn_uniformly() {
  using Origin = std::pair<std::int64_t, std::int32_t>;  // game, counted from the first, and ply
  constexpr std::int64_t kGames = 60;
  constexpr std::int64_t kKept = 25;
  Random random(37);
  const auto buffer = make_replay_buffer("tic_tac_toe", {1000, kKept});
  std::set<Origin> kept;
  for (std::int64_t index = 0; index < kGames; ++index) {
    const OwnedGame game = random_game<TicTacToe>(random, 1 + static_cast<int>(index) % 3);
    buffer->add(game.view());
    for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
      if (index < kGames - kKept || !game.full_search[ply]) continue;
      kept.emplace(index, static_cast<std::int32_t>(ply));
    }
  }
  check(buffer->positions() == static_cast<std::int64_t>(kept.size()));
  const std::size_t rows = 400 * kept.size();
  std::vector<std::uint8_t> observations(rows *
                                         static_cast<std::size_t>(buffer->observation_bytes()));
  std::vector<float> policies(rows * static_cast<std::size_t>(buffer->num_actions()));
  std::vector<float> values(rows);
  std::vector<std::int32_t> plies(rows);
  std::vector<std::int32_t> lengths(rows);
  std::vector<std::int64_t> games(rows);
  buffer->sample(9, true, {observations, policies, values, plies, lengths, games});
  std::map<Origin, double> drawn;
  for (std::size_t row = 0; row < rows; ++row) ++drawn[{games[row], plies[row]}];
  check(drawn.size() == kept.size());
  for (const auto& [origin, count] : drawn) {
    check(kept.contains(origin));
    check_near(count, 400, 6 * 20);
  }
}

void forgets_the_oldest_games() {
  Random random(13);
  const auto buffer = make_replay_buffer("connect_four", {200, 5});
  std::int64_t total = 0;
  for (int i = 0; i < 60; ++i) {
    total += buffer->add(random_game<ConnectFour>(random, 1 + i % 4).view());
    check(buffer->positions() <= 200 && buffer->games() <= 5);
    check(buffer->total_positions() == total);
    sample(*buffer, 20, static_cast<std::uint64_t>(i));
  }
  check(buffer->games() == 5);
  const auto tiny = make_replay_buffer("connect_four", {1, 5});
  tiny->add(random_game<ConnectFour>(random).view());
  check(tiny->games() == 1);  // the newest game stays, whatever its length
}

void refuses_what_does_not_replay() {
  Random random(17);
  const auto buffer = make_replay_buffer("connect_four", {1000, 10});
  const auto refused = [&](auto&& spoil, std::string_view reason) {
    OwnedGame game = random_game<ConnectFour>(random);
    spoil(game);
    check_invalid([&] { buffer->add(game.view()); }, reason);
  };
  refused([](OwnedGame& game) { game.action[2] = 7; }, "action 7 at ply 2");
  refused([](OwnedGame& game) { game.action[0] = -1; }, "action -1 at ply 0");
  refused([](OwnedGame& game) { game.result = game.result == 1 ? -1 : 1; }, "the record says");
  refused([](OwnedGame& game) { game.result = 5; }, "the record says 5");
  refused([](OwnedGame& game) { game.policy_weights[8] = -5; }, "ply 1: policy weight -5");
  refused([](OwnedGame& game) { game.legal_actions[8] = 0; }, "ply 1: legal_actions");
  refused([](OwnedGame& game) { std::fill_n(game.policy_weights.begin() + 14, 7, 0); },
          "ply 2: no policy weight");
  refused([](OwnedGame& game) { game.offsets[1] = 20; }, "ply 1: offsets decrease");
  refused([](OwnedGame& game) { game.offsets[0] = -7; }, "offsets starts with");
  refused([](OwnedGame& game) { game.offsets.push_back(0); }, "plies + 1");
  refused([](OwnedGame& game) { game.legal_actions.pop_back(); }, "legal_actions has");
  refused([](OwnedGame& game) { game.policy_weights.push_back(1); }, "policy_weights has");
  refused(
      [](OwnedGame& game) {
        game.action.pop_back();
        game.offsets.pop_back();
        game.legal_actions.resize(static_cast<std::size_t>(game.offsets.back()));
        game.policy_weights.resize(game.legal_actions.size());
      },
      "the game is not over");
  refused(
      [](OwnedGame& game) {
        game.action.push_back(0);
        game.offsets.push_back(game.offsets.back());
      },
      "the game is over already");
  check(buffer->positions() == 0);
  check_invalid([&] { sample(*buffer, 1, 1); }, "empty");
  check_invalid([] { make_replay_buffer("connect_four", {0, 1}); }, "max_positions");
  check_invalid([] { make_replay_buffer("connect_four", {1, 0}); }, "max_games");
  check_invalid([] { make_replay_buffer("checkers", {1, 1}); }, "unknown game 'checkers'");
}

// Plies without a full search need no table; counts may be of any size.
void takes_what_is_unusual_but_right() {
  Random random(19);
  OwnedGame game = random_game<ConnectFour>(random);
  game.offsets.assign(game.action.size() + 1, 7);
  game.offsets[0] = 0;
  game.legal_actions.resize(7);
  game.policy_weights = {2'000'000'000, 0, 0, 0, 0, 0, 2'000'000'000};
  game.full_search.fill(false);
  const auto buffer = make_replay_buffer("connect_four", {1000, 10});
  check(buffer->add(game.view()) == 0);
  check(buffer->games() == 0);
  game.full_search[0] = true;
  check(buffer->add(game.view()) == 1);
  const OwnedBatch batch = sample(*buffer, 1, 1);
  check(batch.policy_targets[0] == 0.5f);
  check(batch.policy_targets[6] == 0.5f);
}

// G(t) = (1 - lambda) v(t) + lambda G(t + 1), by hand: values 0.5, -0.2 and 0.4, a win.
void lambda_returns_by_hand() {
  std::vector<float> values = {0.5f, -0.2f, 0.4f};
  lambda_returns(values, 0.5, 1);
  check_near(values[2], 0.7);
  check_near(values[1], 0.25);
  check_near(values[0], 0.375);
}

// The record's values are for the player to move, and so are the targets.
void value_targets_are_lambda_returns() {
  Random random(29);
  OwnedGame game = random_game<ConnectFour>(random);
  std::vector<float> returns;
  for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
    game.root_value.push_back(static_cast<float>(2 * random.uniform() - 1));
    returns.push_back(ply % 2 == 0 ? game.root_value.back() : -game.root_value.back());
  }
  lambda_returns(returns, 0.75, game.result);
  const auto buffer = make_replay_buffer("connect_four", {1000, 10}, 0.75);
  buffer->add(game.view());
  std::vector<std::int32_t> plies(200);
  std::vector<std::int32_t> lengths(200);
  std::vector<std::int64_t> games(200);
  std::vector<std::uint8_t> observations(200 *
                                         static_cast<std::size_t>(buffer->observation_bytes()));
  std::vector<float> policies(200 * 7);
  std::vector<float> targets(200);
  std::vector<float> results(200);
  buffer->sample(5, true, {observations, policies, targets, plies, lengths, games, results});
  for (std::size_t row = 0; row < plies.size(); ++row) {
    const auto ply = static_cast<std::size_t>(plies[row]);
    const int sign = ply % 2 == 0 ? 1 : -1;
    check(targets[row] == static_cast<float>(sign) * returns[ply]);
    check(results[row] == static_cast<float>(sign * game.result));
  }
  game.root_value.clear();
  check_invalid([&] { buffer->add(game.view()); }, "root_value is missing");
  game.root_value.assign(game.action.size(), 1.0005f);  // what rounding may leave
  check(buffer->add(game.view()) > 0);
  game.root_value.assign(game.action.size(), 1.5f);
  check_invalid([&] { buffer->add(game.view()); }, "root_value is not in [-1, 1]");
  check_invalid([] { make_replay_buffer("connect_four", {1, 1}, 1.5); }, "value_lambda");
}

void many_threads_share_a_buffer() {
  Random random(23);
  const auto buffer = make_replay_buffer("tic_tac_toe", {100, 20});
  buffer->add(random_game<TicTacToe>(random).view());
  std::jthread reader([&] {
    for (std::uint64_t seed = 0; seed < 300; ++seed) sample(*buffer, 16, seed);
  });
  for (int i = 0; i < 300; ++i) buffer->add(random_game<TicTacToe>(random).view());
}

// Scattered over the heap they would leave holes that nothing large fits in.
void games_lie_in_few_blocks() {
  Random random(5);
  ReplayBufferOf<ConnectFour> buffer(Rules<ConnectFour>(), {100'000, 100'000});
  const OwnedGame game = random_game<ConnectFour>(random);
  buffer.add(game.view());
  const std::int64_t before = blocks_in_heap;
  for (int i = 0; i < 1'000; ++i) buffer.add(random_game<ConnectFour>(random).view());
  check(blocks_in_heap - before < 50);
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"batches are the game's positions: Connect Four",
       batches_are_the_games_positions<ConnectFour>},
      {"batches are the game's positions: tic-tac-toe", batches_are_the_games_positions<TicTacToe>},
      {"positions are drawn uniformly", positions_are_drawn_uniformly},
      {"positions of all games are drawn uniformly", positions_of_all_games_are_drawn_uniformly},
      {"every symmetry is drawn: Connect Four", every_symmetry_is_drawn<ConnectFour>},
      {"every symmetry is drawn: tic-tac-toe", every_symmetry_is_drawn<TicTacToe>},
      {"forgets the oldest games", forgets_the_oldest_games},
      {"refuses what does not replay", refuses_what_does_not_replay},
      {"takes what is unusual but right", takes_what_is_unusual_but_right},
      {"lambda-returns by hand", lambda_returns_by_hand},
      {"value targets are lambda-returns", value_targets_are_lambda_returns},
      {"many threads share a buffer", many_threads_share_a_buffer},
      {"games lie in few blocks", games_lie_in_few_blocks},
  });
}
