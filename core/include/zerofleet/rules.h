// The rules of a game as one value: its name, start, sizes and symmetries.
//
// `Rules<G>` has the same members for every game. For fixed games all sizes are constants, so that
// this costs nothing over naming them directly.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zerofleet/dynamic_game.h"
#include "zerofleet/game.h"
#include "zerofleet/position_text.h"
#include "zerofleet/random.h"
#include "zerofleet/symmetry.h"

namespace zerofleet {

// Throws std::invalid_argument for a start position in a game that has no notation for positions.
[[noreturn]] inline void refuse_start(const std::string& game) {
  throw std::invalid_argument(game + " has no notation for positions, so its games begin at the " +
                              "usual start");
}

// Throws std::invalid_argument for a text that is too long for a position.
inline void check_start_text(std::string_view text) {
  if (text.size() > kLongestPositionText) {
    throw std::invalid_argument("the start position has " + std::to_string(text.size()) +
                                " characters; at most " + std::to_string(kLongestPositionText) +
                                " are read");
  }
}

// Rules of a game that is compiled in. Its name and start carry the other settings, such as komi.
template <FixedGame G>
class FixedRules {
 public:
  using Position = G;

  explicit FixedRules(std::string name = std::string(G::kName), const G& start = G())
      : name_(std::move(name)), start_(start) {}

  const std::string& name() const { return name_; }
  const G& start() const { return start_; }

  // The start position of this text, or the usual start if it is empty. Throws
  // std::invalid_argument, naming what is wrong.
  G start_from(std::string_view text) const {
    if (text.empty()) return start_;
    check_start_text(text);
    if constexpr (SetsUpPositions<G>) {
      return G::set_up(start_, text);
    } else {
      refuse_start(name_);
    }
  }

  // Draws the start position of a game; empty: the usual start. Takes no random number if the game
  // has no other start.
  std::string random_start(Random& random) const {
    if constexpr (DrawsStart<G>) return start_.random_start(random);
    return {};
  }

  static constexpr int num_actions() { return G::kNumActions; }
  static constexpr int points() { return kPoints<G>; }
  static constexpr int observation_bytes() { return kObservationBytes<G>; }
  static constexpr int num_symmetries() { return G::kNumSymmetries; }
  static constexpr GameShape shape() {
    GameShape shape{G::kNumActions, G::kPlanes,    G::kRows,
                    G::kColumns,    G::kMaxLength, G::kNumSymmetries};
    if constexpr (HasFinalPlanes<G>) shape.num_final_planes = G::kFinalPlanes;
    shape.has_final_score = HasFinalScore<G>;
    shape.sets_up_positions = SetsUpPositions<G>;
    return shape;
  }

  // Where an action lands under a symmetry.
  static constexpr Action symmetric_action(int action, int symmetry) {
    if constexpr (G::kNumSymmetries == 1) return static_cast<Action>(action);
    return Symmetries<G>::action[symmetry][action];
  }

  // Where a point of the board lands under a symmetry.
  static constexpr int symmetric_point(int point, int symmetry) {
    return Symmetries<G>::point[symmetry][point];
  }

  static void write_observation(const G& position, int symmetry, std::span<std::uint8_t> packed) {
    zerofleet::write_observation(position, symmetry, packed);
  }

  // Applies a symmetry to a packed observation.
  static void transform_observation(std::span<const std::uint8_t> packed, int symmetry,
                                    std::span<std::uint8_t> moved) {
    const auto result = zerofleet::transform_observation<G>(packed, symmetry);
    std::copy(result.begin(), result.end(), moved.begin());
  }

  // Targets of a terminal position, where the shape says that the game offers them. `planes` has
  // num_final_planes * points entries.
  static void write_final_planes(const G& position, std::span<std::int8_t> planes) {
    if constexpr (HasFinalPlanes<G>) std::ranges::copy(position.final_planes(), planes.begin());
  }
  static float final_score(const G& position) {
    if constexpr (HasFinalScore<G>) {
      return position.final_score();
    } else {
      return 0.0f;
    }
  }

  static constexpr int inverse_symmetry(int symmetry) { return Symmetries<G>::inverse[symmetry]; }
  static std::string action_to_string(Action action) { return G::action_to_string(action); }
  static std::optional<Action> string_to_action(std::string_view text) {
    return G::string_to_action(text);
  }

 private:
  std::string name_;
  G start_;
};

// Rules behind virtual calls, with tables of their symmetries.
class DynamicGame {
 public:
  using Position = DynamicPosition;

