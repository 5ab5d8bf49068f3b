// The record of a game and the search's configuration, for Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "zerofleet/game_columns.h"
#include "zerofleet/search_config.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace zerofleet {
namespace {

template <class T>
using ColumnIn = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T, class Stored = T>
std::vector<Stored> to_vector(const ColumnIn<T>& column) {
  return {column.data(), column.data() + column.size()};
}

void make_game(GameColumns* self, ColumnIn<std::int16_t> actions,
               ColumnIn<std::int32_t> model_versions, ColumnIn<float> root_values,
               ColumnIn<float> network_values, ColumnIn<std::int32_t> simulations,
               ColumnIn<bool> full_search, ColumnIn<std::int32_t> offsets,
               ColumnIn<std::int16_t> child_actions, ColumnIn<std::int32_t> child_visit_counts,
               ColumnIn<float> child_priors, std::optional<int> result, std::string reason,
               std::int64_t game_id) {
  GameColumns game;
  game.game_id = game_id;
  game.actions = to_vector(actions);
  game.model_versions = to_vector(model_versions);
  game.root_values = to_vector(root_values);
  game.network_values = to_vector(network_values);
  game.simulations = to_vector(simulations);
  game.full_search = to_vector<bool, std::uint8_t>(full_search);
  game.offsets = to_vector(offsets);
  game.child_actions = to_vector(child_actions);
  game.child_visit_counts = to_vector(child_visit_counts);
  game.child_priors = to_vector(child_priors);
  game.result = result;
  game.reason = std::move(reason);
  game.check_shape();
  new (self) GameColumns(std::move(game));
}

void bind_game(nb::module_& module) {
  using C = GameColumns;
  nb::class_<C>(module, "EngineGame",
                "One game as columns, a row for each ply, as in `zerofleet.records.GameRecord`.\n\n"
                "Plies that were given and not searched (a match's opening) have model version 0,\n"
                "0 simulations and no children.")
      .def("__init__", &make_game, nb::kw_only(), "actions"_a, "model_versions"_a, "root_values"_a,
           "network_values"_a, "simulations"_a, "full_search"_a, "offsets"_a, "child_actions"_a,
           "child_visit_counts"_a, "child_priors"_a, "result"_a = nb::none(), "reason"_a = "rules",
           "game_id"_a = 0, "Raises:\n    ValueError: the columns do not fit together.")
      .def_ro("game_id", &C::game_id, "Number of the game in its engine, from 0.")
      .def_prop_ro("actions", &column_of<std::int16_t, C, &C::actions>, "[plies]")
      .def_prop_ro("model_versions", &column_of<std::int32_t, C, &C::model_versions>,
                   "[plies] the latest model when the move was chosen")
      .def_prop_ro("root_values", &column_of<float, C, &C::root_values>,
                   "[plies] after search, for the player to move")
      .def_prop_ro("network_values", &column_of<float, C, &C::network_values>,
                   "[plies] before search, for the player to move")
      .def_prop_ro("simulations", &column_of<std::int32_t, C, &C::simulations>,
                   "[plies] visits of the root, kept ones included: the sum of its children's")
      .def_prop_ro("full_search", &column_of<bool, C, &C::full_search>, "[plies]")
      .def_prop_ro("offsets", &column_of<std::int32_t, C, &C::offsets>, "[plies + 1]")
      .def_prop_ro("child_actions", &column_of<std::int16_t, C, &C::child_actions>, "[offsets[-1]]")
      .def_prop_ro("child_visit_counts", &column_of<std::int32_t, C, &C::child_visit_counts>,
                   "[offsets[-1]]")
      .def_prop_ro("child_priors", &column_of<float, C, &C::child_priors>,
                   "[offsets[-1]] the network's, without noise")
      .def_ro("result", &C::result, "+1 first player won, -1 second, 0 draw; None: unfinished")
      .def_ro("reason", &C::reason)
      .def("__repr__", [](const C& game) {
        return "EngineGame(game_id=" + std::to_string(game.game_id) + ", " +
               std::to_string(game.actions.size()) + " plies)";
      });
}

Fpu to_fpu(const std::string& name) {
  if (name == "zero") return Fpu::kZero;
  if (name == "reduction") return Fpu::kReduction;
  throw std::invalid_argument("fpu must be 'zero' or 'reduction', not '" + name + "'");
}

void make_config(SearchConfig* self, int num_simulations, double c_puct, const std::string& fpu,
                 double fpu_reduction, double dirichlet_fraction,
                 std::optional<double> dirichlet_alpha, double temperature, int temperature_moves,
                 double temperature_final, double virtual_loss, bool reuse_tree,
                 int cache_positions, bool random_symmetry) {
  const SearchConfig config{.num_simulations = num_simulations,
                            .c_puct = c_puct,
                            .fpu = to_fpu(fpu),
                            .fpu_reduction = fpu_reduction,
                            .dirichlet_fraction = dirichlet_fraction,
                            .dirichlet_alpha = dirichlet_alpha,
                            .temperature = temperature,
                            .temperature_moves = temperature_moves,
                            .temperature_final = temperature_final,
                            .virtual_loss = virtual_loss,
                            .reuse_tree = reuse_tree,
                            .cache_positions = cache_positions,
                            .random_symmetry = random_symmetry};
  config.check();
  new (self) SearchConfig(config);
}

void bind_config(nb::module_& module) {
  using C = SearchConfig;
  const C standard;
  nb::class_<C>(module, "SearchConfig",
                "The knobs of the search, named as in a run file's [search] section.")
      .def("__init__", &make_config, nb::kw_only(), "num_simulations"_a = standard.num_simulations,
           "c_puct"_a = standard.c_puct, "fpu"_a = "reduction",
           "fpu_reduction"_a = standard.fpu_reduction,
           "dirichlet_fraction"_a = standard.dirichlet_fraction, "dirichlet_alpha"_a = nb::none(),
           "temperature"_a = standard.temperature,
           "temperature_moves"_a = standard.temperature_moves,
           "temperature_final"_a = standard.temperature_final,
           "virtual_loss"_a = standard.virtual_loss, "reuse_tree"_a = standard.reuse_tree,
           "cache_positions"_a = standard.cache_positions,
           "random_symmetry"_a = standard.random_symmetry,
           "Raises:\n    ValueError: a setting makes no sense; the message names it.")
      .def_ro("num_simulations", &C::num_simulations)
      .def_ro("c_puct", &C::c_puct)
      .def_prop_ro("fpu", [](const C& c) { return c.fpu == Fpu::kZero ? "zero" : "reduction"; })
      .def_ro("fpu_reduction", &C::fpu_reduction)
      .def_ro("dirichlet_fraction", &C::dirichlet_fraction)
      .def_ro("dirichlet_alpha", &C::dirichlet_alpha)
      .def_ro("temperature", &C::temperature)
      .def_ro("temperature_moves", &C::temperature_moves)
      .def_ro("temperature_final", &C::temperature_final)
      .def_ro("virtual_loss", &C::virtual_loss)
      .def_ro("reuse_tree", &C::reuse_tree)
      .def_ro("cache_positions", &C::cache_positions)
      .def_ro("random_symmetry", &C::random_symmetry);
}

}  // namespace
}  // namespace zerofleet

void bind_games(nb::module_& module) {
  zerofleet::bind_config(module);
  zerofleet::bind_game(module);
}
