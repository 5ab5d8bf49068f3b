// The record of a game and the search's configuration, for Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
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
using ColumnIn = nb::ndarray<const T, nb::ndim<1>, nb::device::cpu>;

template <class Element>
constexpr const char* kDtype = nullptr;
template <>
constexpr const char* kDtype<std::int8_t> = "int8";
template <>
constexpr const char* kDtype<std::int16_t> = "int16";
template <>
constexpr const char* kDtype<std::int32_t> = "int32";
template <>
constexpr const char* kDtype<float> = "float32";
template <>
constexpr const char* kDtype<bool> = "bool";

std::string as_text(nb::handle value) { return nb::cast<std::string>(nb::str(value)); }

// Describes an array by its dtype and dimensions, anything else by its type.
std::string what_is_given(nb::handle value) {
  if (!nb::hasattr(value, "dtype") || !nb::hasattr(value, "ndim")) return as_text(value.type());
  const std::string dimensions = as_text(value.attr("ndim"));
  return "an array of " + as_text(value.attr("dtype")) + " with " + dimensions +
         (dimensions == "1" ? " dimension" : " dimensions");
}

// Takes the column of this name out of the keyword arguments.
template <class Element>
std::vector<Kept<Element>> take_column(nb::dict& columns, const char* name) {
  if (!columns.contains(name)) {
    throw nb::type_error(("the column " + std::string(name) + " is missing").c_str());
  }
  ColumnIn<Element> column;
  // Without conversion, which would truncate numbers to fit the dtype.
  if (!nb::try_cast(columns[name], column, false)) {
    throw nb::type_error(("the column " + std::string(name) +
                          " must be a one-dimensional array of " + kDtype<Element> + ", not " +
                          what_is_given(columns[name]))
                             .c_str());
  }
  nb::del(columns[name]);
  std::vector<Kept<Element>> kept(column.size());
  for (std::size_t i = 0; i < kept.size(); ++i) kept[i] = column(i);
  return kept;
}

void make_game(GameColumns* self, std::optional<int> result, std::string reason,
               std::optional<float> resign_threshold, bool plays_on, bool restarted,
               std::optional<bool> next_full_search, std::string start, std::int64_t game_id,
               nb::kwargs given) {
  GameColumns game;
  nb::dict columns;
  columns.update(given);
  const auto take = [&]<class Column>(const Column& column) {
    game.*column.values = take_column<typename Column::Element>(columns, column.name);
  };
  for_each_ply_column(take);
  game.offsets = take_column<std::int32_t>(columns, "offsets");
  for_each_action_column(take);
  if (columns.size() > 0) {
    throw nb::type_error(
        ("a game has no column " + nb::cast<std::string>(columns.keys()[0])).c_str());
  }
  game.game_id = game_id;
  game.result = result;
  game.reason = std::move(reason);
  game.resign_threshold = resign_threshold;
  game.plays_on = plays_on;
  game.restarted = restarted;
  game.start = std::move(start);
  game.next_full_search = next_full_search;
  game.check_shape();
  new (self) GameColumns(std::move(game));
}

// A column as Python sees it: name, dtype, what an entry is for, meaning.
using ListedColumn = std::tuple<const char*, const char*, const char*, const char*>;

std::vector<ListedColumn> listed_columns() {
  std::vector<ListedColumn> list;
  const auto add_for = [&list](const char* entry) {
    return [&list, entry]<class Column>(const Column& column) {
      list.emplace_back(column.name, kDtype<typename Column::Element>, entry, column.meaning);
    };
  };
  for_each_ply_column(add_for("ply"));
  for_each_action_column(add_for("legal action"));
  return list;
}

