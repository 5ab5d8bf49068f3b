#include "zerofleet/search.h"

#include <cmath>
#include <vector>

#include "check.h"
#include "position_reference.h"
#include "zerofleet/games.h"
#include "zerofleet/replay_moves.h"
#include "zerofleet/root_view.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_near;
using test::prediction_of;

// The same with equal priors and value 0.
template <Game G>
LeafPrediction<G> know_nothing(const G& position) {
  LeafPrediction<G> prediction(position, 0.0f);
  softmax(prediction.priors.data(), prediction.actions.size());
  return prediction;
}

template <Game G, class Predict>
void simulate(Search<G>& search, int visits, const Predict& predict_leaf,
              const RootPlan& plan = {}) {
  const Puct puct{SearchConfig()};
  Random random(5);
  while (!search.is_expanded() || search.root_visits() < visits) {
    Leaf<G> leaf;
    if (search.template select<false>(puct, leaf) == Selected::kTerminal) continue;
    search.expand(leaf, predict_leaf(leaf.position));
    if (leaf.depth == 0) search.start_root(plan, random);
  }
}

// Every promise that tree.h and search.h make about a tree at rest.
template <Game G>
void check_tree(const Search<G>& search) {
  const Tree& tree = search.tree();
  double root_value = tree.value[kRoot];
  int nodes_reached = 1;
  for (NodeId node = 0; node < tree.num_nodes(); ++node) {
    const EdgeId first = tree.first_edge[node];
    float priors = 0;
    for (EdgeId edge = first; edge < first + tree.edge_count[node]; ++edge) {
      priors += tree.prior[edge];
      check(tree.leaves_out[edge] == 0);
      check((tree.visit_count[edge] == 0) == (tree.child[edge] == kUnexpanded));
      check(std::abs(tree.value_sum[edge]) <= static_cast<float>(tree.visit_count[edge]) + 1e-3f);
      if (node == kRoot) root_value += tree.value_sum[edge];
      if (tree.child[edge] == kUnexpanded) continue;
      const double squares = sum_of_squares(tree, edge);  // no variance is negative
      check(squares <= tree.visit_count[edge] + 1e-3);
      check(squares * tree.visit_count[edge] >= tree.value_sum[edge] * tree.value_sum[edge] - 1e-2);
      ++nodes_reached;
      const NodeId child = tree.child[edge];
      double value = tree.value[child];  // W of an edge is minus all that its node has seen
      int visits = 1;
      for (EdgeId below = tree.first_edge[child];
           below < tree.first_edge[child] + tree.edge_count[child]; ++below) {
        visits += tree.visit_count[below];
        value += tree.value_sum[below];
      }
      if (tree.edge_count[child] == 0) value *= visits = tree.visit_count[edge];
      check(tree.visit_count[edge] == visits);
      check_near(tree.value_sum[edge], -value, 1e-3);
    }
    if (tree.edge_count[node] > 0) check_near(priors, 1.0, 1e-5);
  }
  int root_visits = 0;
  for (int i = 0; i < tree.edge_count[kRoot]; ++i) root_visits += tree.visit_count[i];
  check(search.root_visits() == root_visits);
  check_near(search.root_value(), root_value / (1 + root_visits), 1e-4);
  check(nodes_reached == static_cast<int>(tree.num_nodes()));
  check(tree.num_nodes() <= static_cast<std::uint32_t>(root_visits) + 1);
}

// Three simulations worked out on paper: one action left to try at a time.
void a_tree_by_hand() {
  // x x .   The first player moves to square 2 (and wins), 5 or 8: priors 0.2, 0.5, 0.3. Below,
  // o o .   two squares are left: priors 0.5 each. Every value is 0.1 for the player to move.
  // o x .
  Search<TicTacToe> search;
  search.set_root(
      position_after(FixedRules<TicTacToe>(), std::span<const int>(std::array{0, 3, 1, 4, 7, 6})));
  const auto given = [](const TicTacToe& position) {
    LeafPrediction<TicTacToe> prediction(position, 0.1f);
    prediction.priors = {0.5f, 0.5f};
    if (prediction.actions.size() == 3) prediction.priors = {0.2f, 0.5f, 0.3f};
    if (prediction.actions.size() == 1) prediction.priors = {1.0f};
    return prediction;
  };
  simulate(search, 1, given);
  const Tree& tree = search.tree();
  check(tree.edge_count[kRoot] == 3);
  check(tree.action[0] == 2 && tree.action[1] == 5 && tree.action[2] == 8);
  // 1: nothing visited, equal Q: the prior decides for square 5. Its player sees -0.1.
  check(tree.visit_count[1] == 1);
  check_near(tree.value_sum[1], -0.1);
  check_near(search.root_value(), (0.1 - 0.1) / 2);
  // 2: unvisited Q = 0 - 0.2 * sqrt(0.5) = -0.1414; exploration 1.5 * sqrt(1).
  //    square 2: -0.1414 + 0.30 = 0.1586; square 5: -0.1 + 0.375 = 0.275; square 8: 0.3086.
  simulate(search, 2, given);
  check(tree.visit_count[2] == 1);
  check_near(tree.visited_prior[kRoot], 0.8);
  // 3: V = (0.1 - 0.2) / 3; unvisited Q = -0.0333 - 0.2 * sqrt(0.8) = -0.2122; 1.5 * sqrt(2).
  //    square 2: -0.2122 + 0.4243 = 0.2121; square 5: -0.1 + 0.5303 = 0.4303; 8: 0.2182.
  simulate(search, 3, given);
  check(tree.visit_count[1] == 2);
  check(tree.visit_count[0] == 0);
  check_tree(search);
  // Later the win is found, and its value is exact.
  simulate(search, 40, given);
  check(tree.child[0] != kUnexpanded && tree.edge_count[tree.child[0]] == 0);
  check_near(tree.value_sum[0], tree.visit_count[0]);
  check(tree.visit_count[0] > 30);
}

