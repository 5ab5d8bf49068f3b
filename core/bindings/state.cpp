// The rules of every registered game, for Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>
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
};

GameSpec game_spec(const std::string& name) {
  return visit_game(name, [](auto game) {
    using G = typename decltype(game)::type;
    return GameSpec{std::string(G::kName),
                    G::kNumActions,
                    {G::kPlanes, G::kRows, G::kColumns},
                    kObservationBytes<G>,
                    G::kMaxLength,
                    G::kNumSymmetries,
                    kPoints<G>};
  });
}

// A position of a game that is known only at run time.
class State {
 public:
  virtual ~State() = default;
  virtual std::string game() const = 0;
  virtual int ply() const = 0;
  virtual int to_play() const = 0;
  virtual bool is_terminal() const = 0;
  virtual int result() const = 0;
  virtual std::uint64_t hash() const = 0;
  virtual std::vector<int> legal_actions() const = 0;
  virtual void apply(int action) = 0;
  virtual std::unique_ptr<State> copy() const = 0;
  virtual std::vector<std::uint8_t> observation() const = 0;
  virtual std::string action_to_string(int action) const = 0;
  virtual int string_to_action(const std::string& text) const = 0;
  virtual std::string to_string() const = 0;
};

template <Game G>
class StateOf final : public State {
 public:
  explicit StateOf(const G& position) : position_(position) {}

  std::string game() const override { return std::string(G::kName); }
  int ply() const override { return position_.ply(); }
  int to_play() const override { return position_.to_play(); }
  bool is_terminal() const override { return position_.is_terminal(); }
  int result() const override { return position_.result(); }
  std::uint64_t hash() const override { return position_.hash(); }

  std::vector<int> legal_actions() const override {
    const auto actions = position_.legal_actions();
    return {actions.begin(), actions.end()};
  }

  void apply(int action) override { apply_checked(position_, action); }

  std::unique_ptr<State> copy() const override { return std::make_unique<StateOf>(position_); }

  std::vector<std::uint8_t> observation() const override {
    std::vector<std::uint8_t> packed(kObservationBytes<G>);
    write_observation(position_, 0, packed);
    return packed;
  }

  std::string action_to_string(int action) const override {
    if (action < 0 || action >= G::kNumActions) {
      throw std::invalid_argument("no action " + std::to_string(action) + " in " + game());
    }
    return G::action_to_string(static_cast<Action>(action));
  }

  int string_to_action(const std::string& text) const override {
    const auto action = G::string_to_action(text);
    if (!action) throw std::invalid_argument("'" + text + "' is no action of " + game());
    return *action;
  }

  std::string to_string() const override { return position_.to_string(); }

 private:
  G position_;
};

std::unique_ptr<State> make_state(const std::string& name, const std::vector<int>& actions) {
  return visit_game(name, [&](auto game) -> std::unique_ptr<State> {
    using G = typename decltype(game)::type;
    return std::make_unique<StateOf<G>>(position_after<G>(std::span<const int>(actions)));
  });
}

template <Game G>
void check_symmetry(int symmetry) {
  if (symmetry < 0 || symmetry >= G::kNumSymmetries) {
    throw std::invalid_argument(std::string(G::kName) + " has symmetries 0 to " +
                                std::to_string(G::kNumSymmetries - 1) + ", not " +
                                std::to_string(symmetry));
  }
}

using Bytes = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

Array<std::uint8_t> transform(const std::string& name, const Bytes& observation, int symmetry) {
  return visit_game(name, [&](auto game) {
    using G = typename decltype(game)::type;
    check_symmetry<G>(symmetry);
    check_shape("observation", observation, {kObservationBytes<G>});
    const auto moved = transform_observation<G>({observation.data(), observation.size()}, symmetry);
    return to_array(std::vector<std::uint8_t>(moved.begin(), moved.end()));
  });
}

