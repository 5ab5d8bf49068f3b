// Chess positions as bitboards: attacks, legal moves and making a move.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <utility>

#include "zerofleet/game.h"

namespace zerofleet {

// A set of squares; square s is bit s. A square is `8 * row + column`. The board is seen by the
// player to move, who plays up the board: row 0 is the last rank, row 7 the player's own first
// rank. Column 0 is the a-file for both players, so Black sees the board mirrored top to bottom.
using Squares = std::uint64_t;

enum ChessKind : std::int8_t { kPawn, kKnight, kBishop, kRook, kQueen, kKing };
inline constexpr int kChessKinds = 6;

// A move of a piece. Castling moves the king by two files, or in Chess960 onto its own rook.
struct ChessMove {
  std::int8_t from;
  std::int8_t to;
  ChessKind promotion = kQueen;  // read only for a pawn that reaches the last rank

  bool operator==(const ChessMove&) const = default;
};

namespace chess {

inline constexpr Squares kFileA = 0x0101010101010101;
inline constexpr Squares kFileH = kFileA << 7;
inline constexpr Squares kFirstRank = Squares{0xff} << 56;  // the mover's own
inline constexpr Squares kSecondRank = Squares{0xff} << 48;
inline constexpr Squares kSeventhRank = Squares{0xff} << 8;
inline constexpr Squares kLightSquares = 0xaa55aa55aa55aa55;  // a8 is light

constexpr Squares bit(int square) { return Squares{1} << square; }
constexpr int row_of(int square) { return square >> 3; }
constexpr int column_of(int square) { return square & 7; }
constexpr int first(Squares squares) { return std::countr_zero(squares); }

// The board as the other player sees it.
constexpr int mirrored(int square) { return square ^ 56; }
constexpr Squares mirrored(Squares squares) { return __builtin_bswap64(squares); }

// Squares that the mover's pawns attack, and squares from which the mover's pawns attack.
constexpr Squares attacked_by_pawns(Squares pawns) {
  return ((pawns >> 9) & ~kFileH) | ((pawns >> 7) & ~kFileA);
}
constexpr Squares pawns_attacking(Squares squares) {
  return ((squares << 7) & ~kFileH) | ((squares << 9) & ~kFileA);
}

// Squares at each of these offsets (rows, columns), by square.
template <std::size_t kCount>
constexpr std::array<Squares, 64> steps(const std::array<std::array<int, 2>, kCount>& offsets) {
  std::array<Squares, 64> table{};
  for (int square = 0; square < 64; ++square) {
    for (const auto& [down, right] : offsets) {
      const int row = row_of(square) + down;
      const int column = column_of(square) + right;
      if (row < 0 || row > 7 || column < 0 || column > 7) continue;
      table[static_cast<std::size_t>(square)] |= bit(8 * row + column);
    }
  }
  return table;
}

inline constexpr std::array<Squares, 64> kKnightSteps =
    steps<8>({{{-2, -1}, {-2, 1}, {-1, -2}, {-1, 2}, {1, -2}, {1, 2}, {2, -1}, {2, 1}}});
inline constexpr std::array<Squares, 64> kKingSteps =
    steps<8>({{{-1, -1}, {-1, 0}, {-1, 1}, {0, -1}, {0, 1}, {1, -1}, {1, 0}, {1, 1}}});

// The squares of a line through a square, on either side of it.
struct Line {
  Squares below = 0;  // lower squares
  Squares above = 0;
};

// By square: rank, file, and both diagonals.
inline constexpr std::array<std::array<Line, 4>, 64> kLines = [] {
  constexpr std::array<std::array<int, 2>, 4> kSteps = {{{0, 1}, {1, 0}, {1, 1}, {1, -1}}};
  std::array<std::array<Line, 4>, 64> lines{};
  for (int square = 0; square < 64; ++square) {
    for (std::size_t line = 0; line < 4; ++line) {
      for (const int sign : {-1, 1}) {
        int row = row_of(square) + sign * kSteps[line][0];
        int column = column_of(square) + sign * kSteps[line][1];
        for (; row >= 0 && row <= 7 && column >= 0 && column <= 7;
             row += sign * kSteps[line][0], column += sign * kSteps[line][1]) {
          const int other = 8 * row + column;
          auto& through = lines[static_cast<std::size_t>(square)][line];
          (other < square ? through.below : through.above) |= bit(other);
        }
      }
    }
  }
  return lines;
}();

// The squares of a line up to the nearest occupied one on either side, which is included.
constexpr Squares reach(const Line& line, Squares occupied) {
  const Squares below = std::bit_floor((line.below & occupied) | 1);
  const Squares above = line.above & occupied;
  const Squares nearest_above = above & (~above + 1);
  return (line.below | line.above) & (~below + 1) & (2 * nearest_above - 1);
}

[[gnu::always_inline]] constexpr Squares rook_attacks(int square, Squares occupied) {
  const auto& lines = kLines[static_cast<std::size_t>(square)];
  return reach(lines[0], occupied) | reach(lines[1], occupied);
}
[[gnu::always_inline]] constexpr Squares bishop_attacks(int square, Squares occupied) {
  const auto& lines = kLines[static_cast<std::size_t>(square)];
  return reach(lines[2], occupied) | reach(lines[3], occupied);
}
constexpr Squares knight_attacks(int square) {
  return kKnightSteps[static_cast<std::size_t>(square)];
}
constexpr Squares king_attacks(int square) { return kKingSteps[static_cast<std::size_t>(square)]; }

// The squares strictly between two squares of one rank.
constexpr Squares between(int a, int b) {
  const auto rank = [](int square) { return kLines[static_cast<std::size_t>(square)][0]; };
  return a < b ? rank(a).above & rank(b).below : rank(a).below & rank(b).above;
}

// Random numbers of each part of a position (Zobrist 1970). Squares and files are White's.
struct Keys {
  std::array<std::array<std::array<std::uint64_t, 64>, kChessKinds>, 2> piece{};  // by player
  std::array<std::array<std::uint64_t, 8>, 2> castling{};  // by player and the rook's file
  std::array<std::uint64_t, 8> en_passant{};
  std::uint64_t black_to_move = 0;
};
inline constexpr Keys kKeys = [] {
  Keys keys;
  std::uint64_t count = 0;
  const auto next = [&count] { return mix_bits(++count * 0x9e3779b97f4a7c15); };
  for (auto& kinds : keys.piece) {
    for (auto& squares : kinds) {
      for (std::uint64_t& key : squares) key = next();
    }
  }
  for (auto& files : keys.castling) {
    for (std::uint64_t& key : files) key = next();
  }
  for (std::uint64_t& key : keys.en_passant) key = next();
  keys.black_to_move = next();
  return keys;
}();

inline constexpr std::int8_t kNoFile = -1;

}  // namespace chess

// The legal moves of a position: `to[s]` is valid for every square s of `movers`, and not empty.
struct ChessTargets {
  std::array<Squares, 64> to;
  Squares movers = 0;
};

// A position without its past: pieces, castling rights and a possible en passant capture.
class ChessBoard {
 public:
  // Which of the four castling rights.
  enum Side { kOwnShort, kOwnLong, kTheirShort, kTheirLong };

