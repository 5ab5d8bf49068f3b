// Targets besides policy and value: the opponent's next policy, the end of a game, and its
// searches.
#include "zerofleet/training_targets.h"

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "zerofleet/replay_buffer.h"
#include "zerofleet/replay_moves.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_near;

template <class Call>
void check_invalid(Call&& call, std::string_view reason) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    check(std::string_view(error.what()).find(reason) != std::string_view::npos);
    return;
  }
  check(false);
}

constexpr std::size_t kRows = 400;

// A game in which the weight of action a is a + 1 at every ply.
struct WeightedGame {
  std::vector<Action> actions;
  std::array<bool, 64> full_search{};
  int result = 0;
  bool resigned = false;
  std::vector<std::int32_t> offsets = {0};
  std::vector<Action> legal = {};
  std::vector<std::int32_t> weights = {};

  template <class AnyRules>
  void search(const AnyRules& rules) {
    auto position = rules.start();
    for (const Action action : actions) {
      for (const Action child : position.legal_actions()) {
        legal.push_back(child);
        weights.push_back(child + 1);
      }
      offsets.push_back(static_cast<std::int32_t>(legal.size()));
      position.apply(action);
    }
  }
  StoredGame view() const {
    return {.action = actions,
            .result = result,
            .full_search = std::span(full_search).first(actions.size()),
            .offsets = offsets,
            .legal_actions = legal,
            .policy_weights = weights,
            .resigned = resigned};
  }

  // The policy target of a ply under a symmetry, or NaN for every action.
  template <class AnyRules>
  std::vector<float> policy(const AnyRules& rules, std::size_t ply, int symmetry,
                            bool is_known) const {
    std::vector<float> policy(static_cast<std::size_t>(rules.num_actions()),
                              is_known ? 0.0f : kNoTarget);
    if (!is_known) return policy;
    float total = 0.0f;
    for (const Action action : view().actions_at(ply)) total += static_cast<float>(action + 1);
    for (const Action action : view().actions_at(ply)) {
      policy[static_cast<std::size_t>(rules.symmetric_action(action, symmetry))] =
          static_cast<float>(action + 1) / total;
    }
    return policy;
  }
};

bool same(std::span<const float> ours, std::span<const float> expected) {
  check(ours.size() == expected.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (std::isnan(ours[i]) != std::isnan(expected[i])) return false;
    if (!std::isnan(ours[i]) && ours[i] != expected[i]) return false;
  }
  return true;
}

// Every row of a large sample must be some ply under some symmetry, and all of these must be drawn.
// `expected(ply, symmetry)` gives the auxiliary targets.
template <class AnyRules, class Expected>
void check_rows(const ReplayBuffer& buffer, const AnyRules& rules, const WeightedGame& game,
                Expected&& expected) {
  const auto actions = static_cast<std::size_t>(buffer.num_actions());
  const auto width = static_cast<std::size_t>(buffer.auxiliary_width());
  std::vector<std::uint8_t> observations(kRows *
                                         static_cast<std::size_t>(buffer.observation_bytes()));
  std::vector<float> policies(kRows * actions), values(kRows), auxiliary(kRows * width);
  std::vector<std::int32_t> plies(kRows), lengths(kRows);
  std::vector<std::int64_t> games(kRows);
  TrainingBatch batch{observations, policies, values, plies, lengths, games};
  buffer.sample(1, true, batch);
  const std::vector<std::uint8_t> without = observations;
  std::fill(policies.begin(), policies.end(), 0.0f);
  batch.auxiliary_targets = auxiliary;
  buffer.sample(1, true, batch);
  check(observations == without);  // who asks for more gets the same positions
  std::vector<bool> drawn(game.actions.size() * 8);
  for (std::size_t row = 0; row < kRows; ++row) {
    const auto ply = static_cast<std::size_t>(plies[row]);
    const auto policy = std::span<const float>(policies).subspan(row * actions, actions);
    const auto targets = std::span<const float>(auxiliary).subspan(row * width, width);
    bool is_found = false;
    for (int symmetry = 0; symmetry < rules.num_symmetries(); ++symmetry) {
      if (!same(policy, game.policy(rules, ply, symmetry, true))) continue;
      is_found = true;  // the weights differ, so that there is no other
      check(same(targets, expected(ply, symmetry)));
      drawn[ply * 8 + static_cast<std::size_t>(symmetry)] = true;
    }
    check(is_found);
  }
  for (std::size_t ply = 0; ply < game.actions.size(); ++ply) {
    const auto ones = std::count(drawn.begin() + static_cast<std::ptrdiff_t>(ply) * 8,
                                 drawn.begin() + static_cast<std::ptrdiff_t>(ply + 1) * 8, true);
    check(ones == (game.full_search[ply] ? rules.num_symmetries() : 0));
  }
}

