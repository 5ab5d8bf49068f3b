// The trainer's replay buffer, for Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "arrays.h"
#include "zerofleet/replay_buffer.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace zerofleet {
namespace {

template <class T>
using ColumnIn = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
using Matrix = nb::ndarray<nb::numpy, T, nb::ndim<2>, nb::c_contig>;

template <class T>
std::span<const T> span_of(const ColumnIn<T>& column) {
  return {column.data(), column.size()};
}

// Hands a vector over to NumPy as rows, without a copy.
template <class T>
Matrix<T> to_matrix(std::vector<T> values, std::size_t rows, int columns) {
  auto owned = std::make_unique<std::vector<T>>(std::move(values));
  nb::capsule owner(owned.get(),
                    [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
  std::vector<T>& kept = *owned.release();
  return Matrix<T>(kept.data(), {rows, static_cast<std::size_t>(columns)}, owner);
}

using Batch = std::tuple<Matrix<std::uint8_t>, Matrix<float>, Array<float>>;
using BatchWithAuxiliary =
    std::tuple<Matrix<std::uint8_t>, Matrix<float>, Array<float>, Matrix<float>>;
using BatchWithOrigin =
    std::tuple<Matrix<std::uint8_t>, Matrix<float>, Array<float>, Array<std::int32_t>,
               Array<std::int32_t>, Array<std::int64_t>, Array<float>>;

using AllPositions = std::tuple<Matrix<std::uint8_t>, Matrix<float>, Array<float>, Matrix<float>,
                                Array<std::int32_t>, Array<std::int64_t>>;

AuxiliaryTargets to_auxiliary(const std::vector<std::string>& names) {
  using Known = std::pair<std::string_view, bool AuxiliaryTargets::*>;
  constexpr std::array kKnown = {Known{"opponent_policy", &AuxiliaryTargets::opponent_policy},
                                 Known{"final_planes", &AuxiliaryTargets::final_planes},
                                 Known{"final_score", &AuxiliaryTargets::final_score},
                                 Known{"root_value", &AuxiliaryTargets::root_value},
                                 Known{"search_surprise", &AuxiliaryTargets::search_surprise},
                                 Known{"plies_to_end", &AuxiliaryTargets::plies_to_end}};
  AuxiliaryTargets targets;
  for (const std::string& name : names) {
    const auto* const known = std::ranges::find(kKnown, name, &Known::first);
    if (known == kKnown.end()) {
      throw std::invalid_argument(
          "auxiliary targets are 'opponent_policy', 'final_planes', 'final_score', 'root_value', "
          "'search_surprise' and 'plies_to_end', not '" +
          name + "'");
    }
    targets.*known->second = true;
  }
  return targets;
}

int add(ReplayBuffer& buffer, const ColumnIn<std::int16_t>& action, int result,
        const ColumnIn<bool>& full_search, const ColumnIn<std::int32_t>& offsets,
        const ColumnIn<std::int16_t>& legal_actions, const ColumnIn<std::int32_t>& policy_weights,
        const std::optional<ColumnIn<float>>& root_value,
        const std::optional<ColumnIn<float>>& priors, bool resigned, const std::string& start,
        bool adjudicated) {
  const StoredGame game{.action = span_of(action),
                        .result = result,
                        .full_search = span_of(full_search),
                        .offsets = span_of(offsets),
                        .legal_actions = span_of(legal_actions),
                        .policy_weights = span_of(policy_weights),
                        .root_value = root_value ? span_of(*root_value) : std::span<const float>{},
                        .priors = priors ? span_of(*priors) : std::span<const float>{},
                        .resigned = resigned,
                        .adjudicated = adjudicated,
                        .start = start};
  const nb::gil_scoped_release release;
  return buffer.add(game);
}

// The memory of a batch while it is being filled.
struct Rows {
  Rows(const ReplayBuffer& buffer, std::int64_t rows)
      : count(static_cast<std::size_t>(rows)),
        observations(count * static_cast<std::size_t>(buffer.observation_bytes())),
        policy_targets(count * static_cast<std::size_t>(buffer.num_actions())),
        value_targets(count) {}

  TrainingBatch batch() { return {observations, policy_targets, value_targets}; }

  std::size_t count;
  std::vector<std::uint8_t> observations;
  std::vector<float> policy_targets;
  std::vector<float> value_targets;
};

std::int64_t checked(std::int64_t batch_size) {
  if (batch_size < 1) throw std::invalid_argument("batch_size must be at least 1");
  return batch_size;
}

Batch sample(const ReplayBuffer& buffer, std::int64_t batch_size, std::uint64_t seed,
             bool symmetry) {
  Rows rows(buffer, checked(batch_size));
  {
    const nb::gil_scoped_release release;
    buffer.sample(seed, symmetry, rows.batch());
  }
  return {to_matrix(std::move(rows.observations), rows.count, buffer.observation_bytes()),
          to_matrix(std::move(rows.policy_targets), rows.count, buffer.num_actions()),
          to_array(std::move(rows.value_targets))};
}

BatchWithAuxiliary sample_with_auxiliary(const ReplayBuffer& buffer, std::int64_t batch_size,
                                         std::uint64_t seed, bool symmetry) {
  Rows rows(buffer, checked(batch_size));
  std::vector<float> auxiliary(rows.count * static_cast<std::size_t>(buffer.auxiliary_width()));
  {
    const nb::gil_scoped_release release;
    TrainingBatch batch = rows.batch();
    batch.auxiliary_targets = auxiliary;
    buffer.sample(seed, symmetry, batch);
  }
  return {to_matrix(std::move(rows.observations), rows.count, buffer.observation_bytes()),
          to_matrix(std::move(rows.policy_targets), rows.count, buffer.num_actions()),
          to_array(std::move(rows.value_targets)),
          to_matrix(std::move(auxiliary), rows.count, buffer.auxiliary_width())};
}

BatchWithOrigin sample_with_plies(const ReplayBuffer& buffer, std::int64_t batch_size,
                                  std::uint64_t seed, bool symmetry) {
  Rows rows(buffer, checked(batch_size));
  std::vector<std::int32_t> plies(rows.count);
  std::vector<std::int32_t> lengths(rows.count);
  std::vector<std::int64_t> games(rows.count);
  std::vector<float> results(rows.count);
  {
    const nb::gil_scoped_release release;
    TrainingBatch batch = rows.batch();
    batch.plies = plies;
    batch.game_lengths = lengths;
    batch.game_indices = games;
    batch.results = results;
    buffer.sample(seed, symmetry, batch);
  }
  return {to_matrix(std::move(rows.observations), rows.count, buffer.observation_bytes()),
          to_matrix(std::move(rows.policy_targets), rows.count, buffer.num_actions()),
          to_array(std::move(rows.value_targets)),
          to_array(std::move(plies)),
          to_array(std::move(lengths)),
          to_array(std::move(games)),
          to_array(std::move(results))};
}

AllPositions all_positions(const ReplayBuffer& buffer) {
  Rows rows(buffer, buffer.positions());
  std::vector<float> auxiliary(rows.count * static_cast<std::size_t>(buffer.auxiliary_width()));
  std::vector<std::int32_t> plies(rows.count);
  std::vector<std::int32_t> lengths(rows.count);
  std::vector<std::int64_t> games(rows.count);
  {
    const nb::gil_scoped_release release;
    TrainingBatch batch = rows.batch();
    batch.auxiliary_targets = auxiliary;
    batch.plies = plies;
    batch.game_lengths = lengths;
    batch.game_indices = games;
    buffer.read(batch);
  }
  return {to_matrix(std::move(rows.observations), rows.count, buffer.observation_bytes()),
          to_matrix(std::move(rows.policy_targets), rows.count, buffer.num_actions()),
          to_array(std::move(rows.value_targets)),
          to_matrix(std::move(auxiliary), rows.count, buffer.auxiliary_width()),
          to_array(std::move(plies)),
          to_array(std::move(games))};
}

}  // namespace
}  // namespace zerofleet

void bind_replay(nb::module_& module) {
  using namespace zerofleet;
  nb::class_<ReplayBuffer>(
      module, "ReplayBuffer",
      "A replay buffer: the newest games, from which training positions are drawn.\n\n"
      "It keeps moves and policy weights, and rebuilds positions by replaying. Safe to use from\n"
      "several threads.")
      .def(nb::new_([](const std::string& game, std::int64_t max_positions, std::int64_t max_games,
                       double value_lambda, const std::vector<std::string>& auxiliary) {
             return make_replay_buffer(game, {max_positions, max_games}, value_lambda,
                                       to_auxiliary(auxiliary));
           }),
           "game"_a, "max_positions"_a, "max_games"_a, nb::kw_only(), "value_lambda"_a = 1.0,
           "auxiliary"_a = std::vector<std::string>{},
           "Make an empty buffer. Over either limit the oldest games leave; the newest stays.\n\n"
           "Args:\n"
           "    value_lambda: lambda of the value targets, which are lambda-returns of the "
           "searched\n"
           "        values; 1: the game's result alone.\n"
           "    auxiliary: targets besides policy and value: 'opponent_policy', 'final_planes',\n"
           "        'final_score', 'root_value', 'search_surprise', 'plies_to_end'. Those that\n"
           "        the game does not offer are left out.\n\n"
           "Raises:\n"
           "    ValueError: unknown game or target, a limit below 1, or a value_lambda outside "
           "[0, 1].")
      .def("add", &add, nb::arg("action").noconvert(), "result"_a,
           nb::arg("full_search").noconvert(), nb::arg("offsets").noconvert(),
           nb::arg("legal_actions").noconvert(), nb::arg("policy_weights").noconvert(),
           nb::kw_only(), nb::arg("root_value").noconvert().none() = nb::none(),
           nb::arg("priors").noconvert().none() = nb::none(), "resigned"_a = false, "start"_a = "",
           "adjudicated"_a = false,
           "Store a finished game and return its number of training positions.\n\n"
           "Args:\n"
           "    action: [plies] int16.\n"
           "    result: +1 the first player won, -1 the second did, 0 a draw.\n"
           "    full_search: [plies] bool; these plies become training positions.\n"
           "    offsets: [plies + 1] int32; ply i has [offsets[i], offsets[i + 1]) of the columns\n"
           "        below, except root_value.\n"
           "    legal_actions: [offsets[-1]] int16, every legal action in ascending order. A ply\n"
           "        without a full search may list only some, or none.\n"
           "    policy_weights: [offsets[-1]] int32, the policy target up to scale.\n"
           "    root_value: [plies] float32, the searched values for the player to move; required\n"
           "        if value_lambda is below 1, and for the target 'root_value'.\n"
           "    priors: [offsets[-1]] float32, the network's policy; required for the target\n"
           "        'search_surprise'. A ply whose priors are all 0 had no search.\n"
           "    resigned: whether the player to move after the last action resigned.\n"
           "    start: the game's start position; empty: the usual start.\n"
           "    adjudicated: whether the result was given. Then it may differ from the last\n"
           "        position's, and that position may be unfinished.\n\n"
           "Raises:\n"
           "    ValueError: the game does not replay under the rules; names ply and reason.\n"
           "    TypeError: a column has another dtype.")
      .def("set_max_positions", &ReplayBuffer::set_max_positions, "max_positions"_a,
           "Set the limit on positions. The oldest games leave at once if it is exceeded.\n\n"
           "Raises:\n    ValueError: below 1.")
      .def_prop_ro("positions", &ReplayBuffer::positions,
                   "Number of training positions in the buffer.")
      .def_prop_ro("games", &ReplayBuffer::games, "Number of games in the buffer.")
      .def_prop_ro("total_positions", &ReplayBuffer::total_positions,
                   "Number of training positions ever added.")
      .def_prop_ro("total_games", &ReplayBuffer::total_games,
                   "Number of games ever added that had a training position.")
      .def_prop_ro("auxiliary_width", &ReplayBuffer::auxiliary_width,
                   "Number of auxiliary targets in a row; 0: none.")
      .def("sample_with_auxiliary", &sample_with_auxiliary, "batch_size"_a, "seed"_a, nb::kw_only(),
           "symmetry"_a = true,
           "Draw as `sample` does, with the auxiliary targets of the same positions.\n\n"
           "Returns:\n"
           "    The arrays of `sample`, then [batch, auxiliary_width] float32 for the player to\n"
           "    move, under the same symmetry. A row has the buffer's targets, in this order:\n\n"
           "    - opponent_policy [num_actions]: policy target of the opponent's next ply. NaN if\n"
           "      that ply has no full search or belongs to the same player.\n"
           "    - final_planes [planes * points]. NaN after a resignation.\n"
           "    - final_score [1]. NaN after a resignation.\n"
           "    - root_value [1], in [-1, 1].\n"
           "    - search_surprise [1]: KL(policy target || prior) in nats. Priors below 2^-24\n"
           "      count as 2^-24. It is 0 if every prior is 0.\n"
           "    - plies_to_end [1]: at least 1.")
      .def("sample_with_plies", &sample_with_plies, "batch_size"_a, "seed"_a, nb::kw_only(),
           "symmetry"_a = true,
           "Draw as `sample` does, and also return where each row comes from.\n\n"
           "Returns:\n"
           "    The arrays of `sample`, then the ply [batch] int32, the length of its game in "
           "plies\n"
           "    [batch] int32, the index of its game among all ever added [batch] int64, and the\n"
           "    game's result [batch] float32 for the player to move.")
      .def("all_positions", &all_positions,
           "Return every position, oldest first, as it was played.\n\n"
           "Returns:\n"
           "    observations, policy_target and value_target as `sample` returns them; the\n"
           "    auxiliary targets [positions, auxiliary_width] float32 as `sample_with_auxiliary`\n"
           "    does; the ply [positions] int32; and the index of the game among all ever added\n"
           "    [positions] int64.\n\n"
           "Raises:\n    ValueError: the buffer is empty.")
      .def("sample", &sample, "batch_size"_a, "seed"_a, nb::kw_only(), "symmetry"_a = true,
           "Draw positions uniformly, with replacement.\n\n"
           "Equal content and seed give an equal batch.\n\n"
           "Returns:\n"
           "    observations [batch, observation_bytes] uint8, policy_target [batch, num_actions]\n"
           "    float32 (normalised weights), value_target [batch] float32 (the result or\n"
           "    lambda-return for the player to move). With `symmetry`, a random symmetry moves\n"
           "    observation and policy together.\n\n"
           "Raises:\n    ValueError: the buffer is empty, or batch_size is below 1.");
}
