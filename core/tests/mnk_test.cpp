// m,n,k games against tic-tac-toe, a slow reference, each other and their own symmetries.
#include "zerofleet/games/mnk.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"
#include "zerofleet/games/tic_tac_toe.h"
#include "zerofleet/random.h"
#include "zerofleet/symmetry.h"

namespace zerofleet {
namespace {

using test::check;

// Sanitized and unoptimised builds play fewer games.
#ifdef NDEBUG
constexpr int kGames = 400;
#else
constexpr int kGames = 60;
#endif

std::vector<int> to_vector(const auto& actions) { return {actions.begin(), actions.end()}; }

template <class Position>
Action random_action(const Position& position, Random& random) {
  const auto actions = position.legal_actions();
  return actions[static_cast<int>(random.below(static_cast<std::uint64_t>(actions.size())))];
}

RunTimeSizes random_sizes(Random& random) {
  const int columns = 1 + static_cast<int>(random.below(19));
  const int rows = 1 + static_cast<int>(random.below(19));
  const int longest = std::min(std::max(columns, rows), 6);  // longer rows hardly ever come about
  const int in_a_row = 1 + static_cast<int>(random.below(static_cast<std::uint64_t>(longest)));
  return {columns, rows, in_a_row};
}

std::vector<std::uint8_t> packed(const auto& position) {
  // Filled with ones: write_observation writes every bit.
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(3 * position.num_actions() + 7) / 8,
                                  0xff);
  position.write_observation(bytes);
  return bytes;
}

template <class Position>
int count_tic_tac_toe_games(const TicTacToe& known, const Position& position) {
  check(to_vector(position.legal_actions()) == to_vector(known.legal_actions()));
  check(position.is_terminal() == known.is_terminal() && position.result() == known.result());
  check(position.ply() == known.ply() && position.to_play() == known.to_play());
  if (known.is_terminal()) return 1;
  int games = 0;
  for (const Action action : known.legal_actions()) {
    TicTacToe next_known = known;
    Position next = position;
    next_known.apply(action);
    next.apply(action);
    games += count_tic_tac_toe_games(next_known, next);
  }
  return games;
}

void three_in_a_row_is_tic_tac_toe() {
  check(count_tic_tac_toe_games(TicTacToe{}, MnkPosition<FixedSizes<3, 3, 3>>{}) == 255168);
  check(count_tic_tac_toe_games(TicTacToe{}, RunTimeMnk({3, 3, 3})) == 255168);
}

template <class Fixed>
void fixed_and_run_time_agree(Random& random) {
  Fixed fixed;
  RunTimeMnk run_time({fixed.columns(), fixed.rows(), fixed.in_a_row()});
  for (;;) {
    check(to_vector(fixed.legal_actions()) == to_vector(run_time.legal_actions()));
    check(fixed.is_terminal() == run_time.is_terminal() && fixed.result() == run_time.result());
    check(fixed.hash() == run_time.hash() && fixed.to_string() == run_time.to_string());
    const std::vector<std::uint8_t> seen = packed(fixed);
    check(seen == packed(run_time));
    Observation<Fixed> planes{};
    write_observation(fixed, 0, planes);
    check(std::ranges::equal(seen, planes));
    if (fixed.is_terminal()) break;
    for (int number = -1; number <= fixed.num_actions(); ++number) {
      check(fixed.is_legal(number) == run_time.is_legal(number));
    }
    const Action action = random_action(fixed, random);
    check(fixed.action_to_string(action) == run_time.action_to_string(action));
    fixed.apply(action);
    run_time.apply(action);
  }
}

void fixed_and_run_time_agree() {
  Random random(1);
  for (int game = 0; game < kGames / 10; ++game) {
    fixed_and_run_time_agree<Gomoku>(random);
    fixed_and_run_time_agree<MnkPosition<FixedSizes<19, 19, 6>>>(random);
    fixed_and_run_time_agree<MnkPosition<FixedSizes<7, 4, 3>>>(random);
    fixed_and_run_time_agree<MnkPosition<FixedSizes<8, 8, 8>>>(random);
  }
}

// Whether the player has k stones on any straight row of k points; the whole board is looked at.
bool has_row(const RunTimeMnk& position, Player player) {
  const int k = position.in_a_row();
  const auto is_on_board = [&](int column, int row) {
    return column >= 0 && column < position.columns() && row >= 0 && row < position.rows();
  };
  for (int point = 0; point < position.num_actions(); ++point) {
    const int column = point % position.columns();
    const int row = point / position.columns();
    for (const int step : {0, 1, 2, 3}) {  // right, down, down right, down left
      const int right = step == 1 ? 0 : step == 3 ? -1 : 1;
      const int down = step == 0 ? 0 : 1;
      if (!is_on_board(column + (k - 1) * right, row + (k - 1) * down)) continue;
      int stones = 0;
      for (int i = 0; i < k; ++i) {
        stones +=
            position.has_stone(player, (row + i * down) * position.columns() + column + i * right);
      }
      if (stones == k) return true;
    }
  }
  return false;
}

void results_agree_with_reference() {
  Random random(2);
  std::array<int, 3> results{};
  for (int game = 0; game < kGames; ++game) {
    RunTimeMnk position(random_sizes(random));
    std::vector<int> empty;
    for (int action = 0; action < position.num_actions(); ++action) empty.push_back(action);
    while (!position.is_terminal()) {
      check(position.result() == 0 && to_vector(position.legal_actions()) == empty);
      const Action action = random_action(position, random);
      const Player player = position.to_play();
      position.apply(action);
      std::erase(empty, action);
      check(!position.is_legal(action));
      const int winner = player == kFirstPlayer ? 1 : -1;
      check(position.result() == (has_row(position, player) ? winner : 0));
      check(position.is_terminal() == (position.result() != 0 || empty.empty()));
    }
    check(position.legal_actions().empty() && position.ply() <= position.max_length());
    ++results[static_cast<std::size_t>(position.result() + 1)];
  }
  for (const int count : results) check(count > 0);
}

// Plays the actions, all of which must be legal.
template <class Position>
Position after(Position position, std::initializer_list<const char*> texts) {
  for (const char* text : texts) {
    const auto action = position.string_to_action(text);
    check(action.has_value() && position.is_legal(*action));
    position.apply(*action);
  }
  return position;
}

void longer_rows_win() {
  const Gomoku five = after(Gomoku{}, {"a1", "a9", "b1", "b9", "d1", "d9", "e1", "e9"});
  check(!five.is_terminal());
  check(after(five, {"c1"}).result() == 1);
  const Gomoku six = after(five, {"f1", "k9", "c1"});
  check(six.is_terminal() && six.result() == 1 && six.legal_actions().empty());
  const Gomoku second = after(five, {"o15", "c9"});
  check(second.result() == -1);
}

// The first player fills a diagonal of the largest board, the second the top row.
void the_longest_row_wins() {
  RunTimeMnk position({19, 19, 19});
  for (int i = 18; i > 0; --i) {
    position.apply(static_cast<Action>(20 * i));
    position.apply(static_cast<Action>(i));
  }
  check(!position.is_terminal());
  position.apply(0);
  check(position.is_terminal() && position.result() == 1);
}

// Four stones at the end of a row and one at the start of the next are no five.
void rows_do_not_wrap() {
  Gomoku position =
      after(Gomoku{}, {"l9", "a1", "m9", "c1", "n9", "e1", "o9", "g1", "a8", "i1", "b8", "k1"});
  check(!position.is_terminal());
  check(after(position, {"k9"}).result() == 1);
}

void full_boards_are_drawn() {
  const RunTimeMnk three =
      after(RunTimeMnk({3, 3, 3}), {"a1", "b2", "c3", "a2", "c2", "c1", "a3", "b3", "b1"});
  check(three.is_terminal() && three.result() == 0);
  Random random(3);
  RunTimeMnk largest({19, 19, 19});
  while (!largest.is_terminal()) largest.apply(random_action(largest, random));
  check(largest.result() == 0 && largest.ply() == 361 && largest.max_length() == 361);
}

void smallest_boards() {
  RunTimeMnk one({1, 1, 1});
  one.apply(0);
  check(one.is_terminal() && one.result() == 1);
  RunTimeMnk column({1, 2, 2});
  column.apply(0);
  check(!column.is_terminal());
  column.apply(1);
  check(column.is_terminal() && column.result() == 0);
}

// Moves the bits of a packed observation one by one.
std::vector<std::uint8_t> moved(const RunTimeMnk& position, int symmetry) {
  const std::vector<std::uint8_t> seen = packed(position);
  std::vector<std::uint8_t> image(seen.size(), 0);
  const int points = position.num_actions();
  for (int bit = 0; bit < 3 * points; ++bit) {
    if (!((seen[static_cast<std::size_t>(bit / 8)] >> (7 - bit % 8)) & 1)) continue;
    const int to = bit / points * points + position.symmetric_point(bit % points, symmetry);
    image[static_cast<std::size_t>(to / 8)] |= static_cast<std::uint8_t>(0x80 >> (to % 8));
  }
  return image;
}

void play_with_images(const RunTimeSizes& sizes, Random& random) {
  RunTimeMnk position(sizes);
  std::vector<RunTimeMnk> images(static_cast<std::size_t>(position.num_symmetries()), position);
  while (!position.is_terminal()) {
    const Action action = random_action(position, random);
    position.apply(action);
    for (int symmetry = 0; symmetry < position.num_symmetries(); ++symmetry) {
      RunTimeMnk& image = images[static_cast<std::size_t>(symmetry)];
      const int image_action = position.symmetric_action(action, symmetry);
      check(image.is_legal(image_action));
      image.apply(static_cast<Action>(image_action));
      check(image.result() == position.result());
      check(image.is_terminal() == position.is_terminal());
      for (int number = 0; number < position.num_actions(); ++number) {
        check(position.is_legal(number) ==
              image.is_legal(position.symmetric_action(number, symmetry)));
      }
      check(packed(image) == moved(position, symmetry));
    }
    check(images[0] == position);
  }
}

void symmetries_commute() {
  Random random(4);
  for (const RunTimeSizes sizes : {RunTimeSizes{7, 4, 3}, RunTimeSizes{4, 7, 4},
                                   RunTimeSizes{6, 6, 4}, RunTimeSizes{1, 5, 3}}) {
    check(sizes.num_symmetries() == (sizes.columns() == sizes.rows() ? 8 : 4));
    for (int game = 0; game < kGames / 10; ++game) play_with_images(sizes, random);
  }
  const RunTimeSizes rectangle(3, 2, 2);
  const auto image = [&](int symmetry) {
    std::vector<int> points;
    for (int point = 0; point < 6; ++point) {
      points.push_back(rectangle.symmetric_point(point, symmetry));
    }
    return points;
  };
  check(image(0) == std::vector<int>{0, 1, 2, 3, 4, 5});
  check(image(1) == std::vector<int>{2, 1, 0, 5, 4, 3});
  check(image(2) == std::vector<int>{3, 4, 5, 0, 1, 2});
  check(image(3) == std::vector<int>{5, 4, 3, 2, 1, 0});
}

void observations() {
  const RunTimeMnk position = after(RunTimeMnk({4, 3, 3}), {"a3", "d1", "b3"});
  // Own d1; the opponent's a3 and b3; the second player is to move; four bits of padding.
  check(packed(position) == std::vector<std::uint8_t>{0x00, 0x1c, 0x00, 0xff, 0xf0});
}

void hashes() {
  const Gomoku start;
  check(after(start, {"a1", "b2", "c3"}).hash() == after(start, {"c3", "b2", "a1"}).hash());
  check(after(start, {"a1", "b2", "c3"}) == after(start, {"c3", "b2", "a1"}));
  check(after(start, {"a1", "b2"}).hash() != after(start, {"b2", "a1"}).hash());
  for (const RunTimeSizes other :
       {RunTimeSizes{6, 4, 3}, RunTimeSizes{5, 5, 3}, RunTimeSizes{5, 4, 4}}) {
    check(RunTimeMnk({5, 4, 3}).hash() != RunTimeMnk(other).hash());
  }
  check(RunTimeMnk({5, 4, 3}) != RunTimeMnk({5, 4, 4}));
}

void notation() {
  const RunTimeSizes gomoku(15, 15, 5);
  check(gomoku.action_to_string(112) == "h8" && gomoku.action_to_string(210) == "a1");
  check(gomoku.action_to_string(14) == "o15" && gomoku.string_to_action("H8") == Action{112});
  for (const RunTimeSizes sizes : {gomoku, RunTimeSizes{19, 3, 3}, RunTimeSizes{2, 19, 19}}) {
    for (int number = 0; number < sizes.num_actions(); ++number) {
      const auto action = static_cast<Action>(number);
      check(sizes.string_to_action(sizes.action_to_string(action)) == action);
    }
  }
  for (const char* text : {"", "h", "h0", "h08", "h16", "p1", "hh", "h-1", "h8 ", "h123", "8h"}) {
    check(!gomoku.string_to_action(text));
  }
  check(!Gomoku{}.is_legal(-1) && !Gomoku{}.is_legal(225));
}

void check_refused(int columns, int rows, int in_a_row, const std::string& message) {
  try {
    RunTimeSizes(columns, rows, in_a_row);
  } catch (const std::invalid_argument& error) {
    check(error.what() == message);
    return;
  }
  check(false);
}

void refused_sizes() {
  check_refused(0, 3, 3, "columns is 0; choose 1 to 19");
  check_refused(20, 3, 3, "columns is 20; choose 1 to 19");
  check_refused(3, -1, 3, "rows is -1; choose 1 to 19");
  check_refused(3, 259, 3, "rows is 259; choose 1 to 19");
  check_refused(3, 5, 0, "in_a_row is 0; choose 1 to 5");
  check_refused(3, 5, 6, "in_a_row is 6; choose 1 to 5");
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"3,3,3 is tic-tac-toe", three_in_a_row_is_tic_tac_toe},
      {"fixed and run-time sizes agree", [] { fixed_and_run_time_agree(); }},
      {"results agree with a slow reference", results_agree_with_reference},
      {"longer rows win", longer_rows_win},
      {"the longest row wins", the_longest_row_wins},
      {"rows do not wrap", rows_do_not_wrap},
      {"full boards are drawn", full_boards_are_drawn},
      {"smallest boards", smallest_boards},
      {"symmetries commute with everything", symmetries_commute},
      {"observations", observations},
      {"hashes", hashes},
      {"notation", notation},
      {"refused sizes", refused_sizes},
  });
}