// The first player wins by the upper row: x x x / . o o / . . .
WeightedGame upper_row() {
  WeightedGame game{.actions = {0, 4, 1, 5, 2}, .result = 1};
  for (const std::size_t ply : {0, 1, 3, 4}) game.full_search[ply] = true;
  game.search(FixedRules<TicTacToe>());
  return game;
}

void a_reply_is_the_next_full_searchs_policy() {
  const FixedRules<TicTacToe> rules;
  const WeightedGame game = upper_row();
  // By hand: after 0 the others weigh 2 to 9, 44 together.
  const std::vector<float> reply = game.policy(rules, 1, 0, true);
  check(reply[0] == 0.0f && reply[1] == 2.0f / 44 && reply[8] == 9.0f / 44);
  const AuxiliaryTargets all{.opponent_policy = true, .final_planes = true, .final_score = true};
  const auto buffer = make_replay_buffer("tic_tac_toe", {100, 10}, 1.0, all);
  check(buffer->auxiliary_width() == 9);  // the game tells nothing of its end
  check(buffer->add(game.view()) == 4);
  check_rows(*buffer, rules, game, [&](std::size_t ply, int symmetry) {
    // Ply 2 was fast, and nobody answers the last one.
    return game.policy(rules, ply + 1, symmetry, ply == 0 || ply == 3);
  });
  check(make_replay_buffer("tic_tac_toe", {1, 1})->auxiliary_width() == 0);
}

// Black has columns A and B and the point C1, White columns D and E; the rest of C is nobody's.
constexpr std::array<int, 25> kOwners = {1, 1, 0, -1, -1,  //
                                         1, 1, 0, -1, -1,  //
                                         1, 1, 0, -1, -1,  //
                                         1, 1, 0, -1, -1,  //
                                         1, 1, 1, -1, -1};

template <class AnyRules>
WeightedGame walls(const AnyRules& rules, bool resigned) {
  WeightedGame game{.actions = {}, .result = 1, .resigned = resigned};
  for (const int point : {1, 3, 6, 8, 11, 13, 16, 18, 21, 23, 22, 25, 25}) {
    game.actions.push_back(static_cast<Action>(point));
  }
  if (resigned) game.actions.resize(11);  // White gives up
  for (std::size_t ply = 6; ply < game.actions.size(); ++ply) game.full_search[ply] = true;
  game.search(rules);
  return game;
}

// The targets of a game of Go that ends as `kOwners` says, with komi 0.5.
std::vector<float> ending_of_walls(std::size_t ply, int symmetry, bool resigned) {
  std::vector<float> targets(26, kNoTarget);
  if (resigned) return targets;
  const float sign = ply % 2 == 0 ? 1.0f : -1.0f;
  for (int point = 0; point < 25; ++point) {
    targets[static_cast<std::size_t>(dihedral_point(point, symmetry, 5))] =
        sign * static_cast<float>(kOwners[static_cast<std::size_t>(point)]);
  }
  targets.back() = sign * 0.5f;
  return targets;
}

template <class AnyRules>
void check_endings(ReplayBuffer& buffer, const AnyRules& rules) {
  check(buffer.auxiliary_width() == 26 + 25 + 1);
  for (const bool resigned : {true, false}) {
    const WeightedGame game = walls(rules, resigned);
    buffer.add(game.view());  // there is room for one: the game before it leaves
    check_rows(buffer, rules, game, [&](std::size_t ply, int symmetry) {
      std::vector<float> targets =
          game.policy(rules, ply + 1, symmetry, ply + 1 < game.actions.size());
      const std::vector<float> ending = ending_of_walls(ply, symmetry, resigned);
      targets.insert(targets.end(), ending.begin(), ending.end());
      return targets;
    });
  }
}

constexpr AuxiliaryTargets kAll{.opponent_policy = true, .final_planes = true, .final_score = true};

void endings_of_a_fixed_game() {
  const FixedRules<Go<5>> rules("go", Go<5>(GoRules{0.5f, true, 50}));
  ReplayBufferOf<Go<5>> buffer(rules, {.max_positions = 100, .max_games = 1}, 1.0, kAll);
  check_endings(buffer, rules);
}

void endings_behind_virtual_calls() {
  const DynamicGame& rules = dynamic_game("go(size=5,komi=0.5)");
  const auto buffer = make_replay_buffer(rules.name(), {100, 1}, 1.0, kAll);
  check_endings(*buffer, rules);
}

void each_target_alone() {
  const auto width = [](const char* game, AuxiliaryTargets targets) {
    return make_replay_buffer(game, {1, 1}, 1.0, targets)->auxiliary_width();
  };
  check(width("othello", {.opponent_policy = true}) == 65);
  check(width("othello", {.final_planes = true}) == 64);
  check(width("othello", {.final_score = true}) == 1);
  check(width("connect_four", {.final_planes = true, .final_score = true}) == 0);
  check(width("connect_four", {.root_value = true}) == 1);
  check(width("connect_four", {.search_surprise = true, .plies_to_end = true}) == 2);
}

