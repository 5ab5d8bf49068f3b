// Chess by the FIDE Laws, and Chess960.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "zerofleet/game.h"
#include "zerofleet/games/chess_board.h"
#include "zerofleet/games/chess_moves.h"
#include "zerofleet/games/chess_notation.h"
#include "zerofleet/random.h"

namespace zerofleet {

struct ChessRules {
  bool chess960 = false;  // castling moves the king onto its rook, which may stand on any file
  int max_length = 512;   // plies after which the game is a draw

  bool operator==(const ChessRules&) const = default;
};

// Why a game is over. All but checkmate are draws.
enum class ChessEnding : std::uint8_t {
  kNone,
  kCheckmate,
  kStalemate,
  kInsufficientMaterial,  // no series of legal moves ends in checkmate, by the pieces alone
  kRepetition,            // the position occurred for the third time
  kFiftyMoves,            // 100 plies without a capture or a pawn's move
  kMaxLength,
};

// The first player has the white pieces. Actions and squares are described in chess_moves.h: the
// board is always seen by the player to move. Unlike over the board, no player has to claim a draw
// by repetition or by the 50-move rule.
//
// The planes show the board from the mover's side, too, with row 0 at the top:
//   for each of the last kHistory positions, the present one first, 13 planes: the mover's pawns,
//   knights, bishops, rooks, queens and king, the opponent's, and all ones if that position had
//   occurred before; then
//   four planes, all ones or zeros: castling rights of the mover, to the king's side and to the
//   queen's, and of the opponent;
//   the square where the mover can take en passant; all ones if Black is to move;
//   seven planes, all ones or zeros: at least 10, 20, 40, 60, 80, 90 and 96 plies without a capture
//   or a pawn's move.
// Positions before the first one are empty.
template <int kHistory>
class Chess {
  static_assert(kHistory >= 1 && kHistory <= 8);

 public:
  static constexpr std::string_view kName = "chess";
  static constexpr int kRows = 8;
  static constexpr int kColumns = 8;
  static constexpr int kNumActions = kChessActions;
  // Nine queens, two rooks, two bishops, two knights and a king on an empty board have fewer moves.
  static constexpr int kMostLegalActions = 312;
  static constexpr int kPositionPlanes = 2 * kChessKinds + 1;
  static constexpr std::array<int, 7> kClockSteps = {10, 20, 40, 60, 80, 90, 96};
  static constexpr int kPlanes =
      kHistory * kPositionPlanes + 4 + 2 + static_cast<int>(kClockSteps.size());
  static constexpr int kMaxLength = 512;    // as in AlphaZero's training
  static constexpr int kNumSymmetries = 1;  // castling tells the two wings apart

  Chess() : Chess(ChessRules()) {}

  // The usual start. Throws std::invalid_argument for a max_length outside 1..kMaxLength.
  explicit Chess(const ChessRules& rules) : Chess(rules, parse_fen(kChessStart, rules.chess960)) {}

  // A game that starts at a position.
  Chess(const ChessRules& rules, const ChessSetup& setup)
      : board_(setup.board),
        max_length_(static_cast<std::int16_t>(rules.max_length)),
        first_move_(static_cast<std::int16_t>(setup.move)),
        clock_(static_cast<std::uint8_t>(setup.clock)),
        first_known_(clock_) {
    if (rules.max_length < 1 || rules.max_length > kMaxLength) {
      throw std::invalid_argument("max_length is " + std::to_string(rules.max_length) +
                                  "; it must be from 1 to " + std::to_string(kMaxLength));
    }
    remember();
    find_draw();
  }

  // A game under the rules of `start` from a position in Forsyth-Edwards Notation. Throws
  // std::invalid_argument, naming what is wrong, for a text that is no position of chess.
  static Chess set_up(const Chess& start, std::string_view fen) {
    return Chess(start.rules(), parse_fen(fen, start.board_.is_chess960()));
  }

  // One of the 960 starts of Chess960; empty for the usual array, and always in standard chess.
  std::string random_start(Random& random) const {
    if (!board_.is_chess960()) return {};
    const auto number = static_cast<int>(random.below(kChess960Starts));
    return number == kChess960Usual ? std::string() : chess960_start(number);
  }

