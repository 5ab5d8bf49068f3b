"""Playing a match: pairs of games between two players, many at once, by one engine of the core.

The two games of a pair begin with the same random opening, with colours swapped. In Chess960 they
also begin at the same random start position.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine, Generator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeAlias, TypeVar
from uuid import UUID

import numpy as np
from zerofleet_core import GameColumns, Match, SearchConfig, random_start

from zerofleet.database import MatchGame
from zerofleet.errors import ConfigError
from zerofleet.fleet.figures import Z_95
from zerofleet.games import State
from zerofleet.prediction import Predictor
from zerofleet.records import GameRecord, changed, new_game_uid
from zerofleet.service import first_of
from zerofleet.verdict import Pair

Place: TypeAlias = tuple[int, int]
"""A game's place in its match, which is the key of its row: its opening, and the colour of the
player named first (0: it is the first player of the game, 1: the second)."""

GameSoFar: TypeAlias = tuple[str, tuple[int, ...]]
"""Start position, empty for the usual one, and the actions from there."""

_T = TypeVar("_T")

# More pairs begin only when one in this many slots is free, because pairs that begin together share
# their requests.
_REFILL_SHARE = 8
_MOST_MISSES = 2_000  # draws in a row without a new position: the game has none left

OPENING_PLIES = "evaluator.opening_plies"
"""Key of the length of openings, for messages."""


def all_places(openings: int) -> list[Place]:
    """Return the places of all games of a match with this many openings, in order."""
    return [(opening, color) for opening in range(openings) for color in (0, 1)]


@dataclass(frozen=True, slots=True)
class SearchPlayer:
    """A search behind a predictor: a model, or the search without a network."""

    predictor: Predictor
    search: SearchConfig
    version: int = 0  # version of the model; 0: none


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The answer of a player that loses the game without a move."""

    remark: str | None = None  # the reason; None if it simply resigned


class ActionPlayer(Protocol):
    """A player without a predictor, which chooses one action at a time."""

    async def choose(self, place: Place, actions: Sequence[int], start: str = "") -> int | GaveUp:
        """Return its action in the game at this place, after these actions from its start."""
        ...


MatchPlayer: TypeAlias = SearchPlayer | ActionPlayer


