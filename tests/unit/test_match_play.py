"""Games of a match: concurrency does not change them, and both players are asked at once."""

import asyncio
import random
from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.predictors import HashPredictor
from zerofleet.config import SearchSection
from zerofleet.database import MatchGame
from zerofleet.games import State
from zerofleet.match.anchors import NoNetwork, RandomPlayer
from zerofleet.match.play_match import (
    GameSoFar,
    GaveUp,
    MatchGamesInPlay,
    MatchPlayer,
    PairQueue,
    Place,
    SearchPlayer,
    draw_openings,
    play_match,
)
from zerofleet.prediction import Prediction, Predictor
from zerofleet.search_configs import match_search

GAME = "connect_four"
PAIRS = 9
OPENINGS = draw_openings(GAME, 3, PAIRS, seed=1)
PLACES = [(opening, color) for opening in range(PAIRS) for color in (0, 1)]
SEARCH = match_search(SearchSection(root="puct", prove_results=False), 12)


class Watched:
    """A predictor that notes which sides have requests at the same time."""

    def __init__(self, predictor: Predictor, out: set[int], side: int) -> None:
        self.together: set[frozenset[int]] = set()
        self._predictor = predictor
        self._out = out
        self._side = side

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        assert self._side not in self._out, "two requests of one side"
        self._out.add(self._side)
        for _ in range(3):
            await asyncio.sleep(0)
        self.together.add(frozenset(self._out))
        self._out.remove(self._side)
        return await self._predictor.predict(observations)


async def played(
    queue: PairQueue,
    players: tuple[MatchPlayer, MatchPlayer],
    *,
    enough: int | None = None,
    go: asyncio.Event | None = None,
    in_play: MatchGamesInPlay | None = None,
) -> dict[Place, MatchGame]:
    """Play the queue and return each kept game; the match ends after ``enough`` games."""
    finished: dict[Place, MatchGame] = {}

    async def keep(games: Sequence[MatchGame]) -> None:
        assert not queue.over.is_set()
        new = {(game.opening, game.color): game for game in games}
        assert not finished.keys() & new.keys()
        await asyncio.sleep(0)
        finished.update(new)
        if enough is not None and len(finished) >= enough:
            queue.over.set()

    async with asyncio.timeout(120):
        await play_match(GAME, OPENINGS, players, queue, keep, go, timedelta(days=3), in_play)
    return finished


def actions(games: dict[Place, MatchGame]) -> dict[Place, list[int]]:
    return {place: game.record.columns.action.tolist() for place, game in games.items()}


def behind(predictor: Predictor, version: int = 0) -> SearchPlayer:
    return SearchPlayer(predictor, SEARCH, version)


def two() -> tuple[SearchPlayer, SearchPlayer]:
    return behind(HashPredictor(GAME, 1), 1), behind(HashPredictor(GAME, 2), 2)


async def test_the_games_do_not_depend_on_what_is_played_beside_them() -> None:
    together = actions(await played(PairQueue(PLACES, PAIRS), two()))
    assert together.keys() == set(PLACES)
    for (opening, _), moves in together.items():
        assert moves[:3] == OPENINGS[opening]
    assert len({tuple(moves) for moves in together.values()}) > PAIRS
    for at_once, ahead in ((1, None), (2, 3), (4, 8)):
        assert actions(await played(PairQueue(PLACES, at_once, ahead), two())) == together


async def test_games_in_play_are_shown_as_far_as_they_have_come() -> None:
    in_play = MatchGamesInPlay()
    seen: list[list[GameSoFar]] = []

    class Looking(HashPredictor):
        async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
            seen.append(in_play.lines(3))
            return await super().predict(observations)

    players = behind(Looking(GAME, 1), 1), two()[1]
    finished = actions(await played(PairQueue(PLACES, 2), players, in_play=in_play))
    assert max(map(len, seen)) == 3
    for start, line in {line for lines in seen for line in lines}:
        assert start == ""
        assert any(moves[: len(line)] == list(line) for moves in finished.values())
    assert in_play.lines(3) == []