  ChessRules rules() const { return {board_.is_chess960(), max_length_}; }
  const ChessBoard& board() const { return board_; }

  int ply() const { return ply_; }
  Player to_play() const { return board_.to_move(); }

  // Plies since the last capture or pawn's move.
  int clock() const { return clock_; }

  // How often the position occurred before.
  int repetitions() const { return repetitions_; }

  bool is_terminal() const { return draw_ != ChessEnding::kNone || !board_.has_legal_move(); }

  // Mate comes before a draw by the 50-move rule or by length.
  int result() const {
    if (board_.has_legal_move() || !board_.is_check()) return 0;
    return to_play() == kFirstPlayer ? -1 : 1;
  }

  ChessEnding ending() const {
    if (!board_.has_legal_move()) {
      return board_.is_check() ? ChessEnding::kCheckmate : ChessEnding::kStalemate;
    }
    return draw_;
  }
  std::string_view ending_name() const {
    constexpr std::array<std::string_view, 7> kNames = {
        "",           "checkmate",    "stalemate",     "insufficient material",
        "repetition", "50-move rule", "maximum length"};
    return kNames[static_cast<std::size_t>(ending())];
  }

  // Covers everything that an observation shows or that legal actions depend on.
  std::uint64_t hash() const {
    std::uint64_t sum = mix_bits(board_.key() ^ (draw_ == ChessEnding::kNone ? 0 : kEnded));
    std::uint64_t salt = static_cast<std::uint64_t>(repetitions_ > 0) << 8 | clock_steps();
    if constexpr (kHistory > 1) {
      for (int age = 1; age < kHistory; ++age) {
        const Past& past = past_at(age);
        for (const Squares squares : {past.own, past.code[0], past.code[1], past.code[2]}) {
          sum += mix_bits(squares ^ (salt += kSalt));
        }
        sum += static_cast<std::uint64_t>(past_repeats(age)) << age;
      }
    }
    return mix_bits(sum ^ mix_bits(salt));
  }

  bool is_legal(int action) const {
    if (action < 0 || action >= kNumActions || draw_ != ChessEnding::kNone) return false;
    ChessTargets moves;
    board_.find_targets(moves);
    const ChessMove& move = chess::move_of(action);
    return ((moves.movers >> move.from) & 1) && ((moves.to[move.from] >> move.to) & 1) &&
           (!chess::is_underpromotion(action) || board_.is_promotion(move));
  }

  ActionList<kMostLegalActions> legal_actions() const {
    ActionList<kMostLegalActions> actions;
    if (draw_ != ChessEnding::kNone) return actions;
    ChessTargets moves;
    board_.find_targets(moves);
    chess::for_each_action(board_, moves, [&](Action action) { actions.push_back(action); });
    return actions;
  }

  // See TellsEndingActions: only a move that gives check can win at once. The next move may reach
  // the 50-move rule or the maximum length, and then all legal actions count.
  ActionList<kMostLegalActions> ending_actions() const {
    if (clock_ + 1 == kFiftyMovePlies || ply_ + 1 == max_length_) return legal_actions();
    ActionList<kMostLegalActions> actions;
    if (draw_ != ChessEnding::kNone) return actions;
    ChessTargets moves;
    board_.find_targets(moves);
    board_.keep_checks(moves);
    chess::for_each_action(board_, moves, [&](Action action) { actions.push_back(action); });
    return actions;
  }

  void apply(Action action) {
    if constexpr (kHistory > 1) store_past();
    const bool is_irreversible = board_.play(chess::move_of(action));
    clock_ = is_irreversible ? 0 : static_cast<std::uint8_t>(clock_ + 1);
    if (is_irreversible) first_known_ = 0;
    ++ply_;
    remember();
    find_draw();
  }

