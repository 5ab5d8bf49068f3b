// Go: ko, suicide, captures, the end of the game, scores and notation on boards set up by hand.
#include "zerofleet/games/go.h"

#include <limits>
#include <stdexcept>
#include <string>

#include "check.h"
#include "go_moves.h"

namespace zerofleet {
namespace {

using test::allows;
using test::check;
using test::check_throws;
using test::play;

Go<5> without_suicide() { return Go<5>(GoRules{7.5f, false, 50}); }

void ko() {
  const auto taken = play<5>("B5 C5 A4 D4 B3 C3 pass B4 C4");
  check(taken.to_string() ==
        " 5 . X O . .\n"
        " 4 X . X O .\n"
        " 3 . X O . .\n"
        " 2 . . . . .\n"
        " 1 . . . . .\n"
        "   A B C D E");
  check(!allows(taken, "B4"));
  check(allows(taken, "B2"));
  const auto threatened = play(taken, "E1 E2");
  check(allows(threatened, "B4"));
  const auto retaken = play(threatened, "B4");
  check(retaken.board().at(*Go<5>::string_to_action("C4")) == kNoStone);
  check(!allows(retaken, "C4"));
}

// Two white stones are taken and one black one in return: no ko of a single stone, but the board
// before.
void sending_two_returning_one() {
  const auto sent = play<5>("A4 C4 B4 D5 pass B5 pass A5");
  check(sent.to_string().starts_with(" 5 O O . O ."));
  const auto taken = play(sent, "C5");
  check(taken.to_string().starts_with(" 5 . . X O ."));
  check(!allows(taken, "B5"));
  check(allows(taken, "A5"));
  check(allows(play(taken, "E1 E2"), "B5"));
}

// Three kos at once: six moves lead back to where they began, so that the sixth is forbidden.
void triple_ko() {
  constexpr char kWalls[] = "B9 C9 A8 D8 B7 C7 B6 C6 A5 D5 B4 C4 B3 C3 A2 D2 B1 C1";
  const auto start = play(play<9>(kWalls), "C5 B8 pass B2");
  const auto cycle = play(start, "C8 B5 C2 B8 C5");
  check(!allows(cycle, "B2"));
  check(allows(play(cycle, "J1 J9"), "B2"));
}

void suicide_of_one_stone() {
  // Nothing would change: superko forbids it where suicide is allowed.
  for (const Go<5>& rules : {Go<5>{}, without_suicide()}) {
    const auto corner = play(rules, "E1 A4 pass B5");
    check(!allows(corner, "A5"));
    check(allows(play(corner, "pass"), "A5"));
    // With a white chain in atari next to it, the move captures instead.
    const auto capture = play(corner, "A3 pass B4");
    check(allows(play(capture, "pass"), "A5"));
    check(play(capture, "pass A5").board().at(5) == kNoStone);
  }
}

void suicide_of_two_stones() {
  constexpr char kMoves[] = "A5 A4 pass B4 pass C5";
  const auto before = play<5>(kMoves);
  check(allows(before, "B5"));
  const auto after = play(before, "B5");
  check(after.board().at(0) == kNoStone && after.board().at(1) == kNoStone);
  check(after.board().stones()[kFirstPlayer].size() == 0);
  check(after.board().stones()[kSecondPlayer].size() == 3);
  check(!allows(play(without_suicide(), kMoves), "B5"));
  // The same suicide where the board without the two stones has been before.
  check(!allows(play<5>("E1 A4 pass B4 pass C5 A5 pass"), "B5"));
}

void snapback() {
  const auto bait = play<5>("A4 C5 B4 C4 pass A3 pass B3 pass A5");
  const auto taken = play(bait, "B5");
  check(taken.board().at(0) == kNoStone);
  check(allows(taken, "A5"));
  const auto snapped = play(taken, "A5");
  check(snapped.board().stones()[kFirstPlayer].size() == 0);
  check(snapped.board().stones()[kSecondPlayer].size() == 5);
}

void moves_outside_the_board() {
  const Go<5> game = play<5>("C3");
  for (const int action : {-1, 12, 26, 1000}) check(!game.is_legal(action));
  check(game.is_legal(25));
}

void passes_end_the_game() {
  const auto one = play<5>("C3 pass");
  check(!one.is_terminal() && one.result() == 0);
  check(!play(one, "C4 pass").is_terminal());
  const auto two = play(one, "pass");
  check(two.is_terminal() && two.result() == 1 && two.score() == 17.5f);
  check(two.legal_actions().empty() && !two.is_legal(Go<5>::kPass) && !two.is_legal(0));
}

void max_length_ends_the_game() {
  const auto game = play(Go<5>(GoRules{24.5f, true, 3}), "A1 pass B1");
  check(game.is_terminal() && game.ply() == 3 && game.result() == 1);
  check(game.legal_actions().empty());
  check(!play(Go<5>(GoRules{24.5f, true, 4}), "A1 pass B1").is_terminal());
}

// Columns B and D are walls, column C is dame.
constexpr char kWalls[] = "B1 D1 B2 D2 B3 D3 B4 D4 B5 D5";

void komi_decides() {
  const auto result = [](float komi) {
    return play(Go<5>(GoRules{komi, true, 50}), std::string(kWalls) + " pass pass").result();
  };
  check(result(0.0f) == 0);
  check(result(0.5f) == -1);
  check(result(-0.5f) == 1);
  check(result(7.0f) == -1);
  // One more point in the dame for Black.
  const auto score = [](float komi) {
    return play(Go<5>(GoRules{komi, true, 50}), std::string(kWalls) + " C3 pass pass").score();
  };
  check(score(1.0f) == 0.0f);
  check(score(0.5f) == 0.5f);
}

void areas() {
  const auto [black, white] = play<5>(kWalls).area();
  const auto owners = play<5>(kWalls).final_planes();
  for (int point = 0; point < 25; ++point) {
    check(owners[static_cast<std::size_t>(point)] == (point % 5 < 2 ? 1 : point % 5 > 2 ? -1 : 0));
    check(black.test(point) == (point % 5 < 2));
    check(white.test(point) == (point % 5 > 2));
  }
  check(Go<5>{}.area()[0].size() == 0 && Go<5>{}.score() == -7.5f);
  check(play<5>("C3").score() == 17.5f && play<5>("C3").final_score() == 17.5f);
  // The corner's two liberties are shared: they count for neither player, the stones as they stand.
  const auto seki = play<5>("A3 A4 B3 B4 C3 pass C4 pass C5");
  check(seki.area()[0].size() == 21 && seki.area()[1].size() == 2);
  // One eye for each side, the bottom row for neither.
  const auto eyes = play<4>("A4 C4 B4 D4 B3 C3 A2 C2 B2 D2");
  check(eyes.area()[0].size() == 6 && eyes.area()[1].size() == 6);
  check(eyes.area()[0].test(4) && eyes.area()[1].test(7) && !eyes.area()[0].test(12));
}

void rules_are_checked() {
  check(Go<9>{}.rules() == GoRules{7.5f, true, 162});
  check(Go<2>{}.rules() == GoRules{4.0f, true, 8});
  const GoRules rules{-6.5f, false, 64};
  check(Go<5>(rules).rules() == rules);
  const auto refused = [](const GoRules& wrong, const std::string& setting) {
    try {
      Go<5> game(wrong);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what()).starts_with(setting + " is ");
    }
    return false;
  };
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float komi :
       {7.3f, 25.5f, -26.0f, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    check(refused({komi, true, 50}, "komi"));
  }
  for (const int length : {-1, 0, 65, 1 << 20}) check(refused({7.5f, true, length}, "max_length"));
}

// Positions are equal when the games that led to them are interchangeable from here on.
void equality() {
  check(play<5>("A1 B2 C3") == play<5>("A1 B2 C3"));
  const auto other_order = play<5>("C3 B2 A1");
  check(play<5>("A1 B2 C3") != other_order);
  check(play<5>("A1 B2 C3").board() == other_order.board());
  check(Go<5>{} != without_suicide());
  check(play<5>("pass") != Go<5>{});
}

void notation() {
  check(Go<9>::string_to_action("A9") == 0);
  check(Go<9>::string_to_action("J1") == 80);
  check(Go<9>::string_to_action("d4") == 48);
  check(Go<19>::string_to_action("a19") == 0);
  check(Go<19>::string_to_action("T1") == 360);
  check(Go<19>::string_to_action("q16") == 72);
  check(Go<9>::string_to_action("Pass") == 81);
  check(Go<9>::action_to_string(48) == "D4");
  check(Go<9>::action_to_string(81) == "pass");
  for (const char* text :
       {"", "A", "4", "I5", "A0", "A01", "A10", "K1", "A1 ", "4A", "passes", "A-1"}) {
    check(!Go<9>::string_to_action(text));
  }
  for (int action = 0; action < Go<19>::kNumActions; ++action) {
    const auto number = static_cast<Action>(action);
    check(Go<19>::string_to_action(Go<19>::action_to_string(number)) == number);
  }
  check(Go<2>{}.to_string() == " 2 . .\n 1 . .\n   A B");
  check(Go<10>{}.to_string().starts_with("10 . "));
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"ko", ko},
      {"superko: sending two, returning one", sending_two_returning_one},
      {"superko: triple ko", triple_ko},
      {"suicide of one stone", suicide_of_one_stone},
      {"suicide of two stones", suicide_of_two_stones},
      {"snapback", snapback},
      {"moves outside the board", moves_outside_the_board},
      {"two passes end the game", passes_end_the_game},
      {"max_length ends the game", max_length_ends_the_game},
      {"komi decides", komi_decides},
      {"areas", areas},
      {"rules are checked", rules_are_checked},
      {"equality", equality},
      {"notation", notation},
  });
}
