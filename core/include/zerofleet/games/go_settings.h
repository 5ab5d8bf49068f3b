// Settings of Go: board size, rules, and the planes that a network sees.
#pragma once

#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

namespace zerofleet {

// kHistory: AlphaGo Zero's planes. kLiberties: also planes of liberties and ko (see Go).
enum class GoObservation { kHistory, kLiberties };

struct GoRules {
  float komi;      // White's compensation in points, a multiple of 0.5; an integer allows draws
  bool suicide;    // whether a move may remove its own chain
  int max_length;  // plies after which the game ends and is scored as it stands

  bool operator==(const GoRules&) const = default;
};

// Settings in a game's name; nullopt: the default of the board size.
struct GoSettings {
  int size;
  std::optional<float> komi;
  bool suicide;
  std::optional<int> max_length;
  GoObservation observation;
};

// Throws std::invalid_argument for rules that do not suit a board of `points` points whose games
// hold `capacity` plies.
inline void check_go_rules(const GoRules& rules, int points, int capacity) {
  const float half_points = 2.0f * rules.komi;
  if (!(std::abs(rules.komi) <= static_cast<float>(points)) ||
      half_points != std::floor(half_points)) {
    throw std::invalid_argument("komi is " + std::to_string(rules.komi) +
                                "; it must be a multiple of 0.5 from " + std::to_string(-points) +
                                " to " + std::to_string(points));
  }
  if (rules.max_length < 1 || rules.max_length > capacity) {
    throw std::invalid_argument("max_length is " + std::to_string(rules.max_length) +
                                "; it must be from 1 to " + std::to_string(capacity));
  }
}

}  // namespace zerofleet
