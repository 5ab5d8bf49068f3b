// Positions of the core behind virtual calls, where speed does not matter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "zerofleet/dynamic_game.h"
#include "zerofleet/rules.h"

namespace zerofleet {

// A position of a fixed game, or of a similar one whose sizes are known only at run time.
template <class G>
class WrappedState final : public DynamicState {
 public:
  explicit WrappedState(const G& position) : position_(position) {}

  std::unique_ptr<DynamicState> clone() const override {
    return std::make_unique<WrappedState>(position_);
  }
  int ply() const override { return position_.ply(); }
  Player to_play() const override { return position_.to_play(); }
  bool is_terminal() const override { return position_.is_terminal(); }
  int result() const override { return position_.result(); }
  std::uint64_t hash() const override { return position_.hash(); }
  bool is_legal(int action) const override { return position_.is_legal(action); }
  std::vector<Action> legal_actions() const override {
    const auto actions = position_.legal_actions();
    return {actions.begin(), actions.end()};
  }
  void apply(Action action) override { position_.apply(action); }
  std::vector<Action> ending_actions() const override {
    const auto actions = ending_actions_of(position_);
    return {actions.begin(), actions.end()};
  }
  void write_observation(std::span<std::uint8_t> packed) const override {
    if constexpr (FixedGame<G>) {
      zerofleet::write_observation(position_, 0, packed);
    } else {
      position_.write_observation(packed);
    }
  }
  std::string to_string() const override { return position_.to_string(); }
  std::optional<std::string> setup_text() const override {
    if constexpr (SetsUpPositions<G>) {
      return position_.setup_text();
    } else {
      return std::nullopt;
    }
  }
  void write_final_planes(std::span<std::int8_t> planes) const override {
    if constexpr (HasFinalPlanes<G>) std::ranges::copy(position_.final_planes(), planes.begin());
  }
  float final_score() const override {
    if constexpr (HasFinalScore<G>) {
      return position_.final_score();
    } else {
      return 0.0f;
    }
  }
  std::optional<std::string> name_of(Action action) const override {
    if constexpr (NamesActionsByPosition<G>) return position_.name_of(action);
    return std::nullopt;
  }
  std::optional<Action> action_named(std::string_view text) const override {
    if constexpr (NamesActionsByPosition<G>) return position_.action_named(text);
    return std::nullopt;
  }
  std::optional<std::string> san_of(Action action) const override {
    if constexpr (HasSan<G>) return position_.san_of(action);
    return std::nullopt;
  }
  std::string_view ending_name() const override {
    if constexpr (NamesEnding<G>) return position_.ending_name();
    return "";
  }

 private:
  G position_;
};

template <FixedGame G>
class WrappedRules final : public DynamicRules {
 public:
  explicit WrappedRules(const G& start) : start_(start) {}

  GameShape shape() const override { return FixedRules<G>::shape(); }
  std::unique_ptr<DynamicState> start() const override {
    return std::make_unique<WrappedState<G>>(start_);
  }
  std::unique_ptr<DynamicState> set_up(std::string_view text) const override {
    if constexpr (SetsUpPositions<G>) {
      return std::make_unique<WrappedState<G>>(G::set_up(start_, text));
    } else {
      return nullptr;
    }
  }
  int symmetric_point(int point, int symmetry) const override {
    return G::symmetric_point(point, symmetry);
  }
  int symmetric_action(int action, int symmetry) const override {
    return G::symmetric_action(action, symmetry);
  }
  std::string action_to_string(Action action) const override { return G::action_to_string(action); }
  std::optional<Action> string_to_action(std::string_view text) const override {
    return G::string_to_action(text);
  }

 private:
  G start_;
};

// Puts any rules behind virtual calls; rules that already are stay as they are.
template <FixedGame G>
DynamicGame to_dynamic(const FixedRules<G>& rules) {
  return DynamicGame(rules.name(), std::make_shared<WrappedRules<G>>(rules.start()));
}
inline DynamicGame to_dynamic(const DynamicGame& rules) { return rules; }

}  // namespace zerofleet