async def test_games_begin_at_start_positions() -> None:
    """Both players see the position, with a predictor and without one."""
    starts = [State(GAME, [3, 3, opening]).setup_text() for opening in range(3)]
    starts_seen: dict[Place, set[str]] = {}
    in_play = MatchGamesInPlay()
    shown: set[str] = set()

    class Noting(RandomPlayer):
        async def choose(self, place: Place, actions: Sequence[int], start: str = "") -> int:
            starts_seen.setdefault(place, set()).add(start)
            shown.update(text for text, _ in in_play.lines(9))
            return await super().choose(place, actions, start)

    finished: dict[Place, MatchGame] = {}

    async def keep(games: Sequence[MatchGame]) -> None:
        finished.update({(each.opening, each.color): each for each in games})

    places = [(opening, color) for opening in range(3) for color in (0, 1)]
    players = behind(HashPredictor(GAME, 1), 1), Noting(GAME, 1)
    queue = PairQueue(places, 2)
    await play_match(GAME, [[], [], []], players, queue, keep, in_play=in_play, starts=starts)
    assert finished.keys() == set(places)
    assert starts_seen == {place: {starts[place[0]]} for place in places}
    assert shown == set(starts)
    for (opening, color), game in finished.items():
        columns = game.record.columns
        assert columns.start == starts[opening]
        end = State(GAME, columns.action.tolist(), columns.start)
        assert (end.is_terminal, end.result) == (True, columns.result)
        # The second player is to move in these positions.
        assert columns.to_play.tolist() == [(1 + ply) % 2 for ply in range(columns.plies)]
        by_model = (columns.model_version == 1).tolist()
        assert by_model == [player == color for player in columns.to_play.tolist()]


async def test_the_games_are_whole_records() -> None:
    """Every ply names the mover's model, and a given ply lists only its action."""
    for (_, color), game in (await played(PairQueue(PLACES, PAIRS), two())).items():
        record = game.record
        state = State(GAME, record.columns.action.tolist())
        assert (state.is_terminal, state.result, record.reason) == (True, record.result, "rules")
        movers = np.arange(record.length) % 2
        assert record.columns.to_play.tolist() == [ply % 2 for ply in range(record.length)]
        assert (record.columns.model_version == 1 + (movers ^ color)).all()
        assert (record.columns.simulations[:3] == 0).all()
        assert (record.columns.simulations[3:] >= 12).all()
        assert record.columns.offsets[:4].tolist() == [0, 1, 2, 3]
        assert record.columns.legal_actions[:3].tolist() == record.columns.action[:3].tolist()
        assert not record.columns.visit_counts[:3].any()
        assert (
            len(record.columns.legal_actions)
            == record.columns.offsets[-1]
            == len(record.columns.priors)
        )
        assert np.abs(record.columns.best_child_value).max() <= 1
        assert game.remark is None
        by_postgres = record.started_at - timedelta(days=3)
        assert record.game_uid.int >> 80 == int(by_postgres.timestamp() * 1000)


async def test_a_game_that_is_stored_is_not_played_again() -> None:
    places: set[Place] = set()

    class Noting(RandomPlayer):
        async def choose(self, place: Place, actions: Sequence[int], start: str = "") -> int:
            places.add(place)
            return await super().choose(place, actions, start)

    missing = [place for place in PLACES if place[0] != 2 and place != (5, 1)]
    assert (await played(PairQueue(missing, 3), (Noting(GAME, 1), two()[1]))).keys() == set(missing)
    assert places == set(missing)


async def test_both_sides_are_asked_at_the_same_time() -> None:
    out: set[int] = set()
    watched = [Watched(HashPredictor(GAME, side), out, side) for side in (0, 1)]
    await played(PairQueue(PLACES, 4), (behind(watched[0]), behind(watched[1])))
    for side in watched:
        assert frozenset({0, 1}) in side.together


async def test_it_ends_with_games_in_play_when_no_more_are_wanted() -> None:
    queue = PairQueue(PLACES, 4)
    finished = await played(queue, two(), enough=5)
    assert 5 <= len(finished) < len(PLACES)
    assert queue.in_play


async def test_an_error_of_one_side_ends_both() -> None:
    class Broken:
        async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        await played(PairQueue(PLACES, 4), (behind(HashPredictor(GAME)), behind(Broken())))


async def test_a_side_that_answers_at_once_waits_for_no_other_game() -> None:
    """The slow side soon has both games again, so they share most of its requests."""
    requests: list[int] = []  # rows of each request

    class Slow(HashPredictor):
        async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
            requests.append(len(observations))
            for _ in range(1_000):
                await asyncio.sleep(0)
            return await super().predict(observations)

    await played(PairQueue(PLACES[:2], 1), (behind(Slow(GAME)), behind(NoNetwork(GAME))))
    assert sum(requests) > 1.3 * len(requests)


async def test_no_player_is_asked_while_it_may_not() -> None:
    """This holds for players with and without a predictor."""

    class Asked(RandomPlayer):
        times = 0

        async def choose(self, place: Place, actions: Sequence[int], start: str = "") -> int:
            self.times += 1
            return await super().choose(place, actions, start)

    go, player = asyncio.Event(), Asked(GAME, 1)
    other = Watched(HashPredictor(GAME), set(), 0)
    playing = asyncio.create_task(played(PairQueue(PLACES[:2], 1), (behind(other), player), go=go))
    for _ in range(20):
        await asyncio.sleep(0)
    assert (player.times, other.together) == (0, set())
    go.set()
    assert (await playing).keys() == set(PLACES[:2])
    assert player.times > 0


