// The root by Gumbel sampling: Danihelka, Guez, Schrittwieser, Silver, "Policy improvement by
// planning with Gumbel", ICLR 2022.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "zerofleet/move_choice.h"
#include "zerofleet/portable_math.h"
#include "zerofleet/proofs.h"
#include "zerofleet/puct.h"
#include "zerofleet/random.h"
#include "zerofleet/root_plan.h"
#include "zerofleet/root_view.h"

namespace zerofleet {

// The children with the highest `gumbel + logit` share the simulations by sequential halving. All
// children in play are visited equally often, then the better half by `gumbel + logit + sigma(q)`
// stays (section 3 and figure 1 of the paper). The training target is softmax(logit +
// sigma(completed q)), where a child without visits has the value v_mix (section 4, equations 10
// and 33).
//
// sigma(q) = (c_visit + max N) * c_scale * q (equation 8), for q scaled to [0, 1].
class GumbelRoot {
 public:
  // The paper's values for Go and chess.
  static constexpr double kVisitOffset = 50.0;  // c_visit
  static constexpr double kValueScale = 1.0;    // c_scale

  // `budget` is the number of simulations to come. `priors`, [children], are the network's and stay
  // as they are: only priors of the network make the target a better policy than the priors.
  void start(std::span<const float> priors, const EdgeWindow&, const RootPlan& plan, int budget,
             Random& random) {
    plan_ = *plan.gumbel;
    logits_.resize(priors.size());
    perturbed_.resize(priors.size());
    for (std::size_t i = 0; i < priors.size(); ++i) {
      constexpr float kSmallestPrior = 1e-30f;  // its logarithm is low enough, and finite
      logits_[i] = static_cast<float>(portable_log(std::max(priors[i], kSmallestPrior)));
      perturbed_[i] = logits_[i];
      if (plan_.scale > 0.0) {
        const double gumbel = -portable_log(-portable_log(random.uniform()));
        perturbed_[i] += static_cast<float>(plan_.scale * gumbel);
      }
    }
    in_play_.resize(priors.size());
    std::iota(in_play_.begin(), in_play_.end(), 0);
    keep_best(static_cast<std::size_t>(plan_.actions), perturbed_);
    phases_ = 0;
    while ((std::size_t{1} << phases_) < in_play_.size()) ++phases_;
    budget_ = std::max(1, budget);
    begin_phase();
  }

  // Whether the next choice depends on leaves in flight, because `next` would halve the children in
  // play.
  bool is_waiting() const { return turn_ == in_play_.size() && rounds_left_ == 1; }

  // The child that the next simulation must visit; -1 leaves it to PUCT.
  int next(const RootView& root) {
    if (turn_ == in_play_.size()) {
      turn_ = 0;
      if (--rounds_left_ == 0) {
        keep_best(std::max<std::size_t>(2, in_play_.size() / 2), scores(root));
        begin_phase();
      }
    }
    const int child = in_play_[turn_];
    return root.may_visit(child) ? child : -1;
  }

  // Notes that a simulation began: the next one visits another child.
  void advance() { ++turn_; }

  // The root's value: the mean of the completed q under the improved policy. `mean` is the mean of
  // all simulations. Halving visits bad children as often as good ones at first, so that mean would
  // reflect its schedule.
  float value(const RootView& root, float mean) const {
    if (root.visits == 0) return mean;
    std::vector<std::int32_t> weights;
    improved_policy(root, weights);
    const std::vector<float> q = completed_q(root);
    double sum = 0.0;
    double weighted_q = 0.0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      sum += weights[i];
      weighted_q += static_cast<double>(q[i]) * weights[i];
    }
    return static_cast<float>(weighted_q / sum);
  }

  // Writes the training target, [children], in whole shares that sum to about kWholeTarget.
  static constexpr int kWholeTarget = 10'000;
  void target(const RootView& root, const Puct&, std::vector<std::int32_t>& weights) const {
    improved_policy(root, weights);
  }

  // The child to play: the best one where Gumbel noise was drawn already, otherwise one drawn from
  // `weights` at a temperature. The visits of sequential halving only follow its schedule: with few
  // simulations every child has about as many.
  int choose(const RootView& root, std::span<const std::int32_t> weights, double temperature,
             Random& random) const {
    if (plan_.scale > 0.0 || temperature == 0.0) {
      const int child = best_in_play(root);
      if (is_open(root.tree, kRoot, child)) return child;
      temperature = 0.0;
    }
    return choose_child(weights, root.network_priors(), temperature, random);
  }

