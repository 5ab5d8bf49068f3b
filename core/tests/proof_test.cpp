// Results that are certain: backed up exactly, and only where they are true.
#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "check.h"
#include "hash_predictor.h"
#include "position_reference.h"
#include "zerofleet/games.h"
#include "zerofleet/random.h"
#include "zerofleet/replay_moves.h"
#include "zerofleet/search.h"
#include "zerofleet/self_play.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_near;
using test::perfect_result;
using test::prediction_of;

SearchConfig proving_config(bool decisive_moves = false) {
  SearchConfig config;
  config.prove_results = true;
  config.decisive_moves = decisive_moves;
  return config;
}

template <Game G>
void simulate(Search<G>& search, int visits, const RootPlan& plan = {},
              const SearchConfig& config = proving_config()) {
  const Puct puct(config);
  Random random(5);
  while (!search.is_expanded() || (search.root_visits() < visits && !search.is_proven())) {
    Leaf<G> leaf;
    if (search.template select<false>(puct, leaf) == Selected::kTerminal) continue;
    search.expand(leaf, prediction_of(leaf.position));
    if (leaf.depth == 0) search.start_root(plan, random);
  }
}

// The same with several leaves out at once, which come back after others were proven.
template <Game G>
void simulate_many(Search<G>& search, int visits, const SearchConfig& config) {
  const Puct puct(config);
  Random random(5);
  std::vector<Leaf<G>> out;
  while (!search.is_expanded() || (search.root_visits() < visits && !search.is_proven())) {
    Leaf<G> leaf;
    const Selected selected = search.template select<true>(puct, leaf);
    if (selected == Selected::kTerminal) continue;
    if (selected == Selected::kLeaf) {
      search.hold(leaf);
      out.push_back(leaf);
    }
    if (selected == Selected::kLeaf && leaf.depth > 0 && out.size() < 5) continue;
    for (const Leaf<G>& back : out) {
      search.release(back);
      search.expand(back, prediction_of(back.position));
      if (back.depth == 0) search.start_root({}, random);
    }
    out.clear();
  }
  for (const Leaf<G>& back : out) {
    search.release(back);
    search.expand(back, prediction_of(back.position));
  }
}

// Every proven node says what is true, every edge to one has its exact value, and every node of
// which enough is known is proven. Returns the number of proven nodes that are not terminal.
template <Game G>
int check_proofs(const Tree& tree, NodeId node, const G& position, bool decisive_moves = false) {
  if (tree.is_proven(node)) {
    check(tree.proven_value(node) == static_cast<float>(perfect_result(position)));
  }
  int proven = tree.is_proven(node) && tree.edge_count[node] > 0;
  bool all = tree.edge_count[node] > 0;
  bool some_won = false;
  for (int i = 0; i < tree.edge_count[node]; ++i) {
    const EdgeId edge = tree.first_edge[node] + static_cast<EdgeId>(i);
    check(std::abs(tree.value_sum[edge]) <= static_cast<float>(tree.visit_count[edge]) + 1e-3f);
    const NodeId child = tree.child[edge];
    if (child == kUnexpanded) {
      all = false;
      continue;
    }
    G next = position;
    next.apply(tree.action[edge]);
    if (tree.is_proven(child)) {
      const float sign = next.to_play() == position.to_play() ? 1.0f : -1.0f;
      const float value = sign * tree.proven_value(child);
      check_near(tree.value_sum[edge], value * static_cast<float>(tree.visit_count[edge]), 1e-4);
      some_won |= value == 1.0f;
    } else {
      check(!next.is_terminal() && !(decisive_moves && decided_value(next)));
      all = false;
    }
    proven += check_proofs(tree, child, next, decisive_moves);
  }
  if (tree.edge_count[node] > 0) {
    const bool is_decided = decisive_moves && node == kRoot && decided_value(position);
    check(tree.is_proven(node) == (all || some_won || is_decided));
  }
  return proven;
}

