// How often positions are drawn: by surprise, by repetition, by age, and by all of these at once.
#include "zerofleet/position_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "check.h"
#include "played_games.h"
#include "zerofleet/replay_buffer.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_near;
using test::check_throws;

// A game of self-play as the buffer takes it.
struct OwnedGame {
  explicit OwnedGame(GameColumns game) : columns(std::move(game)) {
    std::ranges::copy(columns.full_search, full_search.begin());
  }

  StoredGame view() const {
    return {.action = columns.action,
            .result = columns.result.value(),
            .full_search = std::span(full_search).first(columns.plies()),
            .offsets = columns.offsets,
            .legal_actions = columns.legal_actions,
            .policy_weights = columns.policy_weights,
            .root_value = columns.root_value,
            .priors = columns.priors};
  }

  GameColumns columns;
  std::array<bool, 64> full_search{};
};

std::vector<OwnedGame> played(std::size_t count) {
  SearchConfig config = test::small_config();
  config.full_search_share = 0.6;
  std::vector<OwnedGame> games;
  for (GameColumns& game : test::play(config, count, "tic_tac_toe")) {
    games.emplace_back(std::move(game));
  }
  return games;
}

void surprises_by_hand() {
  const std::vector<std::int32_t> weights = {3, 1, 0};
  const std::vector<float> priors = {0.5f, 0.25f, 0.25f};
  check_near(policy_surprise(weights, priors), 0.75 * std::log(1.5));
  const std::vector<std::int32_t> one = {1};
  check_near(policy_surprise(one, std::vector<float>{0.0f}), 24 * std::log(2.0));
  check(policy_surprise(one, std::vector<float>{1.0005f}) == 0.0);
}

void weights_by_hand() {
  const std::vector<double> surprises = {1.0, 3.0, 0.0, 0.0};
  check(surprise_weights(surprises, 0.5) == std::vector{1.0, 2.0, 0.5, 0.5});
  check(surprise_weights(surprises, 1.0) == std::vector{1.0, 3.0, 0.0, 0.0});
  const std::vector<double> none = {0.0, 0.0};
  check(surprise_weights(none, 0.5) == std::vector{1.0, 1.0});
  const std::vector<double> weights = {1.0, 2.0, 0.5, 0.5};
  check(rounded_copies(weights, 0.25) == std::vector{1, 2, 0, 1});
  check(rounded_copies(weights, 0.75) == std::vector{1, 2, 1, 0});
}

// For all weights: as many copies as weights, each rounded up or down, right on average.
void copies_are_fair() {
  Random random(5);
  std::vector<double> surprises(23);
  for (double& surprise : surprises) surprise = random.uniform();
  const std::vector<double> weights = surprise_weights(surprises, 0.8);
  std::vector<double> sums(weights.size());
  constexpr int kTimes = 4000;
  for (int i = 0; i < kTimes; ++i) {
    const std::vector<int> copies = rounded_copies(weights, random.uniform());
    int total = 0;
    for (std::size_t at = 0; at < copies.size(); ++at) {
      check(std::abs(copies[at] - weights[at]) < 1.0);
      total += copies[at];
      sums[at] += copies[at];
    }
    check(total == 23);
  }
  for (std::size_t at = 0; at < sums.size(); ++at) {
    check_near(sums[at] / kTimes, weights[at], 5 * 0.5 / std::sqrt(kTimes));
  }
}

// Half-life 1 among four: 8, 4, 2 and 1 of 15.
void ages_by_hand() {
  Random random(7);
  constexpr int kTimes = 15'000;
  std::array<int, 4> drawn{};
  for (int i = 0; i < kTimes; ++i) ++drawn.at(drawn_age(random, 1.0, 4));
  for (std::size_t age = 0; age < 4; ++age) check_near(drawn[age], 8000 >> age, 5 * 63);
  drawn = {};
  for (int i = 0; i < kTimes; ++i) ++drawn.at(drawn_age(random, 1e300, 4));
  for (const int count : drawn) check_near(count, kTimes / 4.0, 5 * 63);
  for (int i = 0; i < 100; ++i) check(drawn_age(random, 1e-3, 4) == 0);
}

using Origin = std::pair<std::int64_t, std::int32_t>;  // game, counted from the first, and ply

std::map<Origin, int> origins(const ReplayBuffer& buffer, std::size_t rows, std::uint64_t seed) {
  std::vector<std::uint8_t> observations(rows *
                                         static_cast<std::size_t>(buffer.observation_bytes()));
  std::vector<float> policies(rows * static_cast<std::size_t>(buffer.num_actions()));
  std::vector<float> values(rows);
  std::vector<std::int32_t> plies(rows);
  std::vector<std::int32_t> lengths(rows);
  std::vector<std::int64_t> games(rows);
  buffer.sample(seed, true, {observations, policies, values, plies, lengths, games});
  std::map<Origin, int> drawn;
  for (std::size_t row = 0; row < rows; ++row) ++drawn[{games[row], plies[row]}];
  return drawn;
}