  constexpr Squares own() const { return pieces_[0]; }
  constexpr Squares theirs() const { return pieces_[1]; }
  constexpr Squares occupied() const { return pieces_[0] | pieces_[1]; }
  constexpr Squares of_kind(ChessKind kind) const { return kinds_[static_cast<std::size_t>(kind)]; }
  constexpr const std::array<Squares, kChessKinds>& kinds() const { return kinds_; }
  constexpr Player to_move() const { return to_move_; }
  constexpr bool is_chess960() const { return chess960_; }

  // File of the rook that may castle; kNoFile without that right. A right says nothing about
  // whether castling is possible now.
  constexpr int castling_file(Side side) const {
    return castling_files_[static_cast<std::size_t>(side)];
  }

  // File of the pawn that can be captured en passant now, legally; kNoFile if there is none.
  constexpr int en_passant_file() const { return en_passant_file_; }

  // The square where such a capture arrives, or none.
  constexpr Squares en_passant_square() const {
    return en_passant_file_ == chess::kNoFile ? 0 : chess::bit(en_passant_target());
  }

  // Equal for positions with the same pieces, player to move and possible moves.
  constexpr std::uint64_t key() const { return key_; }

  // Kind of the piece on an occupied square.
  constexpr ChessKind kind_at(int square) const {
    int kind = 0;
    for (int k = 1; k < kChessKinds; ++k) {
      kind += k * static_cast<int>((kinds_[static_cast<std::size_t>(k)] >> square) & 1);
    }
    return static_cast<ChessKind>(kind);
  }

