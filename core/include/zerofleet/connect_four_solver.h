// Perfect play in Connect Four: the outcome or the score of any position, by alpha-beta search.
//
// Allen and Allis, each on his own, first solved the game in 1988. Outcomes and scores are for the
// player to move. An outcome is +1 for a win, 0 for a draw, -1 for a loss.
//
// A score also tells how soon the game ends if the winner hurries and the loser resists. It is the
// number of discs that the winner has left after the game, counting the last one played (Pons,
// "Solving Connect 4", 2015). It is negative for a loss. So 1 is a win by a player's last disc, the
// 41st or 42nd of the game, and the sign of a score is the outcome.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "zerofleet/connect_four_board.h"
#include "zerofleet/connect_four_follow_up.h"
#include "zerofleet/score_table.h"

namespace zerofleet {

// Score of a player who completes four with the next disc.
constexpr int score_of_win(int ply) { return connect_four::kCells / 2 - ply / 2; }
static_assert(score_of_win(6) == kBestScore);

// Thread-safe: all calls share the results found so far.
class ConnectFourSolver {
 public:
  using Board = connect_four::Board;
  using Scores = std::array<std::optional<int>, connect_four::kColumns>;

  static constexpr std::size_t kDefaultEntries = std::size_t{1} << 19;  // 4 MiB: fits the cache

  explicit ConnectFourSolver(std::size_t table_entries = kDefaultEntries) : table_(table_entries) {}

  // Outcome of perfect play. Neither player may already have four in `board`.
  int outcome(const Board& board) { return std::clamp(score_within(board, {-1, 1}), -1, 1); }

  // Score of perfect play, in which the winner hurries and the loser resists. Neither player may
  // already have four in `board`.
  int score(const Board& board) { return score_within(board, {-kBestScore, kBestScore}); }

  // Outcome after each column for the player who moves there; nullopt for a full column.
  Scores action_outcomes(const Board& board) {
    Scores outcomes = action_scores_within(board, {-1, 1});
    for (auto& outcome : outcomes) {
      if (outcome) outcome = std::clamp(*outcome, -1, 1);
    }
    return outcomes;
  }

  // The columns that keep the position's score.
  std::vector<int> best_actions(const Board& board) {
    const int best = score(board);
    const Scores scores = action_scores_within(board, {-best, 1 - best});
    std::vector<int> columns;
    for (int column = 0; column < connect_four::kColumns; ++column) {
      const auto& score = scores[static_cast<std::size_t>(column)];
      if (score && *score >= best) columns.push_back(column);
    }
    return columns;
  }

 private:
  using Bits = connect_four::Bits;

  // A position in which the player to move cannot win at once.
  struct Node {
    Board board;
    Bits threats = 0;     // empty cells on which the other player would complete four
    Bits candidates = 0;  // cells after which the other player cannot win at once
    std::uint64_t key = 0;
    ScoreBounds known;
    int promise = 0;  // for the other player, who moved here; the highest is searched first
  };

  // Replies of the player to move, at most one node for each column.
  struct Replies {
    std::array<Node, connect_four::kColumns> nodes;
    int size = 0;
    bool one_suffices = false;  // a reply is known to reach the goal
  };

  static Node look_at(const Board& board);
  static std::uint64_t key_of(const Board& board);
  static int promise_of(const Node& node, int column);

  // Returns the score if it lies in the window. Otherwise returns the nearer end of the window, or
  // any score beyond that end.
  int score_within(const Board& board, ScoreBounds window);
  // Score after each column. `window` is for the player who moves after it.
  Scores action_scores_within(const Board& board, ScoreBounds window);

  // Whether the player to move gets at least the score `goal`. `node` must have candidates.
  bool reaches(const Node& node, int goal, std::uint64_t& visited);

  // Whether the follow-up bound shows that the other player, who moved here, gets at least the
  // score `goal`.
  static bool follow_up_decides(const Node& node, int goal);

  Replies replies_to(const Node& node, int goal) const;

  // Drops the replies that are known to miss the goal and sorts the others, most promising first.
  void choose(Replies& replies, int goal) const;

