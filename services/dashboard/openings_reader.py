"""The first moves that models choose in self-play: a tree that is walked without further queries.

Moves that were drawn at random for an opening, or repeat an earlier game, are not counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from zerofleet.services.dashboard.sources import Sources

GAMES_OF_MODEL = 1_000
MOST_MODELS = 12
MOST_PLIES = 30
_NEWEST = 2  # models whose games are looked at again: they may have more

# Promoted models that are spread evenly over the run, and the newest one.
_MODELS = """
SELECT DISTINCT p.version
FROM (SELECT max(seq) AS last FROM promotions WHERE run = :run) AS ends
CROSS JOIN generate_series(0, :most - 1) AS place
JOIN promotions AS p
    ON p.run = :run AND p.seq = last - (place * greatest(last - 1, 0) / greatest(:most - 1, 1))
ORDER BY p.version
"""
# As many games of matches lie between them at most as self-play's are asked for.
# Games of earlier versions have no opening_plies: their searches show it if they are kept.
_GAMES = """
SELECT game_uid::text AS uid, moves, result, coalesce(
    opening_plies,
    (SELECT min(ply) FROM positions AS p WHERE p.game_uid = g.game_uid AND simulations > 0),
    0
) AS opening_plies
FROM (
    SELECT game_uid, kind, moves, result, opening_plies FROM games
    WHERE run = :run AND first_model = :version ORDER BY ingested_at DESC LIMIT 2 * :most
) AS g
WHERE kind = 'selfplay' LIMIT :most
"""


@dataclass(frozen=True, slots=True)
class OpeningGame:
    """A stored game's beginning."""

    uid: str
    moves: tuple[str, ...]
    """The first ones, in the game's notation."""
    result: int
    """+1 the first player won, 0 a draw, -1 the second player did."""
    opening_plies: int = 0
    """Plies at its start that no search chose."""


@dataclass(frozen=True, slots=True)
class ModelGames:
    """The newest games that a model began."""

    version: int
    games: tuple[OpeningGame, ...]


@dataclass(frozen=True, slots=True)
class NextMove:
    """A move that games go on with, from some position."""

    move: str
    games: int
    score: float
    """Points per game of the player who makes it: in [0, 1]."""


@dataclass(frozen=True, slots=True)
class OpeningPosition:
    """What one model's games do in a position."""

    version: int
    games: int
    """Number of games that reach it outside of their random opening."""
    in_openings: int
    """Number of further games that reach it inside their random opening."""
    moves: tuple[NextMove, ...]
    """The most frequent first."""
    uid: str | None
    """The newest of the games."""

    def share(self, move: str) -> float | None:
        """Share of the games; None without games."""
        if not self.games:
            return None
        return sum(each.games for each in self.moves if each.move == move) / self.games


@dataclass(frozen=True, slots=True)
class Openings:
    """The games of some models of a run, oldest first."""

    models: tuple[ModelGames, ...] = ()

    def position(self, line: Sequence[str], to_play: int) -> tuple[OpeningPosition, ...]:
        """What each model's games do after these moves.

        Args:
            line: the moves.
            to_play: the player to move after them, 0 the first; not every game takes turns.
        """
        return tuple(_position(model, tuple(line), to_play) for model in self.models)


def _position(model: ModelGames, line: tuple[str, ...], to_play: int) -> OpeningPosition:
    ply = len(line)
    found = [game for game in model.games if game.moves[:ply] == line]
    reached = [game for game in found if game.opening_plies <= ply]
    side = 1 - 2 * to_play
    games: Counter[str] = Counter()
    points: Counter[str] = Counter()
    for game in reached:
        if len(game.moves) > ply:
            games[game.moves[ply]] += 1
            points[game.moves[ply]] += 1 + side * game.result  # twice the points
    moves = tuple(
        NextMove(move, count, points[move] / (2 * count))
        for move, count in sorted(games.items(), key=lambda each: (-each[1], each[0]))
    )
    uid = reached[0].uid if reached else None
    return OpeningPosition(model.version, len(reached), len(found) - len(reached), moves, uid)


@dataclass(slots=True)
class OpeningsReader:
    """Reads the openings of one run; games of older models are read once.

    Args:
        sources: where from.
        run: name of the run.
    """

    sources: Sources
    run: str
    _known: dict[int, ModelGames] = field(default_factory=dict[int, ModelGames])

    async def read(self) -> Openings:
        """The openings now.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        rows = await self.sources.rows(_MODELS, run=self.run, most=MOST_MODELS)
        versions = [row.version for row in rows]
        for version in versions:
            if version not in self._known or version in versions[-_NEWEST:]:
                self._known[version] = await self._games(version)
        self._known = {version: self._known[version] for version in versions}
        return Openings(tuple(self._known.values()))

    async def _games(self, version: int) -> ModelGames:
        rows = await self.sources.rows(_GAMES, run=self.run, version=version, most=GAMES_OF_MODEL)
        games = tuple(
            OpeningGame(
                row.uid,
                tuple(row.moves.split(" ", MOST_PLIES)[:MOST_PLIES]),
                row.result,
                row.opening_plies,
            )
            for row in rows
        )
        return ModelGames(version, games)
