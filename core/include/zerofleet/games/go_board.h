// A Go board: stones, their chains and liberties, and what a move does to them.
#pragma once

#include <array>
#include <cstdint>
#include <utility>

#include "zerofleet/game.h"
#include "zerofleet/games/go_points.h"

namespace zerofleet {

// Colour of a point without a stone.
inline constexpr Player kNoStone = -1;

// Does not know turns, repetition or komi: either colour may move at any time. Two boards are equal
// if they have the same stones.
//
// The stones of a chain form a ring, and one of them, the head, represents the chain. The head
// holds the chain's liberties as one word of three sums over all pairs of a stone and an empty
// neighbour. The sums are of 1 (bits 0 to 10), of the neighbour's point (bits 11 to 30) and of the
// point's square (bits 31 to 58). So a stone changes the word by additions alone. A chain has a
// single liberty exactly if pairs * squares == points^2, the case of equality in Cauchy's
// inequality.
template <int kRows, int kColumns>
class GoBoard {
  static_assert(kRows >= 1 && kColumns >= 1 && kRows * kColumns <= 361);

 public:
  static constexpr int kPoints = kRows * kColumns;
  using Points = GoPoints<kRows, kColumns>;

  // Result of a move.
  struct Outcome {
    std::uint64_t hash;  // of the board after the move and its captures
    bool is_suicide;     // the move would remove its own chain
  };

  constexpr GoBoard() {
    colour_.fill(kNoStone);
    head_.fill(kNoHead);
  }

  // The player whose stone stands on a point, or kNoStone.
  constexpr Player at(int point) const { return colour_[point]; }

  constexpr const std::array<Points, 2>& stones() const { return stones_; }  // by player
  constexpr std::uint64_t hash() const { return hash_; }

  constexpr Points empty_points() const {
    constexpr Points kBoard = Points::all();
    return kBoard.without(stones_[0] | stones_[1]);
  }

  // Whether the chain of the stone on this point has a liberty. Only `put` leaves a chain without
  // one.
  constexpr bool has_liberty(int point) const { return liberties_[head_[point]] != 0; }

  // Liberties of the chain of the stone on this point, found by walking along the chain.
  constexpr Points liberties(int point) const {
    Points found;
    int stone = point;
    do {
      for (const int near : neighbours(stone)) {
        if (at(near) == kNoStone) found.set(near);
      }
      stone = next_[stone];
    } while (stone != point);
    return found;
  }

  // Calls `see(stones, liberties)` with the points of each chain of this colour.
  template <class See>
  constexpr void for_each_chain(Player colour, See&& see) const {
    stones_[colour].for_each([&](int stone) {
      if (head_[stone] != stone) return;
      Points chain;
      int current = stone;
      do {
        chain.set(current);
        current = next_[current];
      } while (current != stone);
      see(chain, liberties(stone));
    });
  }

  // Result of a stone of `colour` on an empty point.
  constexpr Outcome outcome(int point, Player colour) const {
    const GoNeighbours& around = neighbours(point);
    bool survives = false;
    std::uint64_t captured = 0;
    for (int index = 0; index < around.size(); ++index) {
      const int near = around[index];
      if (at(near) == kNoStone) {
        survives = true;
      } else if (at(near) == colour) {
        survives |= !has_one_liberty(near);
      } else if (has_one_liberty(near)) {
        survives = true;
        if (is_new_chain(around, index)) captured ^= chain_hash(near);
      }
    }
    if (survives) return {hash_ ^ captured ^ key(point, colour), false};
    std::uint64_t removed = 0;
    for (int index = 0; index < around.size(); ++index) {
      if (at(around[index]) == colour && is_new_chain(around, index)) {
        removed ^= chain_hash(around[index]);
      }
    }
    return {hash_ ^ removed, true};
  }

  // Whether the move is legal as far as the board alone can tell, that is without the rule against
  // repetition. Takes any point of the board.
  constexpr bool would_be_legal(int point, Player colour, bool suicide_allowed) const {
    return at(point) == kNoStone && (suicide_allowed || !outcome(point, colour).is_suicide);
  }

  // Puts a stone on an empty point, then removes opposing chains without liberties, then its own
  // chain if it has none.
  constexpr void play(int point, Player colour) {
    put(point, colour);
    for (const int near : neighbours(point)) {
      if (at(near) == 1 - colour && !has_liberty(near)) remove_chain(near);
    }
    if (!has_liberty(point)) remove_chain(point);
  }