  ScoreTable table_;
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

// A position and its mirror image share a key early in the game. Later too few games are nearly
// symmetric for this to pay.
inline std::uint64_t ConnectFourSolver::key_of(const Board& board) {
  constexpr int kMirrorPlies = 16;
  if (board.ply() > kMirrorPlies) return board.key();
  return std::min(board.key(), board.mirror().key());
}

// Each threat counts once, or twice on a row that falls to its owner in the end. Odd rows fall to
// the first player, even rows to the second.
inline int ConnectFourSolver::promise_of(const Node& node, int column) {
  using namespace connect_four;
  const Bits lasting =
      node.board.ply() % 2 == 1 ? node.threats & ~kEvenRows : node.threats & kEvenRows;
  constexpr int kThreatWeight = 4;
  const int centrality = std::min(column, kColumns - 1 - column);
  return kThreatWeight * (std::popcount(node.threats) + std::popcount(lasting)) + centrality;
}

inline bool ConnectFourSolver::follow_up_decides(const Node& node, int goal) {
  if (goal > 1) return false;  // following wins late
  const int bound = connect_four::follow_up_bound(node.board, node.threats);
  return bound < 1 && bound <= -goal;
}

inline ConnectFourSolver::Replies ConnectFourSolver::replies_to(const Node& node, int goal) const {
  Replies replies;
  for (const int column : {3, 2, 4, 1, 5, 0, 6}) {
    const Bits cell = node.candidates & connect_four::column_bits(column);
    if (!cell) continue;
    Node& reply = replies.nodes[replies.size];
    reply = look_at(node.board.after(cell));
    if (!reply.candidates || follow_up_decides(reply, goal)) {
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
  const int ply = node.board.ply();
  if (ply >= connect_four::kCells - 2) return goal <= 0;
  // Neither player wins with the next disc.
  if (goal > score_of_win(ply + 2)) return false;
  if (goal <= -score_of_win(ply + 3)) return true;
  const std::uint64_t visited_before = visited;
  const Replies replies = replies_to(node, goal);
  bool reached = replies.one_suffices;
  for (int i = 0; i < replies.size && !reached; ++i) {
    reached = !reaches(replies.nodes[i], 1 - goal, visited);
  }
  ScoreBounds bounds = node.known;
  (reached ? bounds.lower : bounds.upper) = reached ? goal : goal - 1;
  table_.store(node.key, bounds, visited - visited_before);
  return reached;
}

inline int ConnectFourSolver::score_within(const Board& board, ScoreBounds window) {
  const int ply = board.ply();
  if (board.occupied == connect_four::kBoard) return 0;
  if (connect_four::completing_cells(board.own) & board.playable()) return score_of_win(ply);
  Node node = look_at(board);
  if (!node.candidates) return -score_of_win(ply + 1);
  if (ply >= connect_four::kCells - 2) return 0;
  node.key = key_of(board);
  ScoreBounds& known = node.known;
  known = table_.find(node.key);
  known.lower = std::max(known.lower, -score_of_win(ply + 3));
  known.upper = std::min(known.upper, score_of_win(ply + 2));
  std::uint64_t visited = 0;
  for (;;) {
    const int low = std::max(known.lower, window.lower);
    const int high = std::min(known.upper, window.upper);
    if (low >= high) return low;
    // Find the outcome first, then look for an end one disc sooner at a time: distant ends are
    // known before nearer ones.
    const int goal = high > 0 ? std::max(low, 0) + 1 : high;
    if (reaches(node, goal, visited)) {
      known.lower = goal;
    } else {
      known.upper = goal - 1;
    }
  }
}

inline ConnectFourSolver::Scores ConnectFourSolver::action_scores_within(const Board& board,
                                                                         ScoreBounds window) {
  Scores scores;
  for (int column = 0; column < connect_four::kColumns; ++column) {
    const Bits cell = board.playable(column);
    if (!cell) continue;
    const bool wins = connect_four::has_four(board.own | cell);
    scores[static_cast<std::size_t>(column)] =
        wins ? score_of_win(board.ply()) : -score_within(board.after(cell), window);
  }
  return scores;
}

}  // namespace zerofleet
