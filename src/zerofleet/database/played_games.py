"""Stored games with the search of each ply, and as SGF or PGN with comments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row
from zerofleet_core import State

from zerofleet.database.connection import ConnectionPool
from zerofleet.errors import ConfigError, RecordRejectedError
from zerofleet.games import parse_actions
from zerofleet.games.notation import player_names
from zerofleet.games.pgn_text import PgnGame, require_pgn, write_pgn
from zerofleet.games.sgf import SgfGame, require_sgf, write

_COLUMNS = """
SELECT g.game_uid, r.game, g.kind, g.first_model, g.second_model, g.result, g.reason,
    g.finished_at, g.moves, g.start,
    CASE WHEN g.restarted THEN g.opening_plies END AS repeated_plies,
    CASE mg.color WHEN 0 THEN m.player ELSE m.opponent END AS first_player,
    CASE mg.color WHEN 0 THEN m.opponent ELSE m.player END AS second_player, mg.remark
FROM games AS g JOIN runs AS r ON r.name = g.run
LEFT JOIN match_games AS mg ON mg.game_uid = g.game_uid
LEFT JOIN matches AS m ON m.match_id = mg.match_id
WHERE g.run = :run
"""
GAME = f"{_COLUMNS} AND g.game_uid = :game_uid"
"""Query for one game, by ``run`` and ``game_uid``; ``played_game_of`` reads it with ``PLIES``."""
_PLY_COLUMNS = (
    "action, model_version, root_value, network_value, simulations, legal_actions, visit_counts, "
    "priors"
)
PLIES = f"SELECT {_PLY_COLUMNS} FROM positions WHERE game_uid = :game_uid ORDER BY ply"
_GAMES = f"{_COLUMNS} AND g.game_uid = ANY(CAST(:game_uids AS uuid[])) ORDER BY g.game_uid"
_PLIES_OF_GAMES = f"""
SELECT chosen.uid, {_PLY_COLUMNS}
FROM unnest(CAST(:game_uids AS uuid[])) AS chosen (uid)
CROSS JOIN LATERAL (
    SELECT * FROM positions WHERE positions.game_uid = chosen.uid ORDER BY ply OFFSET 0
) AS p
"""
_BEST_MOVES = 5


@dataclass(frozen=True, slots=True)
class PlayedPly:
    """One action and the search that chose it; values are for the player who moved."""

    action: int
    model_version: int
    root_value: float  # after search
    network_value: float  # before search
    simulations: int  # 0: the action was given, not searched
    legal_actions: Sequence[int]
    visit_counts: Sequence[int]  # for ``legal_actions``
    priors: Sequence[float]  # for ``legal_actions``, without noise


@dataclass(frozen=True, slots=True)
class PlayedGame:
    """A finished game."""

    game_uid: UUID
    game: str
    kind: str  # "selfplay", "match" or "given"
    first_model: int
    second_model: int | None
    result: int  # +1 the first player won, -1 the second, 0 a draw
    reason: str  # how it ended: "rules", "resign" or "adjudicated"
    finished_at: datetime
    moves: str  # in the game's notation
    start: str  # start position; empty: the usual one
    repeated_plies: int | None  # plies up to the restart where it began; None: no restart
    first_player: str | None  # player of a match, such as "12" or "gnugo:5"; None: no match
    second_player: str | None
    forfeit: str | None  # why the player to move lost by forfeit; None: no forfeit
    plies: Sequence[PlayedPly]  # empty if the searches were deleted


@dataclass(frozen=True, slots=True)
class Opinion:
    """Source of a value; only values of the same opinion can be compared."""

    model_version: int
    player: int | None  # 0 or 1: this player alone; None: the same model moves for both players


def opinions_of(played: PlayedGame, to_play: Sequence[int]) -> list[Opinion | None]:
    """Return the opinion behind the value of each stored ply; None without a search.

    In self-play one model moves for both players, until a promotion puts another in its place. So
    it does in games of another run's self-play. In a match each player searches by itself.

    Args:
        played: the game.
        to_play: the player to move at each ply.
    """
    return [
        Opinion(ply.model_version, player if played.kind == "match" else None)
        if ply.simulations
        else None
        for ply, player in zip(played.plies, to_play, strict=False)
    ]


class PlayedGames(ConnectionPool):
    """Reading single games, for any role that may select from games and positions."""

    def played_game(self, run: str, game_uid: UUID) -> PlayedGame | None:
        """Return the game with this uid; None if the run has no such game.

        Raises:
            RecordRejectedError: its stored plies do not fit together.
        """
        rows = self._rows(GAME, run=run, game_uid=str(game_uid))
        return played_game_of(rows[0], self._rows(PLIES, game_uid=str(game_uid))) if rows else None

    def played_games(
        self, run: str, game_uids: Sequence[UUID]
    ) -> list[PlayedGame | RecordRejectedError]:
        """Return games of a run in the order of their uids.

        A game whose stored plies do not fit together is the error that says so.
        """
        wanted = [str(uid) for uid in game_uids]
        plies: dict[UUID, list[Sequence[Any]]] = {}
        for uid, *ply in self._rows(_PLIES_OF_GAMES, game_uids=wanted):
            plies.setdefault(uid, []).append(ply)
        found: list[PlayedGame | RecordRejectedError] = []
        for game in self._rows(_GAMES, run=run, game_uids=wanted):
            try:
                found.append(played_game_of(game, plies.get(game.game_uid, [])))
            except RecordRejectedError as error:
                found.append(error)
        return found

    def last_played(self, run: str, games: int) -> list[UUID]:
        """Return the games that were stored last, newest first."""
        rows = self._rows(
            "SELECT game_uid FROM games WHERE run = :run "
            "ORDER BY ingested_at DESC, game_uid LIMIT :games",
            run=run,
            games=games,
        )
        return [row.game_uid for row in rows]


def played_game_of(game: Row[Any], plies: Sequence[Sequence[Any]]) -> PlayedGame:
    """Return a game from the row of ``GAME`` and the rows of ``PLIES``.

    Raises:
        RecordRejectedError: its stored plies do not fit together.
    """
    read = [PlayedPly(*ply) for ply in plies]
    for number, ply in enumerate(read):
        table: list[object] = [*ply.legal_actions, *ply.visit_counts]
        if len(ply.legal_actions) != len(ply.visit_counts) or not all(
            isinstance(value, int) for value in table
        ):
            raise RecordRejectedError(
                f"game {game.game_uid}: ply {number}: legal_actions and visit_counts do not "
                "fit together"
            )
    return PlayedGame(*game, plies=read)


@dataclass(frozen=True, slots=True)
class RecordFormat:
    """A file format for single games."""

    suffix: str  # ending of its files, which is also its name
    media_type: str
    require: Callable[[str], None]  # raises ConfigError for a game that it cannot hold
    text_of: Callable[[str, PlayedGame], str]  # takes the run's name and a game


def record_format(game: str) -> RecordFormat | None:
    """Return the format for the games of this name; None if there is none."""
    for each in (SGF, PGN):
        try:
            each.require(game)
        except ConfigError:
            continue
        return each
    return None


def sgf_of_game(run: str, played: PlayedGame) -> str:
    """Return the SGF of a stored game.

    Raises:
        ConfigError: its game has no SGF.
    """
    # Before a state is made: a stored name of the kind "python:" would have its module imported.
    require_sgf(played.game)
    return write(
        SgfGame(
            game=played.game,
            actions=actions_of(played),
            start=played.start,
            black=_player(run, played.first_player, played.first_model),
            white=_player(run, played.second_player, played.second_model),
            resigned=played.reason == "resign",
            forfeited=played.forfeit is not None,
            comments=_comments(played),
            values=_values(played),
            root={
                "DT": played.finished_at.date().isoformat(),
                "EV": f"{run}, {played.kind}",
                "GN": str(played.game_uid),
            },
            result=_adjudicated(played),
        )
    )


def pgn_of_game(run: str, played: PlayedGame) -> str:
    """Return the PGN of a stored game, with the search's values as comments.

    Raises:
        ConfigError: its game is not chess.
    """
    require_pgn(played.game)
    players = {"White": _player(run, played.first_player, played.first_model)}
    # In self-play one model moves for both players.
    players["Black"] = _player(run, played.second_player, played.second_model) or players["White"]
    return write_pgn(
        PgnGame(
            game=played.game,
            actions=actions_of(played),
            start=played.start,
            tags={
                "Event": f"{run}, {played.kind}",
                "Site": "zerofleet",
                "Date": played.finished_at.date().isoformat().replace("-", "."),
                **players,
                "GameId": str(played.game_uid),
                "Termination": _termination(played),
            },
            resigned=played.reason == "resign",
            values=_values(played),
            result=_adjudicated(played),
        )
    )


def _termination(played: PlayedGame) -> str:
    """Return the value of PGN's tag "Termination" (section 9.8.1 of the standard)."""
    if played.forfeit is not None:
        return "rules infraction"
    return "adjudication" if played.reason == "adjudicated" else "normal"