  // Puts a stone on an empty point and removes nothing. Used to set up a board.
  constexpr void put(int point, Player colour) {
    colour_[point] = colour;
    stones_[colour].set(point);
    hash_ ^= key(point, colour);
    head_[point] = next_[point] = static_cast<std::int16_t>(point);
    liberties_[point] = 0;
    for (const int near : neighbours(point)) {
      if (at(near) == kNoStone) {
        liberties_[point] += pair_with(near);
      } else {
        liberties_[head_[near]] -= pair_with(point);
      }
    }
    for (const int near : neighbours(point)) {
      if (at(near) == colour && head_[near] != head_[point]) merge(point, near);
    }
  }

  // Each player's points in area scoring, by player. They are the stones, and the empty points from
  // which paths over empty points reach only this player's stones (Tromp-Taylor rules 3 and 9).
  constexpr std::array<Points, 2> area() const {
    const Points first = reached_by(kFirstPlayer);
    const Points second = reached_by(kSecondPlayer);
    return {first.without(second), second.without(first)};
  }

  constexpr bool operator==(const GoBoard& other) const { return stones_ == other.stones_; }

 private:
  static constexpr std::int16_t kNoHead = -1;

  static constexpr const GoNeighbours& neighbours(int point) {
    return kGoNeighbours<kRows, kColumns>[point];
  }
  static constexpr std::uint64_t key(int point, Player colour) {
    return kGoKeys<kPoints>[colour][point];
  }
  static constexpr std::uint64_t pair_with(int point) {
    const auto number = static_cast<std::uint64_t>(point);
    return 1 | number << 11 | number * number << 31;
  }

  constexpr bool has_one_liberty(int stone) const {
    const std::uint64_t word = liberties_[head_[stone]];
    const std::uint64_t pairs = word & 0x7ff;
    const std::uint64_t points = (word >> 11) & 0xfffff;
    const std::uint64_t squares = word >> 31;
    return pairs * squares == points * points;
  }

  // Whether no earlier neighbour belongs to the same chain.
  constexpr bool is_new_chain(const GoNeighbours& around, int index) const {
    for (int earlier = 0; earlier < index; ++earlier) {
      if (head_[around[earlier]] == head_[around[index]]) return false;
    }
    return true;
  }

  constexpr std::uint64_t chain_hash(int stone) const {
    std::uint64_t hash = 0;
    int current = stone;
    do {
      hash ^= key(current, at(stone));
      current = next_[current];
    } while (current != stone);
    return hash;
  }

  // Joins the chain of `stone` to that of `other`.
  constexpr void merge(int stone, int other) {
    const std::int16_t head = head_[other];
    liberties_[head] += liberties_[head_[stone]];
    int current = stone;
    do {
      head_[current] = head;
      current = next_[current];
    } while (current != stone);
    std::swap(next_[stone], next_[other]);
  }

  constexpr void remove_chain(int stone) {
    const Player colour = at(stone);
    int current = stone;
    do {
      colour_[current] = kNoStone;
      stones_[colour].reset(current);
      hash_ ^= key(current, colour);
      for (const int near : neighbours(current)) {
        if (at(near) != kNoStone) liberties_[head_[near]] += pair_with(current);
      }
      head_[current] = kNoHead;
      current = next_[current];
    } while (current != stone);
  }

  // A player's stones and the empty points connected to them.
  constexpr Points reached_by(Player player) const {
    Points reached = stones_[player];
    std::array<std::int16_t, kPoints> waiting{};
    int size = 0;
    reached.for_each([&](int stone) { waiting[size++] = static_cast<std::int16_t>(stone); });
    while (size > 0) {
      for (const int near : neighbours(waiting[--size])) {
        if (at(near) != kNoStone || reached.test(near)) continue;
        reached.set(near);
        waiting[size++] = static_cast<std::int16_t>(near);
      }
    }
    return reached;
  }

  std::array<Points, 2> stones_{};                  // by player
  std::array<std::uint64_t, kPoints> liberties_{};  // by point; valid at the heads of chains
  std::array<std::int16_t, kPoints> head_{};        // by point; kNoHead where no stone stands
  std::array<std::int16_t, kPoints> next_{};        // by point; the next stone of the ring
  std::array<Player, kPoints> colour_{};            // by point; kNoStone where no stone stands
  std::uint64_t hash_ = 0;
};

}  // namespace zerofleet