void bind_game(nb::module_& module) {
  using C = GameColumns;
  nb::class_<C> game(
      module, "GameColumns",
      "The record of one game as columns: its moves, their searches and how it ended.\n\n"
      "The search table of ply i is [offsets[i], offsets[i + 1]) of the columns of legal\n"
      "actions. Values are for the player to move at that ply. A ply that was given and not\n"
      "searched (a match's opening, or by a player without a predictor) has 0 simulations and\n"
      "lists its own action alone, unvisited.");
  game.def("__init__", &make_game, nb::kw_only(), "result"_a = nb::none(), "reason"_a = "rules",
           "resign_threshold"_a = nb::none(), "plays_on"_a = false, "restarted"_a = false,
           "next_full_search"_a = nb::none(), "start"_a = "", "game_id"_a = 0, "columns"_a,
           nb::sig("def __init__(self, *, result: int | None = None, reason: str = 'rules', "
                   "resign_threshold: float | None = None, plays_on: bool = False, "
                   "restarted: bool = False, next_full_search: bool | None = None, start: str = "
                   "'', game_id: int = 0, "
                   "**columns: NDArray[typing.Any]) -> None"),
           "Make a game from `offsets` and each column of `game_columns()`, by name.\n\n"
           "Raises:\n"
           "    ValueError: the columns do not fit together.\n"
           "    TypeError: a column is missing, unknown, or not an array of its dtype.");
  const auto show = [&game](const char* size) {
    return [&game, size]<class Column>(const Column& column) {
      using Element = typename Column::Element;
      game.def_prop_ro(
          column.name,
          [values = column.values](nb::pointer_and_handle<C> self) {
            const auto& kept = self.p->*values;
            return ArrayView<Element>(reinterpret_cast<const Element*>(kept.data()), {kept.size()},
                                      self.h);
          },
          (std::string(size) + " " + column.meaning).c_str());
    };
  };
  for_each_ply_column(show("[plies]"));
  game.def_prop_ro("offsets", &column_of<std::int32_t, C, &C::offsets>, "[plies + 1]");
  for_each_action_column(show("[offsets[-1]]"));
  game.def_ro("game_id", &C::game_id, "Number of the game in its engine, counted from 0.")
      .def_prop_ro("plies", &C::plies)
      .def_ro("result", &C::result,
              "+1: the first player won, -1: the second, 0: a draw; None: unfinished.")
      .def_ro(
          "reason", &C::reason,
          "'rules'; 'resign': the player to move resigned; 'adjudicated': the result was given.")
      .def_ro("start", &C::start, "Start position of the game; empty: the usual start.")
      .def_ro("resign_threshold", &C::resign_threshold,
              "v_resign when the game began; None: no player could resign.")
      .def_ro("next_full_search", &C::next_full_search,
              "Whether the next ply of an unfinished game was drawn for a full search.")
      .def_ro("plays_on", &C::plays_on,
              "Whether no player resigns, so that v_resign can be checked.")
      .def_ro("restarted", &C::restarted,
              "Whether the game begins with the moves to a position of an earlier game.")
      .def("__repr__", [](const C& game) {
        return "GameColumns(game_id=" + std::to_string(game.game_id) + ", " +
               std::to_string(game.plies()) + " plies)";
      });
  module.def(
      "game_columns", &listed_columns,
      "List a game's columns, in the order of its digest.\n\n"
      "Returns:\n"
      "    Name, dtype, 'ply' or 'legal action' (what an entry is for) and meaning of each.");
}

template <typename Enum, std::size_t kCount>
using Names = std::array<std::pair<const char*, Enum>, kCount>;

constexpr Names<Fpu, 2> kFpuNames{{{"zero", Fpu::kZero}, {"reduction", Fpu::kReduction}}};
constexpr Names<RootChoice, 2> kRootNames{
    {{"puct", RootChoice::kPuct}, {"gumbel", RootChoice::kGumbel}}};
constexpr Names<OpeningActions, 3> kOpeningActionsNames{{{"uniform", OpeningActions::kUniform},
                                                         {"policy", OpeningActions::kPolicy},
                                                         {"mixed", OpeningActions::kMixed}}};

