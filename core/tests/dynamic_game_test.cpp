// Search and replay of a game behind virtual calls in which a player may move twice.
#include "zerofleet/dynamic_game.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "check.h"
#include "position_reference.h"
#include "zerofleet/replay_buffer.h"
#include "zerofleet/replay_moves.h"
#include "zerofleet/search.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_near;
using test::perfect_result;

constexpr int kPile = 11;

// A pile of tokens: take one and the other player moves, or take two and move again. The player
// who takes the last token wins.
class Pile final : public DynamicState {
 public:
  std::unique_ptr<DynamicState> clone() const override { return std::make_unique<Pile>(*this); }
  int ply() const override { return ply_; }
  Player to_play() const override { return to_play_; }
  bool is_terminal() const override { return tokens_ == 0; }
  int result() const override { return is_terminal() ? (last_ == kFirstPlayer ? 1 : -1) : 0; }
  std::uint64_t hash() const override {
    return mix_bits(static_cast<std::uint64_t>(2 * tokens_ + to_play_ + 1));
  }
  bool is_legal(int action) const override {
    return (action == 0 && tokens_ >= 1) || (action == 1 && tokens_ >= 2);
  }
  std::vector<Action> legal_actions() const override {
    std::vector<Action> actions;
    for (const Action action : {0, 1}) {
      if (is_legal(action)) actions.push_back(action);
    }
    return actions;
  }
  void apply(Action action) override {
    tokens_ -= action == 0 ? 1 : 2;
    last_ = to_play_;
    if (action == 0) to_play_ = static_cast<Player>(1 - to_play_);
    ++ply_;
  }
  void write_observation(std::span<std::uint8_t> packed) const override {
    std::fill(packed.begin(), packed.end(), std::uint8_t{0});
    packed[0] = static_cast<std::uint8_t>(tokens_ << 1 | to_play_);
  }
  std::string to_string() const override { return std::to_string(tokens_); }

 private:
  int tokens_ = kPile;
  Player to_play_ = kFirstPlayer;
  Player last_ = kFirstPlayer;
  int ply_ = 0;
};

class PileRules : public DynamicRules {
 public:
  GameShape shape() const override { return {2, 8, 1, 1, kPile, 1}; }
  std::unique_ptr<DynamicState> start() const override { return std::make_unique<Pile>(); }
  int symmetric_point(int point, int) const override { return point; }
  int symmetric_action(int action, int) const override { return action; }
  std::string action_to_string(Action action) const override { return std::to_string(action); }
  std::optional<Action> string_to_action(std::string_view text) const override {
    if (text == "0") return Action{0};
    if (text == "1") return Action{1};
    return std::nullopt;
  }
};

// The same before a board of more points than an action can number; symmetry 1 is a half turn.
class WideRules final : public PileRules {
 public:
  static constexpr int kSide = 200;

  GameShape shape() const override { return {2, 1, kSide, kSide, kPile, 2}; }
  int symmetric_point(int point, int) const override { return kSide * kSide - 1 - point; }
};

DynamicGame pile() { return {"pile", std::make_shared<PileRules>()}; }

