// Names of games with their rules, such as "go(size=9,komi=7.5)".
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace zerofleet {

// A family of games and the settings chosen within it.
class GameName {
 public:
  // Throws std::invalid_argument unless the text is a name, alone or followed by (key=value,...).
  explicit GameName(std::string_view text) : text_(text) {
    if (text.find(':') != std::string_view::npos) {  // from outside: it reads the rest itself
      family_ = text;
      return;
    }
    const std::size_t open = text.find('(');
    family_ = text.substr(0, open);
    if (open == std::string_view::npos) return;
    if (text.back() != ')') fail("must end with ')'");
    std::string_view rest = text.substr(open + 1, text.size() - open - 2);
    while (!rest.empty()) {
      const std::size_t comma = rest.find(',');
      const std::string_view entry = rest.substr(0, comma);
      const std::size_t equals = entry.find('=');
      if (equals == std::string_view::npos) fail("expected key=value, not '", entry, "'");
      const auto [place, added] =
          settings_.emplace(trimmed(entry.substr(0, equals)), trimmed(entry.substr(equals + 1)));
      if (!added) fail("'", place->first, "' is given twice");
      rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    }
  }

  const std::string& text() const { return text_; }
  const std::string& family() const { return family_; }

  bool has(const std::string& key) const { return settings_.contains(key); }

  // Each function takes a setting out of the name; `finish` throws if any is left.
  int take_int(const std::string& key, int otherwise) {
    const std::string value = take(key);
    return value.empty() ? otherwise : parse<int>(key, value, "a whole number");
  }
  float take_float(const std::string& key, float otherwise) {
    const std::string value = take(key);
    return value.empty() ? otherwise : parse<float>(key, value, "a number");
  }
  bool take_bool(const std::string& key, bool otherwise) {
    const std::string value = take(key);
    if (value.empty()) return otherwise;
    if (value != "true" && value != "false") fail(key, " must be true or false, not '", value, "'");
    return value == "true";
  }
  // Takes one of these words, by default the first; returns its index.
  std::size_t take_word(const std::string& key, const std::vector<std::string>& words) {
    const std::string value = take(key);
    if (value.empty()) return 0;
    const auto found = std::ranges::find(words, value);
    if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
    std::string known;
    for (const std::string& word : words) known += (known.empty() ? "" : " or ") + word;
    fail(key, " must be ", known, ", not '", value, "'");
  }
  void finish() const {
    if (settings_.empty()) return;
    std::string known;
    for (const std::string& key : taken_) known += (known.empty() ? "" : ", ") + key;
    fail("unknown rule '", settings_.begin()->first, "'; ",
         known.empty() ? "the game takes none" : "known: " + known);
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    std::string message = "game '" + text_ + "': ";
    (message.append(parts), ...);
    throw std::invalid_argument(message);
  }

  std::string take(const std::string& key) {
    taken_.push_back(key);
    const auto found = settings_.find(key);
    if (found == settings_.end()) return "";
    std::string value = found->second;
    settings_.erase(found);
    if (value.empty()) fail(key, " has no value");
    return value;
  }

  template <class Number>
  Number parse(const std::string& key, const std::string& value, const char* kind) const {
    std::size_t used = 0;
    Number number{};
    try {
      if constexpr (std::is_same_v<Number, int>) {
        number = std::stoi(value, &used);
      } else {
        number = std::stof(value, &used);
      }
    } catch (const std::logic_error&) {
      used = 0;
    }
    if (used != value.size()) fail(key, " must be ", kind, ", not '", value, "'");
    return number;
  }

  static std::string trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(' ');
    if (first == std::string_view::npos) return "";
    return std::string(text.substr(first, text.find_last_not_of(' ') - first + 1));
  }

  std::string text_;
  std::string family_;
  std::map<std::string, std::string> settings_;
  std::vector<std::string> taken_;
};

}  // namespace zerofleet