template <typename Enum, std::size_t kCount>
Enum value_of(const Names<Enum, kCount>& names, const std::string& key, const std::string& name) {
  std::string allowed;
  for (const auto& [called, value] : names) {
    if (name == called) return value;
    if (!allowed.empty()) allowed += value == names.back().second ? " or " : ", ";
    allowed += "'" + std::string(called) + "'";
  }
  throw std::invalid_argument(key + " must be " + allowed + ", not '" + name + "'");
}

template <typename Enum, std::size_t kCount>
const char* name_of(const Names<Enum, kCount>& names, Enum value) {
  return std::find_if(names.begin(), names.end(),
                      [value](const auto& each) { return each.second == value; })
      ->first;
}

void make_config(SearchConfig* self, int num_simulations, double full_search_share,
                 std::optional<int> fast_simulations, double c_puct, double c_puct_stdev_scale,
                 const std::string& fpu, double fpu_reduction,
                 std::optional<double> root_fpu_reduction, double root_policy_temperature,
                 double root_policy_temperature_final, double root_policy_temperature_halflife,
                 double dirichlet_fraction, std::optional<double> dirichlet_alpha,
                 double forced_playouts, int min_child_visits, bool prune_targets, bool play_pruned,
                 const std::string& root, int gumbel_actions, double gumbel_scale,
                 double temperature, int temperature_moves, double temperature_final,
                 double temperature_halflife, int random_opening_plies, double random_opening_share,
                 const std::string& opening_actions, double fork_share, double lcb_stdevs,
                 double virtual_loss, bool prove_results, bool decisive_moves, bool reuse_tree,
                 int cache_positions, bool random_symmetry) {
  const SearchConfig config{
      .num_simulations = num_simulations,
      .full_search_share = full_search_share,
      .fast_simulations = fast_simulations,
      .c_puct = c_puct,
      .c_puct_stdev_scale = c_puct_stdev_scale,
      .fpu = value_of(kFpuNames, "fpu", fpu),
      .fpu_reduction = fpu_reduction,
      .root_fpu_reduction = root_fpu_reduction,
      .root_policy_temperature = root_policy_temperature,
      .root_policy_temperature_final = root_policy_temperature_final,
      .root_policy_temperature_halflife = root_policy_temperature_halflife,
      .dirichlet_fraction = dirichlet_fraction,
      .dirichlet_alpha = dirichlet_alpha,
      .forced_playouts = forced_playouts,
      .min_child_visits = min_child_visits,
      .prune_targets = prune_targets,
      .play_pruned = play_pruned,
      .root = value_of(kRootNames, "root", root),
      .gumbel_actions = gumbel_actions,
      .gumbel_scale = gumbel_scale,
      .temperature = temperature,
      .temperature_moves = temperature_moves,
      .temperature_final = temperature_final,
      .temperature_halflife = temperature_halflife,
      .random_opening_plies = random_opening_plies,
      .random_opening_share = random_opening_share,
      .opening_actions = value_of(kOpeningActionsNames, "opening_actions", opening_actions),
      .fork_share = fork_share,
      .lcb_stdevs = lcb_stdevs,
      .virtual_loss = virtual_loss,
      .prove_results = prove_results,
      .decisive_moves = decisive_moves,
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
                "The settings of the search, named as in a run file's [search] and [selfplay] "
                "sections.")
      .def("__init__", &make_config, nb::kw_only(), "num_simulations"_a = standard.num_simulations,
           "full_search_share"_a = standard.full_search_share, "fast_simulations"_a = nb::none(),
           "c_puct"_a = standard.c_puct, "c_puct_stdev_scale"_a = standard.c_puct_stdev_scale,
           "fpu"_a = "reduction", "fpu_reduction"_a = standard.fpu_reduction,
           "root_fpu_reduction"_a = nb::none(),
           "root_policy_temperature"_a = standard.root_policy_temperature,
           "root_policy_temperature_final"_a = standard.root_policy_temperature_final,
           "root_policy_temperature_halflife"_a = standard.root_policy_temperature_halflife,
           "dirichlet_fraction"_a = standard.dirichlet_fraction, "dirichlet_alpha"_a = nb::none(),
           "forced_playouts"_a = standard.forced_playouts,
           "min_child_visits"_a = standard.min_child_visits,
           "prune_targets"_a = standard.prune_targets, "play_pruned"_a = standard.play_pruned,
           "root"_a = "puct", "gumbel_actions"_a = standard.gumbel_actions,
           "gumbel_scale"_a = standard.gumbel_scale, "temperature"_a = standard.temperature,
           "temperature_moves"_a = standard.temperature_moves,
           "temperature_final"_a = standard.temperature_final,
           "temperature_halflife"_a = standard.temperature_halflife,
           "random_opening_plies"_a = standard.random_opening_plies,
           "random_opening_share"_a = standard.random_opening_share,
           "opening_actions"_a = "uniform", "fork_share"_a = standard.fork_share,
           "lcb_stdevs"_a = standard.lcb_stdevs, "virtual_loss"_a = standard.virtual_loss,
           "prove_results"_a = standard.prove_results, "decisive_moves"_a = standard.decisive_moves,
           "reuse_tree"_a = standard.reuse_tree, "cache_positions"_a = standard.cache_positions,
           "random_symmetry"_a = standard.random_symmetry,
           "Raises:\n    ValueError: a setting is invalid; the message names it.")
      .def_ro("num_simulations", &C::num_simulations)
      .def_ro("full_search_share", &C::full_search_share)
      .def_ro("fast_simulations", &C::fast_simulations)
      .def_ro("c_puct", &C::c_puct)
      .def_ro("c_puct_stdev_scale", &C::c_puct_stdev_scale)
      .def_prop_ro("simulations_of_fast_search", &C::simulations_of_fast_search,
                   "fast_simulations, or else a tenth of num_simulations, at least 1.")
      .def_prop_ro("fpu", [](const C& c) { return name_of(kFpuNames, c.fpu); })
      .def_ro("fpu_reduction", &C::fpu_reduction)
      .def_ro("root_fpu_reduction", &C::root_fpu_reduction)
      .def_ro("root_policy_temperature", &C::root_policy_temperature)
      .def_ro("root_policy_temperature_final", &C::root_policy_temperature_final)
      .def_ro("root_policy_temperature_halflife", &C::root_policy_temperature_halflife)
      .def_ro("dirichlet_fraction", &C::dirichlet_fraction)
      .def_ro("dirichlet_alpha", &C::dirichlet_alpha)
      .def_ro("forced_playouts", &C::forced_playouts)
      .def_ro("min_child_visits", &C::min_child_visits)
      .def_ro("prune_targets", &C::prune_targets)
      .def_ro("play_pruned", &C::play_pruned)
      .def_prop_ro("root", [](const C& c) { return name_of(kRootNames, c.root); })
      .def_ro("gumbel_actions", &C::gumbel_actions)
      .def_ro("gumbel_scale", &C::gumbel_scale)
      .def_ro("temperature", &C::temperature)
      .def_ro("temperature_moves", &C::temperature_moves)
      .def_ro("temperature_final", &C::temperature_final)
      .def_ro("temperature_halflife", &C::temperature_halflife)
      .def_ro("random_opening_plies", &C::random_opening_plies)
      .def_ro("random_opening_share", &C::random_opening_share)
      .def_prop_ro("opening_actions",
                   [](const C& c) { return name_of(kOpeningActionsNames, c.opening_actions); })
      .def_ro("fork_share", &C::fork_share)
      .def_ro("lcb_stdevs", &C::lcb_stdevs)
      .def_ro("virtual_loss", &C::virtual_loss)
      .def_ro("prove_results", &C::prove_results)
      .def_ro("decisive_moves", &C::decisive_moves)
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
