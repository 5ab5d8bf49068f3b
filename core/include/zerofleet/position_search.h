// Search of given positions, for exams, analysis and single moves.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "zerofleet/decisive_moves.h"
#include "zerofleet/engine.h"
#include "zerofleet/move_choice.h"
#include "zerofleet/prediction_queue.h"
#include "zerofleet/search.h"
#include "zerofleet/tree_counts.h"

namespace zerofleet {

// Each position has its own tree and up to `leaves_per_position` leaves in flight, which virtual
// loss keeps apart.
template <Game G>
class PositionSearch final : public PositionSearchEngine {
 public:
  // `config`, `options` and the number of `starts` must have been checked.
  PositionSearch(const Rules<G>& rules, const ActionLists& positions, const SearchConfig& config,
                 std::uint64_t seed, const PositionSearchOptions& options,
                 const Starts& starts = {})
      : rules_(rules),
        num_simulations_(config.num_simulations),
        puct_(config),
        plan_(playing_plan(config)),
        leaves_per_position_(options.leaves_per_position),
        queue_(rules, config, positions.size() * leaves_per_position_,
               positions.size() * (static_cast<std::size_t>(num_simulations_) + 1)) {
    if (options.noise) {
      plan_.noise_fraction = config.dirichlet_fraction;
      plan_.noise_alpha = config.alpha(rules.points());
      if (plan_.gumbel) plan_.gumbel->scale = config.gumbel_scale;
    }
    desks_.reserve(positions.size());
    for (std::size_t i = 0; i < positions.size(); ++i) {
      Desk& desk = desks_.emplace_back(Random(seed, desks_.size()));
      desk.symmetry_seed = desk.random.next();
      desk.search.set_root(
          position_after(rules, std::span<const int>(positions[i]), start_at(starts, i)));
      desk.leaves.resize(leaves_per_position_);
      if (!options.root_actions.empty()) {
        desk.root_actions =
            checked_root_actions(rules, desk.search.root(), options.root_actions[i]);
      }
    }
  }

  RowShape row_shape() const override { return {rules_.observation_bytes(), rules_.num_actions()}; }

  // Runs every position until its leaves are in flight or it is done. Returns the same rows again
  // until `backup` answers them, and none when all positions are done.
  std::span<std::uint8_t> select() override {
    if (queue_.num_rows() == 0) {
      for (std::size_t i = 0; i < desks_.size(); ++i) run_to_questions(i);
    }
    return queue_.observations();
  }

  void backup(const PredictionBatch& prediction) override {
    queue_.accept(prediction);
    for (int row = 0; row < queue_.num_rows(); ++row) {
      Desk& desk = desks_[queue_.owner(row) / leaves_per_position_];
      const Leaf<G>& leaf = desk.leaves[queue_.owner(row) % leaves_per_position_];
      desk.search.release(leaf);
      expand(desk, leaf, queue_.read(prediction, row, leaf));
    }
    queue_.clear();
  }

  bool is_done() const override {
    for (const Desk& desk : desks_) {
      if (!is_searched(desk.search)) return false;
    }
    return true;
  }

  // Sets the number of simulations after which a position is done. A search that was done continues
  // its trees when the number grows. Throws std::invalid_argument for a number below 1, or with a
  // Gumbel root, whose sequential halving is planned for one number.
  void set_simulations(int simulations) override {
    if (simulations < 1) throw std::invalid_argument("simulations must be at least 1");
    if (plan_.gumbel) {
      throw std::invalid_argument("the simulations of a search with a Gumbel root are fixed");
    }
    num_simulations_ = simulations;
  }

  // Results so far, at any time; leaves in flight do not count.
  std::vector<SearchResult> results() const override {
    std::vector<SearchResult> all;
    all.reserve(desks_.size());
    for (const Desk& desk : desks_) all.push_back(result_of(desk.search));
    return all;
  }

  EngineStatistics statistics() const override {
    EngineStatistics now;
    now.positions_evaluated = queue_.positions_evaluated();
    now.cache_hits = queue_.cache_hits();
    for (const Desk& desk : desks_) {
      now.simulations += desk.search.root_visits();
      add_tree(now, desk.search.tree());
    }
    return now;
  }

 private:
  struct Desk {
    explicit Desk(Random own_random) : random(own_random) {}

    Search<G> search;
    std::vector<Leaf<G>> leaves;  // [leaves_per_position]
    Random random;
    std::uint64_t symmetry_seed = 0;
    std::vector<int> root_actions;  // ascending; empty: every legal action
  };

  static std::vector<int> checked_root_actions(const Rules<G>& rules, const G& position,
                                               std::vector<int> actions) {
    for (const int action : actions) {
      if (!position.is_legal(action)) {
        throw std::invalid_argument("action " + std::to_string(action) +
                                    " of root_actions is illegal in " + rules.name());
      }
    }
    std::ranges::sort(actions);
    return actions;
  }

