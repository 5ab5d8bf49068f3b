// Positions and moves of chess as text: FEN, UCI and standard algebraic notation.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "zerofleet/games/chess_board.h"
#include "zerofleet/games/chess_moves.h"

namespace zerofleet {

inline constexpr std::string_view kChessStart =
    "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1";

// What Forsyth-Edwards Notation tells of a position.
struct ChessSetup {
  ChessBoard board;
  int clock = 0;  // plies since the last capture or pawn's move
  int move = 1;   // the FEN's full-move number, which grows after Black's moves
};

namespace chess {

inline constexpr std::string_view kLetters = "PNBRQK";  // by kind
inline constexpr std::string_view kSmallLetters = "pnbrqk";
inline constexpr int kMostMoves = 9999;  // in a FEN

// Square of the player's view as text, and back.
inline std::string square_text(int square, Player player) {
  if (player == kSecondPlayer) square = mirrored(square);
  return {static_cast<char>('a' + column_of(square)), static_cast<char>('8' - row_of(square))};
}
constexpr std::optional<int> parse_square(char file, char rank, Player player) {
  if (file < 'a' || file > 'h' || rank < '1' || rank > '8') return std::nullopt;
  const int square = 8 * ('8' - rank) + (file - 'a');
  return player == kSecondPlayer ? mirrored(square) : square;
}

inline std::string_view name_of(Player player) {
  return player == kFirstPlayer ? "White" : "Black";
}

// Throws std::invalid_argument. The text may come from anywhere: its beginning is shown, in ASCII.
[[noreturn]] inline void refuse(std::string_view fen, const std::string& reason) {
  constexpr std::size_t kShown = 100;
  std::string message = "FEN '";
  message += fen.substr(0, kShown);
  if (fen.size() > kShown) message += "...";
  message += "': " + reason;
  for (char& letter : message) {
    if (letter < ' ' || letter > '~') letter = '?';
  }
  throw std::invalid_argument(message);
}

// Reads the fields of one FEN, one after the other.
class FenReader {
 public:
  FenReader(std::string_view fen, bool chess960) : fen_(fen), setup_{ChessBoard(chess960)} {
    std::size_t start = 0;
    while (start < fen.size()) {
      const std::size_t end = std::min(fen.find(' ', start), fen.size());
      if (end > start) fields_.push_back(fen.substr(start, end - start));
      start = end + 1;
    }
    if (fields_.size() != 6 && fields_.size() != 4) {
      refuse(fen, "it has " + std::to_string(fields_.size()) +
                      (fields_.size() == 1 ? " field" : " fields") +
                      "; write 6: pieces, player to move, castling rights, en passant square, "
                      "half-move clock, move number");
    }
  }

