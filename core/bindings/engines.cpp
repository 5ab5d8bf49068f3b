// The three engines, for Python: self-play, matches, and the search of given positions.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine_access.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace zerofleet {
namespace {

using PySelfPlay = Shared<SelfPlayEngine>;
using PyMatch = Shared<MatchEngine>;
using PySearch = Shared<PositionSearchEngine>;

// Spelled out, because C++ has no name for the type of an array of either precision.
constexpr const char* kBackupSignature =
    "def backup(self, policy_logits: NDArray[numpy.floating[typing.Any]], "
    "value: NDArray[numpy.float32], model_version: int) -> None";
constexpr const char* kMatchBackupSignature =
    "def backup(self, side: int, policy_logits: NDArray[numpy.floating[typing.Any]], "
    "value: NDArray[numpy.float32], model_version: int) -> None";

constexpr const char* kBackupDoc =
    "Give the predictions for the rows of the last select. The GIL is released.\n\n"
    "Args:\n"
    "    policy_logits: [rows, num_actions] float16 or float32, including illegal actions.\n"
    "    value: [rows] float32, in [-1, 1], for the player to move.\n"
    "    model_version: the model that gave every row; a new one empties the cache.\n\n"
    "Raises:\n"
    "    ValueError: wrong shape or dtype, or a number that is not finite. Nothing changes.";

template <class Engine>
Observations select(nb::pointer_and_handle<Shared<Engine>> self) {
  const auto rows = self.p->advance([](Engine& engine) { return engine.select(); });
  return to_observations(rows, self.p->row_shape(), self.h);
}

template <class Engine>
void backup(const Shared<Engine>& self, const Logits& policy_logits, const Values& value,
            int model_version) {
  const auto batch = to_prediction(policy_logits, value, model_version, self.row_shape());
  self.advance([&](Engine& engine) { engine.backup(batch); });
}

template <class Engine>
EngineStatistics statistics(const Shared<Engine>& self) {
  return self.run([](Engine& engine) { return engine.statistics(); });
}

void bind_statistics(nb::module_& module) {
  using S = EngineStatistics;
  nb::class_<S>(module, "EngineStatistics",
                "Counts since the engine was created. The sizes of trees are current ones.")
      .def_ro("simulations", &S::simulations,
              "Simulations run. Visits kept from the previous move do not count again.")
      .def_ro("positions_evaluated", &S::positions_evaluated, "Rows that the network evaluated.")
      .def_ro("cache_hits", &S::cache_hits)
      .def_ro("plies", &S::plies, "Moves played.")
      .def_ro("full_searches", &S::full_searches, "Self-play moves chosen by a full search.")
      .def_ro("games_finished", &S::games_finished)
      .def_ro("games_resigned", &S::games_resigned)
      .def_ro("nodes", &S::nodes, "Nodes in all trees.")
      .def_ro("edges", &S::edges, "Edges in all trees, one per legal action of a node.")
      .def_ro("node_bytes", &S::node_bytes, "Memory allocated for nodes in bytes, used or not.")
      .def_ro("edge_bytes", &S::edge_bytes, "Memory allocated for edges in bytes, used or not.")
      .def_prop_ro(
          "tree_bytes", [](const S& self) { return self.node_bytes + self.edge_bytes; },
          "Memory allocated for all trees in bytes.");
}

void bind_self_play(nb::module_& module) {
  nb::class_<PySelfPlay>(
      module, "SelfPlay",
      "Many games of self-play, with one leaf of each game in a batch.\n\n"
      "A move is played when the root's visits reach num_simulations, after at least one new\n"
      "simulation. Visits kept from the previous move count. Threads may share an engine; its\n"
      "calls run one at a time.")
      .def(
          "__init__",
          [](PySelfPlay* self, const std::string& game, int games, const SearchConfig& config,
             std::uint64_t seed) {
            new (self) PySelfPlay(make_self_play(game, games, config, seed));
          },
          "game"_a, "games"_a, "config"_a, "seed"_a)
      .def(
          "select", &select<SelfPlayEngine>,
          "Run every game to its next leaf that needs the network. The GIL is released.\n\n"
          "Returns:\n"
          "    [rows, observation_bytes], at most one row per game. The array is a view of the\n"
          "    engine's memory and valid until the next select. A second call before `backup`\n"
          "    returns the same rows. There are no rows in two cases: no game is in play and none\n"
          "    may start, or every game has played its plies (`set_plies_per_select`) without the\n"
          "    network. After num_simulations cached answers in a row a game asks the network, so\n"
          "    that a new model is noticed even when every position is cached.")
      .def("backup", &backup<SelfPlayEngine>, "policy_logits"_a, "value"_a, "model_version"_a,
           nb::sig(kBackupSignature), kBackupDoc)
      .def(
          "take_begun",
          [](const PySelfPlay& self) {
            return self.run([](SelfPlayEngine& engine) { return engine.take_begun(); });
          },
          "The game_ids of the games that began since the last call, in order.\n\n"
          "A game that began and ended within one `select` is among them, an adopted one is not.")
      .def(
          "take_finished",
          [](const PySelfPlay& self) {
            return self.run([](SelfPlayEngine& engine) { return engine.take_finished(); });
          },
          "Return the games that ended since the last call.")
      .def(
          "unfinished",
          [](const PySelfPlay& self) {
            return self.run([](SelfPlayEngine& engine) { return engine.unfinished(); });
          },
          "Return copies of all unfinished games with a ply, including adopted ones that wait.")
      .def(
          "plies_in_play",
          [](const PySelfPlay& self) {
            return self.run([](SelfPlayEngine& engine) { return engine.plies_in_play(); });
          },
          "Return game_id and number of plies of each game in play; cheaper than `unfinished`.")
      .def(
          "adopt",
          [](const PySelfPlay& self, const GameColumns& game) {
            return self.run([&](SelfPlayEngine& engine) { return engine.adopt(game); });
          },
          "game"_a,
          "Queue an unfinished game. The next free slot continues it.\n\n"
          "Returns:\n    Its game_id in this engine.\n\n"
          "Raises:\n    ValueError: the game does not replay, or it is finished.")
      .def(
          "set_accepting",
          [](const PySelfPlay& self, bool accept) {
            self.run([&](SelfPlayEngine& engine) { engine.set_accepting(accept); });
          },
          "accept"_a, "Set whether free slots start games, adopted ones included.")
      .def(
          "set_plies_per_select",
          [](const PySelfPlay& self, int plies) {
            self.run([&](SelfPlayEngine& engine) { engine.set_plies_per_select(plies); });
          },
          "plies"_a,
          "Limit the plies that a slot plays in one `select`. By default there is no limit.\n\n"
          "The cache and proven results can answer for a whole game at once, so that a caller who\n"
          "saves games between calls would never see it. `backup` may play one more ply.\n\n"
          "Raises:\n    ValueError: fewer than 1.")
      .def(
          "set_resignation",
          [](const PySelfPlay& self, std::optional<float> threshold, double play_on_share) {
            self.run(
                [&](SelfPlayEngine& engine) { engine.set_resignation(threshold, play_on_share); });
          },
          "threshold"_a.none(), "play_on_share"_a,
          "Set v_resign for games that begin from now on; None: no player resigns.\n\n"
          "The player to move resigns if the values of the root and of its best child are below\n"
          "the threshold. In a random share of the games no player resigns (`plays_on`).\n\n"
          "Raises:\n    ValueError: a threshold outside [-1, 1], or a share outside [0, 1].")
      .def(
          "set_restarts",
          [](const PySelfPlay& self, const ActionLists& restarts, double share) {
            self.run([&](SelfPlayEngine& engine) { engine.set_restarts(restarts, share); });
          },
          "restarts"_a, "share"_a,
          "Let a random share of the games that begin from now on repeat one of these restarts.\n\n"
          "Each restart is equally likely. Its plies are no training targets, and its games never\n"
          "have `plays_on`.\n\n"
          "Args:\n    restarts: each a list of actions from the start of the game.\n\n"
          "Raises:\n    ValueError: an illegal action, a finished game, or a share outside [0, 1].")
      .def_prop_ro("statistics", &statistics<SelfPlayEngine>);
}

void bind_match(nb::module_& module) {
  nb::class_<PyMatch>(
      module, "Match",
      "Games between side 0 (the candidate) and side 1 (the best).\n\n"
      "Opening k gives game 2k, where side 0 moves first, and game 2k + 1, where side 1 moves\n"
      "first. There is no noise. Moves follow the configured temperatures (0: the best child).\n"
      "For a side without a predictor call `games_to_move` and `play` instead of `select` and\n"
      "`backup`.\n\n"
      "Args:\n"
      "    config: search of side 0, and of side 1 unless `other` is given.\n"
      "    other: search of side 1.")
      .def(
          "__init__",
          [](PyMatch* self, const std::string& game, const ActionLists& openings,
             const SearchConfig& config, std::uint64_t seed,
             const std::optional<SearchConfig>& other, const Starts& starts) {
            new (self)
                PyMatch(make_match(game, openings, {config, other.value_or(config)}, seed, starts));
          },
          "game"_a, "openings"_a, "config"_a, "seed"_a, nb::kw_only(), "other"_a = nb::none(),
          "starts"_a = Starts{},
          "Args:\n"
          "    openings: each a list of actions from its start position.\n"
          "    starts: start position of each opening; an empty text, or an empty list, is the\n"
          "        usual start.\n\n"
          "Raises:\n"
          "    ValueError: unknown game, a wrong start position, or an opening with an illegal\n"
          "        action.")
      .def(
          "select",
          [](nb::pointer_and_handle<PyMatch> self, int side) {
            const auto rows =
                self.p->advance([&](MatchEngine& match) { return match.select(side); });
            return to_observations(rows, self.p->row_shape(), self.h);
          },
          "side"_a,
          "Run the games in which this side moves to their next leaf. The GIL is released.\n\n"
          "Returns:\n"
          "    [rows, observation_bytes], a view of the match's memory that is valid until this\n"
          "    side's next select. There are no rows while the side needs no prediction.")
      .def(
          "backup",
          [](const PyMatch& self, int side, const Logits& policy_logits, const Values& value,
             int model_version) {
            const auto batch = to_prediction(policy_logits, value, model_version, self.row_shape());
            self.advance([&](MatchEngine& match) { match.backup(side, batch); });
          },
          "side"_a, "policy_logits"_a, "value"_a, "model_version"_a, nb::sig(kMatchBackupSignature),
          kBackupDoc)
      .def(
          "games_to_move",
          [](const PyMatch& self, int side) {
            const auto games =
                self.run([&](MatchEngine& match) { return match.games_to_move(side); });
            nb::list found;
            for (const GameToMove& game : games) {
              found.append(nb::make_tuple(game.game_id, game.actions));
            }
            return found;
          },
          "side"_a, nb::sig("def games_to_move(self, side: int) -> list[tuple[int, list[int]]]"),
          "Return game_id and all actions so far of each game in which this side moves.")
      .def(
          "play",
          [](const PyMatch& self, std::int64_t game_id, int action) {
            self.advance([&](MatchEngine& match) { match.play(game_id, action); });
          },
          "game_id"_a, "action"_a,
          "Play an action that was not searched here, for the side to move.\n\n"
          "Raises:\n"
          "    ValueError: the action is illegal, the game is not in play, or it is waiting for a\n"
          "        prediction. Nothing changes.")
      .def(
          "resign",
          [](const PyMatch& self, std::int64_t game_id) {
            self.advance([&](MatchEngine& match) { match.resign(game_id); });
          },
          "game_id"_a,
          "Resign a game for the side to move, which loses it by reason 'resign'.\n\n"
          "Raises:\n"
          "    ValueError: the game is not in play, or it is waiting for a prediction.")
      .def(
          "take_finished",
          [](const PyMatch& self) {
            return self.run([](MatchEngine& match) { return match.take_finished(); });
          },
          "Return the games that ended since the last call; game_id is 2k or 2k + 1.")
      .def_prop_ro("done",
                   [](const PyMatch& self) {
                     return self.run([](MatchEngine& match) { return match.is_done(); });
                   })
      .def_prop_ro("statistics", &statistics<MatchEngine>);
}

void bind_search(nb::module_& module) {
  using R = SearchResult;
  nb::class_<R>(module, "SearchResult",
                "Result of the search of a position. Values are for the player to move there.\n\n"
                "Before the first prediction, and for a terminal position, there are no actions.")
      .def_prop_ro("actions", &column_of<std::int16_t, R, &R::actions>, "Every legal action.")
      .def_prop_ro("visit_counts", &column_of<std::int32_t, R, &R::visit_counts>)
      .def_prop_ro("priors", &column_of<float, R, &R::priors>,
                   "The network's policy, without noise.")
      .def_prop_ro("q_values", &column_of<float, R, &R::q_values>,
                   "Mean values; NaN for an action without visits.")
      .def_ro("principal_variations", &R::principal_variations,
              "For each action the most visited line, which starts with the action.")
      .def_ro("root_value", &R::root_value,
              "Value after the search; exact for a terminal position or a proven result. With PUCT "
              "it is the mean of the network's value and all visits, with a Gumbel root the value "
              "of the improved policy.")
      .def_ro("network_value", &R::network_value, "Value before the search.")
      .def_ro("simulations", &R::simulations, "Sum of visit_counts.")
      .def_ro(
          "best_action", &R::best_action,
          "Action of the best child; -1 while there are no actions. With PUCT it has the highest "
          "lower confidence bound, or the most visits if `lcb_stdevs` is 0. With a Gumbel root it "
          "won the halving.");
  nb::class_<PySearch>(module, "Search",
                       "Search of many independent positions.\n\n"
                       "A position may have more than one leaf in flight. Virtual loss keeps the\n"
                       "leaves apart, which costs strength at equal visits.")
      .def(
          "__init__",
          [](PySearch* self, const std::string& game, const ActionLists& positions,
             const SearchConfig& config, std::uint64_t seed, int leaves_per_position, bool noise,
             const Starts& starts, const ActionLists& root_actions) {
            new (self) PySearch(make_position_search(game, positions, config, seed,
                                                     {.leaves_per_position = leaves_per_position,
                                                      .noise = noise,
                                                      .root_actions = root_actions},
                                                     starts));
          },
          "game"_a, "positions"_a, "config"_a, "seed"_a, nb::kw_only(), "leaves_per_position"_a = 1,
          "noise"_a = false, "starts"_a = Starts{}, "root_actions"_a = ActionLists{},
          "Args:\n"
          "    positions: each a list of actions from its start position.\n"
          "    starts: start position of each position; an empty text, or an empty list, is the\n"
          "        usual start.\n"
          "    root_actions: for each position the actions that are searched at its root, as if "
          "no\n"
          "        others were legal; an empty list is every legal action.\n\n"
          "Raises:\n"
          "    ValueError: unknown game, a wrong start position, or a position with an illegal\n"
          "        action.")
      .def("select", &select<PositionSearchEngine>,
           "Run every position to its next leaves. The GIL is released.\n\n"
           "Returns:\n"
           "    [rows, observation_bytes], a view of the search's memory that is valid until the\n"
           "    next select. There are no rows when every position is done.")
      .def("backup", &backup<PositionSearchEngine>, "policy_logits"_a, "value"_a, "model_version"_a,
           nb::sig(kBackupSignature), kBackupDoc)
      .def_prop_ro("done",
                   [](const PySearch& self) {
                     return self.run([](PositionSearchEngine& s) { return s.is_done(); });
                   })
      .def(
          "set_simulations",
          [](const PySearch& self, int simulations) {
            self.run([&](PositionSearchEngine& s) { s.set_simulations(simulations); });
          },
          "simulations"_a,
          "Set the number of simulations after which a position is done.\n\n"
          "A search that was done continues its trees when the number grows.\n\n"
          "Raises:\n"
          "    ValueError: the number is below 1, or the root is a Gumbel root.")
      .def(
          "results",
          [](const PySearch& self) {
            return self.run([](PositionSearchEngine& s) { return s.results(); });
          },
          "Return one result per position, at any time; leaves in flight do not count.")
      .def_prop_ro("statistics", &statistics<PositionSearchEngine>);
}

}  // namespace
}  // namespace zerofleet

void bind_engines(nb::module_& module) {
  zerofleet::bind_statistics(module);
  zerofleet::bind_self_play(module);
  zerofleet::bind_match(module);
  zerofleet::bind_search(module);
}
