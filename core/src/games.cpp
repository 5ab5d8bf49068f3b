#include "zerofleet/games.h"

#include <array>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace zerofleet {
namespace {

constexpr int kLargestGo = 19;

class MnkRules final : public DynamicRules {
 public:
  explicit MnkRules(const RunTimeSizes& sizes) : sizes_(sizes) {}

  GameShape shape() const override {
    return {sizes_.num_actions(),
            sizes_.planes(),
            sizes_.rows(),
            sizes_.columns(),
            sizes_.max_length(),
            sizes_.num_symmetries(),
            0,
            false,
            true};
  }
  std::unique_ptr<DynamicState> start() const override {
    return std::make_unique<WrappedState<RunTimeMnk>>(RunTimeMnk(sizes_));
  }
  std::unique_ptr<DynamicState> set_up(std::string_view text) const override {
    return std::make_unique<WrappedState<RunTimeMnk>>(RunTimeMnk::set_up(RunTimeMnk(sizes_), text));
  }
  int symmetric_point(int point, int symmetry) const override {
    return sizes_.symmetric_point(point, symmetry);
  }
  int symmetric_action(int action, int symmetry) const override {
    return sizes_.symmetric_action(action, symmetry);
  }
  std::string action_to_string(Action action) const override {
    return sizes_.action_to_string(action);
  }
  std::optional<Action> string_to_action(std::string_view text) const override {
    return sizes_.string_to_action(text);
  }

 private:
  RunTimeSizes sizes_;
};

template <int kSize, GoObservation kObservation>
std::shared_ptr<const DynamicRules> wrapped_go(const GoSettings& settings) {
  using AnyGo = Go<kSize, kObservation>;
  return std::make_shared<WrappedRules<AnyGo>>(AnyGo(go_rules<kSize>(settings)));
}

template <GoObservation kObservation, int... kSizes>
std::shared_ptr<const DynamicRules> make_go(const GoSettings& settings,
                                            std::integer_sequence<int, kSizes...>) {
  using Make = std::shared_ptr<const DynamicRules> (*)(const GoSettings&);
  constexpr std::array<Make, sizeof...(kSizes)> makers = {&wrapped_go<kSizes + 2, kObservation>...};
  return makers[static_cast<std::size_t>(settings.size - 2)](settings);
}

std::shared_ptr<const DynamicRules> make_mnk(GameName& name) {
  const int m = name.take_int("m", 3);
  const int n = name.take_int("n", 3);
  const int k = name.take_int("k", 3);
  name.finish();
  return std::make_shared<MnkRules>(RunTimeSizes(m, n, k));
}

RulesMaker& outside_games() {
  static RulesMaker maker;
  return maker;
}

}  // namespace

std::vector<std::string> game_names() {
  return {"chess", "connect_four", "go", "gomoku", "mnk", "othello", "tic_tac_toe"};
}

void set_outside_games(RulesMaker maker) { outside_games() = std::move(maker); }

GoSettings take_go_settings(GameName& name) {
  GoSettings settings{.size = name.take_int("size", 19),
                      .komi = std::nullopt,
                      .suicide = name.take_bool("suicide", true),
                      .max_length = std::nullopt,
                      .observation = GoObservation::kHistory};
  const bool has_komi = name.has("komi");
  const float komi = name.take_float("komi", 0.0f);
  const bool has_max_length = name.has("max_length");
  const int max_length = name.take_int("max_length", 0);
  if (name.take_word("observation", {"history", "liberties"}) == 1) {
    settings.observation = GoObservation::kLiberties;
  }
  name.finish();
  if (settings.size < 2 || settings.size > kLargestGo) {
    throw std::invalid_argument("game '" + name.text() + "': size must be 2 to 19, not " +
                                std::to_string(settings.size));
  }
  if (has_komi) settings.komi = komi;
  if (has_max_length) settings.max_length = max_length;
  return settings;
}

ChessSettings take_chess_settings(GameName& name) {
  ChessSettings settings;
  settings.history = name.take_int("history", kChessHistory);
  settings.rules.chess960 = name.take_bool("chess960", settings.rules.chess960);
  settings.rules.max_length = name.take_int("max_length", settings.rules.max_length);
  name.finish();
  if (settings.history != 1 && settings.history != 8) {
    throw std::invalid_argument("game '" + name.text() + "': history must be 1 or 8, not " +
                                std::to_string(settings.history));
  }
  return settings;
}

DynamicGame make_dynamic_game(GameName name) {
  if (name.family() == "go") {
    const GoSettings settings = take_go_settings(name);
    constexpr std::make_integer_sequence<int, kLargestGo - 1> kSizes;
    return {name.text(), settings.observation == GoObservation::kHistory
                             ? make_go<GoObservation::kHistory>(settings, kSizes)
                             : make_go<GoObservation::kLiberties>(settings, kSizes)};
  }
  if (name.family() == "mnk") return {name.text(), make_mnk(name)};
  std::string known;
  for (const std::string& game : game_names()) {
    if (name.family() == game) name.finish();  // such a game takes no rules
    known += (known.empty() ? "" : ", ") + game;
  }
  auto rules = outside_games() ? outside_games()(name.text()) : nullptr;
  if (rules) return {name.text(), std::move(rules)};
  throw std::invalid_argument("unknown game '" + name.text() + "'; known: " + known);
}

const DynamicGame& dynamic_game(const std::string& name) {
  // Never destroyed: a game from outside must not be destroyed after its interpreter.
  static auto& games = *new std::map<std::string, std::unique_ptr<const DynamicGame>>();
  static auto& mutex = *new std::mutex();
  {
    const std::lock_guard lock(mutex);
    if (const auto known = games.find(name); known != games.end()) return *known->second;
  }
  // Make the game without the lock: one from outside may wait for a thread that waits for the lock.
  auto made = std::make_unique<const DynamicGame>(
      visit_game(name, [](const auto& rules) { return to_dynamic(rules); }));
  const std::lock_guard lock(mutex);
  return *games.try_emplace(name, std::move(made)).first->second;
}

}  // namespace zerofleet
