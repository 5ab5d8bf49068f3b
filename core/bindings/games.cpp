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
#include <type_traits>
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

// Calls `see(name, member)` for each setting that Python knows, in the order of SearchConfig.
template <class See>
void for_each_setting(See&& see) {
#define ZEROFLEET_SEE(name) see(#name, &SearchConfig::name)
  ZEROFLEET_SEE(num_simulations);
  ZEROFLEET_SEE(full_search_share);
  ZEROFLEET_SEE(fast_simulations);
  ZEROFLEET_SEE(c_puct);
  ZEROFLEET_SEE(c_puct_stdev_scale);
  ZEROFLEET_SEE(fpu);
  ZEROFLEET_SEE(fpu_reduction);
  ZEROFLEET_SEE(root_fpu_reduction);
  ZEROFLEET_SEE(root_policy_temperature);
  ZEROFLEET_SEE(root_policy_temperature_final);
  ZEROFLEET_SEE(root_policy_temperature_halflife);
  ZEROFLEET_SEE(dirichlet_fraction);
  ZEROFLEET_SEE(dirichlet_alpha);
  ZEROFLEET_SEE(forced_playouts);
  ZEROFLEET_SEE(min_child_visits);
  ZEROFLEET_SEE(prune_targets);
  ZEROFLEET_SEE(play_pruned);
  ZEROFLEET_SEE(root);
  ZEROFLEET_SEE(gumbel_actions);
  ZEROFLEET_SEE(gumbel_scale);
  ZEROFLEET_SEE(temperature);
  ZEROFLEET_SEE(temperature_moves);
  ZEROFLEET_SEE(temperature_final);
  ZEROFLEET_SEE(temperature_halflife);
  ZEROFLEET_SEE(random_opening_plies);
  ZEROFLEET_SEE(random_opening_share);
  ZEROFLEET_SEE(opening_actions);
  ZEROFLEET_SEE(fork_share);
  ZEROFLEET_SEE(lcb_stdevs);
  ZEROFLEET_SEE(virtual_loss);
  ZEROFLEET_SEE(prove_results);
  ZEROFLEET_SEE(decisive_moves);
  ZEROFLEET_SEE(reuse_tree);
  ZEROFLEET_SEE(cache_positions);
  ZEROFLEET_SEE(random_symmetry);
#undef ZEROFLEET_SEE
}

// The names that Python has for the values of an enumeration.
template <class Enum>
constexpr std::array<std::pair<const char*, Enum>, 0> kNames{};
template <>
constexpr std::array<std::pair<const char*, Fpu>, 2> kNames<Fpu>{
    {{"zero", Fpu::kZero}, {"reduction", Fpu::kReduction}}};
template <>
constexpr std::array<std::pair<const char*, RootChoice>, 2> kNames<RootChoice>{
    {{"puct", RootChoice::kPuct}, {"gumbel", RootChoice::kGumbel}}};
template <>
constexpr std::array<std::pair<const char*, OpeningActions>, 3> kNames<OpeningActions>{
    {{"uniform", OpeningActions::kUniform},
     {"policy", OpeningActions::kPolicy},
     {"mixed", OpeningActions::kMixed}}};

// The type that Python has for a setting.
template <class T>
constexpr const char* kPythonType = "str";
template <>
constexpr const char* kPythonType<int> = "int";
template <>
constexpr const char* kPythonType<double> = "float";
template <>
constexpr const char* kPythonType<bool> = "bool";
template <>
constexpr const char* kPythonType<std::optional<int>> = "int | None";
template <>
constexpr const char* kPythonType<std::optional<double>> = "float | None";

template <class Enum>
Enum value_named(const std::string& key, const std::string& name) {
  std::string allowed;
  for (const auto& [called, value] : kNames<Enum>) {
    if (name == called) return value;
    if (!allowed.empty()) allowed += value == kNames<Enum>.back().second ? " or " : ", ";
    allowed += "'" + std::string(called) + "'";
  }
  throw std::invalid_argument(key + " must be " + allowed + ", not '" + name + "'");
}

// Returns a setting as Python has it: a number, a bool, None, or the name of an enumeration's
// value.
template <class T>
auto to_python(const T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::find_if(kNames<T>.begin(), kNames<T>.end(),
                        [value](const auto& each) { return each.second == value; })
        ->first;
  } else {
    return value;
  }
}

template <class T>
T from_python(const char* key, nb::handle given) {
  std::conditional_t<std::is_enum_v<T>, std::string, T> value;
  if (!nb::try_cast(given, value)) {
    throw nb::type_error(
        (std::string(key) + " must be " + kPythonType<T> + ", not " + as_text(nb::repr(given)))
            .c_str());
  }
  if constexpr (std::is_enum_v<T>) {
    return value_named<T>(key, value);
  } else {
    return value;
  }
}

void make_config(SearchConfig* self, nb::kwargs given) {
  SearchConfig config;
  nb::dict settings;
  settings.update(given);
  for_each_setting([&]<class T>(const char* name, T SearchConfig::* setting) {
    if (!settings.contains(name)) return;
    config.*setting = from_python<T>(name, settings[name]);
    nb::del(settings[name]);
  });
  if (settings.size() > 0) {
    throw nb::type_error(
        ("the search has no setting " + nb::cast<std::string>(settings.keys()[0])).c_str());
  }
  config.check();
  new (self) SearchConfig(config);
}

void bind_config(nb::module_& module) {
  nb::class_<SearchConfig> config(
      module, "SearchConfig",
      "The settings of the search, named as in a run file's [search] and [selfplay] sections.");
  const SearchConfig standard;
  std::string signature = "def __init__(self, *";
  for_each_setting([&]<class T>(const char* name, T SearchConfig::* setting) {
    signature += std::string(", ") + name + ": " + kPythonType<T> + " = " +
                 as_text(nb::repr(nb::cast(to_python(standard.*setting))));
    config.def_prop_ro(name,
                       [setting](const SearchConfig& self) { return to_python(self.*setting); });
  });
  signature += ") -> None";
  config
      .def("__init__", &make_config, nb::sig(signature.c_str()),
           "Raises:\n"
           "    ValueError: a setting is invalid; the message names it.\n"
           "    TypeError: a setting is unknown or has another type; the message names it.")
      .def_prop_ro("simulations_of_fast_search", &SearchConfig::simulations_of_fast_search,
                   "fast_simulations, or else a tenth of num_simulations, at least 1.");
}

}  // namespace
}  // namespace zerofleet

void bind_games(nb::module_& module) {
  zerofleet::bind_config(module);
  zerofleet::bind_game(module);
}
