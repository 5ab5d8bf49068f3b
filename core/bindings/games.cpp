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
               ColumnIn<float> network_values, ColumnIn<float> best_child_values,
               ColumnIn<std::int32_t> simulations, ColumnIn<bool> full_search,
               ColumnIn<std::int32_t> offsets, ColumnIn<std::int16_t> child_actions,
               ColumnIn<std::int32_t> child_visit_counts, ColumnIn<float> child_priors,
               ColumnIn<std::int32_t> child_policy_weights, std::optional<int> result,
               std::string reason, std::optional<float> resign_threshold, bool plays_on,
               std::optional<ColumnIn<std::int8_t>> to_play, std::optional<bool> next_full_search,
               std::int64_t game_id) {
  GameColumns game;
  game.game_id = game_id;
  game.actions = to_vector(actions);
  if (to_play) {
    game.to_play = to_vector(*to_play);
  } else {
    for (std::size_t ply = 0; ply < game.actions.size(); ++ply) {
      game.to_play.push_back(static_cast<Player>(ply % 2));
    }
  }
  game.model_versions = to_vector(model_versions);
  game.root_values = to_vector(root_values);
  game.network_values = to_vector(network_values);
  game.best_child_values = to_vector(best_child_values);
  game.simulations = to_vector(simulations);
  game.full_search = to_vector<bool, std::uint8_t>(full_search);
  game.offsets = to_vector(offsets);
  game.child_actions = to_vector(child_actions);
  game.child_visit_counts = to_vector(child_visit_counts);
  game.child_priors = to_vector(child_priors);
  game.child_policy_weights = to_vector(child_policy_weights);
  game.result = result;
  game.reason = std::move(reason);
  game.resign_threshold = resign_threshold;
  game.plays_on = plays_on;
  game.next_full_search = next_full_search;
  game.check_shape();
  new (self) GameColumns(std::move(game));
}

