// The rules of every registered game, for Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "zerofleet/games.h"
#include "zerofleet/replay_moves.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace zerofleet {
namespace {

struct GameSpec {
  std::string name;
  int num_actions;
  std::tuple<int, int, int> observation_shape;
  int observation_bytes;
  int max_length;
  int num_symmetries;
  int board_points;
  int num_final_planes;
  bool has_final_score;
  bool sets_up_positions;
};

// The text in UTF-8. Python text may have surrogates, which stand for bytes outside UTF-8 and have
// no UTF-8 of their own: they are written as escapes, such as \udcff.
std::string utf8(const nb::str& text) {
  PyObject* encoded = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace");
  if (encoded == nullptr) throw nb::python_error();
  const auto bytes = nb::steal<nb::bytes>(encoded);
  return {bytes.c_str(), bytes.size()};
}

GameSpec game_spec(const nb::str& text) {
  const std::string name = utf8(text);
  const GameShape& shape = dynamic_game(name).shape();
  return {name,
          shape.num_actions,
          {shape.planes, shape.rows, shape.columns},
          shape.observation_bytes(),
          shape.max_length,
          shape.num_symmetries,
          shape.points(),
          shape.num_final_planes,
          shape.has_final_score,
          shape.sets_up_positions};
}

// A position of a game that is known only at run time.
class State {
 public:
  State(const nb::str& name, const std::vector<int>& actions, const nb::str& start)
      : game_(&dynamic_game(utf8(name))),
        start_(utf8(start)),
        position_(position_after(*game_, std::span<const int>(actions), start_)) {}

  const std::string& game() const { return game_->name(); }
  const std::string& start() const { return start_; }
  const DynamicPosition& position() const { return position_; }
  void apply(int action) { apply_checked(*game_, position_, action); }

  std::vector<int> legal_actions() const {
    const auto actions = position_.legal_actions();
    return {actions.begin(), actions.end()};
  }

  std::vector<std::uint8_t> observation() const {
    std::vector<std::uint8_t> packed(static_cast<std::size_t>(game_->observation_bytes()));
    position_.write_observation(packed);
    return packed;
  }

  std::vector<std::int8_t> final_planes() const {
    const GameShape& shape = game_->shape();
    check_offered(shape.num_final_planes > 0, "final_planes");
    std::vector<std::int8_t> planes(
        static_cast<std::size_t>(shape.num_final_planes * shape.points()));
    position_.write_final_planes(planes);
    return planes;
  }

  float final_score() const {
    check_offered(game_->shape().has_final_score, "final_score");
    return position_.final_score();
  }

  std::string setup_text() const {
    auto text = position_.setup_text();
    if (!text) throw std::invalid_argument(game() + " has no notation for positions");
    return *text;
  }

  std::string action_to_string(int action) const {
    if (action < 0 || action >= game_->num_actions()) {
      throw std::invalid_argument("no action " + std::to_string(action) + " in " + game());
    }
    const auto name = position_.name_of(static_cast<Action>(action));
    return name ? *name : game_->action_to_string(static_cast<Action>(action));
  }

  std::string action_to_san(int action) const {
    if (!position_.is_legal(action)) {
      throw std::invalid_argument("action " + std::to_string(action) + " is illegal here");
    }
    const auto name = position_.san_of(static_cast<Action>(action));
    return name ? *name : action_to_string(action);
  }

  int string_to_action(const nb::str& text) const {
    const std::string name = utf8(text);
    auto action = position_.action_named(name);
    if (!action) action = game_->string_to_action(name);
    if (!action) throw std::invalid_argument("'" + name + "' is not an action of " + game());
    return *action;
  }

 private:
  void check_offered(bool is_offered, const std::string& what) const {
    if (!is_offered) throw std::invalid_argument(game() + " has no " + what);
    if (!position_.is_terminal()) {
      throw std::invalid_argument(what + " at ply " + std::to_string(position_.ply()) +
                                  ": the game is not over");
    }
  }