  // The child to play without chance.
  int best(const RootView& root) const {
    const int child = best_in_play(root);
    return is_open(root.tree, kRoot, child) ? child : root.most_visited_child();
  }

 private:
  void begin_phase() {
    turn_ = 0;
    const int phase_budget = budget_ / std::max(1, phases_);
    rounds_left_ = std::max(1, phase_budget / static_cast<int>(in_play_.size()));
  }

  // Keeps the `count` children in play with the highest scores; ties go to the first.
  void keep_best(std::size_t count, const std::vector<float>& score) {
    std::stable_sort(in_play_.begin(), in_play_.end(),
                     [&](int a, int b) { return score[a] > score[b]; });
    if (count < in_play_.size()) in_play_.resize(count);
  }

  // The visited child in play with the highest score; the first one in play if none was visited.
  int best_in_play(const RootView& root) const {
    const std::vector<float> score = scores(root);
    int best = -1;
    for (const int child : in_play_) {
      if (root.edges.visit_count[child] == 0) continue;
      if (best < 0 || score[child] > score[best]) best = child;
    }
    return best < 0 ? in_play_.front() : best;
  }

  void improved_policy(const RootView& root, std::vector<std::int32_t>& weights) const {
    const std::vector<float> bonus = sigma(root.edges, completed_q(root));
    weights.resize(logits_.size());
    double largest = -1e300;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      largest = std::max(largest, static_cast<double>(logits_[i] + bonus[i]));
    }
    double sum = 0.0;
    std::vector<double> shares(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      shares[i] = portable_exp(static_cast<double>(logits_[i] + bonus[i]) - largest);
      sum += shares[i];
    }
    for (std::size_t i = 0; i < weights.size(); ++i) {
      weights[i] = static_cast<std::int32_t>(std::floor(kWholeTarget * shares[i] / sum + 0.5));
    }
    leave_out_worse(root.tree, weights);
  }

  std::vector<float> scores(const RootView& root) const {
    std::vector<float> score = sigma(root.edges, completed_q(root));
    for (std::size_t i = 0; i < score.size(); ++i) score[i] += perturbed_[i];
    return score;
  }

  // The mean value of every child; v_mix for a child without visits.
  static std::vector<float> completed_q(const RootView& root) {
    const EdgeWindow& edges = root.edges;
    float visited_prior = 0.0f;
    float weighted_q = 0.0f;
    int total_visits = 0;
    for (int i = 0; i < edges.count; ++i) {
      const int visits = edges.visit_count[i];
      if (visits == 0) continue;
      total_visits += visits;
      visited_prior += edges.prior[i];
      weighted_q += edges.prior[i] * edges.value_sum[i] / static_cast<float>(visits);
    }
    const auto total = static_cast<float>(total_visits);
    const float mixed =
        visited_prior > 0.0f
            ? (root.network_value() + total * weighted_q / visited_prior) / (1.0f + total)
            : root.network_value();
    std::vector<float> q(static_cast<std::size_t>(edges.count), mixed);
    for (int i = 0; i < edges.count; ++i) {
      const int visits = edges.visit_count[i];
      if (visits > 0) q[i] = edges.value_sum[i] / static_cast<float>(visits);
    }
    return q;
  }

  static std::vector<float> sigma(const EdgeWindow& edges, std::vector<float> q) {
    const int most_visits = *std::max_element(edges.visit_count, edges.visit_count + edges.count);
    const double scale = (kVisitOffset + most_visits) * kValueScale;
    for (float& each : q) each = static_cast<float>(scale * (each + 1.0f) / 2.0f);
    return q;
  }

  GumbelPlan plan_;
  std::vector<float> logits_;     // [children]
  std::vector<float> perturbed_;  // [children] gumbel + logit
  std::vector<int> in_play_;      // best first at the last sorting
  std::size_t turn_ = 0;
  int rounds_left_ = 1;
  int phases_ = 0;
  int budget_ = 0;
};

}  // namespace zerofleet
