// Go written a second time, slowly: whole boards, flood fill and a list of all earlier boards.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace zerofleet::test {

// Points `columns * row + column`; '.' is empty, 'X' and 'O' are the players' stones.
class SlowGo {
 public:
  SlowGo(int rows, int columns, bool suicide)
      : suicide_(suicide), board_(rows * columns, '.'), neighbours_(rows * columns) {
    for (int point = 0; point < rows * columns; ++point) {
      const int row = point / columns;
      const int column = point % columns;
      if (row > 0) neighbours_[point].push_back(point - columns);
      if (row + 1 < rows) neighbours_[point].push_back(point + columns);
      if (column > 0) neighbours_[point].push_back(point - 1);
      if (column + 1 < columns) neighbours_[point].push_back(point + 1);
    }
    seen_.insert(board_);
  }

  const std::string& board() const { return board_; }

  bool is_legal(int point, char colour) const {
    if (board_[point] != '.') return false;
    bool is_suicide = false;
    const std::string after = board_after(point, colour, is_suicide);
    return (suicide_ || !is_suicide) && !seen_.contains(after);
  }

  // Whether nothing but repetition forbids the move.
  bool only_repeats(int point, char colour) const {
    if (board_[point] != '.') return false;
    bool is_suicide = false;
    const std::string after = board_after(point, colour, is_suicide);
    return (suicide_ || !is_suicide) && seen_.contains(after);
  }

  void play(int point, char colour) {
    bool is_suicide = false;
    board_ = board_after(point, colour, is_suicide);
    seen_.insert(board_);
  }

  // The chain of a point: all points connected to it by points of its colour.
  std::vector<int> chain(const std::string& board, int point) const {
    std::vector<int> chain = {point};
    std::vector<bool> reached(board.size(), false);
    reached[point] = true;
    for (std::size_t index = 0; index < chain.size(); ++index) {
      for (const int near : neighbours(chain[index])) {
        if (board[near] != board[point] || reached[near]) continue;
        reached[near] = true;
        chain.push_back(near);
      }
    }
    return chain;
  }

  // The points of another kind that touch a chain.
  std::set<int> touched(const std::string& board, const std::vector<int>& chain, char kind) const {
    std::set<int> points;
    for (const int stone : chain) {
      for (const int near : neighbours(stone)) {
        if (board[near] == kind) points.insert(near);
      }
    }
    return points;
  }

  // By point, whose area it is: 'X', 'O' or '.'.
  std::string area() const {
    std::string area = board_;
    for (std::size_t point = 0; point < board_.size(); ++point) {
      if (area[point] != '.') continue;
      const std::vector<int> region = chain(board_, static_cast<int>(point));
      const bool first = !touched(board_, region, 'X').empty();
      const bool second = !touched(board_, region, 'O').empty();
      const char owner = first == second ? '-' : first ? 'X' : 'O';
      for (const int empty : region) area[empty] = owner;
    }
    std::ranges::replace(area, '-', '.');
    return area;
  }

 private:
  const std::vector<int>& neighbours(int point) const { return neighbours_[point]; }

  // Empties the chain of a point if it has no liberty.
  bool clear_if_dead(std::string& board, int point) const {
    for (const int near : neighbours(point)) {
      if (board[near] == '.') return false;
    }
    const std::vector<int> stones = chain(board, point);
    if (!touched(board, stones, '.').empty()) return false;
    for (const int stone : stones) board[stone] = '.';
    return true;
  }

  std::string board_after(int point, char colour, bool& is_suicide) const {
    std::string board = board_;
    board[point] = colour;
    for (const int near : neighbours(point)) {
      if (board[near] == (colour == 'X' ? 'O' : 'X')) clear_if_dead(board, near);
    }
    is_suicide = clear_if_dead(board, point);
    return board;
  }

  bool suicide_;
  std::string board_;
  std::vector<std::vector<int>> neighbours_;  // by point
  std::set<std::string> seen_;
};

}  // namespace zerofleet::test