async def test_a_player_without_a_predictor_is_asked_in_all_its_games_at_once() -> None:
    """Its plies are marked as not searched; the other side continues where it has answered."""

    class Slow(RandomPlayer):
        out = 0
        together = 0

        async def choose(self, place: Place, actions: Sequence[int], start: str = "") -> int:
            self.out += 1
            self.together = max(self.together, self.out)
            for _ in range(10):
                await asyncio.sleep(0)
            self.out -= 1
            return await super().choose(place, actions, start)

    slow = Slow(GAME, 1)
    model = behind(HashPredictor(GAME), 7)
    games = await played(PairQueue(PLACES[:8], 4), (model, slow))
    assert games.keys() == set(PLACES[:8])
    assert slow.together >= 4
    for (_, color), game in games.items():
        by_model = game.record.columns.model_version == 7
        assert by_model.tolist() == [ply % 2 == color for ply in range(game.record.length)]
        assert (game.record.columns.simulations[3:] > 0).tolist() == by_model[3:].tolist()


async def test_who_gives_up_has_lost() -> None:
    class Tired(RandomPlayer):
        async def choose(
            self, place: Place, actions: Sequence[int], start: str = ""
        ) -> int | GaveUp:
            if len(actions) > 6:
                return GaveUp(f"tired at {place}")
            return await super().choose(place, actions, start)

    games = await played(PairQueue(PLACES[:4], 2), (Tired(GAME, 1), behind(HashPredictor(GAME))))
    for place, game in games.items():
        record = game.record
        assert (record.reason, game.remark) == ("resign", f"tired at {place}")
        assert record.result == (-1 if place[1] == 0 else 1)
        assert not State(GAME, record.columns.action.tolist()).is_terminal


def whole(openings: list[int]) -> list[Place]:
    """Return both games of each opening."""
    return [(opening, color) for opening in openings for color in (0, 1)]


def test_pairs_begin_in_their_order_as_seats_become_free() -> None:
    queue = PairQueue(whole(list(range(6))), at_once=4)
    assert queue.begin() == [0, 1, 2, 3]
    queue.hand_in([(3, 0)])
    assert queue.begin() == []  # only half a pair is over
    queue.hand_in([(2, 1)])
    assert queue.begin() == [4]
    queue.hand_in(whole([0, 1]))
    assert queue.begin() == [5]
    queue.hand_in([*whole([4, 5]), (2, 0), (3, 1)])
    assert (queue.in_play, queue.missing) == (False, set())


def test_few_pairs_wait_for_more() -> None:
    queue = PairQueue(whole(list(range(40))), at_once=16)
    assert queue.begin() == list(range(16))
    queue.hand_in(whole([7]))
    assert queue.begin() == []
    queue.hand_in(whole([9]))
    assert queue.begin() == [16, 17]


def test_what_begins_stays_near_the_first_incomplete_pair() -> None:
    """The last pair before the limit begins alone, although the minimum is two."""
    queue = PairQueue(whole(list(range(64))), at_once=16, ahead=17)
    queue.begin()
    queue.hand_in(whole([1, 2, 3]))
    assert queue.begin() == []  # only opening 16 is within the limit, which is below the minimum
    queue.hand_in([(0, 1)])
    assert queue.begin() == []
    queue.hand_in([(0, 0)])
    assert queue.begin() == [16, 17, 18, 19]  # the first incomplete one is 4


def test_a_pair_of_which_one_game_is_stored_begins_whole() -> None:
    queue = PairQueue([(1, 0), *whole([4, 5])], at_once=2, ahead=2)
    assert queue.begin() == [1]  # 4 and 5 are beyond the limit, so this one begins alone
    queue.hand_in([(1, 1)])
    assert (queue.missing, queue.begin()) == ({(1, 0), *whole([4, 5])}, [])
    queue.hand_in([(1, 0)])
    assert queue.begin() == [4, 5]


@pytest.mark.parametrize("ahead", [None, 1, 5, 12])
@pytest.mark.parametrize("at_once", [1, 2, 3, 9, 30])
def test_whatever_ends_first_everything_is_played_within_the_bounds(
    at_once: int, ahead: int | None
) -> None:
    draw = random.Random(f"{at_once} {ahead}")
    places = whole(list(range(40)))
    missing = draw.sample(places, 60)
    openings = sorted({opening for opening, _ in missing})
    queue = PairQueue(missing, at_once, ahead)
    live: list[Place] = []
    begun: list[int] = []
    while new := queue.begin() or ([] if live else None):
        begun += new
        live += whole(new)
        assert len(live) <= 2 * at_once
        if ahead is not None:
            assert max(begun) < min(queue.missing)[0] + max(ahead, 1)
        while live:
            place = live.pop(draw.randrange(len(live)))
            queue.hand_in([place])
            more = queue.begin()
            begun += more
            live += whole(more)
            assert len(live) <= 2 * at_once
    assert begun == openings
    assert not queue.in_play
    assert queue.missing == set()
