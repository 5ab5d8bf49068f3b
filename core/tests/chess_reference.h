// Chess rules a second time, slow and simple: a board of letters, every move tried by playing it.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <set>
#include <sstream>
#include <string>
#include <string_view>

namespace zerofleet::test {

// A position as a FEN tells it, always in White's view.
class ChessReference {
 public:
  explicit ChessReference(const std::string& fen, bool chess960) : chess960_(chess960) {
    std::istringstream fields(fen);
    std::string pieces;
    std::string player;
    std::string rights;
    fields >> pieces >> player >> rights >> en_passant_;
    int square = 0;
    for (const char letter : pieces) {
      if (letter == '/') continue;
      if (std::isdigit(letter)) {
        for (int i = 0; i < letter - '0'; ++i) at(square++) = '.';
      } else {
        at(square++) = letter;
      }
    }
    is_white_ = player == "w";
    for (const char letter : rights) {
      if (letter == '-') break;
      const bool is_white = std::isupper(letter);
      const char small = static_cast<char>(std::tolower(letter));
      const int home = is_white ? 56 : 0;
      rooks_.insert(home + (small == 'k' ? 7 : small == 'q' ? 0 : small - 'a'));
    }
  }

  bool is_check() const { return attacks(!is_white_, king(is_white_)); }

  // All legal moves in the notation of the Universal Chess Interface.
  std::set<std::string> moves() const {
    std::set<std::string> found;
    for (int from = 0; from < 64; ++from) {
      if (!is_own(at(from))) continue;
      for (int to = 0; to < 64; ++to) {
        if (is_own(at(to)) || !can_step(from, to)) continue;
        ChessReference next = *this;
        const bool is_pawn = std::tolower(at(from)) == 'p';
        if (is_pawn && at(to) == '.' && from % 8 != to % 8) next.at(8 * (from / 8) + to % 8) = '.';
        next.at(to) = at(from);
        next.at(from) = '.';
        if (next.attacks(!is_white_, next.king(is_white_))) continue;
        const std::string move = name(from) + name(to);
        if (is_pawn && (to / 8 == 0 || to / 8 == 7)) {
          for (const char piece : {'n', 'b', 'r', 'q'}) found.insert(move + piece);
        } else {
          found.insert(move);
        }
      }
    }
    if (!is_check()) {
      for (const int rook : rooks_) add_castling(rook, found);
    }
    return found;
  }

 private:
  static std::string name(int square) {
    return {static_cast<char>('a' + square % 8), static_cast<char>('8' - square / 8)};
  }

  char& at(int square) { return board_[static_cast<std::size_t>(square)]; }
  char at(int square) const { return board_[static_cast<std::size_t>(square)]; }

  bool is_own(char letter) const {
    return is_white_ ? std::isupper(letter) != 0 : std::islower(letter) != 0;
  }

  int king(bool white) const {
    for (int square = 0; square < 64; ++square) {
      if (at(square) == (white ? 'K' : 'k')) return square;
    }
    return -1;
  }

  bool is_free(int from, int to, int down, int right) const {
    for (int square = from + 8 * down + right; square != to; square += 8 * down + right) {
      if (at(square) != '.') return false;
    }
    return true;
  }

  // Whether the piece on `from` attacks `to`, whoever stands there.
  bool reaches(int from, int to) const {
    const int down = to / 8 - from / 8;
    const int right = to % 8 - from % 8;
    const int far_down = down < 0 ? -down : down;
    const int far_right = right < 0 ? -right : right;
    if (from == to) return false;
    const bool straight = down == 0 || right == 0;
    const bool diagonal = far_down == far_right;
    const int step_down = (down > 0) - (down < 0);
    const int step_right = (right > 0) - (right < 0);
    switch (std::tolower(at(from))) {
      case 'p':
        return far_right == 1 && down == (std::isupper(at(from)) ? -1 : 1);
      case 'n':
        return far_down * far_right == 2;
      case 'k':
        return far_down <= 1 && far_right <= 1;
      case 'b':
        return diagonal && is_free(from, to, step_down, step_right);
      case 'r':
        return straight && is_free(from, to, step_down, step_right);
      case 'q':
        return (straight || diagonal) && is_free(from, to, step_down, step_right);
      default:
        return false;
    }
  }

  bool attacks(bool white, int square) const {
    for (int from = 0; from < 64; ++from) {
      const bool is_theirs = white ? std::isupper(at(from)) : std::islower(at(from));
      if (is_theirs && reaches(from, square)) return true;
    }
    return false;
  }

  bool can_step(int from, int to) const {
    if (std::tolower(at(from)) != 'p') return reaches(from, to);
    const int ahead = is_white_ ? -8 : 8;
    if (from % 8 != to % 8) {
      return reaches(from, to) && (at(to) != '.' || name(to) == en_passant_);
    }
    if (to == from + ahead) return at(to) == '.';
    const bool is_home = from / 8 == (is_white_ ? 6 : 1);
    return is_home && to == from + 2 * ahead && at(to) == '.' && at(from + ahead) == '.';
  }

  void add_castling(int rook, std::set<std::string>& found) const {
    const int from = king(is_white_);
    if (!is_own(at(rook)) || rook / 8 != from / 8) return;
    const bool is_short = rook > from;
    const int to = 8 * (from / 8) + (is_short ? 6 : 2);
    ChessReference next = *this;
    next.at(from) = next.at(rook) = '.';
    const int rook_to = is_short ? to - 1 : to + 1;
    for (int square = std::min(from, to); square <= std::max(from, to); ++square) {
      if (next.at(square) != '.' || next.attacks(!is_white_, square)) return;
    }
    for (int square = std::min(rook, rook_to); square <= std::max(rook, rook_to); ++square) {
      if (next.at(square) != '.') return;
    }
    found.insert(name(from) + name(chess960_ ? rook : to));
  }

  std::array<char, 64> board_{};
  std::string en_passant_;
  std::set<int> rooks_;  // squares of rooks that may castle
  bool is_white_ = true;
  bool chess960_;
};

}  // namespace zerofleet::test