Array<float> transform_policy_array(const std::string& name, const Floats& policy, int symmetry) {
  return visit_game(name, [&](auto game) {
    using G = typename decltype(game)::type;
    check_symmetry<G>(symmetry);
    check_shape("policy", policy, {G::kNumActions});
    std::vector<float> moved(G::kNumActions);
    transform_policy<G>({policy.data(), policy.size()}, symmetry, moved);
    return to_array(std::move(moved));
  });
}

int invert_symmetry(const std::string& name, int symmetry) {
  return visit_game(name, [&](auto game) {
    using G = typename decltype(game)::type;
    check_symmetry<G>(symmetry);
    return Symmetries<G>::inverse[symmetry];
  });
}

void bind_spec(nb::module_& module) {
  nb::class_<GameSpec>(module, "GameSpec", "Sizes of a game.")
      .def_ro("name", &GameSpec::name)
      .def_ro("num_actions", &GameSpec::num_actions)
      .def_ro("observation_shape", &GameSpec::observation_shape, "(planes, rows, columns)")
      .def_ro("observation_bytes", &GameSpec::observation_bytes,
              "Bytes of a packed observation: ceil(planes * rows * columns / 8).")
      .def_ro("max_length", &GameSpec::max_length, "Plies of the longest game.")
      .def_ro("num_symmetries", &GameSpec::num_symmetries,
              "Symmetries of the board, the identity (0) included.")
      .def_ro("board_points", &GameSpec::board_points, "rows * columns")
      .def("__repr__", [](const GameSpec& spec) { return "GameSpec('" + spec.name + "')"; });
  module.def("game_names", &AllGames::names, "Names of all registered games.");
  module.def("game_spec", &game_spec, "name"_a,
             "The sizes of a game.\n\nRaises:\n    ValueError: no game has this name.");
}

}  // namespace
}  // namespace zerofleet

void bind_state(nb::module_& module) {
  using namespace zerofleet;
  bind_spec(module);
  nb::class_<State>(module, "State", "A position; the rules of a game.")
      .def(nb::new_(&make_state), "game"_a, "actions"_a = std::vector<int>{},
           "The position after `actions` from the start.\n\n"
           "Raises:\n    ValueError: unknown game, or an illegal action (named with its ply).")
      .def_prop_ro("game", &State::game)
      .def_prop_ro("ply", &State::ply, "Number of actions played.")
      .def_prop_ro("to_play", &State::to_play, "0: the first player moves, 1: the second.")
      .def_prop_ro("is_terminal", &State::is_terminal)
      .def_prop_ro("result", &State::result,
                   "+1 the first player won, -1 the second, 0 a draw or not over.")
      .def_prop_ro("hash", &State::hash, "64 bits; equal positions have equal hashes.")
      .def("legal_actions", &State::legal_actions, "In ascending order; empty when terminal.")
      .def("apply", &State::apply, "action"_a,
           "Play an action.\n\nRaises:\n    ValueError: it is illegal here.")
      .def("copy", &State::copy)
      .def(
          "observation", [](const State& state) { return to_array(state.observation()); },
          "Bit-packed planes, [observation_bytes] uint8, as numpy.packbits packs them.")
      .def("action_to_string", &State::action_to_string, "action"_a)
      .def("string_to_action", &State::string_to_action, "text"_a,
           "Raises:\n    ValueError: the text names no action of this game.")
      .def("__str__", &State::to_string);
  module.def("transform_observation", &transform, "game"_a, "observation"_a, "symmetry"_a,
             "Apply a symmetry to a packed observation, [observation_bytes] uint8.");
  module.def("transform_policy", &transform_policy_array, "game"_a, "policy"_a, "symmetry"_a,
             "Apply a symmetry to a policy, [num_actions] float32: what stood at action a "
             "stands where a lands.");
  module.def("invert_symmetry", &invert_symmetry, "game"_a, "symmetry"_a,
             "The symmetry that undoes this one.");
}