  const DynamicGame* game_;  // never destroyed
  std::string start_;
  DynamicPosition position_;
};

// The game of that name. Throws std::invalid_argument if it does not have the symmetry.
const DynamicGame& game_with(const std::string& name, int symmetry) {
  const DynamicGame& game = dynamic_game(name);
  if (symmetry < 0 || symmetry >= game.num_symmetries()) {
    throw std::invalid_argument(name + " has symmetries 0 to " +
                                std::to_string(game.num_symmetries() - 1) + ", not " +
                                std::to_string(symmetry));
  }
  return game;
}

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Array<std::uint8_t> transform(const std::string& name, const Bytes& observation, int symmetry) {
  const DynamicGame& game = game_with(name, symmetry);
  const auto bytes = static_cast<std::size_t>(game.observation_bytes());
  check_shape("observation", observation, {bytes});
  std::vector<std::uint8_t> moved(bytes);
  game.transform_observation({observation.data(), bytes}, symmetry, moved);
  return to_array(std::move(moved));
}

Array<float> transform_policy_array(const std::string& name, const Floats& policy, int symmetry) {
  const DynamicGame& game = game_with(name, symmetry);
  const auto actions = static_cast<std::size_t>(game.num_actions());
  check_shape("policy", policy, {actions});
  std::vector<float> moved(actions);
  for (std::size_t action = 0; action < actions; ++action) {
    moved[game.symmetric_action(static_cast<int>(action), symmetry)] = policy.data()[action];
  }
  return to_array(std::move(moved));
}

std::string random_start(const std::string& name, std::uint64_t seed) {
  Random random(seed);
  return visit_game(name, [&](const auto& rules) { return rules.random_start(random); });
}

int invert_symmetry(const std::string& name, int symmetry) {
  return game_with(name, symmetry).inverse_symmetry(symmetry);
}

void bind_spec(nb::module_& module) {
  nb::class_<GameSpec>(module, "GameSpec", "Sizes of a game.")
      .def_ro("name", &GameSpec::name)
      .def_ro("num_actions", &GameSpec::num_actions)
      .def_ro("observation_shape", &GameSpec::observation_shape, "(planes, rows, columns)")
      .def_ro("observation_bytes", &GameSpec::observation_bytes,
              "Bytes of a packed observation: ceil(planes * rows * columns / 8).")
      .def_ro("max_length", &GameSpec::max_length, "Length of the longest game in plies.")
      .def_ro("num_symmetries", &GameSpec::num_symmetries,
              "Number of symmetries of the board, including the identity (0).")
      .def_ro("board_points", &GameSpec::board_points, "rows * columns")
      .def_ro("num_final_planes", &GameSpec::num_final_planes,
              "Number of planes that the game gives for its end; 0: none.")
      .def_ro("has_final_score", &GameSpec::has_final_score,
              "Whether the game gives a final score.")
      .def_ro("sets_up_positions", &GameSpec::sets_up_positions,
              "Whether a game may begin at a given position.")
      .def("__repr__", [](const GameSpec& spec) { return "GameSpec('" + spec.name + "')"; });
  module.def("game_names", &game_names,
             "Return the names of the core's families; 'go' also stands for go(size=9,komi=7.5).");
  module.def("game_spec", &game_spec, "name"_a,
             "Return the sizes of a game.\n\nRaises:\n    ValueError: no game has this name.");
  module.def("random_start", &random_start, "game"_a, "seed"_a,
             "Return a random start position of a game; each has the same probability.\n\n"
             "Empty for the usual start. Only Chess960 has others.\n\n"
             "Raises:\n    ValueError: no game has this name.");
}

}  // namespace
}  // namespace zerofleet