  bool is_searched(const Search<G>& search) const {
    return search.root().is_terminal() || search.root_visits() >= num_simulations_ ||
           search.is_proven();
  }

  void run_to_questions(std::size_t index) {
    Desk& desk = desks_[index];
    Search<G>& search = desk.search;
    while (!is_searched(search) && search.leaves_out() < leaves_per_position_ &&
           search.root_visits() + search.leaves_out() < num_simulations_) {
      const int number = search.leaves_out();
      Leaf<G>& leaf = desk.leaves[number];
      const Selected selected = search.template select<true>(puct_, leaf);
      if (selected == Selected::kTaken) return;
      if (selected == Selected::kTerminal) continue;
      if (const auto known = queue_.recall(leaf)) {
        expand(desk, leaf, *known);
        continue;
      }
      search.hold(leaf);
      queue_.ask(leaf, desk.symmetry_seed, static_cast<int>(index) * leaves_per_position_ + number);
      if (leaf.depth == 0) return;  // nothing below the root can be selected before its answer
    }
  }

  void expand(Desk& desk, const Leaf<G>& leaf, const LeafPrediction<G>& prediction) {
    if (leaf.depth > 0) return desk.search.expand(leaf, prediction);
    if (desk.root_actions.empty()) {
      desk.search.expand(leaf, prediction);
    } else {
      desk.search.expand(leaf, restricted(prediction, leaf.position, desk.root_actions));
    }
    desk.search.start_root(plan_, desk.random);
  }

  // The prediction as if only `kept` were legal. Equal priors replace priors of 0.
  static LeafPrediction<G> restricted(const LeafPrediction<G>& prediction, const G& position,
                                      const std::vector<int>& kept) {
    LeafPrediction<G> result(position, prediction.value);
    result.actions = {};
    std::ranges::fill(result.priors, 0.0f);
    float sum = 0.0f;
    int count = 0;
    for (int i = 0; i < prediction.num_actions(); ++i) {
      if (!std::ranges::binary_search(kept, static_cast<int>(prediction.actions[i]))) continue;
      result.actions.push_back(prediction.actions[i]);
      result.priors[count++] = prediction.priors[i];
      sum += prediction.priors[i];
    }
    for (int i = 0; i < count; ++i) {
      result.priors[i] = sum > 0.0f ? result.priors[i] / sum : 1.0f / static_cast<float>(count);
    }
    return result;
  }

  static SearchResult result_of(const Search<G>& search) {
    SearchResult result;
    if (search.root().is_terminal()) {
      result.root_value = result.network_value = terminal_value(search.root());
    }
    if (!search.is_expanded()) return result;
    const Tree& tree = search.tree();
    const EdgeWindow children = tree.edges_of(kRoot);
    result.actions.assign(tree.action.data(), tree.action.data() + children.count);
    result.visit_counts.assign(children.visit_count, children.visit_count + children.count);
    result.priors.assign(children.prior, children.prior + children.count);
    for (int i = 0; i < children.count; ++i) {
      result.q_values.push_back(children.visit_count[i] > 0
                                    ? children.value_sum[i] /
                                          static_cast<float>(children.visit_count[i])
                                    : std::numeric_limits<float>::quiet_NaN());
      result.principal_variations.push_back(principal_variation(search, static_cast<EdgeId>(i)));
    }
    result.root_value = search.root_value();
    result.network_value = tree.value[kRoot];
    result.simulations = search.root_visits();
    result.best_action = result.actions[search.best_child()];
    return result;
  }

  // The line of most visited children from an edge of the root on, to the game's end if it is
  // known.
  static std::vector<int> principal_variation(const Search<G>& search, EdgeId edge) {
    const Tree& tree = search.tree();
    std::vector<int> line = {tree.action[edge]};
    NodeId node = tree.child[edge];
    while (node != kUnexpanded && tree.edge_count[node] > 0) {
      const EdgeWindow children = tree.edges_of(node);
      const auto size = static_cast<std::size_t>(children.count);
      const int best = most_visited({children.visit_count, size}, {children.prior, size});
      if (children.visit_count[best] == 0) return line;
      edge = tree.first_edge[node] + static_cast<EdgeId>(best);
      line.push_back(tree.action[edge]);
      node = tree.child[edge];
    }
    if (node == kUnexpanded) return line;
    G position = search.root();
    for (const int action : line) position.apply(static_cast<Action>(action));
    if (position.is_terminal()) return line;
    for (const Action action : position.legal_actions()) {  // a decisive move has no node
      if (value_of_ending(position, action) != tree.value[node]) continue;
      line.push_back(action);
      break;
    }
    return line;
  }

  Rules<G> rules_;
  int num_simulations_;
  Puct puct_;
  RootPlan plan_;
  int leaves_per_position_;
  PredictionQueue<G> queue_;
  std::vector<Desk> desks_;
};

}  // namespace zerofleet