template <Game G>
void invariants_hold_along_random_games() {
  Tree scratch;
  for (int seed = 0; seed < 6; ++seed) {
    Random random(100 + seed);
    Search<G> search;
    while (!search.root().is_terminal()) {
      simulate(search, 60, prediction_of<G>, {.noise_fraction = 0.25, .noise_alpha = 0.5});
      check_tree(search);
      const auto actions = search.root().legal_actions();
      const Action action = actions[static_cast<int>(random.below(actions.size()))];
      search.advance_root(action, scratch);
      if (search.is_expanded()) {
        search.start_root({.noise_fraction = 0.25, .noise_alpha = 0.5}, random);
        check_tree(search);
      }
    }
  }
}

// The stored sums are those of the subtrees, with proofs and after a move too.
void sums_of_squares_are_kept() {
  SearchConfig config;
  config.c_puct_stdev_scale = 0.85;
  config.prove_results = true;
  const Puct puct(config);
  Tree scratch;
  Search<TicTacToe> search;
  Random random(3);
  while (!search.root().is_terminal()) {
    const int visits = search.root_visits() + 60;
    while (!search.is_expanded() || (search.root_visits() < visits && !search.is_proven())) {
      Leaf<TicTacToe> leaf;
      if (search.select<false>(puct, leaf) == Selected::kTerminal) continue;
      search.expand(leaf, prediction_of(leaf.position));
      if (leaf.depth == 0) search.start_root({}, random);
    }
    const Tree& tree = search.tree();
    double at_root = tree.value[kRoot] * tree.value[kRoot];
    for (EdgeId edge = 0; edge < tree.num_edges(); ++edge) {
      if (tree.child[edge] == kUnexpanded) continue;
      check_near(tree.square_sum[tree.child[edge]], sum_of_squares(tree, edge), 1e-2);
      if (edge < tree.edge_count[kRoot]) at_root += sum_of_squares(tree, edge);
    }
    // A root that was proven before its move was played has the squares of its result.
    if (!search.is_proven()) check_near(tree.square_sum[kRoot], at_root, 1e-2);
    search.advance_root(search.root().legal_actions()[0], scratch);
    if (search.is_expanded()) search.start_root({}, random);
  }
}

// Walks two trees side by side.
void check_same_subtree(const Tree& a, NodeId in_a, const Tree& b, NodeId in_b) {
  check(a.edge_count[in_a] == b.edge_count[in_b]);
  check(a.value[in_a] == b.value[in_b]);
  for (int i = 0; i < a.edge_count[in_a]; ++i) {
    const EdgeId x = a.first_edge[in_a] + i;
    const EdgeId y = b.first_edge[in_b] + i;
    check(a.action[x] == b.action[y] && a.prior[x] == b.prior[y]);
    check(a.visit_count[x] == b.visit_count[y] && a.value_sum[x] == b.value_sum[y]);
    check((a.child[x] == kUnexpanded) == (b.child[y] == kUnexpanded));
    if (a.child[x] != kUnexpanded) check_same_subtree(a, a.child[x], b, b.child[y]);
  }
}

void a_new_root_keeps_its_subtree_exactly() {
  Search<ConnectFour> search;
  simulate(search, 400, prediction_of<ConnectFour>);
  const Tree before = search.tree();
  Tree scratch;
  search.advance_root(3, scratch);
  check(search.is_expanded());
  check(search.root_visits() == before.visit_count[3] - 1);
  check_same_subtree(before, before.child[3], search.tree(), kRoot);
  check_near(search.root_value(), -before.value_sum[3] / before.visit_count[3], 1e-5);
  check(search.tree().num_nodes() < before.num_nodes());
}

void an_action_never_visited_starts_an_empty_tree() {
  Search<ConnectFour> search;
  Tree scratch;
  simulate(search, 1, know_nothing<ConnectFour>);
  search.advance_root(6, scratch);
  check(!search.is_expanded() && search.root_visits() == 0);
  check(search.root().ply() == 1);
}