void bind_state(nb::module_& module) {
  using namespace zerofleet;
  bind_spec(module);
  nb::class_<State>(module, "State", "A position, with the rules of its game.")
      .def(nb::init<const nb::str&, const std::vector<int>&, const nb::str&>(), "game"_a,
           "actions"_a = std::vector<int>{}, "start"_a = "",
           "Make the position after `actions` from a start position.\n\n"
           "Args:\n"
           "    start: a position in the game's notation, such as `setup_text` writes; empty: the\n"
           "        usual start.\n\n"
           "Raises:\n"
           "    ValueError: unknown game, an illegal action (named with its ply), or a start\n"
           "        position that is wrong or that the game has no notation for.")
      .def_prop_ro("game", &State::game)
      .def_prop_ro("start", &State::start,
                   "The start position as it was given; empty: the usual start.")
      .def_prop_ro(
          "ply", [](const State& state) { return state.position().ply(); },
          "Number of actions played. A given start position counts the plies that it takes to\n"
          "reach it, where the position tells: one for each disc in Connect Four.")
      .def_prop_ro(
          "to_play", [](const State& state) -> int { return state.position().to_play(); },
          "0: the first player moves, 1: the second.")
      .def_prop_ro("is_terminal", [](const State& state) { return state.position().is_terminal(); })
      .def_prop_ro(
          "result", [](const State& state) { return state.position().result(); },
          "+1: the first player won, -1: the second, 0: a draw or an unfinished game.")
      .def_prop_ro(
          "ending", [](const State& state) { return state.position().ending_name(); },
          "Why the game is over, such as 'stalemate'; empty if it is not, or if the game does not\n"
          "say. Chess: 'checkmate', 'stalemate', 'insufficient material', 'repetition',\n"
          "'50-move rule' or 'maximum length'.")
      .def_prop_ro(
          "hash", [](const State& state) { return state.position().hash(); },
          "Hash of 64 bits; equal positions have equal hashes.")
      .def("legal_actions", &State::legal_actions,
           "Return the legal actions in ascending order; none when terminal.")
      .def("apply", &State::apply, "action"_a,
           "Play an action.\n\nRaises:\n    ValueError: it is illegal here.")
      .def("copy", [](const State& state) { return State(state); })
      .def(
          "observation", [](const State& state) { return to_array(state.observation()); },
          "Return the planes packed as by numpy.packbits, [observation_bytes] uint8.")
      .def(
          "final_planes", [](const State& state) { return to_array(state.final_planes()); },
          "Return what each player has in the end: +1 the first, -1 the second, 0 neither, as\n"
          "[num_final_planes * board_points] int8.\n\n"
          "Raises:\n    ValueError: the game is not over, or has no final planes.")
      .def("final_score", &State::final_score,
           "Return the first player's final lead, in the game's points.\n\n"
           "Raises:\n    ValueError: the game is not over, or has no final score.")
      .def("setup_text", &State::setup_text,
           "Return the position in the game's notation, one line, for `start` of another State.\n\n"
           "What came before the position, such as repetition, is not part of it.\n\n"
           "Raises:\n    ValueError: the game has no notation for positions.")
      .def("action_to_string", &State::action_to_string, "action"_a)
      .def("string_to_action", &State::string_to_action, "text"_a,
           "Raises:\n    ValueError: the text names no action of this game.")
      .def("action_to_san", &State::action_to_san, "action"_a,
           "Return a legal action of chess in standard algebraic notation, such as 'Nbd7'; in\n"
           "other games the same as `action_to_string`.\n\n"
           "Raises:\n    ValueError: the action is illegal here.")
      .def("__str__", [](const State& state) { return state.position().to_string(); });
  module.def("transform_observation", &transform, "game"_a, "observation"_a, "symmetry"_a,
             "Apply a symmetry to a packed observation, [observation_bytes] uint8.");
  module.def("transform_policy", &transform_policy_array, "game"_a, "policy"_a, "symmetry"_a,
             "Apply a symmetry to a policy, [num_actions] float32: the entry of action a moves to "
             "where a lands.");
  module.def("invert_symmetry", &invert_symmetry, "game"_a, "symmetry"_a,
             "Return the symmetry that undoes this one.");
}