  // An empty board with White to move, to be filled by the functions below, then `start`.
  explicit constexpr ChessBoard(bool chess960 = false) : chess960_(chess960) {}

  // Squares and rook files are White's until `start` is called.
  constexpr void put(Player player, ChessKind kind, int square) {
    kinds_[static_cast<std::size_t>(kind)] |= chess::bit(square);
    pieces_[static_cast<std::size_t>(player)] |= chess::bit(square);
  }
  constexpr void allow_castling(Player player, bool is_short, int rook_file) {
    castling_files_[static_cast<std::size_t>(2 * player + (is_short ? 0 : 1))] =
        static_cast<std::int8_t>(rook_file);
  }

  // Completes the position. `en_passant_file` is the file of a pawn that has just moved by two
  // squares, or kNoFile; it only counts if a capture is legal.
  constexpr void start(Player to_move, int en_passant_file) {
    if (to_move == kSecondPlayer) mirror();
    key_ = to_move == kSecondPlayer ? chess::kKeys.black_to_move : 0;
    for (Squares rest = occupied(); rest != 0; rest &= rest - 1) {
      const int square = chess::first(rest);
      key_ ^= piece_key((own() >> square) & 1 ? to_move_ : opponent(), kind_at(square), square);
    }
    for (const Side side : {kOwnShort, kOwnLong, kTheirShort, kTheirLong}) {
      key_ ^= castling_key(side);
    }
    if (en_passant_file != chess::kNoFile) allow_en_passant(en_passant_file);
  }

  // The opponent's pieces among `pieces` that attack a square.
  constexpr Squares attackers(int square, Squares obstacles, Squares pieces) const {
    using namespace chess;
    const Squares queens = of_kind(kQueen);
    return pieces &
           ((attacked_by_pawns(bit(square)) & of_kind(kPawn)) |
            (knight_attacks(square) & of_kind(kKnight)) | (king_attacks(square) & of_kind(kKing)) |
            (rook_attacks(square, obstacles) & (of_kind(kRook) | queens)) |
            (bishop_attacks(square, obstacles) & (of_kind(kBishop) | queens)));
  }

  constexpr int king() const { return chess::first(own() & of_kind(kKing)); }
  constexpr bool is_check() const { return threats().checkers != 0; }

  // Whether the player to move could take the king, which no legal move allows.
  constexpr bool can_take_king() const {
    ChessBoard other = *this;
    other.mirror();
    return other.is_check();
  }

  constexpr bool has_legal_move() const {
    using namespace chess;
    // Nearly always a free pawn or knight answers at once.
    const Threats threats = this->threats();
    if (threats.checkers == 0) {
      Squares free = own();
      for (int i = 0; i < threats.num_pins; ++i) free &= ~threats.pins[i];
      if (((free & of_kind(kPawn)) >> 8) & ~occupied()) return true;
      for (Squares rest = free & of_kind(kKnight); rest != 0; rest &= rest - 1) {
        if (knight_attacks(first(rest)) & ~own()) return true;
      }
    }
    ChessTargets moves;
    find_targets(moves);
    return moves.movers != 0;
  }

