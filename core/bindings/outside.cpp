// Games written in Python, behind the core's virtual calls.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
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

#include "zerofleet/games.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace zerofleet {
namespace {

// A reference that a thread may drop without holding the GIL.
class PythonObject {
 public:
  explicit PythonObject(nb::object object) : object_(std::move(object)) {}
  PythonObject(const PythonObject&) = delete;
  PythonObject& operator=(const PythonObject&) = delete;
  ~PythonObject() {
    const nb::gil_scoped_acquire held;
    object_.reset();
  }
  const nb::object& operator*() const { return object_; }

 private:
  nb::object object_;
};

// The error and its place in one line. Needs the GIL.
std::string in_one_line(const nb::python_error& error) {
  const auto text = [](nb::handle object) { return std::string(nb::str(object).c_str()); };
  std::string line = text(error.type().attr("__name__")) + ": " + text(error.value());
  nb::object place = nb::borrow(error.traceback());
  if (!place.is_valid() || place.is_none()) return line;
  for (nb::object next = place.attr("tb_next"); !next.is_none(); next = place.attr("tb_next")) {
    place = next;
  }
  const std::string file = text(place.attr("tb_frame").attr("f_code").attr("co_filename"));
  return line + " (" + file.substr(file.rfind('/') + 1) + ", line " +
         text(place.attr("tb_lineno")) + ")";
}

// Runs `action` with the GIL and turns a Python error into an exception that needs no GIL.
template <class Callable>
auto in_python(Callable&& action) {
  const nb::gil_scoped_acquire held;
  try {
    return action();
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_Exception)) throw;  // such as KeyboardInterrupt: end the program
    throw std::runtime_error("the game's rules failed: " + in_one_line(error));
  } catch (const nb::cast_error&) {
    throw std::runtime_error("the game's rules returned a value of the wrong type");
  }
}

class PythonState final : public DynamicState {
 public:
  PythonState(nb::object state, const GameShape& shape, int ply)
      : state_(std::move(state)), shape_(shape), ply_(ply) {
    look();
  }

  std::unique_ptr<DynamicState> clone() const override {
    return in_python([this] { return std::unique_ptr<DynamicState>(new PythonState(*this)); });
  }
  int ply() const override { return ply_; }
  Player to_play() const override { return to_play_; }
  bool is_terminal() const override { return is_terminal_; }
  int result() const override { return result_; }
  bool is_legal(int action) const override {
    return std::binary_search(legal_.begin(), legal_.end(), action);
  }
  std::vector<Action> legal_actions() const override { return legal_; }

  // The network sees no more of a position than its observation and its legal actions.
  std::uint64_t hash() const override {
    std::uint64_t hash = mix_bits(static_cast<std::uint64_t>(to_play_) + 1);
    for (const std::uint8_t byte : observation()) hash = mix_bits(hash ^ byte);
    for (const Action action : legal_) hash = mix_bits(hash ^ static_cast<std::uint64_t>(action));
    return hash;
  }

  void apply(Action action) override {
    in_python([&] {
      (*state_).attr("apply")(static_cast<int>(action));
      look();
    });
    ++ply_;
    observation_.clear();
  }

  void write_observation(std::span<std::uint8_t> packed) const override {
    std::copy_n(observation().begin(), packed.size(), packed.begin());
  }

  std::string to_string() const override {
    return in_python([this] { return std::string(nb::str(*state_).c_str()); });
  }

  void write_final_planes(std::span<std::int8_t> planes) const override {
    const std::vector<int> answer =
        in_python([this] { return nb::cast<std::vector<int>>((*state_).attr("final_planes")()); });
    if (answer.size() != planes.size()) {
      throw std::runtime_error("the game's final_planes has the wrong number of entries");
    }
    for (std::size_t i = 0; i < answer.size(); ++i) {
      if (answer[i] < -1 || answer[i] > 1) {
        throw std::runtime_error("the game's final_planes has a value other than -1, 0 and 1");
      }
      planes[i] = static_cast<std::int8_t>(answer[i]);
    }
  }
  float final_score() const override {
    return in_python([this] { return nb::cast<float>((*state_).attr("final_score")()); });
  }

  std::optional<std::string> setup_text() const override {
    return in_python([&]() -> std::optional<std::string> {
      const nb::object& state = *state_;
      if (!nb::hasattr(state, "setup_text")) return std::nullopt;
      const nb::object answer = state.attr("setup_text")();
      if (answer.is_none()) return std::nullopt;
      return nb::cast<std::string>(answer);
    });
  }

  std::optional<std::string> name_of(Action action) const override {
    return ask<std::string>("name_of", static_cast<int>(action));
  }
  std::optional<Action> action_named(std::string_view text) const override {
    return ask<Action>("action_named", std::string(text));
  }

 private:
  // Needs the GIL.
  PythonState(const PythonState& other)
      : state_((*other.state_).attr("copy")()),
        shape_(other.shape_),
        ply_(other.ply_),
        to_play_(other.to_play_),
        is_terminal_(other.is_terminal_),
        result_(other.result_),
        legal_(other.legal_),
        observation_(other.observation_) {}

  // Calls an optional method of the state; nullopt if the method is missing or returns None.
  template <class Answer, class Question>
  std::optional<Answer> ask(const char* method, const Question& question) const {
    return in_python([&]() -> std::optional<Answer> {
      const nb::object& state = *state_;
      if (!nb::hasattr(state, method)) return std::nullopt;
      const nb::object answer = state.attr(method)(question);
      if (answer.is_none()) return std::nullopt;
      return nb::cast<Answer>(answer);
    });
  }

