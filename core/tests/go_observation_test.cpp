// Go: what a network sees of a position, what the hash tells apart, and the eight symmetries.
#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "check.h"
#include "go_moves.h"
#include "zerofleet/games/go.h"
#include "zerofleet/random.h"
#include "zerofleet/symmetry.h"

namespace zerofleet {
namespace {

using test::check;
using test::play;

template <int kPoints>
Plane<kPoints> plane_of(std::initializer_list<int> points) {
  Plane<kPoints> plane;
  for (const int point : points) plane.set(point);
  return plane;
}

void planes_of_the_start() {
  const auto planes = Go<9>{}.observe();
  check(planes.size() == 17);
  for (int index = 0; index < 16; ++index) check(planes[index] == Plane<81>{});
  check(planes[16] == Plane<81>::filled(true));
  check(play<9>("pass").observe()[16] == Plane<81>{});
}

// White's stone in the corner is taken at ply 3; ply 4 is a pass.
constexpr char kCapture[] = "B3 A3 A2 pass";

void planes_by_hand() {
  const auto set = plane_of<9>;
  const auto black = play<3>(kCapture).observe();
  check(black == Planes<17, 9>{set({1, 3}),
                               set({}),  // ply 4
                               set({1, 3}),
                               set({}),  // ply 3
                               set({1}),
                               set({0}),  // ply 2
                               set({1}),
                               set({}),  // ply 1
                               {},
                               {},
                               {},
                               {},
                               {},
                               {},
                               {},
                               {},
                               Plane<9>::filled(true)});
  const auto white = play(play<3>(kCapture), "B2").observe();
  check(white == Planes<17, 9>{set({}),
                               set({1, 3, 4}),  // ply 5
                               set({}),
                               set({1, 3}),  // ply 4
                               set({}),
                               set({1, 3}),  // ply 3
                               set({0}),
                               set({1}),  // ply 2
                               set({}),
                               set({1}),  // ply 1
                               {},
                               {},
                               {},
                               {},
                               {},
                               {},
                               {}});
}

// Black takes a stone at B2 in a ko; White may not take back at once.
void liberties_by_hand() {
  using G = Go<4, GoObservation::kLiberties>;
  G game(GoRules{0.0f, false, G::kMaxLength});
  for (const char* move : {"B1", "C1", "A2", "D2", "B3", "C3", "C2", "B2"}) {
    const Action action = G::string_to_action(move).value();
    check(game.is_legal(action));
    game.apply(action);
  }
  const auto planes = game.observe();
  const auto at = [](const char* name) { return G::string_to_action(name).value(); };
  check(planes[17] == plane_of<16>({at("B1")}));            // Black's with 1 liberty
  check(planes[18] == plane_of<16>({at("A2"), at("B3")}));  // 2
  check(planes[19] == plane_of<16>({}));                    // 3
  check(planes[20] == plane_of<16>({at("B2")}));            // White's with 1
  check(planes[21] == plane_of<16>({at("C1")}));            // 2
  check(planes[22] == plane_of<16>({at("D2"), at("C3")}));  // 3
  check(planes[23] == plane_of<16>({at("C2")}));            // ko
}

// Passes are rare, for games to last.
template <class G>
Action random_action(const G& game, Random& random) {
  const auto actions = game.legal_actions();
  const auto moves = static_cast<std::uint64_t>(actions.size() - 1);
  if (moves == 0 || random.below(20) == 0) return G::kPass;
  return actions[static_cast<int>(random.below(moves))];
}

// Planes 2k and 2k + 1 are the stones of k plies ago, also after many more plies than eight.
template <int kSize>
void planes_remember(Random& random) {
  Go<kSize> game;
  std::vector<Go<kSize>> past = {game};
  while (!game.is_terminal()) {
    game.apply(random_action(game, random));
    past.push_back(game);
    const auto planes = game.observe();
    for (int age = 0; age < 8; ++age) {
      for (int point = 0; point < kSize * kSize; ++point) {
        const Player stone =
            age > game.ply() ? kNoStone
                             : past[static_cast<std::size_t>(game.ply() - age)].board().at(point);
        check(planes[2 * age].test(point) == (stone == game.to_play()));
        check(planes[2 * age + 1].test(point) == (stone == 1 - game.to_play()));
      }
    }
  }
}

// All that the hash must tell apart.
template <int kSize>
using View = std::pair<Observation<Go<kSize>>, std::vector<Action>>;

template <int kSize>
View<kSize> view_of(const Go<kSize>& game) {
  View<kSize> view;
  write_observation(game, 0, view.first);
  const auto actions = game.legal_actions();
  view.second.assign(actions.begin(), actions.end());
  return view;
}

// On the smallest board, where games often meet again after different pasts.
void hash_tells_views_apart() {
  constexpr int kSize = 2;
  constexpr int kGames = 1000;
  Random random(23);
  std::map<std::uint64_t, View<kSize>> by_hash;
  std::map<View<kSize>, std::set<std::uint64_t>> by_view;
  std::map<Observation<Go<kSize>>, std::set<std::vector<Action>>> actions_by_observation;
  int met_again = 0;
  for (int count = 0; count < kGames; ++count) {
    Go<kSize> game(GoRules{0.0f, true, 60});
    while (!game.is_terminal()) {
      const View<kSize> view = view_of(game);
      const auto [place, is_new] = by_hash.try_emplace(game.hash(), view);
      check(place->second == view);
      met_again += is_new ? 0 : 1;
      by_view[view].insert(game.hash());
      actions_by_observation[view.first].insert(view.second);
      game.apply(random_action(game, random));
    }
  }
  check(met_again > kGames);
  // At most two hashes of a view: after a pass and after a move.
  check(std::ranges::all_of(by_view, [](const auto& entry) { return entry.second.size() <= 2; }));
  // Superko makes more than one set of legal actions of some observations.
  check(std::ranges::any_of(actions_by_observation,
                            [](const auto& entry) { return entry.second.size() > 1; }));
}

void hash_sees_passes_and_the_end() {
  std::set<std::uint64_t> hashes = {
      Go<5>{}.hash(),       play<5>("pass").hash(),    play<5>("pass pass").hash(),
      play<5>("A1").hash(), play<5>("A1 pass").hash(), play<5>("pass A1").hash()};
  check(hashes.size() == 6);
  check(play(Go<5>(GoRules{0.0f, true, 1}), "A1").hash() != play<5>("A1").hash());
  check(play<5>("A1 C3 B1").hash() != play<5>("B1 C3 A1").hash());
}

// Plays a game together with its eight images.
template <class G>
void play_with_images(Random& random, bool suicide) {
  const GoRules rules{0.5f, suicide, G::kMaxLength};
  std::vector<G> images(G::kNumSymmetries, G(rules));
  const G& game = images[0];
  while (!game.is_terminal()) {
    const Action action = random_action(game, random);
    for (int symmetry = 0; symmetry < G::kNumSymmetries; ++symmetry) {
      std::vector<Action> moved;
      for (const Action legal : game.legal_actions()) {
        moved.push_back(Symmetries<G>::action[symmetry][legal]);
      }
      std::ranges::sort(moved);
      const auto actions = images[static_cast<std::size_t>(symmetry)].legal_actions();
      check(std::ranges::equal(moved, actions));
    }
    for (int symmetry = G::kNumSymmetries - 1; symmetry >= 0; --symmetry) {
      images[static_cast<std::size_t>(symmetry)].apply(Symmetries<G>::action[symmetry][action]);
    }
    for (int symmetry = 0; symmetry < G::kNumSymmetries; ++symmetry) {
      const G& image = images[static_cast<std::size_t>(symmetry)];
      Observation<G> transformed{};
      Observation<G> direct{};
      write_observation(game, symmetry, transformed);
      write_observation(image, 0, direct);
      check(transformed == direct);
      check(image.is_terminal() == game.is_terminal() && image.result() == game.result());
      check(image.score() == game.score());
    }
  }
}

void symmetries() {
  check(Symmetries<Go<5>>::action[7][Go<5>::kPass] == Go<5>::kPass);
  Random random(29);
  for (int game = 0; game < 20; ++game) {
    play_with_images<Go<3, GoObservation::kLiberties>>(random, game % 2 == 0);
    play_with_images<Go<5>>(random, game % 2 == 0);
  }
  play_with_images<Go<9>>(random, true);
}

}  // namespace
}  // namespace zerofleet

int main() {
  using namespace zerofleet;
  return test::run({
      {"planes of the start", planes_of_the_start},
      {"planes computed by hand", planes_by_hand},
      {"liberties and ko by hand", liberties_by_hand},
      {"planes remember eight boards",
       [] {
         Random random(19);
         for (int game = 0; game < 10; ++game) planes_remember<4>(random);
         planes_remember<9>(random);
       }},
      {"the hash tells views apart", hash_tells_views_apart},
      {"the hash sees passes and the end", hash_sees_passes_and_the_end},
      {"symmetries commute with the rules", symmetries},
  });
}