void surprise_by_hand() {
  const std::array<std::int32_t, 3> weights = {2, 1, 1};
  const auto surprise = [&](std::array<float, 3> priors) {
    return search_surprise(weights, priors, 5);
  };
  check(surprise({0.5f, 0.25f, 0.25f}) == 0.0f);
  // 1/2 log (1/2 / 1/4) + 1/4 log (1/4 / 1/2) + 1/4 log (1/4 / 1/4) = 1/4 log 2
  check_near(surprise({0.25f, 0.5f, 0.25f}), 0.25 * kLn2, 1e-7);
  // A prior of 0 counts as 2^-24: 1/2 log 2^23 + 1/4 log 1/2 + 1/4 log 1/2 = 11 log 2
  check_near(surprise({0.0f, 0.5f, 0.5f}), 11 * kLn2, 1e-6);
  check(surprise({0.0f, 0.0f, 0.0f}) == 0.0f);  // an imported move
  check_invalid([&] { surprise({0.5f, kNoTarget, 0.5f}); }, "ply 5: a prior is not in [0, 1]");
  check_invalid([&] { surprise({1.5f, 0.0f, 0.0f}); }, "ply 5: a prior is not in [0, 1]");
}

// Both kinds of buffer give the same targets of the searches, next to those that were there before.
template <class AnyRules>
void check_searches(ReplayBuffer& buffer, const AnyRules& rules, AuxiliaryTargets targets) {
  WeightedGame game = walls(rules, true);
  const std::size_t plies = game.actions.size();
  std::vector<float> root_value, priors(game.legal.size(), 0.125f);
  for (std::size_t ply = 0; ply < plies; ++ply) {
    root_value.push_back(static_cast<float>(ply) / 16 - 0.5f);
  }
  StoredGame view = game.view();
  check_invalid([&] { buffer.add(view); }, "root_value is missing");
  view.root_value = root_value;
  if (targets.search_surprise) {
    check_invalid([&] { buffer.add(view); }, "priors is missing");
    view.priors = std::span<const float>(priors).first(3);
    check_invalid([&] { buffer.add(view); }, "priors has 3 entries");
    priors[static_cast<std::size_t>(game.offsets[7])] = -1.0f;
    view.priors = priors;
    check_invalid([&] { buffer.add(view); }, "ply 7: a prior is not in [0, 1]");
    priors[static_cast<std::size_t>(game.offsets[7])] = 0.125f;
  }
  check(buffer.positions() == 0);
  for (int i = 0; i < 2; ++i) buffer.add(view);  // the first one leaves
  check_rows(buffer, rules, game, [&](std::size_t ply, int symmetry) {
    std::vector<float> expected;
    if (targets.opponent_policy) {
      expected = game.policy(rules, ply + 1, symmetry, ply + 1 < plies);
    }
    if (targets.final_planes) expected.resize(expected.size() + 25, kNoTarget);
    if (targets.final_score) expected.push_back(kNoTarget);
    if (targets.root_value) expected.push_back(root_value[ply]);
    if (targets.search_surprise) {
      const auto weights = view.policy_weights_at(ply);
      expected.push_back(search_surprise(weights, view.priors_at(ply), ply));
    }
    if (targets.plies_to_end) expected.push_back(static_cast<float>(plies - ply));
    return expected;
  });
}

void searches_of_a_game() {
  AuxiliaryTargets everything = kAll;
  everything.root_value = everything.search_surprise = everything.plies_to_end = true;
  for (const AuxiliaryTargets& targets :
       {everything, AuxiliaryTargets{.root_value = true}, AuxiliaryTargets{.plies_to_end = true},
        AuxiliaryTargets{.final_score = true, .search_surprise = true}}) {
    const FixedRules<Go<5>> rules("go", Go<5>(GoRules{0.5f, true, 50}));
    ReplayBufferOf<Go<5>> buffer(rules, {.max_positions = 100, .max_games = 1}, 0.5, targets);
    check_searches(buffer, rules, targets);
    const DynamicGame& dynamic = dynamic_game("go(size=5,komi=0.5)");
    check_searches(*make_replay_buffer(dynamic.name(), {100, 1}, 0.5, targets), dynamic, targets);
  }
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"a reply is the next full search's policy", a_reply_is_the_next_full_searchs_policy},
      {"endings of a fixed game", endings_of_a_fixed_game},
      {"endings behind virtual calls", endings_behind_virtual_calls},
      {"each target alone", each_target_alone},
      {"surprise by hand", surprise_by_hand},
      {"searches of a game", searches_of_a_game},
  });
}