  // All legal moves. A pawn that reaches the last rank has one target for all promotions.
  constexpr void find_targets(ChessTargets& moves) const {
    using namespace chess;
    const int king = this->king();
    const Squares all = occupied();
    const Threats threats = this->threats();
    moves.movers = 0;
    add_king_steps(king, moves);
    // Out of a double check only the king moves.
    if ((threats.checkers & (threats.checkers - 1)) != 0) return;
    Squares allowed = ~own();
    if (threats.checkers != 0) {
      allowed &= threats.check_mask;
    } else {
      add_castling(king, moves);
    }
    const Squares queens = of_kind(kQueen);
    for (Squares rest = own() & of_kind(kPawn); rest != 0; rest &= rest - 1) {
      const int from = first(rest);
      const Squares pawn = bit(from);
      const Squares step = (pawn >> 8) & ~all;
      const Squares second = ((step & (kSecondRank >> 8)) >> 8) & ~all;
      add(moves, from, (step | second | (attacked_by_pawns(pawn) & theirs())) & allowed);
    }
    for (Squares rest = own() & of_kind(kKnight); rest != 0; rest &= rest - 1) {
      add(moves, first(rest), knight_attacks(first(rest)) & allowed);
    }
    for (Squares rest = own() & (of_kind(kBishop) | queens); rest != 0; rest &= rest - 1) {
      add(moves, first(rest), bishop_attacks(first(rest), all) & allowed);
    }
    for (Squares rest = own() & (of_kind(kRook) | queens); rest != 0; rest &= rest - 1) {
      const int from = first(rest);
      const Squares so_far = (moves.movers >> from) & 1 ? moves.to[from] : 0;
      add(moves, from, so_far | (rook_attacks(from, all) & allowed));
    }
    for (int i = 0; i < threats.num_pins; ++i) {
      const int from = first(threats.pins[i] & own());
      if (((moves.movers >> from) & 1) == 0) continue;
      moves.to[from] &= threats.pins[i];
      if (moves.to[from] == 0) moves.movers ^= bit(from);
    }
    if (en_passant_file_ != kNoFile) add_en_passant(king, moves);
  }

  // Drops most moves that give no check, and none that gives one.
  constexpr void keep_checks(ChessTargets& moves) const {
    using namespace chess;
    const int their_king = first(theirs() & of_kind(kKing));
    const Squares straight = rook_attacks(their_king, occupied());
    const Squares diagonal = bishop_attacks(their_king, occupied());
    const Squares last_rank = Squares{0xff};
    const std::array<Squares, kChessKinds> checks = {
        pawns_attacking(bit(their_king)) | en_passant_square() | last_rank,
        knight_attacks(their_king),
        diagonal,
        straight,
        straight | diagonal,
        0};
    Squares discoverers = 0;  // pieces that give check by leaving a line
    for_each_slider(their_king, own(), [&](Squares, Squares line) {
      const Squares shields = line & occupied();
      if ((shields & (shields - 1)) == 0) discoverers |= shields & own();
    });
    for (Squares rest = moves.movers & ~discoverers; rest != 0; rest &= rest - 1) {
      const int from = first(rest);
      const ChessKind kind = kind_at(from);
      const Squares castling = kind == kKing ? own() | ~king_attacks(from) : 0;
      moves.to[from] &= checks[kind] | castling;
      if (moves.to[from] == 0) moves.movers ^= bit(from);
    }
  }