  DynamicGame(std::string name, std::shared_ptr<const DynamicRules> rules)
      : name_(std::move(name)),
        rules_(std::move(rules)),
        shape_(rules_->shape()),
        start_(rules_->start()),
        points_(std::make_shared<const Table>(shape_.points(), shape_, *rules_, &point_of)),
        actions_(std::make_shared<const Table>(shape_.num_actions, shape_, *rules_, &action_of)) {}

  const std::string& name() const { return name_; }
  const DynamicPosition& start() const { return start_; }

  // See FixedRules.
  DynamicPosition start_from(std::string_view text) const {
    if (text.empty()) return start_;
    check_start_text(text);
    std::unique_ptr<DynamicState> position = rules_->set_up(text);
    if (!position) refuse_start(name_);
    return DynamicPosition(std::move(position));
  }
  static std::string random_start(Random&) { return {}; }
  int num_actions() const { return shape_.num_actions; }
  int points() const { return shape_.points(); }
  int observation_bytes() const { return shape_.observation_bytes(); }
  int num_symmetries() const { return shape_.num_symmetries; }
  const GameShape& shape() const { return shape_; }

  Action symmetric_action(int action, int symmetry) const {
    return static_cast<Action>(actions_->at(action, symmetry));
  }
  int symmetric_point(int point, int symmetry) const { return points_->at(point, symmetry); }

  void write_observation(const DynamicPosition& position, int symmetry,
                         std::span<std::uint8_t> packed) const {
    if (symmetry == 0) return position.write_observation(packed);
    std::vector<std::uint8_t> plain(packed.size());
    position.write_observation(plain);
    transform_observation(plain, symmetry, packed);
  }

  void transform_observation(std::span<const std::uint8_t> packed, int symmetry,
                             std::span<std::uint8_t> moved) const {
    std::fill(moved.begin(), moved.end(), std::uint8_t{0});
    for (int plane = 0; plane < shape_.planes; ++plane) {
      for (int point = 0; point < shape_.points(); ++point) {
        const int from = plane * shape_.points() + point;
        if (((packed[from / 8] >> (7 - from % 8)) & 1) == 0) continue;
        const int to = plane * shape_.points() + points_->at(point, symmetry);
        moved[to / 8] = static_cast<std::uint8_t>(moved[to / 8] | (0x80 >> (to % 8)));
      }
    }
  }

  static void write_final_planes(const DynamicPosition& position, std::span<std::int8_t> planes) {
    position.write_final_planes(planes);
  }
  static float final_score(const DynamicPosition& position) { return position.final_score(); }

  // The symmetry that undoes this one.
  int inverse_symmetry(int symmetry) const {
    for (int other = 0; other < shape_.num_symmetries; ++other) {
      bool undoes = true;
      for (int p = 0; p < shape_.points(); ++p) {
        undoes &= points_->at(points_->at(p, symmetry), other) == p;
      }
      if (undoes) return other;
    }
    return 0;
  }

  std::string action_to_string(Action action) const { return rules_->action_to_string(action); }
  std::optional<Action> string_to_action(std::string_view text) const {
    return rules_->string_to_action(text);
  }

 private:
  // Where each of `count` numbers lands under each symmetry.
  class Table {
   public:
    using Landing = int (*)(const DynamicRules&, int, int);
    Table(int count, const GameShape& shape, const DynamicRules& rules, Landing landing)
        : count_(count) {
      for (int number = 0; number < count; ++number) landings_.push_back(number);
      for (int symmetry = 1; symmetry < shape.num_symmetries; ++symmetry) {
        for (int number = 0; number < count; ++number) {
          landings_.push_back(landing(rules, number, symmetry));
        }
      }
    }
    int at(int number, int symmetry) const { return landings_[symmetry * count_ + number]; }

   private:
    int count_;
    std::vector<int> landings_;  // [symmetries, count]; a board may have more points than actions
  };

  static int point_of(const DynamicRules& rules, int point, int symmetry) {
    return rules.symmetric_point(point, symmetry);
  }
  static int action_of(const DynamicRules& rules, int action, int symmetry) {
    return rules.symmetric_action(action, symmetry);
  }

  std::string name_;
  std::shared_ptr<const DynamicRules> rules_;
  GameShape shape_;
  DynamicPosition start_;
  std::shared_ptr<const Table> points_;
  std::shared_ptr<const Table> actions_;
};

template <class G>
struct RulesOf {
  using type = FixedRules<G>;
};
template <>
struct RulesOf<DynamicPosition> {
  using type = DynamicGame;
};

template <Game G>
using Rules = typename RulesOf<G>::type;

}  // namespace zerofleet