class PairQueue:
    """When each pair of a match begins: in order, up to a number at once, and none far ahead.

    Both games of a pair begin together, because the engine has no half pairs; a game that is stored
    already is resigned at once.

    Args:
        missing: the places without a stored game.
        at_once: most pairs in play together.
        ahead: a pair begins only when fewer than this many openings lie between it and the first
            incomplete one. A verdict counts complete prefixes, so this bounds the games that are
            played and not counted. None: every pair counts.
    """

    def __init__(self, missing: Collection[Place], at_once: int, ahead: int | None = None) -> None:
        self.missing = set(missing)
        """Places without a stored game."""
        self.over = asyncio.Event()
        """Set when further games are not needed, finished or not."""
        self._at_once = max(1, at_once)
        self._ahead = ahead
        self._waiting = deque(sorted({opening for opening, _ in self.missing}))
        self._games_in_play = 0

    @property
    def in_play(self) -> bool:
        """Whether games have begun that are not handed in."""
        return self._games_in_play > 0

    def begin(self) -> list[int]:
        """Return the openings to start now; empty until enough slots are free to start a group."""
        free = self._at_once - (self._games_in_play + 1) // 2
        due = [opening for opening in self._waiting if self._is_near(opening)][: max(0, free)]
        few = min(len(self._waiting), max(1, self._at_once // _REFILL_SHARE))
        if self.in_play and len(due) < few:
            return []
        for _ in due:
            self._waiting.popleft()
        self._games_in_play += 2 * len(due)
        return due

    def hand_in(self, places: Collection[Place]) -> None:
        """Hand in games that are over, and stored if they were missing."""
        self.missing.difference_update(places)
        self._games_in_play -= len(places)

    def _is_near(self, opening: int) -> bool:
        return self._ahead is None or opening < min(self.missing)[0] + self._ahead


class MatchGamesInPlay:
    """The games of all matches in play, for display."""

    def __init__(self) -> None:
        self._plays: list[_Play] = []

    def lines(self, most: int) -> list[GameSoFar]:
        """Return some games so far, starting with the match that began last.

        A game keeps its place for as long as the games before it are in play.
        """
        found: list[GameSoFar] = []
        for play in reversed(self._plays):
            found += play.lines()[: most - len(found)]
        return found

    @contextlib.contextmanager
    def watch(self, play: _Play) -> Generator[None]:
        """Show the games of a match while it is in play."""
        self._plays.append(play)
        try:
            yield
        finally:
            self._plays.remove(play)


async def play_match(
    game: str,
    openings: Sequence[Sequence[int]],
    players: tuple[MatchPlayer, MatchPlayer],
    queue: PairQueue,
    keep: Callable[[Sequence[MatchGame]], Awaitable[None]],
    go: asyncio.Event | None = None,
    clock_ahead: timedelta = timedelta(0),
    in_play: MatchGamesInPlay | None = None,
    starts: Sequence[str] = (),
) -> None:
    """Play the pairs of a queue, until all are played or the queue is over.

    Each player has one request in flight, with the leaves of all games in which it moves, and gets
    the next one as soon as it has answered. A slow answer delays the games in which that player
    moves, but not the other player. Pairs that begin later have their own engines, and share the
    requests. A player without a predictor chooses its actions in all games in which it moves at the
    same time.

    Args:
        openings: all openings of the match.
        players: at colour 0 the first of them moves first.
        queue: decides when each pair begins.
        keep: stores games; called by one task at a time, and awaited before other pairs continue.
        go: while it is not set, no player is called, and games in play wait.
        clock_ahead: how far this machine's clock is ahead of Postgres', by which UIDs are made.
        in_play: shows the games in play.
        starts: start position of each opening; empty: all begin at the usual start.
    """
    if go is None:
        go = asyncio.Event()
        go.set()
    play = _Play(game, openings, players, queue, keep, go, clock_ahead, starts)
    with contextlib.nullcontext() if in_play is None else in_play.watch(play):
        await play.run()


@dataclass(frozen=True, slots=True, eq=False)
class _Group:
    """Pairs that began together, and the engine that plays them."""

    openings: Sequence[int]
    engine: Match
    began_at: datetime

    def place(self, game_id: int) -> Place:
        """Return the place of a game of the engine."""
        return self.openings[game_id // 2], game_id % 2


class _Play:
    """The games of one match in play; see ``play_match``."""

    def __init__(
        self,
        game: str,
        openings: Sequence[Sequence[int]],
        players: tuple[MatchPlayer, MatchPlayer],
        queue: PairQueue,
        keep: Callable[[Sequence[MatchGame]], Awaitable[None]],
        go: asyncio.Event,
        clock_ahead: timedelta,
        starts: Sequence[str],
    ) -> None:
        self._game = game
        self._openings = openings
        self._starts = starts or [""] * len(openings)
        self._players = players
        self._searches = [
            player.search if isinstance(player, SearchPlayer) else SearchConfig(num_simulations=1)
            for player in players
        ]
        self._versions = [
            player.version if isinstance(player, SearchPlayer) else 0 for player in players
        ]
        self._queue = queue
        self._keep = keep
        self._go = go
        self._clock_ahead = clock_ahead
        self._keeping = asyncio.Lock()
        self._groups: list[_Group] = []
        self._remarks: dict[Place, str | None] = {}  # remarks on resigned games
        # by side: set when a player may have to move
        self._turns = (asyncio.Event(), asyncio.Event())

    def lines(self) -> list[GameSoFar]:
        """Return the games in play so far, in the order of their openings."""
        games = [
            (group.place(game_id), tuple(actions))
            for group in self._groups
            for side in (0, 1)
            for game_id, actions in group.engine.games_to_move(side)
        ]
        return [(self._starts[place[0]], actions) for place, actions in sorted(games)]

    async def run(self) -> None:
        self._begin_pairs()
        await first_of(self._queue.over.wait(), together(self._play_side(0), self._play_side(1)))

    async def _play_side(self, side: int) -> None:
        turn, player = self._turns[side], self._players[side]
        while self._queue.in_play:
            turn.clear()
            await self._go.wait()
            if isinstance(player, SearchPlayer):
                has_games = await self._ask_predictor(side, player.predictor)
            else:
                has_games = await self._ask_for_actions(side, player)
            await self._hand_in()
            if self._groups:
                self._turns[1 - side].set()  # after these actions the other side may have to move
            if not has_games:
                await turn.wait()

    async def _ask_predictor(self, side: int, predictor: Predictor) -> bool:
        """Make one request for all games in which this side moves; return False without any."""
        parts = [(group.engine, group.engine.select(side)) for group in self._groups]
        parts = [(engine, rows) for engine, rows in parts if len(rows) > 0]
        if not parts:
            return False
        answer = await predictor.predict(np.concatenate([rows for _, rows in parts]))
        end = 0
        for engine, rows in parts:
            start, end = end, end + len(rows)
            engine.backup(
                side, answer.policy_logits[start:end], answer.value[start:end], answer.model_version
            )
        return True

    async def _ask_for_actions(self, side: int, player: ActionPlayer) -> bool:
        """Choose one action in each game in which this side moves; return False without any."""
        moves = [
            self._choose(group, game_id, actions, side, player)
            for group in self._groups
            for game_id, actions in group.engine.games_to_move(side)
        ]
        await together(*moves)
        return bool(moves)

    async def _choose(
        self, group: _Group, game_id: int, actions: Sequence[int], side: int, player: ActionPlayer
    ) -> None:
        place = group.place(game_id)
        answer = await player.choose(place, actions, self._starts[place[0]])
        if isinstance(answer, GaveUp):
            self._remarks[place] = answer.remark
            group.engine.resign(game_id)
        else:
            group.engine.play(game_id, answer)
            self._turns[1 - side].set()

    async def _hand_in(self) -> None:
        """Store finished games, then let others begin."""
        finished = [
            (group, game) for group in self._groups for game in group.engine.take_finished()
        ]
        if not finished:
            return
        self._groups = [group for group in self._groups if not group.engine.done]
        wanted = [
            self._match_game(group, game)
            for group, game in finished
            if group.place(game.game_id) in self._queue.missing
        ]
        async with self._keeping:
            if wanted and not self._queue.over.is_set():
                await self._keep(wanted)
        self._queue.hand_in([group.place(game.game_id) for group, game in finished])
        self._begin_pairs()
        if not self._queue.in_play:
            self._wake()

    def _match_game(self, group: _Group, game: GameColumns) -> MatchGame:
        opening, color = place = group.place(game.game_id)
        versions = self._versions[color], self._versions[1 - color]
        uid = new_game_uid(group.began_at - self._clock_ahead)
        record = match_record(self._game, uid, game, versions, group.began_at)
        return MatchGame(opening, color, record, self._remarks.get(place))

    def _begin_pairs(self) -> None:
        openings = self._queue.begin()
        if openings:
            lines = [self._openings[opening] for opening in openings]
            starts = [self._starts[opening] for opening in openings]
            first, second = self._searches
            engine = Match(self._game, lines, first, 0, other=second, starts=starts)
            group = _Group(openings, engine, datetime.now(UTC))
            for game_id in range(2 * len(openings)):
                if group.place(game_id) not in self._queue.missing:
                    engine.resign(game_id)  # it is stored, so it needs no predictions
            self._groups.append(group)
            self._wake()

    def _wake(self) -> None:
        for turn in self._turns:
            turn.set()


def match_record(
    name: str, uid: UUID, game: GameColumns, versions: tuple[int, int], started_at: datetime
) -> GameRecord:
    """Return the record of a finished game, with the mover's model at every ply, openings included.

    A ply without a search (in an opening, or by a player without a predictor) has 0 simulations,
    and its table contains only its own action, unvisited.

    Args:
        uid: UID of the record.
        versions: models of the first and the second player; 0: it has none.
        started_at: when it began.
    """
    assert game.result is not None, "an unfinished game was taken as finished"
    named = changed(
        game,
        model_version=np.asarray(versions, np.int32)[game.to_play],
        policy_weights=game.visit_counts,  # no network learns from these games
    )
    return GameRecord(uid, name, named, started_at, datetime.now(UTC))


async def together(*parts: Coroutine[Any, Any, _T]) -> list[_T]:
    """Run all parts; if one fails, cancel the others and raise its error."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def random_openings(
    game: str, plies: int, count: int, seed: int, *, setting: str = OPENING_PLIES
) -> tuple[list[list[int]], list[str]]:
    """Draw the actions and the start position of each opening of a match.

    Args:
        setting: key or option that gave ``plies``, for the message.

    Returns:
        ``draw_openings`` from ``draw_starts``, and these starts.

    Raises:
        ConfigError: no game lasts longer than ``plies``.
    """
    starts = draw_starts(game, count, seed)
    return draw_openings(game, plies, count, seed, starts, setting=setting), starts


def draw_starts(game: str, count: int, seed: int) -> list[str]:
    """Draw a start position for each opening of a match; they repeat only if the game has fewer.

    Args:
        count: number of openings.
        seed: the same arguments give the same starts on any machine.

    Returns:
        ``[count]``; empty if the game has only the usual start, as all but Chess960 do.
    """
    rng = random.Random(seed)
    drawn = {random_start(game, rng.getrandbits(63)): None}
    misses = 0
    while len(drawn) < count and misses < _MOST_MISSES:
        before = len(drawn)
        drawn[random_start(game, rng.getrandbits(63))] = None
        misses = 0 if len(drawn) > before else misses + 1
    if list(drawn) == [""]:
        return []
    return list(itertools.islice(itertools.cycle(drawn), count))


def draw_openings(
    game: str,
    plies: int,
    count: int,
    seed: int,
    starts: Sequence[str] = (),
    *,
    setting: str = OPENING_PLIES,
) -> list[list[int]]:
    """Draw random openings that lead to distinct positions, none of them the end of the game.

    The search of a match has no noise, so the same position would give the same game twice. A game
    with fewer positions than ``count`` gets fewer openings.

    Args:
        plies: length of each opening.
        seed: the same arguments give the same openings on any machine.
        starts: start position of each opening, ``[count]``; empty: the usual start.
        setting: key or option that gave ``plies``, for the message.

    Raises:
        ConfigError: no game lasts longer than ``plies``.
    """
    rng = random.Random(seed)
    openings: dict[int, list[int]] = {}  # by hash of the resulting position
    misses = 0
    while len(openings) < count and misses < _MOST_MISSES:
        start = starts[len(openings)] if starts else ""
        state, actions = _random_opening(game, plies, rng, start)
        if state.is_terminal or state.hash in openings:
            misses += 1
            continue
        openings[state.hash] = actions
        misses = 0
    if not openings:
        raise ConfigError(
            f"{setting} = {plies}: every game of {game} is over after that many plies; choose fewer"
        )
    return list(openings.values())


def _random_opening(
    game: str, plies: int, rng: random.Random, start: str
) -> tuple[State, list[int]]:
    state = State(game, [], start)
    actions: list[int] = []
    while len(actions) < plies and not state.is_terminal:
        action = rng.choice(state.legal_actions())
        state.apply(action)
        actions.append(action)
    return state, actions


def score_interval(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Return the 95% interval of the first player's points per game, over complete pairs.

    It is the normal interval of the pairs' mean score. An outcome of a pair that did not occur
    counts as half a pair, as in the gate's sequential test, so that a few equal pairs do not look
    certain. The interval always contains the score itself.
    """
    counts = dict.fromkeys((0.0, 0.5, 1.0, 1.5, 2.0), 0.0)
    for pair in pairs:
        counts[pair.points] += 1
    weights = {points / 2: count or 0.5 for points, count in counts.items()}
    number = sum(weights.values())
    mean = sum(score * count for score, count in weights.items()) / number
    variance = sum(count * (score - mean) ** 2 for score, count in weights.items()) / number
    half = Z_95 * math.sqrt(variance / number)
    score = sum(pair.points for pair in pairs) / (2 * len(pairs))
    return max(0.0, min(mean - half, score)), min(1.0, max(mean + half, score))