// The chance of each position, by the definition: copies, halved by age, shared by the repeated.
std::map<Origin, double> chances(const std::vector<OwnedGame>& games, std::size_t first,
                                 const PositionWeights& weights) {
  std::map<std::uint64_t, int> times;
  std::vector<std::pair<Origin, std::uint64_t>> entries;  // with the position's hash
  for (std::size_t index = first; index < games.size(); ++index) {
    const StoredGame game = games[index].view();
    const std::vector<int> copies = copies_of(game, weights.policy_surprise_share);
    TicTacToe position;
    std::size_t number = 0;
    for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
      if (game.full_search[ply]) {
        ++times[position.hash()];
        const Origin origin{static_cast<std::int64_t>(index), static_cast<std::int32_t>(ply)};
        entries.insert(entries.end(),
                       copies.empty() ? 1u : static_cast<std::size_t>(copies[number]),
                       {origin, position.hash()});
        ++number;
      }
      position.apply(game.action[ply]);
    }
  }
  double total = 0.0;
  std::map<Origin, double> chance;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto age = static_cast<double>(entries.size() - 1 - i);
    double weight = weights.age_halflife > 0.0 ? std::exp2(-age / weights.age_halflife) : 1.0;
    if (weights.repeated_once) weight /= times[entries[i].second];
    chance[entries[i].first] += weight;
    total += weight;
  }
  for (auto& [origin, weight] : chance) weight /= total;
  return chance;
}

// In a window that many games have left again.
void check_frequencies(const PositionWeights& weights) {
  const auto games = played(60);
  constexpr std::size_t kKept = 25;
  const auto buffer = make_replay_buffer("tic_tac_toe", {1000, kKept}, 1.0, weights);
  std::int64_t total = 0;
  for (const OwnedGame& game : games) {
    const auto searches = std::ranges::count(game.full_search, true);
    check(buffer->add(game.view()) == searches);  // what is paid for
    total += searches;
  }
  check(buffer->total_positions() == total);
  constexpr std::size_t kRows = 40'000;
  const auto drawn = origins(*buffer, kRows, 9);
  const auto chance = chances(games, games.size() - kKept, weights);
  check(static_cast<std::size_t>(buffer->positions()) >= chance.size());
  for (const auto& [origin, count] : drawn) check(chance.contains(origin));
  for (const auto& [origin, share] : chance) {
    const auto found = drawn.find(origin);
    const double expected = share * kRows;
    check_near(found == drawn.end() ? 0 : found->second, expected, 5 * std::sqrt(expected) + 5);
  }
  const auto again = make_replay_buffer("tic_tac_toe", {1000, kKept}, 1.0, weights);
  for (const OwnedGame& game : games) again->add(game.view());
  check(origins(*again, 500, 3) == origins(*buffer, 500, 3));
}

void a_repeated_position_counts_once() {
  const auto games = played(40);
  const auto buffer = make_replay_buffer("tic_tac_toe", {1000, 40}, 1.0, {.repeated_once = true});
  std::map<std::uint64_t, int> times;
  for (const OwnedGame& game : games) {
    buffer->add(game.view());
    TicTacToe position;
    for (std::size_t ply = 0; ply < game.columns.plies(); ++ply) {
      times[position.hash()] += game.full_search[ply];
      position.apply(game.columns.action[ply]);
    }
  }
  const auto distinct = std::ranges::count_if(times, [](auto& entry) { return entry.second > 0; });
  check(times[TicTacToe().hash()] > 15);
  constexpr int kRows = 20'000;
  int starts = 0;
  for (const auto& [origin, count] : origins(*buffer, kRows, 1)) {
    starts += origin.second == 0 ? count : 0;
  }
  const double expected = kRows / static_cast<double>(distinct);
  check_near(starts, expected, 5 * std::sqrt(expected));
}

void what_makes_no_sense_is_refused() {
  const auto with = [](const PositionWeights& weights) {
    return make_replay_buffer("tic_tac_toe", {1000, 10}, 1.0, weights);
  };
  check_throws<std::invalid_argument>([&] { with({.policy_surprise_share = 1.5}); });
  check_throws<std::invalid_argument>([&] { with({.age_halflife = -1.0}); });
  check_throws<std::invalid_argument>([&] { with({.age_halflife = INFINITY}); });
  const auto buffer = with({.policy_surprise_share = 0.5});
  const auto games = played(1);
  StoredGame game = games[0].view();
  game.priors = {};
  check_throws<std::invalid_argument>([&] { buffer->add(game); });
  check(with({})->add(game) > 0);
  game.priors = games[0].view().priors.subspan(1);
  check_throws<std::invalid_argument>([&] { buffer->add(game); });
  auto spoiled = games[0].columns.priors;
  for (const float prior : {-0.1f, 1.1f, std::nanf("")}) {
    spoiled[3] = prior;
    game.priors = spoiled;
    check_throws<std::invalid_argument>([&] { buffer->add(game); });
  }
  check(buffer->positions() == 0);
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"surprises by hand", surprises_by_hand},
      {"weights by hand", weights_by_hand},
      {"copies are fair", copies_are_fair},
      {"ages by hand", ages_by_hand},
      {"frequencies: all alike", [] { check_frequencies({}); }},
      {"frequencies: surprise", [] { check_frequencies({.policy_surprise_share = 0.5}); }},
      {"frequencies: repeated once", [] { check_frequencies({.repeated_once = true}); }},
      {"frequencies: age", [] { check_frequencies({.age_halflife = 20.0}); }},
      {"frequencies: all of these", [] { check_frequencies({0.7, true, 40.0}); }},
      {"a repeated position counts once", a_repeated_position_counts_once},
      {"what makes no sense is refused", what_makes_no_sense_is_refused},
  });
}
