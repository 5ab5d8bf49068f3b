// The rules of a game, as search and the replay buffer see them.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "zerofleet/observation.h"
#include "zerofleet/random.h"

namespace zerofleet {

using Action = std::int16_t;
using Player = std::int8_t;

inline constexpr Player kFirstPlayer = 0;
inline constexpr Player kSecondPlayer = 1;

// The legal actions of a position in ascending order, without heap allocation.
template <int kCapacity>
class ActionList {
 public:
  constexpr void push_back(int action) { actions_[size_++] = static_cast<Action>(action); }

  constexpr int size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr Action operator[](int index) const { return actions_[index]; }
  constexpr const Action* begin() const { return actions_.data(); }
  constexpr const Action* end() const { return actions_.data() + size_; }

 private:
  std::array<Action, kCapacity> actions_;
  int size_ = 0;
};

// The most actions that are legal in one position, where a game says so: memory that is kept for
// each position then has that size. Otherwise all actions may be legal at once.
template <class G>
inline constexpr int kMostLegalActions = [] {
  if constexpr (requires { G::kMostLegalActions; }) {
    return G::kMostLegalActions;
  } else {
    return G::kNumActions;
  }
}();

// A game for two players who move in turn, with perfect information and no chance. Its sizes are
// known at compile time.
//
// A value of the type is a position; a default-constructed one is the start under the usual rules.
// `apply` takes only legal actions of non-terminal positions. Callers with untrusted input ask
// `is_legal` first, which takes any int. `result` is +1 if the first player won, -1 if the second
// did, and 0 for a draw or while the game goes on. A symmetry moves board points and actions in the
// same way; symmetry 0 is the identity.
template <class G>
concept FixedGame =
    std::is_trivially_copyable_v<G> && std::default_initializable<G> &&
    std::equality_comparable<G> &&
    requires(G game, const G position, int number, Action action, std::string_view text) {
      { G::kName } -> std::convertible_to<std::string_view>;
      { G::kNumActions } -> std::convertible_to<int>;
      { G::kPlanes } -> std::convertible_to<int>;
      { G::kRows } -> std::convertible_to<int>;
      { G::kColumns } -> std::convertible_to<int>;
      { G::kMaxLength } -> std::convertible_to<int>;  // plies of the longest game
      { G::kNumSymmetries } -> std::convertible_to<int>;

      { position.ply() } -> std::same_as<int>;
      { position.to_play() } -> std::same_as<Player>;
      { position.is_terminal() } -> std::same_as<bool>;
      { position.result() } -> std::same_as<int>;
      { position.hash() } -> std::same_as<std::uint64_t>;
      { position.is_legal(number) } -> std::same_as<bool>;
      { position.legal_actions() } -> std::same_as<ActionList<kMostLegalActions<G>>>;
      { position.observe() } -> std::same_as<Planes<G::kPlanes, G::kRows * G::kColumns>>;
      { position.to_string() } -> std::same_as<std::string>;
      { game.apply(action) } -> std::same_as<void>;

      { G::symmetric_point(number, number) } -> std::same_as<int>;   // (point, symmetry)
      { G::symmetric_action(number, number) } -> std::same_as<int>;  // (action, symmetry)
      { G::action_to_string(action) } -> std::same_as<std::string>;
      { G::string_to_action(text) } -> std::same_as<std::optional<Action>>;
    };

// Number of board points: rows * columns.
template <FixedGame G>
inline constexpr int kPoints = G::kRows * G::kColumns;

// Bytes of a packed observation.
template <FixedGame G>
inline constexpr int kObservationBytes = (G::kPlanes * kPoints<G> + 7) / 8;

// What a game may tell about its end besides the result, for networks to learn (Wu 2019, arXiv
// 1902.10565, section 4.1). Both concepts read terminal positions only.
//
// Planes over the board's points: +1 for what the first player has in the end, -1 for what the
// second has, 0 for what neither has.
template <class G>
concept HasFinalPlanes = FixedGame<G> && requires(const G position) {
  {
    position.final_planes()
  } -> std::same_as<std::array<std::int8_t, G::kFinalPlanes * kPoints<G>>>;
};

// The first player's final lead, in the game's points.
template <class G>
concept HasFinalScore = requires(const G position) {
  { position.final_score() } -> std::same_as<float>;
};

// All legal actions that may win at once. Where every legal action ends the game, all of them. An
// empty list may also mean that finding them costs too much. In a game without this function every
// action may end the game.
template <class G>
concept TellsEndingActions = requires(const G position) {
  { position.ending_actions() } -> std::same_as<decltype(position.legal_actions())>;
};

// A game that can begin at a given position, written as one line in its own notation. `set_up`
// reads a line under the rules of `start`, which carries settings such as komi. It throws
// std::invalid_argument, naming what is wrong, for a text that is not a position or a position that
// cannot arise. `setup_text` writes the position; `set_up` reads the same board, side to move and
// counters back. What came before, such as repetition, is not part of it.
template <class G>
concept SetsUpPositions = requires(const G start, std::string_view text) {
  { G::set_up(start, text) } -> std::same_as<G>;
  { start.setup_text() } -> std::same_as<std::string>;
};

// A game that begins at one of many positions, as Chess960 does. `random_start` draws the text of
// one, empty for the usual start. All have the same probability.
template <class G>
concept DrawsStart = requires(const G start, Random& random) {
  { start.random_start(random) } -> std::same_as<std::string>;
};

// The actions that may end the game if it tells them, or else every legal action.
template <class G>
auto ending_actions_of(const G& position) {
  if constexpr (TellsEndingActions<G>) {
    return position.ending_actions();
  } else {
    return position.legal_actions();
  }
}

// Notation of an action that depends on the position, as in chess. `name_of` takes a legal action.
template <class G>
concept NamesActionsByPosition = requires(const G position, Action action, std::string_view text) {
  { position.name_of(action) } -> std::same_as<std::string>;
  { position.action_named(text) } -> std::same_as<std::optional<Action>>;
};

// Standard algebraic notation (SAN) of chess. A game without it is written with `name_of`.
template <class G>
concept HasSan = requires(const G position, Action action) {
  { position.san_of(action) } -> std::same_as<std::string>;
};

// Why a terminal position is the end, in a few words.
template <class G>
concept NamesEnding = requires(const G position) {
  { position.ending_name() } -> std::same_as<std::string_view>;
};

// A packed observation: planes, then rows, then columns, most significant bit first.
template <FixedGame G>
using Observation = std::array<std::uint8_t, kObservationBytes<G>>;

class DynamicPosition;

// A game that search and replay can handle: a fixed game, or any other behind virtual calls. In a
// fixed game the players take turns; otherwise a player may move twice in a row.
template <class G>
concept Game = FixedGame<G> || std::same_as<G, DynamicPosition>;

// The value of a terminal position for the player to move in it, in {-1, 0, +1}.
template <Game G>
constexpr float terminal_value(const G& position) {
  const int result = position.result();
  return static_cast<float>(position.to_play() == kFirstPlayer ? result : -result);
}

// Mixes the bits of a word, for hashes (the finalizer of SplitMix64).
constexpr std::uint64_t mix_bits(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
  return bits ^ (bits >> 31);
}

}  // namespace zerofleet