  ChessSetup read() {
    read_men();
    check_men();
    read_player();
    read_castling();
    read_en_passant();
    if (fields_.size() == 6) {
      setup_.clock = number(4, "half-move clock", 0, 100);
      setup_.move = std::max(1, number(5, "move number", 0, kMostMoves));
    }
    setup_.board.start(player_, en_passant_file_);
    if (setup_.board.can_take_king()) {
      fail(std::string(name_of(static_cast<Player>(1 - player_))) +
           " is in check, but it is not their move");
    }
    return setup_;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const { refuse(fen_, reason); }

  static std::string quoted(std::string_view text) {
    constexpr std::size_t kShown = 20;
    std::string words = "'";
    words += text.substr(0, kShown);
    if (text.size() > kShown) words += "...";
    return words += '\'';
  }

  int count(Player player, ChessKind kind) const {
    return std::popcount(pieces_[player] & setup_.board.of_kind(kind));
  }
  bool has(Player player, ChessKind kind, int square) const {
    return (pieces_[player] & setup_.board.of_kind(kind) & bit(square)) != 0;
  }

  void read_men() {
    int row = 0;
    int column = 0;
    for (const char letter : fields_[0]) {
      if (letter == '/') {
        if (column != 8) fail_rank(row, column);
        if (++row == 8) fail("it has more than 8 ranks");
        column = 0;
      } else if (letter >= '1' && letter <= '8') {
        column += letter - '0';
      } else {
        const bool is_white = letter >= 'A' && letter <= 'Z';
        const std::size_t kind = (is_white ? kLetters : kSmallLetters).find(letter);
        if (kind == std::string_view::npos) {
          fail(quoted({&letter, 1}) + " is not a piece; write KQRBNP for White, kqrbnp for Black");
        }
        if (column < 8) {
          const Player player = is_white ? kFirstPlayer : kSecondPlayer;
          setup_.board.put(player, static_cast<ChessKind>(kind), 8 * row + column);
          pieces_[player] |= bit(8 * row + column);
        }
        ++column;
      }
      if (column > 8) fail_rank(row, column);
    }
    if (row != 7) fail("it has " + std::to_string(row + 1) + " ranks instead of 8");
    if (column != 8) fail_rank(row, column);
  }
  [[noreturn]] void fail_rank(int row, int column) const {
    const std::string squares = column > 8 ? "more than 8" : "only " + std::to_string(column);
    fail("rank " + std::to_string(8 - row) + " has " + squares + " squares");
  }

  void check_men() const {
    for (const Player player : {kFirstPlayer, kSecondPlayer}) {
      const std::string name(name_of(player));
      const int kings = count(player, kKing);
      if (kings != 1) fail(name + " has " + std::to_string(kings) + " kings instead of 1");
      const int pawns = count(player, kPawn);
      if (pawns > 8) fail(name + " has " + std::to_string(pawns) + " pawns, more than 8");
      const int promoted =
          std::max(0, count(player, kQueen) - 1) + std::max(0, count(player, kRook) - 2) +
          std::max(0, count(player, kBishop) - 2) + std::max(0, count(player, kKnight) - 2);
      if (pawns + promoted > 8) fail(name + " has more pieces than promotions can give");
    }
    const Squares last_ranks = (kFirstRank >> 56) | kFirstRank;
    if (const Squares wrong = setup_.board.of_kind(kPawn) & last_ranks) {
      fail("a pawn is on " + square_text(first(wrong), kFirstPlayer));
    }
  }

  void read_player() {
    if (fields_[1] != "w" && fields_[1] != "b") {
      fail("the player to move must be w or b, not " + quoted(fields_[1]));
    }
    player_ = fields_[1] == "w" ? kFirstPlayer : kSecondPlayer;
  }

  void read_castling() {
    if (fields_[2] == "-") return;
    for (const char letter : fields_[2]) {
      const bool is_white = letter >= 'A' && letter <= 'Z';
      const char small = is_white ? static_cast<char>(letter - 'A' + 'a') : letter;
      const Player player = is_white ? kFirstPlayer : kSecondPlayer;
      const int home = is_white ? 56 : 0;
      const int king = first(pieces_[player] & setup_.board.of_kind(kKing));
      const std::optional<int> file = rook_file(small, player, home, king);
      const std::string right = "castling right " + quoted({&letter, 1});
      const bool is_home =
          setup_.board.is_chess960() ? king > home && king < home + 7 : king == home + 4;
      if (!is_home) {
        fail(right + ": " + std::string(name_of(player)) + "'s king is on " +
             square_text(king, kFirstPlayer));
      }
      if (!file || !has(player, kRook, home + *file)) {
        fail(right + ": " + std::string(name_of(player)) + " has no rook there");
      }
      const bool is_short = home + *file > king;
      bool& is_given = given_[player][is_short];
      if (is_given) fail(right + " is given twice");
      is_given = true;
      setup_.board.allow_castling(player, is_short, *file);
    }
  }

  // File of the rook of a castling right: the corner of K and Q, or in Chess960 the outermost rook;
  // the file itself of Shredder's letters.
  std::optional<int> rook_file(char letter, Player player, int home, int king) const {
    const bool chess960 = setup_.board.is_chess960();
    if (letter == 'k' || letter == 'q') {
      const bool is_short = letter == 'k';
      if (!chess960) return is_short ? 7 : 0;
      for (int step = 0; step < 8; ++step) {
        const int file = is_short ? 7 - step : step;
        if (home + file == king) break;
        if (has(player, kRook, home + file)) return file;
      }
      return std::nullopt;
    }
    if (chess960 && letter >= 'a' && letter <= 'h') return letter - 'a';
    fail("castling rights must be - or letters of " +
         std::string(chess960 ? "HAha and other files" : "KQkq") + ", not " + quoted(fields_[2]));
  }

  void read_en_passant() {
    const std::string_view text = fields_[3];
    if (text == "-") return;
    const auto square =
        text.size() == 2 ? parse_square(text[0], text[1], kFirstPlayer) : std::nullopt;
    if (!square) fail("the en passant square must be - or a square, not " + quoted(text));
    const Player mover = static_cast<Player>(1 - player_);
    const int ahead = mover == kFirstPlayer ? -8 : 8;
    const std::string impossible = "en passant on " + std::string(text) + " is impossible: ";
    if (row_of(*square) != (mover == kFirstPlayer ? 5 : 2)) {
      fail(impossible + std::string(name_of(mover)) + "'s pawns do not cross it");
    }
    if (!has(mover, kPawn, *square + ahead)) {
      fail(impossible + "no pawn of " + std::string(name_of(mover)) + " is on " +
           square_text(*square + ahead, kFirstPlayer));
    }
    if ((pieces_[0] | pieces_[1]) & (bit(*square) | bit(*square - ahead))) {
      fail(impossible + "a piece is in the pawn's way");
    }
    en_passant_file_ = column_of(*square);
  }

  int number(std::size_t field, const std::string& what, int least, int most) const {
    const std::string_view text = fields_[field];
    int value = 0;
    bool is_number = !text.empty() && text.size() <= 5;
    for (const char digit : text) {
      is_number = is_number && digit >= '0' && digit <= '9';
      if (is_number) value = 10 * value + (digit - '0');
    }
    if (!is_number || value < least || value > most) {
      fail("the " + what + " must be " + std::to_string(least) + " to " + std::to_string(most) +
           ", not " + quoted(text));
    }
    return value;
  }

  std::string_view fen_;
  std::vector<std::string_view> fields_;
  ChessSetup setup_;
  std::array<Squares, 2> pieces_{};             // by player
  std::array<std::array<bool, 2>, 2> given_{};  // castling rights by player, and whether short
  Player player_ = kFirstPlayer;
  int en_passant_file_ = kNoFile;
};

}  // namespace chess

// Reads Forsyth-Edwards Notation. In Chess960, castling rights may be Shredder's letters of files
// or K and Q for the outermost rooks. The last two fields may be left out. Throws
// std::invalid_argument for anything that cannot arise: the message says what is wrong.
inline ChessSetup parse_fen(std::string_view fen, bool chess960) {
  return chess::FenReader(fen, chess960).read();
}

// The pieces on each rank from the top, as White sees them, '.' where a square is empty.
inline std::array<std::string, 8> chess_ranks(const ChessBoard& board) {
  std::array<std::string, 8> ranks;
  for (int square = 0; square < 64; ++square) {
    const int seen = board.to_move() == kFirstPlayer ? square : chess::mirrored(square);
    char letter = '.';
    if ((board.occupied() >> seen) & 1) {
      const bool is_white = ((board.own() >> seen) & 1) == (board.to_move() == kFirstPlayer);
      letter = (is_white ? chess::kLetters : chess::kSmallLetters)[board.kind_at(seen)];
    }
    ranks[static_cast<std::size_t>(chess::row_of(square))] += letter;
  }
  return ranks;
}

inline std::string board_picture(const ChessBoard& board) {
  std::string picture;
  int rank = 8;
  for (const std::string& pieces : chess_ranks(board)) {
    picture += std::to_string(rank--);
    for (const char letter : pieces) picture += {' ', letter};
    picture += '\n';
  }
  return picture + "  a b c d e f g h";
}

// Writes Forsyth-Edwards Notation. The en passant square is given where a capture is legal.
inline std::string fen_text(const ChessSetup& setup) {
  const ChessBoard& board = setup.board;
  std::string fen;
  for (const std::string& pieces : chess_ranks(board)) {
    if (!fen.empty()) fen += '/';
    int empty = 0;
    for (const char letter : pieces + '/') {
      if (letter == '.') {
        ++empty;
        continue;
      }
      if (empty > 0) fen += std::to_string(empty);
      empty = 0;
      if (letter != '/') fen += letter;
    }
  }
  const bool white_moves = board.to_move() == kFirstPlayer;
  fen += white_moves ? " w " : " b ";
  using Side = ChessBoard::Side;
  const std::array<Side, 4> sides =
      white_moves ? std::array<Side, 4>{ChessBoard::kOwnShort, ChessBoard::kOwnLong,
                                        ChessBoard::kTheirShort, ChessBoard::kTheirLong}
                  : std::array<Side, 4>{ChessBoard::kTheirShort, ChessBoard::kTheirLong,
                                        ChessBoard::kOwnShort, ChessBoard::kOwnLong};
  const std::size_t before = fen.size();
  for (std::size_t i = 0; i < 4; ++i) {
    const int file = board.castling_file(sides[i]);
    if (file == chess::kNoFile) continue;
    const char small = board.is_chess960() ? static_cast<char>('a' + file) : "kq"[i % 2];
    fen += i < 2 ? static_cast<char>(small - 'a' + 'A') : small;
  }
  if (fen.size() == before) fen += '-';
  fen += ' ';
  fen += board.en_passant_file() == chess::kNoFile
             ? "-"
             : chess::square_text(16 + board.en_passant_file(), board.to_move());
  return fen + ' ' + std::to_string(setup.clock) + ' ' + std::to_string(setup.move);
}

inline constexpr int kChess960Starts = 960;
inline constexpr int kChess960Usual = 518;  // RNBQKBNR

// The start position of this number, 0 to 959, by Scharnagl's numbering. It places a bishop on a
// light and one on a dark square, then the queen, then two knights on free files. The king stands
// between the rooks on the last three.
inline std::string chess960_start(int number) {
  constexpr std::array<std::array<int, 2>, 10> kKnights = {
      {{0, 1}, {0, 2}, {0, 3}, {0, 4}, {1, 2}, {1, 3}, {1, 4}, {2, 3}, {2, 4}, {3, 4}}};
  std::string pieces(8, '.');
  const auto free_file = [&pieces](int skipped) {
    std::size_t file = pieces.find('.');
    while (skipped-- > 0) file = pieces.find('.', file + 1);
    return file;
  };
  pieces[static_cast<std::size_t>(2 * (number % 4) + 1)] = 'b';
  pieces[static_cast<std::size_t>(2 * (number / 4 % 4))] = 'b';
  pieces[free_file(number / 16 % 6)] = 'q';
  const auto [first, second] = kKnights[static_cast<std::size_t>(number / 96)];
  for (const std::size_t file : {free_file(first), free_file(second)}) pieces[file] = 'n';
  std::string rights;
  for (const char piece : {'r', 'k', 'r'}) {
    const std::size_t file = free_file(0);
    pieces[file] = piece;
    if (piece == 'r') rights.insert(rights.begin(), static_cast<char>('a' + file));
  }
  const auto capitals = [](std::string text) {
    for (char& letter : text) letter = static_cast<char>(letter - 'a' + 'A');
    return text;
  };
  return pieces + "/pppppppp/8/8/8/8/PPPPPPPP/" + capitals(pieces) + " w " + capitals(rights) +
         rights + " - 0 1";
}

// A move in the notation of the Universal Chess Interface, as `player` sees the board.
inline std::string uci_text(const ChessMove& move, Player player, bool with_promotion) {
  std::string text = chess::square_text(move.from, player) + chess::square_text(move.to, player);
  if (with_promotion) text += chess::kSmallLetters[move.promotion];
  return text;
}

// Two squares, in small or capital letters, and perhaps the piece of a promotion.
inline bool looks_like_uci(std::string_view text) {
  const bool is_capital = !text.empty() && text[0] >= 'A' && text[0] <= 'H';
  const char a = is_capital ? 'A' : 'a';
  const auto is_square = [&](std::size_t at) {
    return text[at] >= a && text[at] <= a + 7 && text[at + 1] >= '1' && text[at + 1] <= '8';
  };
  if (text.size() != 4 && text.size() != 5) return false;
  if (!is_square(0) || !is_square(2)) return false;
  constexpr std::array<std::string_view, 2> kPieces = {"nbrq", "NBRQ"};
  return text.size() == 4 || kPieces[is_capital].find(text[4]) != std::string_view::npos;
}

// The action of such a text, as `player` sees the board. The letter of a queen may be left out, and
// "e7e8q" is a move of a queen if there is no pawn. nullopt for a text that is no action.
inline std::optional<Action> parse_uci(std::string_view text, Player player) {
  if (!looks_like_uci(text)) return std::nullopt;
  std::string small(text);
  if (small[0] <= 'H') {
    for (const std::size_t at : {0, 2, 4}) {
      if (at < small.size()) small[at] = static_cast<char>(small[at] - 'A' + 'a');
    }
  }
  const int from = *chess::parse_square(small[0], small[1], player);
  const int to = *chess::parse_square(small[2], small[3], player);
  ChessMove move{static_cast<std::int8_t>(from), static_cast<std::int8_t>(to)};
  const Action step = chess::kNumbering.step[from][to];
  if (step < 0 || small.size() == 4) return step < 0 ? std::nullopt : std::optional(step);
  const int across = chess::column_of(to) - chess::column_of(from);
  if (chess::row_of(from) != 1 || chess::row_of(to) != 0 || across < -1 || across > 1) {
    return std::nullopt;
  }
  move.promotion = static_cast<ChessKind>(chess::kSmallLetters.find(small[4]));
  return chess::action_of(move, true);
}

// A legal move in standard algebraic notation, with the signs of check and mate.
inline std::string san_text(const ChessBoard& board, const ChessMove& move) {
  using namespace chess;
  const Player player = board.to_move();
  const ChessKind kind = board.kind_at(move.from);
  const std::string to = square_text(move.to, player);
  const std::string from = square_text(move.from, player);
  std::string text;
  if (board.is_castling(move)) {
    text = board.castles_short(move) ? "O-O" : "O-O-O";
  } else if (kind == kPawn) {
    if (board.is_capture(move)) text = from.substr(0, 1) + 'x';
    text += to;
    if (board.is_promotion(move)) text += {'=', kLetters[move.promotion]};
  } else {
    text = kLetters[kind];
    ChessTargets moves;
    board.find_targets(moves);
    bool is_alone = true;
    bool shares_file = false;
    bool shares_rank = false;
    for (Squares rest = moves.movers & board.of_kind(kind) & ~bit(move.from); rest != 0;
         rest &= rest - 1) {
      const int other = first(rest);
      if (((moves.to[other] >> move.to) & 1) == 0) continue;
      is_alone = false;
      shares_file |= column_of(other) == column_of(move.from);
      shares_rank |= row_of(other) == row_of(move.from);
    }
    if (!is_alone && (!shares_file || shares_rank)) text += from[0];
    if (shares_file) text += from[1];
    if (board.is_capture(move)) text += 'x';
    text += to;
  }
  ChessBoard after = board;
  after.play(move);
  if (after.is_check()) text += after.has_legal_move() ? '+' : '#';
  return text;
}

// The legal move that a text in standard algebraic notation names. It may name the square that is
// left in more detail than needed, leave out the signs of capture, check and mate, and end in a
// comment such as "!?" or "e.p.". nullopt if no legal move or several fit.
inline std::optional<Action> parse_san(std::string_view text, const ChessBoard& board) {
  using namespace chess;
  const auto strip = [&text](std::string_view signs) {
    while (!text.empty() && signs.find(text.back()) != std::string_view::npos) {
      text.remove_suffix(1);
    }
  };
  strip("+#!?");
  if (text.ends_with("e.p.")) text.remove_suffix(4);
  ChessTargets moves;
  board.find_targets(moves);
  std::optional<Action> found;
  const auto offer = [&](const ChessMove& move) {
    if (found) return false;
    found = action_of(move, board.is_promotion(move));
    return true;
  };
  const bool is_short = text == "O-O" || text == "0-0";
  if (is_short || text == "O-O-O" || text == "0-0-0") {
    const int king = board.king();
    if (((moves.movers >> king) & 1) == 0) return std::nullopt;
    for (Squares rest = moves.to[king]; rest != 0; rest &= rest - 1) {
      const ChessMove move{static_cast<std::int8_t>(king), static_cast<std::int8_t>(first(rest))};
      if (board.is_castling(move) && board.castles_short(move) == is_short) offer(move);
    }
    return found;
  }

  std::optional<ChessKind> promotion;
  const auto kind_of = [](char letter) {
    const std::size_t kind = kLetters.find(letter);
    return kind == std::string_view::npos || kind == kPawn
               ? std::nullopt
               : std::optional(static_cast<ChessKind>(kind));
  };
  if (!text.empty() && kind_of(text.back()) && text.back() != 'K') {
    promotion = kind_of(text.back());
    text.remove_suffix(1);
    if (text.ends_with('=')) text.remove_suffix(1);
  }
  if (text.size() < 2) return std::nullopt;
  const Player player = board.to_move();
  const auto to = parse_square(text[text.size() - 2], text.back(), player);
  if (!to) return std::nullopt;
  text.remove_suffix(2);
  if (text.ends_with('x') || text.ends_with('-')) text.remove_suffix(1);
  ChessKind kind = kPawn;
  if (!text.empty() && kind_of(text.front())) {
    kind = *kind_of(text.front());
    text.remove_prefix(1);
  }
  Squares from = moves.movers & board.of_kind(kind);
  const bool names_file = !text.empty() && text.front() >= 'a' && text.front() <= 'h';
  if (names_file) {
    from &= kFileA << (text.front() - 'a');
    text.remove_prefix(1);
  }
  if (!text.empty() && text.front() >= '1' && text.front() <= '8') {
    from &= Squares{0xff} << (*parse_square('a', text.front(), player) & 56);
    text.remove_prefix(1);
  }
  if (!text.empty()) return std::nullopt;
  if (kind == kPawn && !names_file) from &= kFileA << column_of(*to);  // a capture names its file
  for (; from != 0; from &= from - 1) {
    ChessMove move{static_cast<std::int8_t>(first(from)), static_cast<std::int8_t>(*to)};
    if (((moves.to[move.from] >> move.to) & 1) == 0 || board.is_castling(move)) continue;
    if (board.is_promotion(move) != promotion.has_value()) continue;
    if (promotion) move.promotion = *promotion;
    if (!offer(move)) return std::nullopt;
  }
  return found;
}

}  // namespace zerofleet