  constexpr bool is_castling(const ChessMove& move) const {
    if (move.from != king()) return false;
    if (chess960_) return (own() >> move.to) & 1;
    return move.to - move.from == 2 || move.from - move.to == 2;
  }
  // Whether a castling move goes to the king's side.
  constexpr bool castles_short(const ChessMove& move) const {
    return chess960_ ? move.to == 56 + castling_file(kOwnShort) : move.to > move.from;
  }
  constexpr bool is_en_passant(const ChessMove& move) const {
    return en_passant_file_ != chess::kNoFile && move.to == en_passant_target() &&
           chess::column_of(move.from) != en_passant_file_ &&
           (((own() & of_kind(kPawn)) >> move.from) & 1) != 0;
  }
  constexpr bool is_promotion(const ChessMove& move) const {
    return chess::row_of(move.from) == 1 && chess::row_of(move.to) == 0 &&
           (((own() & of_kind(kPawn)) >> move.from) & 1) != 0;
  }
  constexpr bool is_capture(const ChessMove& move) const {
    return ((theirs() >> move.to) & 1) || is_en_passant(move);
  }

  // Plays a legal move, and turns the board to the other player. Returns whether it can never be
  // undone: a capture or a pawn's move, which also restart the count of 50 moves.
  constexpr bool play(const ChessMove& move) {
    using namespace chess;
    const ChessKind kind = kind_at(move.from);
    const bool is_pawn = kind == kPawn;
    bool is_irreversible = is_pawn;
    const int pawn_taken = is_en_passant(move) ? move.to + 8 : -1;
    if (en_passant_file_ != kNoFile) {
      key_ ^= kKeys.en_passant[en_passant_file_];
      en_passant_file_ = kNoFile;
    }
    if (kind == kKing && is_castling(move)) {
      castle(move);
    } else {
      if ((theirs() >> move.to) & 1) {
        take(move.to);
        is_irreversible = true;
      } else if (pawn_taken >= 0) {
        take(pawn_taken);
      }
      toggle(0, kind, move.from);
      toggle(0, is_pawn && row_of(move.to) == 0 ? move.promotion : kind, move.to);
      if (kind == kKing) {
        lose_castling(kOwnShort);
        lose_castling(kOwnLong);
      } else if (kind == kRook && row_of(move.from) == 7) {
        lose_castling_of(kOwnShort, column_of(move.from));
      }
    }
    mirror();
    key_ ^= kKeys.black_to_move;
    if (is_pawn && move.from - move.to == 16) allow_en_passant(column_of(move.to));
    return is_irreversible;
  }

  // Neither player could ever give mate, whatever the other does: no pawns, rooks or queens, and
  // either one knight alone or only bishops of one square colour. FIDE Laws, article 5.2.2, where
  // the pieces alone decide.
  constexpr bool has_insufficient_material() const {
    if (of_kind(kPawn) | of_kind(kRook) | of_kind(kQueen)) return false;
    const Squares knights = of_kind(kKnight);
    const Squares bishops = of_kind(kBishop);
    if (knights != 0) return bishops == 0 && (knights & (knights - 1)) == 0;
    return (bishops & chess::kLightSquares) == 0 || (bishops & ~chess::kLightSquares) == 0;
  }

  constexpr bool operator==(const ChessBoard&) const = default;

 private:
  constexpr Player opponent() const { return static_cast<Player>(1 - to_move_); }

  // Square where a pawn of the player to move arrives by taking en passant.
  constexpr int en_passant_target() const { return 16 + en_passant_file_; }

  static constexpr void add(ChessTargets& moves, int from, Squares to) {
    moves.to[static_cast<std::size_t>(from)] = to;
    moves.movers |= static_cast<Squares>(to != 0) << from;
  }

  constexpr void add_king_steps(int king, ChessTargets& moves) const {
    using namespace chess;
    Squares to = 0;
    const Squares others = occupied() ^ bit(king);
    for (Squares rest = king_attacks(king) & ~own(); rest != 0; rest &= rest - 1) {
      if (attackers(first(rest), others, theirs()) == 0) to |= rest & (~rest + 1);
    }
    add(moves, king, to);
  }