template <Game G>
void proofs_are_true(int plies, bool decisive_moves, bool many_out = false) {
  Random random(41);
  int proven = 0;
  for (int i = 0; i < 100; ++i) {
    G position;
    while (position.ply() < plies && !position.is_terminal()) {
      const auto actions = position.legal_actions();
      position.apply(actions[static_cast<int>(random.below(actions.size()))]);
    }
    if (position.is_terminal()) continue;
    Search<G> search;
    search.set_root(position);
    for (const int visits : {20, 100, 400}) {
      if (many_out) {
        simulate_many(search, visits, proving_config(decisive_moves));
      } else {
        simulate(search, visits, {.noise_fraction = 0.25, .noise_alpha = 0.5},
                 proving_config(decisive_moves));
      }
      proven += check_proofs(search.tree(), kRoot, position, decisive_moves);
      if (search.is_proven())
        check(search.root_value() == static_cast<float>(perfect_result(position)));
    }
  }
  check(proven > (many_out ? 10 : decisive_moves ? 30 : 50));
}

// x x .   The first player moves and wins by square 2.
// o o .
// o x .
void a_win_ends_the_search() {
  Search<TicTacToe> search;
  search.set_root(
      position_after(FixedRules<TicTacToe>(), std::span<const int>(std::array{0, 3, 1, 4, 7, 6})));
  simulate(search, 100);
  check(search.is_proven() && search.root_value() == 1.0f);
  check(search.root_visits() < 20);
  std::vector<std::int32_t> weights;
  search.policy_weights(Puct(proving_config()), weights);
  check(weights[0] > 0 && weights[1] == 0 && weights[2] == 0);
  check(search.best_child() == 0);
  Random random(1);
  for (int i = 0; i < 20; ++i) check(search.choose(weights, 1.0, random) == 0);
}

// x . .   The second player must take 6; all else loses, and is not visited once that is certain.
// x o .
// . . .
void a_lost_move_is_not_searched_again() {
  Search<TicTacToe> search;
  search.set_root(
      position_after(FixedRules<TicTacToe>(), std::span<const int>(std::array{0, 4, 3})));
  const Tree& tree = search.tree();
  std::array<int, 6> visits_when_lost{};
  for (int visits = 1; visits <= 3'000 && !search.is_proven(); ++visits) {
    simulate(search, visits);
    for (int i = 0; i < tree.edge_count[kRoot]; ++i) {
      const NodeId child = tree.child[i];
      if (child == kUnexpanded || tree.proof[child] != Proof::kWin) continue;
      int& when_lost = visits_when_lost.at(static_cast<std::size_t>(i));
      if (when_lost == 0) when_lost = tree.visit_count[i];
      check(tree.visit_count[i] == when_lost);
    }
  }
  std::vector<std::int32_t> weights;
  search.policy_weights(Puct(proving_config()), weights);
  for (int i = 0; i < tree.edge_count[kRoot]; ++i) {
    const bool saves = tree.action[i] == 6;
    check(saves == (weights[i] > 0));
    check(saves == (visits_when_lost.at(static_cast<std::size_t>(i)) == 0));
    check(!saves || search.best_child() == i);
  }
  check(search.is_proven() && search.root_value() == 0.0f);
}

// O O O stand in the second row, and X may not go under the fourth: that column is lost. It is due
// visits forever, because it no longer gets any. The other columns still get their due visits.
void a_lost_child_takes_no_visits_from_those_behind_it() {
  Search<ConnectFour> search;
  search.set_root(position_after(FixedRules<ConnectFour>(),
                                 std::span<const int>(std::array{1, 1, 3, 3, 6, 4, 4, 2, 6, 2})));
  const Puct puct(proving_config());
  Random random(5);
  Leaf<ConnectFour> leaf;
  while (!search.is_expanded() || search.root_visits() < 200) {
    if (search.select<false>(puct, leaf) == Selected::kTerminal) continue;
    // Only column 3 is any good.
    const bool is_good = leaf.depth > 0 && search.tree().action[leaf.path[0]] == 3;
    LeafPrediction<ConnectFour> prediction(leaf.position, 0.0f);
    prediction.value = !is_good ? 0.0f : leaf.depth % 2 == 0 ? 0.7f : -0.7f;
    prediction.priors.fill(0.06f);
    prediction.priors[0] = 0.24f;
    prediction.priors[3] = 0.46f;
    search.expand(leaf, prediction);
    if (leaf.depth == 0) search.start_root({.forced_playouts = 2.0f}, random);
  }
  const Tree& tree = search.tree();
  check(tree.proof[tree.child[0]] == Proof::kWin);  // the opponent's
  for (int i = 1; i < tree.edge_count[kRoot]; ++i) {
    const double due = std::sqrt(2.0 * tree.prior[i] * search.root_visits());
    check(tree.visit_count[i] + 1.0 >= due);
  }
}