  Planes<kPlanes, kChessPoints> observe() const {
    using PlaneType = Plane<kChessPoints>;
    Planes<kPlanes, kChessPoints> planes;
    auto plane = planes.begin();
    const auto add_men = [&](const auto& kinds, Squares own, Squares others) {
      for (const Squares side : {own, others}) {
        for (const Squares kind : kinds) *plane++ = PlaneType(kind & side);
      }
    };
    const auto add_all = [&](bool all) { *plane++ = PlaneType::filled(all); };
    add_men(board_.kinds(), board_.own(), board_.theirs());
    add_all(repetitions_ > 0);
    if constexpr (kHistory > 1) {
      for (int age = 1; age < kHistory; ++age) {
        const auto [kinds, own, theirs] = past_at(age).seen(age % 2 != 0);
        add_men(kinds, own, theirs);
        add_all(past_repeats(age));
      }
    }
    for (const auto side : {ChessBoard::kOwnShort, ChessBoard::kOwnLong, ChessBoard::kTheirShort,
                            ChessBoard::kTheirLong}) {
      add_all(board_.castling_file(side) != chess::kNoFile);
    }
    *plane++ = PlaneType(board_.en_passant_square());
    add_all(to_play() == kSecondPlayer);
    for (const int step : kClockSteps) add_all(clock_ >= step);
    return planes;
  }

  static constexpr int symmetric_point(int point, int) { return point; }
  static constexpr int symmetric_action(int action, int) { return action; }

  // The move in the notation of the Universal Chess Interface, as White plays it: "e2e4", "e7e8n".
  static std::string action_to_string(Action action) {
    const ChessMove& move = chess::move_of(action);
    return uci_text(move, kFirstPlayer, chess::is_underpromotion(action));
  }
  static std::optional<Action> string_to_action(std::string_view text) {
    return parse_uci(text, kFirstPlayer);
  }

  // The move of the player to move, in the same notation: "e7e5", "e2e1q".
  std::string name_of(Action action) const {
    const ChessMove& move = chess::move_of(action);
    return uci_text(move, to_play(), chess::is_underpromotion(action) || board_.is_promotion(move));
  }

  // Reads the notation of the Universal Chess Interface and standard algebraic notation.
  std::optional<Action> action_named(std::string_view text) const {
    if (looks_like_uci(text)) return parse_uci(text, to_play());
    if (draw_ != ChessEnding::kNone) return std::nullopt;
    return parse_san(text, board_);
  }

  // A legal move in standard algebraic notation: "Nbd7", "exd8=Q+", "O-O".
  std::string san_of(Action action) const { return san_text(board_, chess::move_of(action)); }

  // The position in Forsyth-Edwards Notation; Chess960 has Shredder's letters for castling rights.
  std::string setup_text() const { return fen_text({board_, clock_, move_number()}); }

  std::string to_string() const { return board_picture(board_); }

  bool operator==(const Chess& other) const {
    if (board_ != other.board_ || rules() != other.rules() || ply_ != other.ply_ ||
        first_move_ != other.first_move_ || clock_ != other.clock_ ||
        first_known_ != other.first_known_ || repeats_ != other.repeats_) {
      return false;
    }
    for (int at = first_known_; at <= clock_ && at < kFiftyMovePlies; ++at) {
      if (low_[at] != other.low_[at] || high_[at] != other.high_[at]) return false;
    }
    return past_ == other.past_;
  }

 private:
  static constexpr int kFiftyMovePlies = 100;
  static constexpr std::uint64_t kSalt = 0x9e3779b97f4a7c15;
  static constexpr std::uint64_t kEnded = 0xd1b54a32d192ed03;

  // An earlier position as its own mover saw it: the mover's pieces, and the kinds of all pieces as
  // numbers of three bits, 0 where the square is empty.
  struct Past {
    struct Seen {
      std::array<Squares, kChessKinds> kinds;
      Squares own;
      Squares theirs;
    };

