// The root of a self-play search: forced visits, pruned targets, Gumbel sampling, by hand.
#include "zerofleet/root_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include "check.h"
#include "zerofleet/engine.h"
#include "zerofleet/games.h"
#include "zerofleet/gumbel_root.h"
#include "zerofleet/puct.h"
#include "zerofleet/puct_root.h"
#include "zerofleet/root_view.h"
#include "zerofleet/search.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_near;

// Columns of the root, padded as the search reads them.
struct Children {
  Children(std::vector<float> priors, std::vector<std::int32_t> visits, std::vector<float> means)
      : count(static_cast<int>(priors.size())), prior(std::move(priors)), visit_count(visits) {
    for (int i = 0; i < count; ++i) value_sum.push_back(means[i] * static_cast<float>(visits[i]));
    prior.resize(round_up_to_lanes(count));
    visit_count.resize(round_up_to_lanes(count));
    value_sum.resize(round_up_to_lanes(count));
    leaves_out.resize(round_up_to_lanes(count));
  }

  EdgeWindow window() const {
    return {prior.data(), visit_count.data(), value_sum.data(), leaves_out.data(), count};
  }

  // The same columns as the root of a tree.
  Tree tree(float network_value) const {
    std::vector<Action> actions(static_cast<std::size_t>(count));
    std::iota(actions.begin(), actions.end(), Action{0});
    Tree tree;
    tree.add_node(actions, prior.data(), network_value, Player{});
    std::copy_n(visit_count.begin(), count, tree.visit_count.begin());
    std::copy_n(value_sum.begin(), count, tree.value_sum.begin());
    return tree;
  }

  int count;
  std::vector<float> prior;
  std::vector<std::int32_t> visit_count;
  std::vector<float> value_sum;
  std::vector<std::uint16_t> leaves_out;
};

RootView view_of(const Tree& tree) {
  const EdgeWindow edges = tree.edges_of(kRoot);
  return {tree, edges, std::accumulate(edges.visit_count, edges.visit_count + edges.count, 0)};
}

GumbelRoot gumbel_root(std::vector<float> priors, const GumbelPlan& plan, int budget,
                       std::uint64_t seed = 1) {
  GumbelRoot root;
  Random random(seed);
  root.start(priors, {}, {.gumbel = plan}, budget, random);
  return root;
}

void a_visited_child_is_due_its_share() {
  const RootPlan plan{.forced_playouts = 2.0f};
  // sum N = 100: due are sqrt(2 * P * 100) = 10, 8.9, 6.3 and 4.5 visits.
  const auto forced = [&](std::vector<std::int32_t> visits, int refuted = -1) {
    const Children children({0.5f, 0.4f, 0.2f, 0.1f}, std::move(visits), {0, 0, 0, 0});
    return forced_child(children.window(), plan, 100.0f,
                        [refuted](int child) { return child != refuted; });
  };
  check(forced({50, 30, 15, 5}) == -1);
  check(forced({9, 70, 15, 6}) == 0);
  check(forced({80, 9, 6, 5}) == 2);
  check(forced({86, 9, 0, 5}) == -1);  // never visited: due nothing
  check(forced({80, 9, 7, 4}) == 3);
  check(forced({80, 3, 6, 5}, 1) == 2);  // those behind a child that is lost have their due
  check(forced({80, 9, 7, 4}, 3) == -1);
  check(forced_visits(plan, 0.4f, 100.0f) == 9);
}

void every_child_may_be_due_a_constant() {
  const RootPlan plan{.min_child_visits = 3};
  const auto forced = [&](std::vector<std::int32_t> visits) {
    const Children children({0.9f, 0.1f, 0.0f, 0.0f, 0.0f}, std::move(visits), {0, 0, 0, 0, 0});
    return forced_child(children.window(), plan, 100.0f, [](int) { return true; });
  };
  check(forced({50, 30, 15, 5, 3}) == -1);
  check(forced({50, 30, 15, 5, 2}) == 4);
  check(forced({50, 0, 0, 3, 3}) == 1);
}