// Games of self-play whose last moves are proven: what was certain is how they end.
void games_end_as_was_proven(const char* game_name, bool decisive_moves) {
  SearchConfig config = proving_config(decisive_moves);
  config.num_simulations = 60;
  config.play_pruned = false;
  const auto engine = make_self_play(game_name, 16, config, 3);
  test::HashPredictor predictor(engine->row_shape());
  int certain = 0;
  int games = 0;
  while (games < 60) {
    engine->backup(predictor.predict(engine->select(), 1));
    for (const GameColumns& game : engine->take_finished()) {
      ++games;
      for (std::size_t ply = 0; ply < game.action.size(); ++ply) {
        if (std::abs(game.root_value[ply]) < 1.0f) continue;
        ++certain;
        check(*game.result == (game.to_play[ply] == kFirstPlayer ? 1 : -1) *
                                  static_cast<int>(game.root_value[ply]));
      }
    }
  }
  check(certain > 50);
}

// X has three in the bottom row with both ends open, and is to move: the search needs one visit,
// however small the network's priors of the two ends are, and takes the likelier one.
void a_decisive_move_is_visited_first(bool gumbel) {
  Search<ConnectFour> search;
  search.set_root(position_after(FixedRules<ConnectFour>(),
                                 std::span<const int>(std::array{3, 3, 2, 2, 4, 4})));
  const Puct puct(proving_config(true));
  Random random(5);
  Leaf<ConnectFour> leaf;
  check(search.select<false>(puct, leaf) == Selected::kLeaf);
  LeafPrediction<ConnectFour> prediction(leaf.position, -0.9f);
  prediction.priors.fill(0.1f);
  prediction.priors[1] = 1e-6f;
  prediction.priors[5] = 2e-6f;
  search.expand(leaf, prediction);
  RootPlan plan{.num_simulations = 50};
  if (gumbel) plan.gumbel = {.actions = 2};
  search.start_root(plan, random);
  check(search.select<false>(puct, leaf) == Selected::kTerminal);
  check(search.is_proven() && search.root_visits() == 1);
  std::vector<std::int32_t> weights;
  search.policy_weights(puct, weights);
  for (int i = 0; i < 7; ++i) check((weights[i] > 0) == (i == 5));
  check(search.best_child() == 5 && search.choose(weights, 1.0, random) == 5);
}

// A position below the root that its player wins at once is lost for the other player, after one
// visit and without the network. It has no children to keep: as a root it needs the network, and is
// won.
void a_reply_that_wins_is_seen() {
  Search<ConnectFour> search;
  // X has three in the bottom row with both ends open; wherever O moves but there, X wins at once.
  search.set_root(
      position_after(FixedRules<ConnectFour>(), std::span<const int>(std::array{3, 3, 2, 2, 4})));
  simulate(search, 50, {}, proving_config(true));
  const Tree& tree = search.tree();
  check(search.is_proven() && search.root_value() == -1.0f && search.root_visits() == 7);
  for (int i = 0; i < tree.edge_count[kRoot]; ++i) check(tree.edge_count[tree.child[i]] == 0);
  Tree scratch;
  search.advance_root(0, scratch);
  check(!search.is_expanded());
  simulate(search, 50, {}, proving_config(true));
  check(search.is_proven() && search.root_value() == 1.0f && search.root_visits() == 1);
}