  // Reads once what the search uses often. Needs the GIL.
  void look() {
    const nb::object& state = *state_;
    is_terminal_ = nb::cast<bool>(state.attr("is_terminal"));
    result_ = is_terminal_ ? nb::cast<int>(state.attr("result")) : 0;
    to_play_ = static_cast<Player>(nb::cast<int>(state.attr("to_play")));
    legal_.clear();
    if (!is_terminal_) legal_ = nb::cast<std::vector<Action>>(state.attr("legal_actions")());
    check();
  }

  void check() const {
    if (result_ < -1 || result_ > 1)
      throw std::runtime_error("the game's result is not -1, 0 or 1");
    if (to_play_ != kFirstPlayer && to_play_ != kSecondPlayer) {
      throw std::runtime_error("the game's to_play is neither 0 nor 1");
    }
    if (!is_terminal_ && legal_.empty()) {
      throw std::runtime_error("the game is not over, but has no legal action");
    }
    for (std::size_t i = 0; i < legal_.size(); ++i) {
      if (legal_[i] < 0 || legal_[i] >= shape_.num_actions ||
          (i > 0 && legal_[i] <= legal_[i - 1])) {
        throw std::runtime_error("the game's legal_actions must be ascending numbers below " +
                                 std::to_string(shape_.num_actions));
      }
    }
  }

  const std::vector<std::uint8_t>& observation() const {
    if (!observation_.empty()) return observation_;
    std::vector<std::uint8_t> answer = in_python([this] {
      const nb::bytes packed = nb::cast<nb::bytes>((*state_).attr("packed_observation")());
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(packed.c_str());
      return std::vector<std::uint8_t>(bytes, bytes + packed.size());
    });
    if (answer.size() != static_cast<std::size_t>(shape_.observation_bytes())) {
      throw std::runtime_error("the game's observation has the wrong number of bytes");
    }
    observation_ = std::move(answer);
    return observation_;
  }

  PythonObject state_;
  GameShape shape_;
  int ply_;
  Player to_play_ = kFirstPlayer;
  bool is_terminal_ = false;
  int result_ = 0;
  std::vector<Action> legal_;
  mutable std::vector<std::uint8_t> observation_;  // empty: not read yet
};

class PythonRules final : public DynamicRules {
 public:
  explicit PythonRules(nb::object rules) : rules_(std::move(rules)) {
    const auto [planes, rows, columns] =
        nb::cast<std::tuple<int, int, int>>((*rules_).attr("observation_shape"));
    shape_ = {number("num_actions"),   planes, rows, columns, number("max_length"),
              number("num_symmetries")};
    if (nb::hasattr(*rules_, "num_final_planes")) {
      shape_.num_final_planes = number("num_final_planes");
    }
    if (nb::hasattr(*rules_, "has_final_score")) {
      shape_.has_final_score = nb::cast<bool>((*rules_).attr("has_final_score"));
    }
    if (nb::hasattr(*rules_, "sets_up_positions")) {
      shape_.sets_up_positions = nb::cast<bool>((*rules_).attr("sets_up_positions"));
    }
  }

  GameShape shape() const override { return shape_; }
  std::unique_ptr<DynamicState> start() const override {
    return in_python([this]() -> std::unique_ptr<DynamicState> {
      return std::make_unique<PythonState>((*rules_).attr("start")(), shape_, 0);
    });
  }
  std::unique_ptr<DynamicState> set_up(std::string_view text) const override {
    if (!shape_.sets_up_positions) return nullptr;
    return in_python([&]() -> std::unique_ptr<DynamicState> {
      nb::object state;
      try {
        state = (*rules_).attr("set_up")(std::string(text));
      } catch (nb::python_error& error) {
        if (!error.matches(PyExc_ValueError)) throw;
        throw std::invalid_argument(nb::str(error.value()).c_str());
      }
      return std::make_unique<PythonState>(std::move(state), shape_, 0);
    });
  }
  int symmetric_point(int point, int symmetry) const override {
    return lands("symmetric_point", point, symmetry, shape_.points());
  }
  int symmetric_action(int action, int symmetry) const override {
    return lands("symmetric_action", action, symmetry, shape_.num_actions);
  }
  std::string action_to_string(Action action) const override {
    return in_python([&] {
      return nb::cast<std::string>((*rules_).attr("action_to_string")(static_cast<int>(action)));
    });
  }
  std::optional<Action> string_to_action(std::string_view text) const override {
    return in_python([&]() -> std::optional<Action> {
      const nb::object action = (*rules_).attr("string_to_action")(std::string(text));
      if (action.is_none()) return std::nullopt;
      return nb::cast<Action>(action);
    });
  }

 private:
  int number(const char* name) const { return nb::cast<int>((*rules_).attr(name)); }

  int lands(const char* method, int number, int symmetry, int bound) const {
    const int landing =
        in_python([&] { return nb::cast<int>((*rules_).attr(method)(number, symmetry)); });
    if (landing < 0 || landing >= bound) {
      throw std::runtime_error(std::string("the game's ") + method + " leaves the board");
    }
    return landing;
  }

  PythonObject rules_;
  GameShape shape_;
};

}  // namespace
}  // namespace zerofleet

void bind_outside(nb::module_& module) {
  using namespace zerofleet;
  module.def(
      "set_outside_games",
      [](nb::callable find) {
        // Never released: it may be called until the process ends.
        PyObject* kept = find.release().ptr();
        set_outside_games([kept](const std::string& name) -> std::shared_ptr<const DynamicRules> {
          const nb::gil_scoped_acquire held;
          nb::object rules = nb::borrow<nb::callable>(kept)(name);
          if (rules.is_none()) return nullptr;
          return std::make_shared<const PythonRules>(std::move(rules));
        });
      },
      "find"_a,
      "Set the source of games from outside the core: a function from a name to rules or None.");
}