void a_forced_win_is_found() {
  // x at 0 and 4, o at 1 and 2... first to move wins by 8 at once.
  Search<TicTacToe> search;
  search.set_root(
      position_after(FixedRules<TicTacToe>(), std::span<const int>(std::array{0, 1, 4, 2})));
  simulate(search, 100, know_nothing<TicTacToe>);
  const EdgeWindow children = search.tree().edges_of(kRoot);
  int best = 0;
  for (int i = 1; i < children.count; ++i) {
    if (children.visit_count[i] > children.visit_count[best]) best = i;
  }
  check(search.tree().action[best] == 8);
  check(search.root_value() > 0.8f);
  // A double threat: after 0 1 3 the second player must answer 6, else it loses at once; the
  // first player wins anyhow with 4 next (3 4 5 and 0 4 8).
  search.set_root(
      position_after(FixedRules<TicTacToe>(), std::span<const int>(std::array{0, 1, 3, 6})));
  simulate(search, 400, know_nothing<TicTacToe>);
  const EdgeWindow replies = search.tree().edges_of(kRoot);
  best = 0;
  for (int i = 1; i < replies.count; ++i) {
    if (replies.visit_count[i] > replies.visit_count[best]) best = i;
  }
  check(search.tree().action[best] == 4);
  check(search.root_value() > 0.8f);
}

void virtual_loss_keeps_leaves_apart_and_is_returned() {
  const Puct puct{SearchConfig()};
  Search<ConnectFour> search;
  simulate(search, 20, prediction_of<ConnectFour>);
  std::vector<Leaf<ConnectFour>> leaves;
  while (leaves.size() < 8) {
    Leaf<ConnectFour> leaf;
    if (search.select<true>(puct, leaf) != Selected::kLeaf) break;
    for (const auto& other : leaves) check(!(other.position == leaf.position));
    search.hold(leaf);
    leaves.push_back(leaf);
  }
  check(leaves.size() >= 3);
  check(search.leaves_out() == static_cast<int>(leaves.size()));
  check(search.root_visits() == 20);
  for (const auto& leaf : leaves) {
    search.release(leaf);
    search.expand(leaf, prediction_of(leaf.position));
  }
  check(search.leaves_out() == 0);
  check(search.root_visits() == 20 + static_cast<int>(leaves.size()));
  check_tree(search);
}

void a_leaf_that_is_out_is_not_given_twice() {
  const Puct puct{SearchConfig()};
  Search<TicTacToe> search;  // one action left, then the board is full
  search.set_root(position_after(FixedRules<TicTacToe>(),
                                 std::span<const int>(std::array{0, 1, 2, 4, 3, 5, 7})));
  simulate(search, 0, know_nothing<TicTacToe>);
  Leaf<TicTacToe> first, second, third;
  check(search.select<true>(puct, first) == Selected::kLeaf);
  search.hold(first);
  check(search.select<true>(puct, second) == Selected::kLeaf);
  search.hold(second);
  check(search.select<true>(puct, third) == Selected::kTaken);
}

// However far it has grown: an eighth, and what another node or a small tree may need.
void a_tree_has_little_room_to_spare() {
  Search<ConnectFour> search;
  for (int visits = 1; visits <= 3'000; ++visits) {
    simulate(search, visits, prediction_of<ConnectFour>);
    const Tree& tree = search.tree();
    check(tree.node_bytes() <= (tree.num_nodes() * 9 / 8 + 64) * Tree::kNodeBytes);
    check(tree.edge_bytes() <= (tree.num_edges() * 9 / 8 + 300) * Tree::kEdgeBytes);
  }
}

void noise_moves_only_the_priors_of_the_selection() {
  Search<ConnectFour> plain;
  Search<ConnectFour> noisy;
  simulate(plain, 100, know_nothing<ConnectFour>);
  simulate(noisy, 100, know_nothing<ConnectFour>, {.noise_fraction = 0.25, .noise_alpha = 0.26});
  bool differs = false;
  for (int i = 0; i < 7; ++i) {
    check_near(noisy.tree().prior[i], 1.0 / 7, 1e-6);
    differs |= noisy.tree().visit_count[i] != plain.tree().visit_count[i];
  }
  check(differs);
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"a tree by hand", a_tree_by_hand},
      {"invariants, tic-tac-toe", invariants_hold_along_random_games<TicTacToe>},
      {"invariants, Connect Four", invariants_hold_along_random_games<ConnectFour>},
      {"sums of squares", sums_of_squares_are_kept},
      {"kept subtree", a_new_root_keeps_its_subtree_exactly},
      {"unvisited action", an_action_never_visited_starts_an_empty_tree},
      {"forced win", a_forced_win_is_found},
      {"virtual loss", virtual_loss_keeps_leaves_apart_and_is_returned},
      {"leaf taken", a_leaf_that_is_out_is_not_given_twice},
      {"room to spare", a_tree_has_little_room_to_spare},
      {"noise", noise_moves_only_the_priors_of_the_selection},
  });
}
