// Perfect play of Connect Four: win, draw or loss of any position, by alpha-beta search.
//
// The game was first solved by Allen and by Allis in 1988. Outcomes are for the player to move:
// +1 a win, 0 a draw, -1 a loss.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "zerofleet/connect_four_board.h"
#include "zerofleet/connect_four_follow_up.h"
#include "zerofleet/outcome_table.h"

namespace zerofleet {

// Thread-safe: what one call finds out, the others may use.
class ConnectFourSolver {
 public:
  using Board = connect_four::Board;
  using Outcomes = std::array<std::optional<int>, connect_four::kColumns>;

  static constexpr std::size_t kDefaultEntries = std::size_t{1} << 19;  // 4 MiB: fits the cache

  explicit ConnectFourSolver(std::size_t table_entries = kDefaultEntries) : table_(table_entries) {}

  // Of perfect play. Neither player may have four in `board` already.
  int outcome(const Board& board) {
    if (board.occupied == connect_four::kBoard) return 0;
    if (connect_four::completing_cells(board.own) & board.playable()) return 1;
    Node node = look_at(board);
    if (!node.candidates) return -1;
    node.key = key_of(board);
    node.known = table_.find(node.key);
    if (node.known.lower == node.known.upper) return node.known.lower;
    std::uint64_t visited = 0;
    if (node.known.upper == 1 && reaches(node, 1, visited)) return 1;
    node.known.upper = 0;
    return node.known.lower == 0 || reaches(node, 0, visited) ? 0 : -1;
  }

  // Of each column for the player who moves there, nothing for a full column.
  Outcomes action_outcomes(const Board& board) {
    Outcomes outcomes;
    for (int column = 0; column < connect_four::kColumns; ++column) {
      const Bits cell = board.playable(column);
      if (!cell) continue;
      const bool wins = connect_four::has_four(board.own | cell);
      outcomes[static_cast<std::size_t>(column)] = wins ? 1 : -outcome(board.after(cell));
    }
    return outcomes;
  }

 private:
  using Bits = connect_four::Bits;

  // A position in which the player to move cannot win at once.
  struct Node {
    Board board;
    Bits threats = 0;     // empty cells on which the other player would complete four
    Bits candidates = 0;  // cells after which the other player cannot win at once
    std::uint64_t key = 0;
    OutcomeBounds known;
    int promise = 0;  // to the other player, who moved here: searched first
  };

  // What the player to move may do, at most one node for each column.
  struct Replies {
    std::array<Node, connect_four::kColumns> nodes;
    int size = 0;
    bool one_suffices = false;  // a reply is known to reach the goal
  };

  static Node look_at(const Board& board);
  static std::uint64_t key_of(const Board& board);
  static int promise_of(const Node& node, int column);

  // Whether the player to move gets at least `goal`, 0 or 1. There must be candidates.
  bool reaches(const Node& node, int goal, std::uint64_t& visited);

  Replies replies_to(const Node& node, int goal) const;

  // Drops the replies that are known to miss the goal, and puts the most promising first.
  void choose(Replies& replies, int goal) const;

  OutcomeTable table_;
};

inline ConnectFourSolver::Node ConnectFourSolver::look_at(const Board& board) {
  Node node;
  node.board = board;
  node.threats = connect_four::completing_cells(board.other()) & ~board.occupied;
  const Bits playable = board.playable();
  const Bits forced = playable & node.threats;
  if (std::has_single_bit(forced) || !forced) {
    node.candidates = (forced ? forced : playable) & ~(node.threats >> 1);
  }
  return node;
}

// A position and its mirror image share a key while enough games are near enough to symmetry for
// that to pay.
inline std::uint64_t ConnectFourSolver::key_of(const Board& board) {
  constexpr int kMirrorPlies = 16;
  if (board.ply() > kMirrorPlies) return board.key();
  return std::min(board.key(), board.mirror().key());
}

// Threats count, and twice on the rows that fall to their owner in the end: odd rows to the first
// player, even rows to the second.
inline int ConnectFourSolver::promise_of(const Node& node, int column) {
  using namespace connect_four;
  const Bits lasting =
      node.board.ply() % 2 == 1 ? node.threats & ~kEvenRows : node.threats & kEvenRows;
  constexpr int kThreatWeight = 4;
  const int centrality = std::min(column, kColumns - 1 - column);
  return kThreatWeight * (std::popcount(node.threats) + std::popcount(lasting)) + centrality;
}

inline ConnectFourSolver::Replies ConnectFourSolver::replies_to(const Node& node, int goal) const {
  Replies replies;
  for (const int column : {3, 2, 4, 1, 5, 0, 6}) {
    const Bits cell = node.candidates & connect_four::column_bits(column);
    if (!cell) continue;
    Node& reply = replies.nodes[replies.size];
    reply = look_at(node.board.after(cell));
    if (!reply.candidates || connect_four::follow_up_bound(reply.board, reply.threats) <= -goal) {
      replies.one_suffices = true;
      return replies;
    }
    reply.key = key_of(reply.board);
    reply.promise = promise_of(reply, column);
    table_.prefetch(reply.key);
    ++replies.size;
  }
  choose(replies, goal);
  return replies;
}

inline void ConnectFourSolver::choose(Replies& replies, int goal) const {
  int kept = 0;
  for (int i = 0; i < replies.size; ++i) {
    Node reply = replies.nodes[i];
    reply.known = table_.find(reply.key);
    if (reply.known.upper <= -goal) {
      replies.one_suffices = true;
      return;
    }
    if (reply.known.lower > -goal) continue;
    int place = kept++;
    for (; place > 0 && replies.nodes[place - 1].promise < reply.promise; --place) {
      replies.nodes[place] = replies.nodes[place - 1];
    }
    replies.nodes[place] = reply;
  }
  replies.size = kept;
}

inline bool ConnectFourSolver::reaches(const Node& node, int goal, std::uint64_t& visited) {
  ++visited;
  if (node.board.ply() >= connect_four::kCells - 2) return goal <= 0;
  const std::uint64_t visited_before = visited;
  const Replies replies = replies_to(node, goal);
  bool reached = replies.one_suffices;
  for (int i = 0; i < replies.size && !reached; ++i) {
    reached = !reaches(replies.nodes[i], 1 - goal, visited);
  }
  OutcomeBounds bounds = node.known;
  (reached ? bounds.lower : bounds.upper) = reached ? goal : goal - 1;
  table_.store(node.key, bounds, visited - visited_before);
  return reached;
}

}  // namespace zerofleet
