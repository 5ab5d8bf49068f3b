// Points of a Go board as text: the `vertex` of the Go Text Protocol, version 2.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace zerofleet {

// Columns from the left. I is left out because it looks like J.
inline constexpr std::string_view kGoColumns = "ABCDEFGHJKLMNOPQRST";

// Vertex of point `size * row + column`, row 0 at the top, on a board of `size` rows and columns.
// "D4" is the fourth column from the left and the fourth row from the bottom.
inline std::string go_point_to_string(int point, int size) {
  return kGoColumns[static_cast<std::size_t>(point % size)] + std::to_string(size - point / size);
}

// Point of a vertex in capitals; nullopt if the text is not a vertex.
inline std::optional<int> string_to_go_point(std::string_view text, int size) {
  if (text.size() < 2 || text.size() > 3 || text[1] == '0') return std::nullopt;
  const auto column = kGoColumns.find(text[0]);
  if (column >= static_cast<std::size_t>(size)) return std::nullopt;
  int number = 0;
  for (const char digit : text.substr(1)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    number = 10 * number + (digit - '0');
  }
  if (number > size) return std::nullopt;
  return size * (size - number) + static_cast<int>(column);
}

}  // namespace zerofleet
