// Chess against known counts, a slow reference, and the Laws.
#include "zerofleet/games/chess.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "chess_perft.h"
#include "chess_reference.h"
#include "zerofleet/decisive_moves.h"
#include "zerofleet/random.h"
#include "zerofleet/symmetry.h"

namespace zerofleet {
namespace {

using test::check;
using test::check_throws;
using test::ChessReference;
using test::perft;

// The last count of the start is only reached by optimised builds.
#ifdef NDEBUG
constexpr bool kIsFast = true;
#else
constexpr bool kIsFast = false;
#endif

Chess<8> from_fen(std::string_view fen, bool chess960 = false, int max_length = 512) {
  return Chess<8>::set_up(Chess<8>({chess960, max_length}), fen);
}

template <int kHistory>
void play(Chess<kHistory>& position, std::string_view moves) {
  while (!moves.empty()) {
    const std::size_t end = std::min(moves.find(' '), moves.size());
    const auto action = position.action_named(moves.substr(0, end));
    check(action.has_value() && position.is_legal(*action));
    position.apply(*action);
    moves.remove_prefix(std::min(end + 1, moves.size()));
  }
}

void counts(std::string_view fen, const std::vector<std::int64_t>& known, bool chess960 = false) {
  const ChessBoard board = parse_fen(fen, chess960).board;
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (!kIsFast && known[i] > 200'000) break;
    check(perft(board, static_cast<int>(i) + 1) == known[i]);
  }
}

// Counts that chess programs agree on; those of the first two are in every list.
void known_counts() {
  counts(kChessStart, {20, 400, 8902, 197281, 4865609, 119060324});
  counts("r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
         {48, 2039, 97862, 4085603});
  counts("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", {14, 191, 2812, 43238, 674624});
  counts("r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
         {6, 264, 9467, 422333});
  counts("rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8", {44, 1486, 62379, 2103487});
  counts("n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1", {24, 496, 9483, 182838, 3605103});
}

// Counts of Chess960: the first of each list also holds for chess.
void known_counts_of_chess960() {
  counts("bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9",
         {21, 528, 12189, 326672, 8146062}, true);
  counts("2nnrbkr/p1qppppp/8/1ppb4/6PP/3PP3/PPP2P2/BQNNRBKR w HEhe - 1 9", {21, 807, 18002, 667366},
         true);
  counts(kChessStart, {20, 400, 8902, 197281}, true);
}

std::vector<std::string> names(const Chess<8>& position) {
  std::vector<std::string> found;
  for (const Action action : position.legal_actions()) found.push_back(position.name_of(action));
  std::ranges::sort(found);
  return found;
}

bool allows(const Chess<8>& position, std::string_view move) {
  return std::ranges::count(names(position), move) == 1;
}

void starts_of_chess960() {
  std::set<std::string> seen;
  for (int number = 0; number < kChess960Starts; ++number) {
    const std::string start = chess960_start(number);
    seen.insert(start);
    check(from_fen(start, true).setup_text() == start);
  }
  check(seen.size() == kChess960Starts);
  const auto pieces = [](int number) { return chess960_start(number).substr(0, 8); };
  check(pieces(0) == "bbqnnrkr" && pieces(kChess960Usual) == "rnbqkbnr" &&
        pieces(959) == "rkrnnqbb");
  check(chess960_start(kChess960Usual) ==
        Chess<1>(ChessRules{.chess960 = true, .max_length = 512}).setup_text());
  Random random(1);
  check(Chess<1>().random_start(random).empty());
}

void en_passant() {
  // Only the capture removes both pawns from the king's rank.
  check(!allows(from_fen("8/8/8/8/k2Pp2Q/8/8/3K4 b - d3 0 1"), "e4d3"));
  check(allows(from_fen("8/8/8/8/k2Pp3/8/8/3K4 b - d3 0 1"), "e4d3"));
  // The capture takes the piece that gives check.
  const Chess<8> checked = from_fen("8/8/8/2k5/3Pp3/8/8/3K4 b - d3 0 1");
  check(allows(checked, "e4d3") && checked.board().is_check());
  // A pawn that shields its king cannot take, and so the square does not count.
  const Chess<8> two = from_fen("4r2k/8/8/3pPp2/8/8/8/4K3 w - d6 0 1");
  check(!allows(two, "e5d6") && two.setup_text() == "4r2k/8/8/3pPp2/8/8/8/4K3 w - - 0 1");
  // A pawn that passes beside no pawn leaves no trace.
  Chess<8> start;
  play(start, "e2e4");
  check(start.setup_text() == "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1");
  play(start, "a7a6 e4e5 d7d5");
  check(start.setup_text() == "rnbqkbnr/1pp1pppp/p7/3pP3/8/8/PPPP1PPP/RNBQKBNR w KQkq d6 0 3");
  play(start, "e5d6");
  check(start.setup_text() == "rnbqkbnr/1pp1pppp/p2P4/8/8/8/PPPP1PPP/RNBQKBNR b KQkq - 0 3");
}

void castling() {
  const std::string both = "r3k2r/8/8/8/8/8/8/R3K2R";
  Chess<8> position = from_fen(both + " w KQkq - 0 1");
  check(allows(position, "e1g1") && allows(position, "e1c1"));
  play(position, "e1g1");
  check(position.setup_text() == "r3k2r/8/8/8/8/8/8/R4RK1 b kq - 1 1");
  check(!allows(position, "e8g8") && allows(position, "e8c8"));  // f8 is attacked
  play(position, "e8c8");
  check(position.setup_text() == "2kr3r/8/8/8/8/8/8/R4RK1 w - - 2 2");
  // In check, through a square that is attacked, onto one; b1 does not matter.
  check(!allows(from_fen("4k3/8/8/8/8/4r3/8/R3K2R w KQ - 0 1"), "e1g1"));
  check(!allows(from_fen("4k3/8/8/8/8/5r2/8/R3K2R w KQ - 0 1"), "e1g1"));
  check(!allows(from_fen("4k3/8/8/8/8/6r1/8/R3K2R w KQ - 0 1"), "e1g1"));
  check(allows(from_fen("4k3/8/8/8/8/1r6/8/R3K2R w KQ - 0 1"), "e1c1"));
  check(!allows(from_fen("4k3/8/8/8/8/8/8/RN2K2R w KQ - 0 1"), "e1c1"));
  // Rights go with the king, with the rook, and with a rook that is taken.
  Chess<8> rooks = from_fen(both + " w KQkq - 0 1");
  play(rooks, "h1h8");
  check(rooks.setup_text() == "r3k2R/8/8/8/8/8/8/R3K3 b Qq - 0 1");
  play(rooks, "e8d7");
  check(rooks.setup_text() == "r6R/3k4/8/8/8/8/8/R3K3 w Q - 1 2");
}

void castling_in_chess960() {
  // The king stays where it is, or the rook does, or they change places.
  Chess<8> stays = from_fen("4k3/8/8/8/8/8/8/1R4KR w HB - 0 1", true);
  check(allows(stays, "g1h1") && allows(stays, "g1b1"));
  play(stays, "O-O");
  check(stays.setup_text() == "4k3/8/8/8/8/8/8/1R3RK1 b - - 1 1");
  Chess<8> change = from_fen("4k3/8/8/8/8/8/8/5KR1 w G - 0 1", true);
  check(change.name_of(*change.action_named("O-O")) == "f1g1");
  play(change, "f1g1");
  check(change.setup_text() == "4k3/8/8/8/8/8/8/5RK1 b - - 1 1");
  // The rook shields the king from a rook on the first rank.
  check(!allows(from_fen("4k3/8/8/8/8/8/8/rR1K4 w B - 0 1", true), "d1b1"));
  check(allows(from_fen("4k3/8/8/8/8/8/8/1R1K4 w B - 0 1", true), "d1b1"));
  // K means the outermost rook, and a letter says which.
  const std::string two = "k7/8/8/8/8/8/8/2K1R2R w ";
  check(from_fen(two + "K - 0 1", true).setup_text() == two + "H - 0 1");
  check(from_fen(two + "E - 0 1", true).setup_text() == two + "E - 0 1");
}

void endings() {
  const auto ends = [](std::string_view fen, ChessEnding ending, int result = 0) {
    const Chess<8> position = from_fen(fen);
    check(position.ending() == ending && position.result() == result);
    check(position.is_terminal() == (ending != ChessEnding::kNone));
    if (position.is_terminal()) check(position.legal_actions().empty());
  };
  ends("rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3", ChessEnding::kCheckmate,
       -1);
  ends("R5k1/5ppp/8/8/8/8/8/K7 b - - 1 1", ChessEnding::kCheckmate, 1);
  ends("7k/5Q2/6K1/8/8/8/8/8 b - - 1 1", ChessEnding::kStalemate);
  ends("R5k1/5ppp/8/8/8/8/8/K7 b - - 100 90", ChessEnding::kCheckmate, 1);  // mate comes first
  ends("6k1/5ppp/8/8/8/8/8/K6R b - - 100 90", ChessEnding::kFiftyMoves);
  ends("6k1/5ppp/8/8/8/8/8/K6R b - - 99 90", ChessEnding::kNone);
  for (const char* pieces : {"k7/8/8/8/8/8/8/7K", "k7/8/8/8/8/8/8/6NK", "kb6/8/8/8/8/8/8/7K",
                             "k1b1b3/8/8/8/8/8/8/7K", "kb6/8/8/8/8/8/8/6BK"}) {
    ends(std::string(pieces) + " w - - 0 1", ChessEnding::kInsufficientMaterial);
  }
  for (const char* pieces : {"k7/8/8/8/8/8/8/5NNK", "kn6/8/8/8/8/8/8/6NK", "kb6/8/8/8/8/8/8/6NK",
                             "kbb5/8/8/8/8/8/8/7K", "kb6/8/8/8/8/8/8/5B1K", "k7/8/8/8/8/8/7P/7K"}) {
    ends(std::string(pieces) + " w - - 0 1", ChessEnding::kNone);
  }
}

void repetition() {
  Chess<8> position;
  const std::string round = "g1f3 g8f6 f3g1 f6g8";
  play(position, round);
  check(position.repetitions() == 1 && !position.is_terminal());
  play(position, round);
  check(position.ending() == ChessEnding::kRepetition && position.legal_actions().empty());
  // The first position had the right to castle, the others do not.
  Chess<8> rights = from_fen("4k3/8/8/8/8/8/8/4K2R w K - 0 1");
  play(rights, "e1f1 e8e7 f1e1 e7e8");
  check(rights.repetitions() == 0);
  play(rights, "e1f1 e8e7 f1e1 e7e8");
  check(rights.repetitions() == 1 && !rights.is_terminal());
  play(rights, "e1f1");
  check(rights.ending() == ChessEnding::kRepetition);
  // A pawn that could be taken en passant makes a position another one.
  Chess<8> passing = from_fen("4k3/8/8/8/4p3/8/3P4/4K3 w - - 0 1");
  play(passing, "d2d4 e8e7 e1e2 e7e8 e2e1");
  check(passing.repetitions() == 0);
  // A pawn that could not be taken does not.
  Chess<8> not_passing = from_fen("4k3/8/8/8/7p/8/3P4/4K3 w - - 0 1");
  play(not_passing, "d2d4 e8e7 e1e2 e7e8 e2e1");
  check(not_passing.repetitions() == 1);
}

void fifty_moves_and_length() {
  Chess<8> position = from_fen("4k3/8/8/8/8/8/4P3/R3K3 w - - 98 80");
  play(position, "e1d1");
  check(!position.is_terminal() &&
        position.ending_actions().size() == position.legal_actions().size());
  Chess<8> pawn = position;
  play(position, "e8d8");
  check(position.ending() == ChessEnding::kFiftyMoves && position.clock() == 100);
  play(pawn, "e8f8");
  check(pawn.is_terminal());
  Chess<8> longest({.chess960 = false, .max_length = 3});
  play(longest, "e2e4 e7e5 g1f3");
  check(longest.ending() == ChessEnding::kMaxLength && longest.result() == 0);
  Chess<8> mate({.chess960 = false, .max_length = 4});
  play(mate, "f2f3 e7e5 g2g4 d8h4");
  check(mate.ending() == ChessEnding::kCheckmate && mate.result() == -1);
  check_throws<std::invalid_argument>([] { Chess<1>({.chess960 = false, .max_length = 0}); });
  check_throws<std::invalid_argument>([] { Chess<1>({.chess960 = false, .max_length = 513}); });
}

// Moves that end a game by mate are among those that the search looks at.
void mates_in_one_are_found() {
  for (const char* fen : {
           "6k1/5ppp/8/8/8/8/8/K6R w - - 0 1",
           "7k/6pp/8/8/8/8/8/K3R3 w - - 0 1",
           "6rk/6pp/8/6N1/8/8/8/K7 w - - 0 1",  // smothered
           "7k/4P1pp/8/8/8/8/8/K7 w - - 0 1",   // by promotion
           "4k3/8/8/8/8/1r6/r7/6K1 b - - 0 1",
           "2k5/8/2K5/8/8/8/8/3R4 w - - 0 1",
           "3rkr2/8/8/8/8/8/8/4K2R w K - 0 1",
           "5rk1/5p1p/8/8/3B4/8/6N1/K5R1 w - - 0 1",  // discovered
       }) {
    const Chess<8> position = from_fen(fen);
    if (position.is_terminal()) continue;
    bool is_won = false;
    for (const Action action : position.legal_actions()) {
      is_won = is_won || value_of_ending(position, action) == 1.0f;
    }
    check((decided_value(position) == 1.0f) == is_won);
  }
}

// The bits of an observation plane, read as squares of White's view.
Squares plane_of(const Chess<8>& position, int plane) {
  const Squares seen = position.observe()[static_cast<std::size_t>(plane)].word(0);
  return position.to_play() == kFirstPlayer ? seen : chess::mirrored(seen);
}

void observation() {
  Chess<8> position;
  play(position, "e2e4 d7d5");
  constexpr Squares kAll = ~Squares{0};
  const auto square = [](std::string_view name) {
    return chess::bit(*chess::parse_square(name[0], name[1], kFirstPlayer));
  };
  check((plane_of(position, 0) & square("e4")) && (plane_of(position, 6) & square("d5")));
  check(plane_of(position, 12) == 0);
  // One ply ago, and two: from White's side as well.
  check((plane_of(position, 13) & square("e4")) && (plane_of(position, 19) & square("d7")));
  check((plane_of(position, 26) & square("e2")) && plane_of(position, 39) == 0);
  for (int right = 104; right < 108; ++right) check(plane_of(position, right) == kAll);
  check(plane_of(position, 108) == 0 && plane_of(position, 109) == 0);
  play(position, "e4e5 f7f5");
  check(plane_of(position, 108) == square("f6"));
  play(position, "e1e2");
  check(plane_of(position, 106) == 0 && plane_of(position, 104) == kAll);
  check(plane_of(position, 109) == kAll);
  const Chess<8> late = from_fen("4k3/8/8/8/8/8/4P3/R3K3 w Q - 90 80");
  for (int step = 0; step < 7; ++step) check((plane_of(late, 110 + step) == kAll) == (step < 6));
  check(plane_of(late, 104) == 0 && plane_of(late, 105) == kAll);
  // Both sides look the same to the player to move, except for the colour.
  const auto white = Chess<1>::set_up({}, "4k3/8/8/8/8/8/4P3/R3K3 w Q - 0 1").observe();
  const auto black = Chess<1>::set_up({}, "r3k3/4p3/8/8/8/8/8/4K3 b q - 0 1").observe();
  for (int plane = 0; plane < Chess<1>::kPlanes; ++plane) {
    if (plane != 18) check(white[plane] == black[plane]);
  }
  // A repeated position says so, now and later.
  Chess<8> again;
  play(again, "g1f3 g8f6 f3g1 f6g8");
  check(plane_of(again, 12) == kAll && plane_of(again, 12 + 4 * 13) == 0);
  play(again, "e2e4");
  check(plane_of(again, 12) == 0 && plane_of(again, 12 + 13) == kAll);
}

// One random game, compared with the reference in every position.
template <int kHistory>
void random_game(const Chess<kHistory>& start, Random& random, bool all_texts) {
  Chess<kHistory> position = start;
  const bool chess960 = start.rules().chess960;
  std::map<std::string, int> seen;
  while (true) {
    const std::string fen = position.setup_text();
    const ChessReference reference(fen, chess960);
    const Chess<kHistory> rebuilt = Chess<kHistory>::set_up(start, fen);
    check(rebuilt.board() == position.board() && rebuilt.setup_text() == fen);
    check(rebuilt.board().key() == position.board().key());
    std::string placement = fen.substr(0, fen.rfind(' ', fen.rfind(' ') - 1));
    if (position.clock() == 0) seen.clear();
    check(position.repetitions() == seen[placement]++);
    std::set<std::string> moves;
    ChessTargets targets;
    position.board().find_targets(targets);
    chess::for_each_action(position.board(), targets, [&](Action action) {
      const std::string move = position.name_of(action);
      moves.insert(move);
      if (!all_texts) return;
      check(position.action_named(move) == action);
      const auto from_san = position.action_named(position.san_of(action));
      check(position.is_terminal() || from_san == action);
    });
    check(moves == reference.moves());
    check(position.board().is_check() == reference.is_check());
    check(position.board().has_legal_move() == !moves.empty());
    if (position.is_terminal()) break;

    const auto actions = position.legal_actions();
    check(std::ranges::is_sorted(actions) &&
          static_cast<std::size_t>(actions.size()) == moves.size());
    const auto ending = position.ending_actions();
    for (int number = -1; number <= Chess<kHistory>::kNumActions; ++number) {
      check(position.is_legal(number) == (std::ranges::count(actions, number) == 1));
    }
    for (const Action action : actions) {
      if (value_of_ending(position, action) == 1.0f) {
        check(std::ranges::count(ending, action) == 1);
      }
    }
    const Chess<kHistory> before = position;
    position.apply(
        actions[static_cast<int>(random.below(static_cast<std::uint64_t>(actions.size())))]);
    check(before != position && before.hash() != position.hash());
    check(position.to_play() != before.to_play() && position.ply() == before.ply() + 1);
  }
  check(position.legal_actions().empty() && !position.is_legal(0));
}

// Sharp and rare positions, where random games begin as well.
constexpr std::array<std::string_view, 6> kSharp = {
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "8/8/1k6/8/2pPp3/8/4K3/8 b - d3 0 1",
    "3k4/8/8/8/8/8/3q4/4K1Q1 w - - 90 100"};

void random_games() {
  Random random(11);
  const int rounds = kIsFast ? 10 : 1;
  for (int round = 0; round < rounds; ++round) {
    random_game(Chess<8>({.chess960 = false, .max_length = 200}), random, round % 4 == 0);
    random_game(Chess<1>({.chess960 = false, .max_length = 60}), random, true);
    for (const std::string_view fen : kSharp) {
      random_game(from_fen(fen, false, 100), random, round % 4 == 0);
    }
    for (const std::string_view fen :
         {"bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9",
          "rk1r4/pp3ppp/8/8/8/8/PP3PPP/RK1R4 w DAda - 0 1",
          "1rkr4/8/8/8/8/8/8/1RKR4 w DBdb - 0 1"}) {
      random_game(from_fen(fen, true, 100), random, true);
    }
  }
}

void equality_covers_the_past() {
  Chess<8> there;
  Chess<8> other;
  play(there, "g1f3 g8f6 b1c3 b8c6");
  play(other, "b1c3 b8c6 g1f3 g8f6");
  check(there.board() == other.board() && there != other && there.hash() != other.hash());
  Chess<1> short_there;
  Chess<1> short_other;
  play(short_there, "g1f3 g8f6 b1c3 b8c6");
  play(short_other, "b1c3 b8c6 g1f3 g8f6");
  check(short_there.hash() == short_other.hash());  // a network sees no difference
  Chess<8> same;
  play(same, "g1f3 g8f6 b1c3 b8c6");
  check(same == there);
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"known counts", known_counts},
      {"known counts of Chess960", known_counts_of_chess960},
      {"starts of Chess960", starts_of_chess960},
      {"en passant", en_passant},
      {"castling", castling},
      {"castling in Chess960", castling_in_chess960},
      {"endings", endings},
      {"repetition", repetition},
      {"50 moves and the longest game", fifty_moves_and_length},
      {"mates in one are found", mates_in_one_are_found},
      {"observation", observation},
      {"random games agree with a slow reference", random_games},
      {"equality covers the past", equality_covers_the_past},
  });
}