    Seen seen(bool by_opponent) const {
      Seen result{};
      const auto turned = [&](Squares squares) {
        return by_opponent ? chess::mirrored(squares) : squares;
      };
      const std::array<Squares, 3> bits = {turned(code[0]), turned(code[1]), turned(code[2])};
      for (int kind = 0; kind < kChessKinds; ++kind) {
        Squares squares = ~Squares{0};
        for (int b = 0; b < 3; ++b) squares &= ((kind + 1) >> b) & 1 ? bits[b] : ~bits[b];
        result.kinds[kind] = squares;
      }
      const Squares movers = turned(own);
      const Squares others = (bits[0] | bits[1] | bits[2]) & ~movers;
      result.own = by_opponent ? others : movers;
      result.theirs = by_opponent ? movers : others;
      return result;
    }

    bool operator==(const Past&) const = default;

    Squares own = 0;
    std::array<Squares, 3> code{};
  };

  // The position `age` plies ago, from 1; empty before the first one.
  const Past& past_at(int age) const
    requires(kHistory > 1)
  {
    return past_[static_cast<std::size_t>((ply_ - age + kPast) % kPast)];
  }
  bool past_repeats(int age) const { return (repeats_ >> age) & 1; }

  void store_past()
    requires(kHistory > 1)
  {
    Past& past = past_[static_cast<std::size_t>(ply_ % kPast)];
    past = {};
    past.own = board_.own();
    for (int kind = 0; kind < kChessKinds; ++kind) {
      for (int b = 0; b < 3; ++b) {
        if (((kind + 1) >> b) & 1) past.code[b] |= board_.kinds()[kind];
      }
    }
  }

  unsigned clock_steps() const {
    unsigned steps = 0;
    for (const int step : kClockSteps) steps += clock_ >= step;
    return steps;
  }

  int move_number() const {
    const bool black_began = (ply_ % 2 != 0) != (to_play() == kSecondPlayer);
    return first_move_ + (ply_ + black_began) / 2;
  }

  // Counts how often the position occurred since the last irreversible move, and stores its key.
  // Keys have 48 bits there: a position is taken for one of 50 others with a probability of 2e-13.
  void remember() {
    repetitions_ = 0;
    const auto low = static_cast<std::uint32_t>(board_.key());
    const auto high = static_cast<std::uint16_t>(board_.key() >> 32);
    for (int at = clock_ - 4; at >= first_known_; at -= 2) {
      if (low_[at] == low && high_[at] == high) ++repetitions_;
    }
    if (clock_ < kFiftyMovePlies) {
      low_[clock_] = low;
      high_[clock_] = high;
    }
    repeats_ = static_cast<std::uint8_t>(repeats_ << 1 | (repetitions_ > 0));
  }

  // Draws that do not depend on the legal moves.
  void find_draw() {
    draw_ = board_.has_insufficient_material() ? ChessEnding::kInsufficientMaterial
            : repetitions_ >= 2                ? ChessEnding::kRepetition
            : clock_ >= kFiftyMovePlies        ? ChessEnding::kFiftyMoves
            : ply_ >= max_length_              ? ChessEnding::kMaxLength
                                               : ChessEnding::kNone;
  }

  static constexpr int kPast = kHistory > 1 ? kHistory - 1 : 1;

  ChessBoard board_;
  std::array<Past, kHistory - 1> past_{};             // by ply % kPast
  std::array<std::uint32_t, kFiftyMovePlies> low_{};  // by clock, from first_known_; bits of keys
  std::array<std::uint16_t, kFiftyMovePlies> high_{};
  std::int16_t ply_ = 0;
  std::int16_t max_length_;
  std::int16_t first_move_;  // number of the first move, as in FEN
  std::uint8_t clock_;
  std::uint8_t first_known_;      // clock of the first position since the last irreversible move
  std::uint8_t repetitions_ = 0;  // earlier occurrences of the position
  std::uint8_t repeats_ = 0;  // bit `age`: whether the position `age` plies ago was a repetition
  ChessEnding draw_ = ChessEnding::kNone;
};

// One position is the default. But for repetitions and the 50-move rule, which have planes of their
// own, it shows all that matters; transpositions share a cached prediction, and a position that was
// set up looks like one that was played. AlphaZero and Lc0 use eight.
inline constexpr int kChessHistory = 1;

static_assert(Game<Chess<1>> && Game<Chess<8>>);
static_assert(sizeof(Chess<8>) <= 1024);

}  // namespace zerofleet
