// The points of a Go board: sets of them, their neighbours and their hash keys.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "zerofleet/game.h"

namespace zerofleet {

// A set of points `kColumns * row + column`: a plane of the observation, with the set operations
// that Go needs.
template <int kRows, int kColumns>
class GoPoints : public Plane<kRows * kColumns> {
  using PlaneType = Plane<kRows * kColumns>;
  using PlaneType::words_;

 public:
  using PlaneType::kWords;

  constexpr GoPoints() = default;

  static constexpr GoPoints all() { return GoPoints(PlaneType::filled(true)); }

  constexpr void reset(int point) { words_[point / 64] &= ~(std::uint64_t{1} << (point % 64)); }

  constexpr int size() const {
    int count = 0;
    for (const std::uint64_t word : words_) count += std::popcount(word);
    return count;
  }

  // Calls `visitor(point)` for every point of the set, in ascending order.
  template <class Visitor>
  constexpr void for_each(Visitor&& visitor) const {
    for (int word = 0; word < kWords; ++word) {
      for (std::uint64_t bits = words_[word]; bits != 0; bits &= bits - 1) {
        visitor(64 * word + std::countr_zero(bits));
      }
    }
  }

  constexpr GoPoints operator&(const GoPoints& other) const {
    GoPoints points;
    for (int word = 0; word < kWords; ++word)
      points.words_[word] = words_[word] & other.words_[word];
    return points;
  }
  constexpr GoPoints operator|(const GoPoints& other) const {
    GoPoints points;
    for (int word = 0; word < kWords; ++word)
      points.words_[word] = words_[word] | other.words_[word];
    return points;
  }
  // Points of this set that are not in the other.
  constexpr GoPoints without(const GoPoints& other) const {
    GoPoints points;
    for (int word = 0; word < kWords; ++word) {
      points.words_[word] = words_[word] & ~other.words_[word];
    }
    return points;
  }

  // Points that have a neighbour in the set.
  constexpr GoPoints neighbours() const {
    constexpr GoPoints kBoard = all();
    constexpr GoPoints kFirst = column(0);
    constexpr GoPoints kLast = column(kColumns - 1);
    return (without(kLast).shifted_up(1) | without(kFirst).shifted_down(1) | shifted_up(kColumns) |
            shifted_down(kColumns)) &
           kBoard;
  }

 private:
  explicit constexpr GoPoints(const PlaneType& plane) : PlaneType(plane) {}

  static constexpr GoPoints column(int number) {
    GoPoints points;
    for (int row = 0; row < kRows; ++row) points.set(kColumns * row + number);
    return points;
  }

  // Every point moved by `step` in 1..63, to higher or to lower numbers.
  constexpr GoPoints shifted_up(int step) const {
    GoPoints points;
    for (int word = 0; word < kWords; ++word) {
      points.words_[word] = words_[word] << step;
      if (word > 0) points.words_[word] |= words_[word - 1] >> (64 - step);
    }
    return points;
  }
  constexpr GoPoints shifted_down(int step) const {
    GoPoints points;
    for (int word = 0; word < kWords; ++word) {
      points.words_[word] = words_[word] >> step;
      if (word + 1 < kWords) points.words_[word] |= words_[word + 1] << (64 - step);
    }
    return points;
  }
};

// The two to four neighbours of a point; none on a board of one point.
class GoNeighbours {
 public:
  constexpr void push_back(int point) { points_[size_++] = static_cast<std::int16_t>(point); }
  constexpr int size() const { return size_; }
  constexpr int operator[](int index) const { return points_[index]; }
  constexpr const std::int16_t* begin() const { return points_.data(); }
  constexpr const std::int16_t* end() const { return points_.data() + size_; }

 private:
  std::array<std::int16_t, 4> points_{};
  std::int16_t size_ = 0;
};

// [point]
template <int kRows, int kColumns>
inline constexpr auto kGoNeighbours = [] {
  std::array<GoNeighbours, kRows * kColumns> table{};
  for (int row = 0; row < kRows; ++row) {
    for (int column = 0; column < kColumns; ++column) {
      const int point = kColumns * row + column;
      if (row > 0) table[point].push_back(point - kColumns);
      if (column > 0) table[point].push_back(point - 1);
      if (column + 1 < kColumns) table[point].push_back(point + 1);
      if (row + 1 < kRows) table[point].push_back(point + kColumns);
    }
  }
  return table;
}();

// [player][point]. The hash of a board is the exclusive or of its stones' keys (Zobrist 1970); it
// is 0 for the empty board. The keys come from a SplitMix64 stream.
template <int kPoints>
inline constexpr auto kGoKeys = [] {
  std::array<std::array<std::uint64_t, kPoints>, 2> keys{};
  std::uint64_t counter = 0;
  for (auto& player : keys) {
    for (std::uint64_t& key : player) key = mix_bits(counter += 0x9e3779b97f4a7c15ULL);
  }
  return keys;
}();

}  // namespace zerofleet
