#include "zerofleet/position_text.h"

#include <algorithm>
#include <array>

namespace zerofleet {
namespace {

[[noreturn]] void refuse(const std::string& reason) { throw std::invalid_argument(reason); }

std::string shown(char letter) {
  if (letter >= ' ' && letter <= '~') return std::string("'") + letter + "'";
  return "a character outside ASCII";
}

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

// The player whose letter this is, in either case, or kNobody.
Player player_of(char letter, std::string_view letters) {
  for (const Player player : {kFirstPlayer, kSecondPlayer}) {
    if (lower(letter) == lower(letters[static_cast<std::size_t>(player)])) return player;
  }
  return kNobody;
}

std::string either(std::string_view letters) {
  return std::string(1, letters[0]) + " or " + letters[1];
}

// Reads one row into `points`. `number` counts rows from 1 for messages.
void read_row(std::string_view row, int number, int columns, std::string_view letters,
              std::vector<Player>& points) {
  const std::string where = "row " + std::to_string(number) + " from the top";
  const std::size_t end = points.size() + static_cast<std::size_t>(columns);
  int run = 0;  // the number of empty points that is being read
  const auto add = [&](int count, Player owner) {
    if (points.size() + static_cast<std::size_t>(count) > end) {
      refuse(where + " has more than " + std::to_string(columns) + " points");
    }
    points.insert(points.end(), static_cast<std::size_t>(count), owner);
  };
  for (std::size_t i = 0; i < row.size(); ++i) {
    const char letter = row[i];
    if (letter >= '0' && letter <= '9') {
      run = std::min(10 * run + (letter - '0'), 1000);
      const bool ends = i + 1 == row.size() || row[i + 1] < '0' || row[i + 1] > '9';
      if (!ends) continue;
      if (run == 0) refuse(where + " has a run of 0 empty points");
      add(run, kNobody);
      run = 0;
    } else if (letter == '.' || letter == '-') {
      add(1, kNobody);
    } else if (const Player owner = player_of(letter, letters); owner != kNobody) {
      add(1, owner);
    } else {
      refuse(where + " has " + shown(letter) + "; write " + either(letters) +
             ", and a number for empty points");
    }
  }
  if (points.size() < end) {
    const int given = columns - static_cast<int>(end - points.size());
    refuse(where + " has " + std::to_string(given) + (given == 1 ? " point" : " points") +
           " instead of " + std::to_string(columns));
  }
}

Player read_side(std::string_view text, std::string_view letters) {
  const std::size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) {
    refuse("the side to move is missing; write " + either(letters) + " after the board");
  }
  const std::string_view side = text.substr(first, text.find_last_not_of(' ') - first + 1);
  const Player player = side.size() == 1 ? player_of(side[0], letters) : kNobody;
  if (player == kNobody) {
    refuse("the side to move must be " + either(letters) +
           (side.size() == 1 ? ", not " + shown(side[0]) : ", a single letter at the end"));
  }
  return player;
}

}  // namespace

int Diagram::count(Player player) const {
  return static_cast<int>(std::ranges::count(points, player));
}

Diagram read_diagram(std::string_view text, int rows, int columns, std::string_view letters) {
  const std::size_t first = std::min(text.find_first_not_of(' '), text.size());
  const std::size_t space = std::min(text.find(' ', first), text.size());
  const std::string_view board = text.substr(first, space - first);
  const int given = 1 + static_cast<int>(std::ranges::count(board, '/'));
  if (given != rows) {
    refuse("the position has " + std::to_string(given) + (given == 1 ? " row" : " rows") +
           " instead of " + std::to_string(rows) + "; rows are separated by '/'");
  }
  Diagram diagram;
  std::string_view rest = board;
  for (int row = 1; row <= rows; ++row) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    read_row(rest.substr(0, end), row, columns, letters, diagram.points);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  diagram.to_play = read_side(text.substr(space), letters);
  return diagram;
}

std::string write_diagram(const Diagram& diagram, int columns, std::string_view letters) {
  std::string text;
  int empty = 0;
  const auto end_run = [&] {
    if (empty > 0) text += std::to_string(empty);
    empty = 0;
  };
  for (std::size_t point = 0; point < diagram.points.size(); ++point) {
    if (point > 0 && point % static_cast<std::size_t>(columns) == 0) {
      end_run();
      text += '/';
    }
    const Player owner = diagram.points[point];
    if (owner == kNobody) {
      ++empty;
    } else {
      end_run();
      text += letters[static_cast<std::size_t>(owner)];
    }
  }
  end_run();
  return text + ' ' + letters[static_cast<std::size_t>(diagram.to_play)];
}

void check_turns(const Diagram& diagram, std::string_view letters) {
  const std::array<int, 2> counts = {diagram.count(kFirstPlayer), diagram.count(kSecondPlayer)};
  const std::string first(1, letters[0]);
  const std::string second(1, letters[1]);
  const std::string board = "the board has " + std::to_string(counts[0]) + " " + first + " and " +
                            std::to_string(counts[1]) + " " + second;
  if (counts[0] != counts[1] && counts[0] != counts[1] + 1) {
    refuse(board + "; " + first + " moves first and the players take turns, so " + first +
           " has as many or one more");
  }
  const Player turn = counts[0] == counts[1] ? kFirstPlayer : kSecondPlayer;
  if (turn != diagram.to_play) {
    refuse(board + ", so " + (turn == kFirstPlayer ? first : second) + " is to move");
  }
}

}  // namespace zerofleet