SGF = RecordFormat("sgf", "application/x-go-sgf", require_sgf, sgf_of_game)
PGN = RecordFormat("pgn", "application/x-chess-pgn", require_pgn, pgn_of_game)


def actions_of(played: PlayedGame) -> list[int]:
    """Return the actions of a game, from its searches or, if these were deleted, from its moves."""
    if played.plies:
        return [ply.action for ply in played.plies]
    return parse_actions(played.game, played.moves, played.start)


def _adjudicated(played: PlayedGame) -> int | None:
    """Return the result that the file of a given game named; None: the rules decided."""
    return played.result if played.reason == "adjudicated" else None


def _player(run: str, player: str | None, model: int | None) -> str:
    """Return the name of a player: of a match's if the game has one, else of a model."""
    if player is not None:
        return f"{run} {player}" if player[0].isdigit() else player
    return f"{run} {model}" if model else ""


def _comments(played: PlayedGame) -> list[str]:
    state = State(played.game, [], played.start)
    comments: list[str] = []
    for ply in played.plies:
        comments.append(_comment(state, ply))
        state.apply(ply.action)
    return comments


def _values(played: PlayedGame) -> list[float | None]:
    """Return the values of one opinion, for the first player; None at plies of other opinions.

    A graph of both players' values would show their disagreement as mistakes. The opinion with the
    most values is used; if two have equally many, the first one.
    """
    state = State(played.game, [], played.start)
    to_play: list[int] = []
    for ply in played.plies:
        to_play.append(state.to_play)
        state.apply(ply.action)
    opinions = opinions_of(played, to_play)
    counted = Counter(opinion for opinion in opinions if opinion is not None)
    shown = max(counted, key=lambda opinion: counted[opinion], default=None)
    return [
        ply.root_value * (1 - 2 * player) if shown is not None and opinion == shown else None
        for ply, player, opinion in zip(played.plies, to_play, opinions, strict=True)
    ]


def _comment(state: State, ply: PlayedPly) -> str:
    """Return the search of one ply in words; empty without a search."""
    if not ply.simulations:
        return ""
    by_visits = sorted(
        zip(ply.visit_counts, ply.legal_actions, strict=True), key=lambda row: -row[0]
    )
    best = [
        f"{state.action_to_string(action)} {visits}"
        for visits, action in by_visits[:_BEST_MOVES]
        if visits
    ]
    return (
        f"value for {player_names(state.game)[state.to_play]} {ply.root_value:+.3f} "
        f"after {ply.simulations} simulations "
        f"({ply.network_value:+.3f} before), model {ply.model_version}\n"
        f"visits: {', '.join(best) or 'none'}"
    )