void bind_game(nb::module_& module) {
  using C = GameColumns;
  nb::class_<C>(
      module, "EngineGame",
      "One game as columns, a row for each ply, as in `zerofleet.records.GameRecord`.\n\n"
      "Plies that were given and not searched (a match's opening, or by a player without\n"
      "a predictor) have model version 0, 0 simulations and one child, unvisited.")
      .def("__init__", &make_game, nb::kw_only(), "actions"_a, "model_versions"_a, "root_values"_a,
           "network_values"_a, "best_child_values"_a, "simulations"_a, "full_search"_a, "offsets"_a,
           "child_actions"_a, "child_visit_counts"_a, "child_priors"_a, "child_policy_weights"_a,
           "result"_a = nb::none(), "reason"_a = "rules", "resign_threshold"_a = nb::none(),
           "plays_on"_a = false, "to_play"_a = nb::none(), "next_full_search"_a = nb::none(),
           "game_id"_a = 0,
           "`to_play` None: the players took turns.\n\n"
           "Raises:\n    ValueError: the columns do not fit together.")
      .def_ro("game_id", &C::game_id, "Number of the game in its engine, from 0.")
      .def_prop_ro("actions", &column_of<std::int16_t, C, &C::actions>, "[plies]")
      .def_prop_ro("to_play", &column_of<std::int8_t, C, &C::to_play>,
                   "[plies] 0 the first player moved, 1 the second; they need not take turns")
      .def_prop_ro("model_versions", &column_of<std::int32_t, C, &C::model_versions>,
                   "[plies] the latest model when the move was chosen")
      .def_prop_ro("root_values", &column_of<float, C, &C::root_values>,
                   "[plies] after search, for the player to move")
      .def_prop_ro("network_values", &column_of<float, C, &C::network_values>,
                   "[plies] before search, for the player to move")
      .def_prop_ro("best_child_values", &column_of<float, C, &C::best_child_values>,
                   "[plies] of the most visited child, for the player to move")
      .def_prop_ro("simulations", &column_of<std::int32_t, C, &C::simulations>,
                   "[plies] visits of the root, kept ones included: the sum of its children's")
      .def_prop_ro("full_search", &column_of<bool, C, &C::full_search>, "[plies]")
      .def_prop_ro("offsets", &column_of<std::int32_t, C, &C::offsets>, "[plies + 1]")
      .def_prop_ro("child_actions", &column_of<std::int16_t, C, &C::child_actions>, "[offsets[-1]]")
      .def_prop_ro("child_visit_counts", &column_of<std::int32_t, C, &C::child_visit_counts>,
                   "[offsets[-1]]")
      .def_prop_ro("child_priors", &column_of<float, C, &C::child_priors>,
                   "[offsets[-1]] the network's, without noise")
      .def_prop_ro("child_policy_weights", &column_of<std::int32_t, C, &C::child_policy_weights>,
                   "[offsets[-1]] the training target of a full search, up to scale")
      .def_ro("result", &C::result, "+1 first player won, -1 second, 0 draw; None: unfinished")
      .def_ro("reason", &C::reason, "'rules', or 'resign': the player to move gave up.")
      .def_ro("resign_threshold", &C::resign_threshold,
              "v_resign when the game began; None: nobody could resign.")
      .def_ro("next_full_search", &C::next_full_search,
              "Of an unfinished game: whether the ply to come was drawn for a full search.")
      .def_ro("plays_on", &C::plays_on, "Nobody resigns, so that v_resign can be checked.")
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

RootChoice to_root_choice(const std::string& name) {
  if (name == "puct") return RootChoice::kPuct;
  if (name == "gumbel") return RootChoice::kGumbel;
  throw std::invalid_argument("root must be 'puct' or 'gumbel', not '" + name + "'");
}

void make_config(SearchConfig* self, int num_simulations, double full_search_share,
                 std::optional<int> fast_simulations, double c_puct, double c_puct_growth,
                 double c_puct_base, const std::string& fpu, double fpu_reduction,
                 double root_policy_temperature, double dirichlet_fraction,
                 std::optional<double> dirichlet_alpha, double forced_playouts,
                 int min_child_visits, bool prune_targets, const std::string& root,
                 int gumbel_actions, double gumbel_scale, double gumbel_c_visit,
                 double gumbel_c_scale, double temperature, int temperature_moves,
                 double temperature_final, int random_opening_plies, double virtual_loss,
                 bool reuse_tree, int cache_positions, bool random_symmetry) {
  const SearchConfig config{.num_simulations = num_simulations,
                            .full_search_share = full_search_share,
                            .fast_simulations = fast_simulations,
                            .c_puct = c_puct,
                            .c_puct_growth = c_puct_growth,
                            .c_puct_base = c_puct_base,
                            .fpu = to_fpu(fpu),
                            .fpu_reduction = fpu_reduction,
                            .root_policy_temperature = root_policy_temperature,
                            .dirichlet_fraction = dirichlet_fraction,
                            .dirichlet_alpha = dirichlet_alpha,
                            .forced_playouts = forced_playouts,
                            .min_child_visits = min_child_visits,
                            .prune_targets = prune_targets,
                            .root = to_root_choice(root),
                            .gumbel_actions = gumbel_actions,
                            .gumbel_scale = gumbel_scale,
                            .gumbel_c_visit = gumbel_c_visit,
                            .gumbel_c_scale = gumbel_c_scale,
                            .temperature = temperature,
                            .temperature_moves = temperature_moves,
                            .temperature_final = temperature_final,
                            .random_opening_plies = random_opening_plies,
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
           "full_search_share"_a = standard.full_search_share, "fast_simulations"_a = nb::none(),
           "c_puct"_a = standard.c_puct, "c_puct_growth"_a = standard.c_puct_growth,
           "c_puct_base"_a = standard.c_puct_base, "fpu"_a = "reduction",
           "fpu_reduction"_a = standard.fpu_reduction,
           "root_policy_temperature"_a = standard.root_policy_temperature,
           "dirichlet_fraction"_a = standard.dirichlet_fraction, "dirichlet_alpha"_a = nb::none(),
           "forced_playouts"_a = standard.forced_playouts,
           "min_child_visits"_a = standard.min_child_visits,
           "prune_targets"_a = standard.prune_targets, "root"_a = "puct",
           "gumbel_actions"_a = standard.gumbel_actions, "gumbel_scale"_a = standard.gumbel_scale,
           "gumbel_c_visit"_a = standard.gumbel_c_visit,
           "gumbel_c_scale"_a = standard.gumbel_c_scale, "temperature"_a = standard.temperature,
           "temperature_moves"_a = standard.temperature_moves,
           "temperature_final"_a = standard.temperature_final,
           "random_opening_plies"_a = standard.random_opening_plies,
           "virtual_loss"_a = standard.virtual_loss, "reuse_tree"_a = standard.reuse_tree,
           "cache_positions"_a = standard.cache_positions,
           "random_symmetry"_a = standard.random_symmetry,
           "Raises:\n    ValueError: a setting makes no sense; the message names it.")
      .def_ro("num_simulations", &C::num_simulations)
      .def_ro("full_search_share", &C::full_search_share)
      .def_ro("fast_simulations", &C::fast_simulations)
      .def_ro("c_puct", &C::c_puct)
      .def_ro("c_puct_growth", &C::c_puct_growth)
      .def_ro("c_puct_base", &C::c_puct_base)
      .def_prop_ro("fpu", [](const C& c) { return c.fpu == Fpu::kZero ? "zero" : "reduction"; })
      .def_ro("fpu_reduction", &C::fpu_reduction)
      .def_ro("root_policy_temperature", &C::root_policy_temperature)
      .def_ro("dirichlet_fraction", &C::dirichlet_fraction)
      .def_ro("dirichlet_alpha", &C::dirichlet_alpha)
      .def_ro("forced_playouts", &C::forced_playouts)
      .def_ro("min_child_visits", &C::min_child_visits)
      .def_ro("prune_targets", &C::prune_targets)
      .def_prop_ro("root",
                   [](const C& c) { return c.root == RootChoice::kPuct ? "puct" : "gumbel"; })
      .def_ro("gumbel_actions", &C::gumbel_actions)
      .def_ro("gumbel_scale", &C::gumbel_scale)
      .def_ro("gumbel_c_visit", &C::gumbel_c_visit)
      .def_ro("gumbel_c_scale", &C::gumbel_c_scale)
      .def_ro("temperature", &C::temperature)
      .def_ro("temperature_moves", &C::temperature_moves)
      .def_ro("temperature_final", &C::temperature_final)
      .def_ro("random_opening_plies", &C::random_opening_plies)
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
