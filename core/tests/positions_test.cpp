// Start positions: written, read back, refused, replayed and learnt from.
#include <set>
#include <string>
#include <vector>

#include "check.h"
#include "played_games.h"
#include "zerofleet/games.h"
#include "zerofleet/random.h"
#include "zerofleet/replay_buffer.h"

using namespace zerofleet;
using namespace zerofleet::test;

namespace {

// Why a text is refused; empty if it is a position.
std::string refusal(const std::string& game, const std::string& text) {
  try {
    dynamic_game(game).start_from(text);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

void check_refusal(const std::string& game, const std::string& text, const std::string& reason,
                   const std::source_location& at = std::source_location::current()) {
  const std::string given = refusal(game, text);
  if (given != reason) throw Failure(where(at) + "'" + given + "' instead of '" + reason + "'");
}

// Plays random games and reads every position of them back.
template <class AnyRules, class See>
void for_each_position(const AnyRules& rules, int games, See&& see) {
  Random random(7);
  for (int game = 0; game < games; ++game) {
    auto position = rules.start();
    for (;;) {
      see(position);
      if (position.is_terminal()) break;
      const auto legal = position.legal_actions();
      position.apply(
          legal[static_cast<int>(random.below(static_cast<std::uint64_t>(legal.size())))]);
    }
  }
}

template <class G>
void rows_read_back_equal() {
  const FixedRules<G> rules;
  for_each_position(rules, 40, [&](const G& position) {
    check(rules.start_from(position.setup_text()) == position);
  });
}

void othello_reads_back() {
  const FixedRules<Othello> rules;
  for_each_position(rules, 40, [&](const Othello& position) {
    const Othello read = rules.start_from(position.setup_text());
    for (const Player player : {kFirstPlayer, kSecondPlayer}) {
      check(read.discs(player) == position.discs(player));
    }
    check(read.to_play() == position.to_play() && read.hash() == position.hash());
    check(read.is_terminal() == position.is_terminal() && read.result() == position.result());
  });
  check(rules.start_from(Othello().setup_text()) == Othello());
  check(rules.start_from("8/8/8/3OX3/3XO3/8/8/8 X") == Othello());
}

template <int kSize>
void go_reads_back() {
  const FixedRules<Go<kSize>> rules;
  for_each_position(rules, 10, [&](const Go<kSize>& position) {
    const auto read = rules.start_from(position.setup_text());
    check(read.board() == position.board() && read.to_play() == position.to_play());
    check(read.score() == position.score());
    // Repetition is forgotten, so that more may be legal, and never less.
    for (const Action action : position.legal_actions()) check(read.is_legal(action));
    check(rules.start_from(read.setup_text()) == read);
  });
  check(rules.start_from(rules.start().setup_text()) == rules.start());
}

void set_up_go_goes_on() {
  const FixedRules<Go<9>> rules;
  // White's stone in the corner is in atari, and Black takes it.
  auto position = rules.start_from("OX7/9/9/9/9/9/9/9/9 X");
  const auto before = position;
  position.apply(9);  // A8
  check(position.board().at(0) == kNoStone && position.board().at(9) == kFirstPlayer);
  check(position.to_play() == kSecondPlayer && position.ply() == 1);
  // The boards before the start look like the start.
  const auto planes = before.observe();
  for (int age = 1; age < 8; ++age) {
    check(planes[2 * age] == planes[0] && planes[2 * age + 1] == planes[1]);
  }
  // The start itself must not be repeated: White retakes a ko one move too early.
  auto ko = rules.start_from("1XO6/X1XO5/1XO6/9/9/9/9/9/9 O");
  ko.apply(10);  // B8 takes C8
  check(ko.board().at(11) == kNoStone);
  check(!ko.is_legal(11));
}

void wrong_texts_are_refused() {
  const std::string connect_four = "connect_four";
  check_refusal(connect_four, "7/7/7/7/7 x",
                "the position has 5 rows instead of 6; rows are separated by '/'");
  check_refusal(connect_four, "7/7/7/7/7/8 x", "row 6 from the top has more than 7 points");
  check_refusal(connect_four, "7/7/7/7/7/x o", "row 6 from the top has 1 point instead of 7");
  check_refusal(connect_four, "7/7/7/7/7/xz5 o",
                "row 6 from the top has 'z'; write x or o, and a number for empty points");
  check_refusal(connect_four, "7/7/7/7/7/7",
                "the side to move is missing; write x or o after the board");
  check_refusal(connect_four, "7/7/7/7/7/7 white",
                "the side to move must be x or o, a single letter at the end");
  check_refusal(connect_four, "7/7/7/7/x6/7 o", "column 1 has a disc above an empty cell");
  check_refusal(connect_four, "7/7/7/7/7/xx5 o",
                "the board has 2 x and 0 o; x moves first and the players take turns, so x has as "
                "many or one more");
  check_refusal(connect_four, "7/7/7/7/7/x6 x", "the board has 1 x and 0 o, so o is to move");
  check_refusal(connect_four, "7/7/7/7/ooo4/xxxx3 o", "");
  check_refusal(connect_four, "7/7/7/7/oooo3/xxxx3 x", "both players have a winning row");
  check_refusal(connect_four, "7/7/7/oooo3/xxxxoo1/ooxxxox x",
                "the board has 8 x and 9 o; x moves first and the players take turns, so x has as "
                "many or one more");
  check_refusal(connect_four, std::string(1001, '7'),
                "the start position has 1001 characters; at most 1000 are read");
  check_refusal("tic_tac_toe", "xxx/oo1/o2 x",
                "x has a winning row already, so the other player cannot have moved after it");
  check_refusal("tic_tac_toe", "xxx/oo1/3 o", "");
  check_refusal("mnk(m=7,n=7,k=3)", "xxx4/7/ooooo2/xxx4/7/7/7 o",
                "both players have a winning row");
  check_refusal("mnk(m=7,n=7,k=3)", "xxx4/7/oo1oo2/xxx4/o6/7/7 o",
                "the game was over earlier: no last move of x completes its winning rows");
  check_refusal("mnk(m=12,n=3,k=3)", "12/x11/12 o", "");
  check_refusal("othello", "8/8/8/4X3/3XO3/8/8/8 X",
                "square d4 is empty; the four centre squares always have discs");
  check_refusal("go(size=5)", "XO3/O4/5/5/5 X", "the chain at A5 has no liberty");
  check_refusal("go(size=5)", "x4/5/5/5/5 o", "");
}

// A game from a set-up position as a record, with uniform policies.
struct Record {
  std::string start;
  std::vector<Action> action;
  std::vector<Action> legal;
  std::vector<std::int32_t> offsets = {0};
  std::vector<std::int32_t> weights;
  int result = 0;

  template <class G>
  Record(const FixedRules<G>& rules, std::string text) : start(std::move(text)) {
    Random random(3);
    G position = rules.start_from(start);
    while (!position.is_terminal()) {
      const auto actions = position.legal_actions();
      legal.insert(legal.end(), actions.begin(), actions.end());
      offsets.push_back(static_cast<std::int32_t>(legal.size()));
      const auto drawn = random.below(static_cast<std::uint64_t>(actions.size()));
      action.push_back(actions[static_cast<int>(drawn)]);
      position.apply(action.back());
    }
    weights.assign(legal.size(), 1);
    result = position.result();
  }

  StoredGame view(const bool* full) const {
    return {.action = action,
            .result = result,
            .full_search = {full, action.size()},
            .offsets = offsets,
            .legal_actions = legal,
            .policy_weights = weights,
            .start = start};
  }
};

template <class G>
void training_sees_the_game_from_its_start(const std::string& text) {
  const FixedRules<G> rules;
  const Record record(rules, text);
  const std::vector<char> full(record.action.size(), 1);
  const auto game = record.view(reinterpret_cast<const bool*>(full.data()));
  // Two games, of which the older one leaves when the third comes.
  const auto plies = static_cast<std::int64_t>(record.action.size());
  ReplayBufferOf<G> buffer(rules, {100000, 2});
  const Record usual(rules, "");
  const std::vector<char> all(usual.action.size(), 1);
  buffer.add(game);
  buffer.add(usual.view(reinterpret_cast<const bool*>(all.data())));
  buffer.add(game);
  check(buffer.games() == 2);
  const std::size_t rows = 400;
  std::vector<std::uint8_t> observations(rows * kObservationBytes<G>);
  std::vector<float> policies(rows * G::kNumActions);
  std::vector<float> values(rows);
  std::vector<std::int32_t> drawn(rows);
  std::vector<std::int32_t> lengths(rows);
  std::vector<std::int64_t> games(rows);
  std::vector<float> results(rows);
  TrainingBatch batch{observations, policies, values};
  batch.plies = drawn;
  batch.game_lengths = lengths;
  batch.game_indices = games;
  batch.results = results;
  buffer.sample(5, false, batch);
  int from_start = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    const bool is_set_up = games[row] == 2;
    from_start += is_set_up;
    check(!is_set_up || lengths[row] == plies);
    const auto& actions = is_set_up ? record.action : usual.action;
    const G position =
        position_after(rules, std::span(actions).first(static_cast<std::size_t>(drawn[row])),
                       is_set_up ? text : "");
    Observation<G> expected{};
    write_observation(position, 0, expected);
    check(std::ranges::equal(
        expected,
        std::span(observations).subspan(row * kObservationBytes<G>, kObservationBytes<G>)));
  }
  check(from_start > 50 && from_start < 350);
}

void engines_begin_at_the_start_position() {
  const std::string text = "7/7/7/3o3/2xx3/2xoo2 x";
  const Starts starts = {text, ""};
  const auto match =
      make_match("connect_four", {{3}, {3}}, {small_config(), small_config()}, 1, starts);
  HashPredictor predictor(match->row_shape());
  std::vector<GameColumns> games;
  while (!match->is_done()) {
    for (const int side : {0, 1}) {
      match->backup(side, predictor.predict(match->select(side), 1));
    }
    for (GameColumns& game : match->take_finished()) games.push_back(std::move(game));
  }
  check(games.size() == 4);
  const FixedRules<ConnectFour> rules;
  for (const GameColumns& game : games) {
    check(game.start == (game.game_id < 2 ? text : ""));
    const ConnectFour end = reached_position(rules, game);
    check(end.is_terminal() && end.result() == game.result);
  }
  check_throws<std::invalid_argument>(
      [&] { make_match("connect_four", {{3}}, {small_config(), small_config()}, 1, starts); });
  const auto search = make_position_search("connect_four", {{}, {3}}, small_config(), 1, {},
                                           {"7/7/7/7/ooo4/xxx4 x", ""});
  while (!search->is_done()) search->backup(predictor.predict(search->select(), 1));
  check(search->results()[0].best_action == 3);
}

void adopted_games_and_their_forks_keep_their_start() {
  const std::string start = "7/7/7/3o3/2xx3/2xoo2 x";
  SearchConfig config = small_config();
  config.fork_share = 0.5;
  const auto engine = make_self_play("connect_four", 2, config, 1);
  GameColumns game;
  game.start = start;
  engine->adopt(game);
  game.start = "7/7/7/3o3/2xx3/7 x";
  check_throws<std::invalid_argument>([&] { engine->adopt(game); });
  const FixedRules<ConnectFour> rules;
  int forks = 0;
  for (const GameColumns& finished : play(*engine, 40)) {
    check(finished.start == start || (finished.game_id > 0 && finished.start.empty()));
    if (finished.game_id > 0 && finished.start == start) {
      ++forks;
      check(finished.simulations[0] == 0);  // drawn
    }
    const ConnectFour end = reached_position(rules, finished);
    check(finished.reason == "resign" || end.result() == finished.result);
  }
  check(forks > 0);
}

// Games of Chess960 begin at every start, the same ones for the same seed.
void games_of_chess960_draw_their_start() {
  SearchConfig config = small_config();
  config.num_simulations = 1;
  config.fork_share = 0.25;
  config.random_opening_plies = 2;
  const std::string name = "chess(chess960=true,max_length=6)";
  const auto engine = make_self_play(name, 16, config, 3);
  const auto games = play(*engine, 300);
  const auto again = play(*make_self_play(name, 16, config, 3), 300);
  const auto others = play(*make_self_play(name, 16, config, 4), 300);
  std::set<std::string> starts;
  int same = 0;
  for (std::size_t i = 0; i < games.size(); ++i) {
    check(games[i].start == again[i].start && games[i].action == again[i].action);
    same += games[i].start == others[i].start;
    starts.insert(games[i].start);
    visit_game(name, [&](const auto& rules) {
      check(reached_position(rules, games[i]).result() == games[i].result);
      return 0;
    });
  }
  check(starts.size() > 100 && same < 30);
  for (const GameColumns& game : play(*make_self_play("chess(max_length=6)", 16, config, 3), 50)) {
    check(game.start.empty());
  }
}

}  // namespace

int main() {
  return run({
      {"Connect Four reads back", rows_read_back_equal<ConnectFour>},
      {"tic-tac-toe reads back", rows_read_back_equal<TicTacToe>},
      {"gomoku reads back", rows_read_back_equal<Gomoku>},
      {"Othello reads back", othello_reads_back},
      {"Go reads back", go_reads_back<5>},
      {"set-up Go goes on", set_up_go_goes_on},
      {"wrong texts are refused", wrong_texts_are_refused},
      {"training, Connect Four",
       [] { training_sees_the_game_from_its_start<ConnectFour>("7/7/7/3o3/2xx3/2xoo2 x"); }},
      {"training, Go", [] { training_sees_the_game_from_its_start<Go<5>>("XO3/5/2X2/5/5 O"); }},
      {"engines begin there", engines_begin_at_the_start_position},
      {"adopted games keep their start", adopted_games_and_their_forks_keep_their_start},
      {"games of Chess960 draw their start", games_of_chess960_draw_their_start},
  });
}