  // The king and the rook may only cross free squares, and the king none that is attacked.
  // Chess960: the rook may shield the king where it stands, so it does not count as an obstacle to
  // attacks.
  constexpr void add_castling(int king, ChessTargets& moves) const {
    using namespace chess;
    for (const Side side : {kOwnShort, kOwnLong}) {
      const int file = castling_file(side);
      if (file == kNoFile) continue;
      const int rook = 56 + file;
      const int king_to = side == kOwnShort ? 62 : 58;
      const int rook_to = side == kOwnShort ? 61 : 59;
      const Squares others = occupied() & ~bit(king) & ~bit(rook);
      const Squares king_path = between(king, king_to) | bit(king_to);
      if (others & (king_path | between(rook, rook_to) | bit(rook_to))) continue;
      bool is_safe = true;
      for (Squares rest = king_path; rest != 0; rest &= rest - 1) {
        is_safe &= attackers(first(rest), others, theirs()) == 0;
      }
      if (!is_safe) continue;
      const Squares to = (moves.movers >> king) & 1 ? moves.to[static_cast<std::size_t>(king)] : 0;
      add(moves, king, to | bit(chess960_ ? rook : king_to));
    }
  }

  constexpr void add_en_passant(int king, ChessTargets& moves) const {
    using namespace chess;
    const int target = en_passant_target();
    for (Squares rest = pawns_attacking(bit(target)) & own() & of_kind(kPawn); rest != 0;
         rest &= rest - 1) {
      const int from = first(rest);
      if (!is_safe_en_passant(king, from)) continue;
      const Squares to = (moves.movers >> from) & 1 ? moves.to[static_cast<std::size_t>(from)] : 0;
      add(moves, from, to | bit(target));
    }
  }

  // Whether the king is safe after an en passant capture, which removes two pieces from one rank.
  constexpr bool is_safe_en_passant(int king, int from) const {
    using namespace chess;
    const Squares taken = bit(en_passant_target() + 8);
    const Squares after = (occupied() ^ bit(from) ^ taken) | bit(en_passant_target());
    return attackers(king, after, theirs() ^ taken) == 0;
  }

  // Checks on the king of the player to move, and pins to it.
  struct Threats {
    Squares checkers = 0;
    Squares check_mask = 0;  // the checking piece and the squares between it and the king
    std::array<Squares, 8>
        pins;  // of each pinned piece: the pinning piece, and its line to the king
    int num_pins = 0;
  };
  constexpr Threats threats() const {
    using namespace chess;
    Threats found;
    const int king = this->king();
    found.checkers = theirs() & ((attacked_by_pawns(bit(king)) & of_kind(kPawn)) |
                                 (knight_attacks(king) & of_kind(kKnight)));
    found.check_mask = found.checkers;
    for_each_slider(king, theirs(), [&](Squares slider, Squares line) {
      const Squares shields = line & occupied();
      if (shields == 0) {
        found.checkers |= slider;
        found.check_mask |= line | slider;
      } else if ((shields & (shields - 1)) == 0 && (shields & own()) != 0) {
        found.pins[found.num_pins++] = line | slider;
      }
    });
    return found;
  }

  // Calls `visit(slider, line)` for the nearest slider among `pieces` in each direction from a
  // square; `line` is the squares between.
  template <class Visit>
  [[gnu::always_inline]] constexpr void for_each_slider(int square, Squares pieces,
                                                        Visit&& visit) const {
    const Squares queens = of_kind(kQueen);
    const Squares straight = pieces & (of_kind(kRook) | queens);
    const Squares diagonal = pieces & (of_kind(kBishop) | queens);
    const auto& lines = chess::kLines[static_cast<std::size_t>(square)];
    for (std::size_t i = 0; i < 4; ++i) {
      const Squares sliders = i < 2 ? straight : diagonal;
      if (const Squares above = lines[i].above & sliders) {
        const Squares nearest = above & (~above + 1);
        visit(nearest, lines[i].above & (nearest - 1));
      }
      if (const Squares below = lines[i].below & sliders) {
        const Squares nearest = std::bit_floor(below);
        visit(nearest, lines[i].below & ~(2 * nearest - 1));
      }
    }
  }