// The line that is shown to people ends with the decisive move, which has no node.
void lines_end_with_the_decisive_move() {
  SearchConfig config = proving_config(true);
  config.num_simulations = 50;
  const auto engine = make_position_search("connect_four", {{3, 3, 2, 2, 4}}, config, 1, {});
  test::HashPredictor predictor(engine->row_shape());
  while (!engine->is_done()) engine->backup(predictor.predict(engine->select(), 1));
  const SearchResult result = engine->results().front();
  check(result.root_value == -1.0f);
  for (const std::vector<int>& line : result.principal_variations) {
    check(line.size() == 2);
    check(line[1] == (line[0] == 1 ? 5 : 1));
  }
}

// `ending_actions` holds every action that ends the game.
template <Game G>
void ending_actions_are_complete(const Rules<G>& rules) {
  Random random(7);
  int ends = 0;
  for (int game = 0; game < 300; ++game) {
    G position = rules.start();
    while (!position.is_terminal()) {
      const auto actions = position.legal_actions();
      const auto ending = position.ending_actions();
      for (const Action action : ending) check(position.is_legal(action));
      for (const Action action : actions) {
        G next = position;
        next.apply(action);
        if (!next.is_terminal()) continue;
        ++ends;
        check(std::find(ending.begin(), ending.end(), action) != ending.end());
      }
      // Passes are rare among many points.
      const bool passes = random.uniform() < 0.2 && position.is_legal(rules.num_actions() - 1);
      position.apply(passes ? static_cast<Action>(rules.num_actions() - 1)
                            : actions[static_cast<int>(random.below(std::size(actions)))]);
    }
  }
  check(ends > 300);
}

// The kept tree keeps what is proven.
void a_new_root_is_proven_already() {
  Search<TicTacToe> search;
  search.set_root(
      position_after(FixedRules<TicTacToe>(), std::span<const int>(std::array{0, 4, 3})));
  simulate(search, 3'000);
  Tree scratch;
  search.advance_root(6, scratch);
  check(search.is_proven());
  check_proofs(search.tree(), kRoot, search.root());
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"true proofs, tic-tac-toe",
       [] {
         proofs_are_true<TicTacToe>(2, false);
         proofs_are_true<TicTacToe>(2, true);
       }},
      {"true proofs, Connect Four",
       [] {
         proofs_are_true<ConnectFour>(32, false);
         proofs_are_true<ConnectFour>(30, true);
       }},
      {"true proofs, Othello", [] { proofs_are_true<Othello>(52, true); }},
      {"a win ends the search", a_win_ends_the_search},
      {"lost moves", a_lost_move_is_not_searched_again},
      {"lost moves and forced visits", a_lost_child_takes_no_visits_from_those_behind_it},
      {"certain games",
       [] {
         games_end_as_was_proven("connect_four", false);
         games_end_as_was_proven("connect_four", true);
         games_end_as_was_proven("othello", true);
         games_end_as_was_proven("mnk(m=4,n=4,k=3)", true);
         games_end_as_was_proven("go(size=5,komi=0.5,max_length=30)", true);
       }},
      {"kept proofs", a_new_root_is_proven_already},
      {"leaves out while others are proven",
       [] {
         proofs_are_true<TicTacToe>(2, false, true);
         proofs_are_true<ConnectFour>(32, false, true);
         proofs_are_true<ConnectFour>(30, true, true);
       }},
      {"decisive moves at the root",
       [] {
         a_decisive_move_is_visited_first(false);
         a_decisive_move_is_visited_first(true);
       }},
      {"lines to the end", lines_end_with_the_decisive_move},
      {"decisive replies", a_reply_that_wins_is_seen},
      {"ending actions, Go",
       [] {
         const Go<5> start({.komi = 0.5f, .suicide = false, .max_length = 20});
         ending_actions_are_complete<Go<5>>(FixedRules<Go<5>>("go", start));
       }},
      {"ending actions, rows", [] { ending_actions_are_complete<Gomoku>(FixedRules<Gomoku>()); }},
      {"ending actions behind virtual calls",
       [] { ending_actions_are_complete<DynamicPosition>(to_dynamic(FixedRules<Othello>())); }},
  });
}