void least_visits_are_what_the_budget_allows() {
  const Children fresh({0.5f, 0.5f, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0});
  check(affordable_child_visits(fresh.window(), 10, 50) == 10);
  check(affordable_child_visits(fresh.window(), 10, 49) == 9);
  check(affordable_child_visits(fresh.window(), 10, 4) == 0);
  // In a kept tree, 3 for all cost 1 + 1, 4 for all 1 + 2 + 1 + 2, 5 for all 2 + 3 + 2 + 3.
  const Children kept({0.5f, 0.5f, 0, 0, 0}, {3, 2, 60, 3, 2}, {0, 0, 0, 0, 0});
  check(affordable_child_visits(kept.window(), 10, 10) == 5);
  check(affordable_child_visits(kept.window(), 10, 9) == 4);
  check(affordable_child_visits(kept.window(), 10, 5) == 3);
  check(affordable_child_visits(kept.window(), 10, 1) == 2);
  check(affordable_child_visits(kept.window(), 4, 1'000) == 4);
  check(affordable_child_visits(kept.window(), 0, 1'000) == 0);
}

std::vector<std::int32_t> pruned(const Children& children, float exploration, float total,
                                 int refuted = -1) {
  std::vector<std::int32_t> weights(children.visit_count.begin(),
                                    children.visit_count.begin() + children.count);
  if (refuted >= 0) weights[refuted] = 0;
  prune_forced(children.window(), {.forced_playouts = 2.0f, .prune_targets = true}, exploration,
               total, weights);
  return weights;
}

void visits_that_forcing_caused_leave_the_target() {
  // sum N = 100, exploration 15. The best child: 0.2 + 15 * 0.5 / 71 = 0.3056.
  // Child 1: -0.3 + 15 * 0.3 / (1 + n) < 0.3056 from n = 7 (0.2625) on; due are 8 of its 20
  // visits, so 12 stay: the formula alone would have given no more than 7, but only forced visits
  // may go. Child 2: mean 0.4 is above the best score, so all visits stay. Child 3: from n = 1
  // (-0.9 + 0.75 * 1.5 ...) the forced 5 of 5 may go down to a single one, which goes as well.
  const Children children({0.5f, 0.3f, 0.1f, 0.1f}, {70, 20, 5, 5}, {0.2f, -0.3f, 0.4f, -0.9f});
  check(pruned(children, 15.0f, 100.0f) == std::vector<std::int32_t>{70, 12, 5, 0});
  // With more exploration child 3 deserves floor(30 * 0.1 / (0.4113 + 0.9)) = 2 visits, and
  // child 1 floor(30 * 0.3 / 0.7113) = 12 of its own.
  check(pruned(children, 30.0f, 100.0f) == std::vector<std::int32_t>{70, 12, 5, 2});
  // 13 at 33: floor(33 * 0.3 / (0.2 + 33 * 0.5 / 71 + 0.3)) = floor(9.9 / 0.7324) = 13.
  check(pruned(children, 33.0f, 100.0f)[1] == 13);
}

// The most visited child turned out to be lost, so its mean is -1. The best child that is not lost
// measures the others.
void a_lost_child_is_no_measure_of_the_others() {
  const Children children({0.5f, 0.3f, 0.1f, 0.1f}, {70, 20, 5, 5}, {-1.0f, 0.2f, -0.4f, -0.9f});
  // 0.2 + 3 * 0.3 / 21 = 0.2429; floor(3 * 0.1 / 0.6429) = 0 and floor(3 * 0.1 / 1.1429) = 0: of
  // both the forced 5 go.
  check(pruned(children, 3.0f, 100.0f, 0) == std::vector<std::int32_t>{0, 20, 0, 0});
  // None that counts was visited: nothing is known.
  const Children unvisited({0.5f, 0.5f}, {20, 0}, {-1.0f, 0.0f});
  std::vector<std::int32_t> weights = {0, 1};
  prune_forced(unvisited.window(), {.forced_playouts = 2.0f}, 3.0f, 20.0f, weights);
  check(weights == std::vector<std::int32_t>{0, 1});
}

// Visits by child when the means never change: 8 of 9 children in play, 48 simulations.
void gumbel_halves_the_field() {
  const std::vector<float> priors = {.02f, .20f, .18f, .16f, .14f, .12f, .08f, .06f, .04f};
  std::vector<std::int32_t> visits(9);
  const std::vector<float> means = {0.9f, 0.0f, 0.1f, 0.8f, -0.5f, 0.2f, -0.9f, 0.3f, -0.2f};
  GumbelRoot root = gumbel_root(priors, {.actions = 8}, 48);
  for (int i = 0; i < 48; ++i) {
    const Tree tree = Children(priors, visits, means).tree(0.0f);
    ++visits[root.next(view_of(tree))];
    root.advance();
  }
  // 48 / (3 phases * 8) = 2 each; the best four by mean 4 each, the best two 8 each. Child 0 has
  // the least prior: the field is chosen without it.
  check(visits == std::vector<std::int32_t>{0, 2, 2, 14, 2, 6, 2, 14, 6} ||
        visits == std::vector<std::int32_t>{0, 2, 6, 14, 2, 6, 2, 14, 2});
  const Tree tree = Children(priors, visits, means).tree(0.0f);
  check(root.best(view_of(tree)) == 3);
}

// Who stays is decided by answers, not by leaves that are still out.
void halving_waits_for_answers() {
  const std::vector<float> priors(4, 0.25f);
  GumbelRoot root = gumbel_root(priors, {.actions = 4}, 8);
  const Tree tree = Children(priors, {0, 0, 0, 0}, {0, 0, 0, 0}).tree(0.0f);
  for (int i = 0; i < 4; ++i) {
    check(!root.is_waiting());
    root.next(view_of(tree));
    root.advance();
  }
  check(root.is_waiting());

  const auto search = make_position_search("gomoku", {{}},
                                           [] {
                                             SearchConfig config;
                                             config.root = RootChoice::kGumbel;
                                             config.num_simulations = 64;
                                             return config;
                                           }(),
                                           1, {.leaves_per_position = 32});
  const RowShape shape = search->row_shape();
  const std::vector<float> logits(32 * shape.num_actions);
  const std::vector<float> value(32);
  std::size_t most = 0;
  while (!search->is_done()) {
    const std::size_t rows = search->select().size() / shape.observation_bytes;
    most = std::max(most, rows);
    search->backup(
        {std::span(logits.data(), rows * shape.num_actions), std::span(value.data(), rows), 1});
  }
  check(most == 16);  // the field of the first phase
}

void gumbel_target_by_hand() {
  // Children: prior .5 with q .02 after 10 visits, prior .3 with q -.04 after 6, prior .2
  // unvisited. v_mix = (0.04 + 16 * (.5 * .02 + .3 * -.04) / .8) / 17 = (0.04 - 0.04) / 17 = 0.
  // sigma(q) = (50 + 10) * 1 * (q + 1) / 2 = 30 q + 30: without the 30 that all have, the logits
  // are ln .5 + .6, ln .3 - 1.2 and ln .2.
  const Children children({0.5f, 0.3f, 0.2f}, {10, 6, 0}, {0.02f, -0.04f, 0.0f});
  const GumbelRoot root = gumbel_root({0.5f, 0.3f, 0.2f}, {.actions = 2}, 16);
  const Tree tree = children.tree(0.04f);
  std::vector<std::int32_t> weights;
  root.target(view_of(tree), Puct{SearchConfig()}, weights);
  const std::array<double, 3> raw = {0.5 * std::exp(0.6), 0.3 * std::exp(-1.2), 0.2};
  const double sum = raw[0] + raw[1] + raw[2];
  for (int i = 0; i < 3; ++i) check_near(weights[i], 10'000 * raw[i] / sum, 1.0);
  check(root.best(view_of(tree)) == 0);
  const double worth = (raw[0] * 0.02 + raw[1] * -0.04) / sum;
  check_near(root.value(view_of(tree), 0.0f), worth, 1e-5);
}

// With equal values the first choice is drawn with the probabilities of the priors (the Gumbel-max
// trick): 4 standard errors of 20,000 draws.
void gumbel_draws_by_the_priors() {
  const std::vector<float> priors = {0.6f, 0.3f, 0.1f};
  constexpr int kDraws = 20'000;
  std::map<int, int> chosen;
  const Tree tree = Children(priors, {0, 0, 0}, {0, 0, 0}).tree(0.0f);
  for (int draw = 0; draw < kDraws; ++draw) {
    GumbelRoot root = gumbel_root(priors, {.actions = 1, .scale = 1.0}, 1, Random(7, draw).next());
    ++chosen[root.next(view_of(tree))];
  }
  for (int i = 0; i < 3; ++i) {
    const double error = std::sqrt(priors[i] * (1 - priors[i]) / kDraws);
    check_near(static_cast<double>(chosen[i]) / kDraws, priors[i], 4 * error);
  }
}

// How often each child is the first that is visited, when its prior alone decides.
std::vector<int> first_visits(double noise_fraction, int draws) {
  Search<ConnectFour> search;
  search.set_root(ConnectFour());
  const Puct puct{SearchConfig()};
  Leaf<ConnectFour> leaf;
  search.select<false>(puct, leaf);
  LeafPrediction<ConnectFour> prediction(leaf.position, 0.0f);
  prediction.priors = {0.4f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f, 0.1f};
  search.expand(leaf, prediction);
  Random random(3);
  std::vector<int> firsts(7);
  for (int draw = 0; draw < draws; ++draw) {
    search.start_root({.noise_fraction = noise_fraction, .noise_alpha = 0.26}, random);
    search.select<false>(puct, leaf);
    ++firsts[search.tree().action[leaf.path[0]]];
  }
  return firsts;
}

void noise_has_its_share() {
  constexpr int kDraws = 7'000;
  // 0.8 * 0.4 against at most 0.8 * 0.1 + 0.2: a fifth of noise cannot turn the order.
  check(first_visits(0.2, kDraws)[0] == kDraws);
  // Nothing but noise: every child is as likely as any other; 4 standard errors.
  const double error = std::sqrt(1.0 / 7 * 6 / 7 / kDraws);
  for (const int firsts : first_visits(1.0, kDraws)) {
    check_near(static_cast<double>(firsts) / kDraws, 1.0 / 7, 4 * error);
  }
  // Between them the order turns now and then.
  const int stays = first_visits(0.5, kDraws)[0];
  check(stays > kDraws / 7 && stays < kDraws);
}

// A search of the start, whose prediction has these priors and value 0.
Search<TicTacToe> expanded(const PriorsOf<TicTacToe>::type& priors) {
  Search<TicTacToe> search;
  search.set_root(TicTacToe());
  Leaf<TicTacToe> leaf;
  search.select<false>(Puct{SearchConfig()}, leaf);
  LeafPrediction<TicTacToe> prediction(leaf.position, 0.0f);
  prediction.priors = priors;
  search.expand(leaf, prediction);
  return search;
}

void a_root_temperature_flattens_the_priors() {
  auto search = expanded({0.64f, 0.16f, 0.04f, 0.04f, 0.04f, 0.04f, 0.02f, 0.01f, 0.01f});
  const Puct puct{SearchConfig()};
  Leaf<TicTacToe> leaf;
  Random random(3);
  search.start_root({.num_simulations = 1, .policy_temperature = 2.0}, random);
  // Square roots: 0.8, 0.4, 4 * 0.2, 0.1414, 2 * 0.1: 2.3414 in all.
  std::map<Action, int> visits;
  for (int i = 0; i < 400; ++i) {
    search.select<false>(puct, leaf);
    ++visits[search.tree().action[leaf.path[0]]];
    if (leaf.depth > 0) {
      LeafPrediction<TicTacToe> flat(leaf.position, 0.0f);
      flat.priors.fill(1.0f / static_cast<float>(flat.num_actions()));
      if (!leaf.position.is_terminal()) search.expand(leaf, flat);
    }
  }
  check(visits[0] < 300 && visits[1] > 40);
  check(search.tree().prior[0] == 0.64f);  // the record keeps the network's
}

// A search that learns nothing, all values being 0, must not change the policy (ICLR 2022, section
// 4), whatever the temperature of other roots.
void a_gumbel_target_is_of_the_priors_that_the_network_gave() {
  const PriorsOf<TicTacToe>::type priors = {0.6f,  0.16f, 0.04f, 0.04f, 0.04f,
                                            0.04f, 0.04f, 0.02f, 0.02f};
  auto search = expanded(priors);
  const Puct puct{SearchConfig()};
  Leaf<TicTacToe> leaf;
  Random random(3);
  search.start_root(
      {.num_simulations = 16, .policy_temperature = 2.0, .gumbel = GumbelPlan{.actions = 4}},
      random);
  for (int i = 0; i < 16; ++i) {
    if (search.select<false>(puct, leaf) == Selected::kTerminal) continue;
    LeafPrediction<TicTacToe> flat(leaf.position, 0.0f);
    flat.priors.fill(1.0f / static_cast<float>(flat.num_actions()));
    search.expand(leaf, flat);
  }
  std::vector<std::int32_t> weights;
  search.policy_weights(puct, weights);
  for (std::size_t i = 0; i < weights.size(); ++i) check_near(weights[i], 10'000 * priors[i], 2.0);
}

// Halving first visits four actions equally often, and only one is good. The root's value follows
// its policy, not the mean of the visits.
void a_gumbel_root_is_worth_what_its_policy_is() {
  auto search = expanded({0.3f, 0.2f, 0.2f, 0.2f, 0.02f, 0.02f, 0.02f, 0.02f, 0.02f});
  const Puct puct{SearchConfig()};
  Leaf<TicTacToe> leaf;
  Random random(3);
  search.start_root({.num_simulations = 16, .gumbel = GumbelPlan{.actions = 4}}, random);
  check(search.root_value() == 0.0f);  // the network's
  while (search.root_visits() < 16) {
    if (search.select<false>(puct, leaf) == Selected::kTerminal) continue;
    const bool is_good = search.tree().action[leaf.path[0]] == 0;
    const float value = (is_good ? 0.5f : -0.5f) * (leaf.depth % 2 == 0 ? 1.0f : -1.0f);
    LeafPrediction<TicTacToe> prediction(leaf.position, value);
    prediction.priors.fill(1.0f / static_cast<float>(prediction.num_actions()));
    search.expand(leaf, prediction);
  }
  std::vector<std::int32_t> weights;
  search.policy_weights(puct, weights);
  const EdgeWindow edges = search.tree().edges_of(kRoot);
  double visited = 0.0;
  for (int i = 0; i < edges.count; ++i) visited += edges.value_sum[i] / 17.0;
  check(weights[0] > 9'900 && visited < 0.2);
  check_near(search.root_value(), 0.5, 0.01);
}

// 0.3 to the power of 1,000 is 0 in any precision: only the ratios of the priors survive.
void a_low_root_temperature_takes_the_best_prior() {
  auto search = expanded({0.1f, 0.1f, 0.1f, 0.3f, 0.1f, 0.1f, 0.1f, 0.05f, 0.05f});
  Leaf<TicTacToe> leaf;
  Random random(3);
  search.start_root({.num_simulations = 1, .policy_temperature = 0.001}, random);
  search.select<false>(Puct{SearchConfig()}, leaf);
  check(leaf.position.ply() == 1 && search.tree().action[leaf.path[0]] == 3);
}

void a_lower_bound_by_hand() {
  // Four visits with the values 1, 1, 0.5 and -0.5: mean 0.5, variance 2.5 / 4 - 0.25 = 0.375.
  // The prior has the weight 1 / 16: variance 0.375 + 0.0625 / 4.0625, and 4.0625^2 / (4 + 1 / 256)
  // visits that count.
  check_near(lower_confidence_bound(4, 2.0, 2.5, 0.0), 0.5);
  check_near(lower_confidence_bound(4, 2.0, 2.5, 2.0),
             0.5 - 2.0 * std::sqrt(0.3903846154 / 4.1219512195));
  // One visit says next to nothing: the prior weighs as much.
  check_near(lower_confidence_bound(1, 0.9, 0.81, 1.0), 0.9 - std::sqrt(0.25), 1e-6);
  check(lower_confidence_bound(100, 50.0, 25.0, 5.0) > 0.49);
}

// The root has five children: an uncertain favourite, a sure one, a promising one with few visits,
// one that is lost, and one without visits.
Tree tree_of_doubts(int few) {
  const std::array<Action, 5> actions = {0, 1, 2, 3, 4};
  const std::array<float, 5> priors = {0.4f, 0.2f, 0.2f, 0.1f, 0.1f};
  Tree tree;
  tree.add_node(actions, priors.data(), 0.0f, kFirstPlayer);
  const auto visit = [&](EdgeId edge, NodeId child, int visits, float sum) {
    tree.child[edge] = child;
    tree.visit_count[edge] = visits;
    tree.value_sum[edge] = sum;
  };
  // -1 of its own, then five wins and four losses for the first player: mean 0.2, squares 10.
  const NodeId doubtful =
      tree.add_node(std::span(actions).first(2), priors.data(), -1.0f, kSecondPlayer);
  const EdgeId below = tree.first_edge[doubtful];
  visit(below, tree.add_known(1.0f, kFirstPlayer), 5, -5.0f);
  visit(below + 1, tree.add_known(-1.0f, kFirstPlayer), 4, 4.0f);
  visit(0, doubtful, 10, 2.0f);
  visit(1, tree.add_known(-0.15f, kSecondPlayer), 8, 1.2f);
  visit(2, tree.add_known(-0.9f, kSecondPlayer), few, 0.9f * static_cast<float>(few));
  const NodeId lost = tree.add_known(0.0f, kSecondPlayer);
  tree.proof[lost] = Proof::kWin;
  tree.proof[kRoot] = Proof::kOfChild;
  visit(3, lost, 9, -9.0f);
  return tree;
}

void the_highest_lcb_child_by_hand() {
  const Tree tree = tree_of_doubts(1);
  check_near(sum_of_squares(tree, 0), 10.0);
  check_near(sum_of_squares(tree, 1), 8 * 0.15 * 0.15);
  check_near(sum_of_squares(tree, 3), 9.0);  // as the proof says, not the node's value
  check_near(sum_of_squares(tree, 4), 0.0);
  // Without doubts the mean decides: 0.2 before 0.15. A single visit is less than 15% of ten.
  check(view_of(tree).highest_lcb_child(0.01) == 0);
  // One standard error: 0.2 - 0.31 and 0.15 - 0.02.
  check(view_of(tree).highest_lcb_child(1.0) == 1);
  check(view_of(tree).most_visited_child() == 0);
  // Two visits count: 0.9 - 0.21. Five standard errors are 1.06, and 0.08 for the sure child.
  const Tree more = tree_of_doubts(2);
  check(view_of(more).highest_lcb_child(1.0) == 2);
  check(view_of(more).highest_lcb_child(5.0) == 1);
}

void a_puct_root_plays_what_its_plan_says() {
  const Tree tree = tree_of_doubts(1);
  const RootView view = view_of(tree);
  std::vector<float> priors(tree.prior.begin(), tree.prior.begin() + 5);
  std::vector<std::int32_t> weights;
  view.open_visits(weights);
  Random random(1);
  const auto root_with = [&](double stdevs) {
    PuctRoot root;
    root.start(priors, view.edges, {.num_simulations = 28, .lcb_stdevs = stdevs}, 0, random);
    return root;
  };
  check(root_with(0.0).best(view) == 0);
  check(root_with(0.0).choose(view, weights, 0.0, random) == 0);
  check(root_with(5.0).best(view) == 1);
  check(root_with(5.0).choose(view, weights, 0.0, random) == 1);
  std::array<int, 5> chosen = {};  // at a temperature the visits decide: 10, 8 and 1
  for (int i = 0; i < 1'900; ++i) ++chosen[root_with(5.0).choose(view, weights, 1.0, random)];
  check(chosen[0] > 900 && chosen[1] > 700 && chosen[2] > 50 && chosen[3] + chosen[4] == 0);
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"forced playouts", a_visited_child_is_due_its_share},
      {"least visits", every_child_may_be_due_a_constant},
      {"affordable visits", least_visits_are_what_the_budget_allows},
      {"pruned targets", visits_that_forcing_caused_leave_the_target},
      {"lost children and targets", a_lost_child_is_no_measure_of_the_others},
      {"sequential halving", gumbel_halves_the_field},
      {"halving waits", halving_waits_for_answers},
      {"Gumbel target", gumbel_target_by_hand},
      {"Gumbel-max", gumbel_draws_by_the_priors},
      {"share of noise", noise_has_its_share},
      {"root temperature", a_root_temperature_flattens_the_priors},
      {"Gumbel and temperature", a_gumbel_target_is_of_the_priors_that_the_network_gave},
      {"value of a Gumbel root", a_gumbel_root_is_worth_what_its_policy_is},
      {"low root temperature", a_low_root_temperature_takes_the_best_prior},
      {"lower bound", a_lower_bound_by_hand},
      {"highest lcb child", the_highest_lcb_child_by_hand},
      {"move choice of a PUCT root", a_puct_root_plays_what_its_plan_says},
  });
}