  // Castling rights as bits of a key; a right's file is the same for both players' views.
  constexpr std::uint64_t castling_key(Side side) const {
    const int file = castling_file(side);
    const Player player = side < kTheirShort ? to_move_ : opponent();
    return file == chess::kNoFile ? 0 : chess::kKeys.castling[player][file];
  }

  constexpr std::uint64_t piece_key(Player player, ChessKind kind, int square) const {
    return chess::kKeys
        .piece[player][kind][to_move_ == kFirstPlayer ? square : chess::mirrored(square)];
  }

  // Puts a piece on a square or removes it; side 0 is the mover.
  constexpr void toggle(int side, ChessKind kind, int square) {
    kinds_[static_cast<std::size_t>(kind)] ^= chess::bit(square);
    pieces_[static_cast<std::size_t>(side)] ^= chess::bit(square);
    key_ ^= piece_key(side == 0 ? to_move_ : opponent(), kind, square);
  }

  constexpr void take(int square) {
    const ChessKind kind = kind_at(square);
    toggle(1, kind, square);
    if (kind == kRook && chess::row_of(square) == 0) {
      lose_castling_of(kTheirShort, chess::column_of(square));
    }
  }

  constexpr void castle(const ChessMove& move) {
    const bool is_short = castles_short(move);
    const int rook = 56 + castling_file(is_short ? kOwnShort : kOwnLong);
    toggle(0, kKing, move.from);
    toggle(0, kRook, rook);
    toggle(0, kKing, is_short ? 62 : 58);
    toggle(0, kRook, is_short ? 61 : 59);
    lose_castling(kOwnShort);
    lose_castling(kOwnLong);
  }

  constexpr void lose_castling(Side side) {
    key_ ^= castling_key(side);
    castling_files_[static_cast<std::size_t>(side)] = chess::kNoFile;
  }

  // Loses the right that belongs to a rook of this file, if there is one. `side` is the short one.
  constexpr void lose_castling_of(Side side, int file) {
    for (const Side each : {side, static_cast<Side>(side + 1)}) {
      if (castling_file(each) == file) lose_castling(each);
    }
  }

  // Turns the board to the other player.
  constexpr void mirror() {
    for (Squares& squares : kinds_) squares = chess::mirrored(squares);
    for (Squares& squares : pieces_) squares = chess::mirrored(squares);
    std::swap(pieces_[0], pieces_[1]);
    std::swap(castling_files_[kOwnShort], castling_files_[kTheirShort]);
    std::swap(castling_files_[kOwnLong], castling_files_[kTheirLong]);
    to_move_ = opponent();
  }

  // Notes a pawn that has just moved by two squares, if it can be taken en passant.
  constexpr void allow_en_passant(int file) {
    using namespace chess;
    const Squares capturers = pawns_attacking(bit(16 + file)) & own() & of_kind(kPawn);
    if (capturers == 0) return;
    en_passant_file_ = static_cast<std::int8_t>(file);
    for (Squares rest = capturers; rest != 0; rest &= rest - 1) {
      if (is_safe_en_passant(king(), first(rest))) {
        key_ ^= kKeys.en_passant[file];
        return;
      }
    }
    en_passant_file_ = kNoFile;
  }

  std::array<Squares, kChessKinds> kinds_{};  // pieces of both players
  std::array<Squares, 2> pieces_{};           // of the player to move, and of the opponent
  std::uint64_t key_ = 0;
  std::array<std::int8_t, 4> castling_files_{chess::kNoFile, chess::kNoFile, chess::kNoFile,
                                             chess::kNoFile};  // by Side
  std::int8_t en_passant_file_ = chess::kNoFile;
  Player to_move_ = kFirstPlayer;
  bool chess960_;
};

}  // namespace zerofleet