// The search, told nothing by its predictions, comes to the true value of every position.
void values_belong_to_whoever_moves() {
  const DynamicGame game = pile();
  const Puct puct{SearchConfig()};
  Random random(1);
  for (int taken = 0; taken < kPile; ++taken) {
    const std::vector<int> actions(static_cast<std::size_t>(taken), 0);
    const DynamicPosition root = position_after(game, std::span<const int>(actions));
    Search<DynamicPosition> search;
    search.set_root(root);
    Leaf<DynamicPosition> leaf;
    while (!search.is_expanded() || search.root_visits() < 4'000) {
      if (search.select<false>(puct, leaf) == Selected::kTerminal) continue;
      LeafPrediction<DynamicPosition> prediction(leaf.position, 0.0f);
      for (float& prior : prediction.priors) {
        prior = 1.0f / static_cast<float>(prediction.num_actions());
      }
      search.expand(leaf, prediction);
      if (leaf.depth == 0) search.start_root({.num_simulations = 4'000}, random);
    }
    check_near(search.root_value(), perfect_result(root), 0.15);
    // The tree kept for the next move belongs to the player who moves there.
    Tree scratch;
    const Action action = search.tree().action[search.best_child()];
    search.advance_root(action, scratch);
    if (search.is_expanded()) check_near(search.root_value(), perfect_result(search.root()), 0.2);
  }
}

void targets_belong_to_whoever_moves() {
  ReplayBufferOf<DynamicPosition> buffer(pile(), {.max_positions = 100, .max_games = 10});
  // Two, two, two, two, two and one: the first player takes them all.
  const std::vector<std::int16_t> actions = {1, 1, 1, 1, 1, 0};
  const bool full[] = {true, true, true, true, true, true};
  const std::vector<std::int32_t> offsets = {0, 2, 4, 6, 8, 10, 11};
  const std::vector<std::int16_t> children = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
  const std::vector<std::int32_t> weights = {1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 4};
  check(buffer.add({actions, 1, full, offsets, children, weights}) == 6);
  std::vector<std::uint8_t> observations(50);
  std::vector<float> policies(100);
  std::vector<float> values(50);
  std::vector<std::int32_t> plies(50), lengths(50);
  std::vector<std::int64_t> games(50);
  buffer.sample(1, true, {observations, policies, values, plies, lengths, games});
  for (std::size_t row = 0; row < values.size(); ++row) {
    check(values[row] == 1.0f);
    check(observations[row] == static_cast<std::uint8_t>((kPile - 2 * plies[row]) << 1));
    check(policies[2 * row + 1] == (plies[row] == 5 ? 0.0f : 0.75f));
    check(lengths[row] == 6 && games[row] == 0);
  }
}

// Who moves again does not reply to himself.
void a_reply_is_the_opponents() {
  ReplayBufferOf<DynamicPosition> buffer(pile(), {.max_positions = 100, .max_games = 10}, 1.0,
                                         {.opponent_policy = true});
  const std::vector<std::int16_t> actions = {0, 1, 0, 1, 1, 1, 0};
  const bool full[] = {true, true, true, true, true, true, true};
  const std::vector<std::int32_t> offsets = {0, 2, 4, 6, 8, 10, 12, 13};
  const std::vector<std::int16_t> children = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0};
  const std::vector<std::int32_t> weights = {1, 0, 1, 3, 1, 0, 3, 1, 1, 0, 1, 0, 4};
  check(buffer.add({actions, 1, full, offsets, children, weights}) == 7);
  std::vector<std::uint8_t> observations(100);
  std::vector<float> policies(200), values(100), replies(200);
  std::vector<std::int32_t> plies(100), lengths(100);
  std::vector<std::int64_t> games(100);
  buffer.sample(1, true,
                {.observations = observations,
                 .policy_targets = policies,
                 .value_targets = values,
                 .plies = plies,
                 .game_lengths = lengths,
                 .game_indices = games,
                 .auxiliary_targets = replies});
  for (std::size_t row = 0; row < values.size(); ++row) {
    // The second player moves at plies 1 and 2, the first at all others.
    const float reply = plies[row] == 0 ? 0.75f : plies[row] == 2 ? 0.25f : kNoTarget;
    check(std::isnan(reply) ? std::isnan(replies[2 * row + 1]) : replies[2 * row + 1] == reply);
  }
}

void a_board_may_have_more_points_than_actions() {
  const DynamicGame game("wide", std::make_shared<WideRules>());
  std::vector<std::uint8_t> board(game.observation_bytes());
  board[39'200 / 8] = 0x80;
  std::vector<std::uint8_t> moved(board.size());
  game.transform_observation(board, 0, moved);
  check(moved == board);
  game.transform_observation(board, 1, moved);
  std::vector<std::uint8_t> expected(board.size());
  expected[799 / 8] = 0x01;
  check(moved == expected);
  check(game.inverse_symmetry(1) == 1);
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"search", values_belong_to_whoever_moves},
      {"replay", targets_belong_to_whoever_moves},
      {"replies", a_reply_is_the_opponents},
      {"many points", a_board_may_have_more_points_than_actions},
  });
}
