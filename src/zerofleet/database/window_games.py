"""Stored games as the trainer reads them: page by page, in the order of their transactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Literal, get_args
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row, TextClause, text
from zerofleet_core import GameColumns, ReplayBuffer

from zerofleet.database.binary_columns import (
    KEEP_ROWS,
    array_elements,
    ply_values,
    send_expression,
)
from zerofleet.database.connection import ConnectionPool
from zerofleet.errors import RecordRejectedError
from zerofleet.records import DTYPES

OptionalColumn = Literal["to_play", "root_value", "priors"]
"""A column that only some runs need for their targets; it is read on request, to save time."""

# Columns of a game that the trainer reads for each ply.
_PLY_COLUMNS = ("action", "full_search", "to_play", "root_value")
_ACTION_COLUMNS = ("legal_actions", "visit_counts", "priors", "policy_weights")


def _wanted(columns: Sequence[str], optional: Sequence[OptionalColumn]) -> list[str]:
    """Return the columns to read: of the optional ones, only these."""
    return [name for name in columns if name in optional or name not in get_args(OptionalColumn)]


# Whole transactions (WITH TIES), and only transactions that no open one can precede.
_PAGE = """
SELECT
    max(tx::text::bigint) AS next_tx,
    -- In the order of uuid; the database's own collation may put letters before digits.
    min(game_uid::text COLLATE "C") AS first_uid,
    max(game_uid::text COLLATE "C") AS last_uid
FROM (
    SELECT game_uid, tx FROM games
    WHERE run = :run AND kind <> 'match'
        AND tx > CAST(CAST(:after_tx AS text) AS xid8)
        AND tx < (SELECT window_end())
    ORDER BY games.tx FETCH FIRST :limit ROWS WITH TIES
) AS page
"""


# The lowest and highest uid of the page tell the planner which partitions to leave out; to leave
# them out game by game would cost a third more. The arrays are sent as one string of bytes for each
# column, because parsing numbers from text would cost more than all the rest. Rows of the subquery
# are ordered, so the aggregates above it need no sorting.
@cache
def _read_query(optional: tuple[OptionalColumn, ...]) -> TextClause:
    columns = _wanted(_PLY_COLUMNS + _ACTION_COLUMNS, optional)
    return text(f"""
WITH page AS MATERIALIZED (
    SELECT game_uid, tx, kind, result, reason, length, start FROM games AS g
    WHERE run = :run AND kind <> 'match'
        AND tx > CAST(CAST(:after_tx AS text) AS xid8)
        AND tx <= CAST(CAST(:next_tx AS text) AS xid8)
), kept AS MATERIALIZED (
    SELECT * FROM page
    WHERE NOT EXISTS (
        SELECT FROM unreadable_games AS r WHERE r.run = :run AND r.game_uid = page.game_uid
    )
    -- Else its searches are forgotten: see position_partitions. OFFSET 0 keeps this a look into
    -- the index for each game.
    AND EXISTS (
        SELECT FROM positions AS p
        WHERE p.game_uid = page.game_uid AND p.ply = 0
            AND p.game_uid BETWEEN CAST(:first_uid AS uuid) AND CAST(:last_uid AS uuid)
        OFFSET 0
    )
), plies AS (
    SELECT k.tx, k.game_uid, p.ply, {", ".join(f"p.{name}" for name in columns)}
    FROM kept AS k CROSS JOIN LATERAL (
        SELECT * FROM positions AS p
        WHERE p.game_uid = k.game_uid
            AND p.game_uid BETWEEN CAST(:first_uid AS uuid) AND CAST(:last_uid AS uuid)
        OFFSET 0
    ) AS p
    ORDER BY k.tx, k.game_uid, p.ply
)
SELECT
    (SELECT string_agg(uuid_send(game_uid), '' ORDER BY tx, game_uid) FROM kept) AS game_uids,
    (SELECT array_agg(tx::text::bigint ORDER BY tx, game_uid) FROM kept) AS txs,
    (SELECT array_agg(kind = 'given' ORDER BY tx, game_uid) FROM kept) AS given,
    (SELECT array_agg(result ORDER BY tx, game_uid) FROM kept) AS results,
    (SELECT array_agg(reason ORDER BY tx, game_uid) FROM kept) AS reasons,
    (SELECT array_agg(length ORDER BY tx, game_uid) FROM kept) AS lengths,
    (SELECT array_agg(start ORDER BY tx, game_uid) FROM kept) AS starts,
    string_agg(int4send(cardinality(legal_actions)), '') AS children,
    string_agg(boolsend(policy_weights IS NOT NULL), '') AS is_weighted,
    {", ".join(f"{send_expression(name)} AS {name}" for name in columns)}
FROM plies
""")


_WINDOW_START = """
SELECT tx::text AS first_tx FROM games
WHERE run = :run AND kind <> 'match' AND tx < (SELECT window_end())
ORDER BY games.tx DESC OFFSET :newest_games - 1 LIMIT 1
"""

_BLOCKER_SECONDS = 5.0  # a transaction that stores games is faster


@dataclass(frozen=True, slots=True, eq=False)
class StoredGame:
    """The parts of a stored game that the trainer needs; columns as in ``GameColumns``."""

    game_uid: UUID
    tx: int  # transaction that stored it
    result: int
    reason: str  # rules, resign or adjudicated
    offsets: NDArray[np.int32]  # [plies + 1]
    action: NDArray[np.int16]  # [plies]
    full_search: NDArray[np.bool_]  # [plies]
    legal_actions: NDArray[np.int16]  # [offsets[-1]]
    visit_counts: NDArray[np.int32]  # [offsets[-1]]
    policy_weights: NDArray[np.int32]  # [offsets[-1]]
    root_value: NDArray[np.float32] | None = None  # [plies], on request
    start: str = ""  # start position; empty: the usual one
    to_play: NDArray[np.int8] | None = None  # [plies], on request
    priors: NDArray[np.float32] | None = None  # [offsets[-1]], on request
    given: bool = False  # the run did not play it


def add_to_buffer(buffer: ReplayBuffer, game: StoredGame | GameColumns) -> int:
    """Add a finished game to a buffer of its game; return its number of positions.

    Raises:
        ValueError: it does not replay under the rules.
    """
    assert game.result is not None
    return buffer.add(
        game.action,
        game.result,
        game.full_search,
        game.offsets,
        game.legal_actions,
        game.policy_weights,
        root_value=game.root_value,
        priors=game.priors,
        resigned=game.reason == "resign",
        start=game.start,
        adjudicated=game.reason == "adjudicated",
    )


@dataclass(frozen=True, slots=True)
class WindowPage:
    """A page of stored games; the next page begins after ``next_tx``."""

    games: list[StoredGame]
    next_tx: int
    unreadable: list[tuple[UUID, str]] = field(default_factory=list[tuple[UUID, str]])
    """Games whose rows do not fit together, and why."""


@dataclass(frozen=True, slots=True)
class WindowBlocker:
    """An open transaction that keeps stored games from the trainer."""

    pid: int | None  # server process; None: it is prepared, in no session
    role: str
    application: str
    since: datetime | None  # it is open; None if the database's owner may not see it
    waits_for: str | None
    games: int  # stored games that cannot be read
    waiting_seconds: float  # longest wait of a game

    def __str__(self) -> str:
        where = self.application or "no application name"
        if self.pid is not None:
            where = f"{where}, pid {self.pid}"
        since = "" if self.since is None else f", open since {self.since:%Y-%m-%d %H:%M:%S} UTC"
        waits = "" if self.waits_for is None else f", waits for {self.waits_for}"
        return (
            f"a transaction of {self.role} ({where}{since}{waits}) that keeps {self.games:,} games "
            f"from the trainer, for {self.waiting_seconds:,.0f} s"
        )


class WindowGames(ConnectionPool):
    """Reading stored games without ever skipping one that commits late."""

    def read_games(
        self, run: str, after_tx: int, limit: int, optional: tuple[OptionalColumn, ...] = ()
    ) -> WindowPage:
        """Return the next games to learn from, oldest transaction first.

        These are games of self-play, and games that were given to the run.

        A row's number says when its transaction began, not when it became visible. Continuing from
        the highest number seen would skip rows that commit later under a lower one. Therefore only
        transactions below all open ones are read, and each as a whole.

        Args:
            after_tx: ``next_tx`` of the previous page; 0 begins with the first game.
            limit: approximate number of games; more if a transaction holds more.
            optional: columns to read in addition.
        """
        [page] = self._rows(_PAGE, run=run, after_tx=after_tx, limit=limit)
        if page.next_tx is None:
            return WindowPage([], after_tx)
        found = WindowPage([], page.next_tx)
        transactions = (run, after_tx, page.next_tx)
        try:
            found.games.extend(self._read(transactions, page.first_uid, page.last_uid, optional))
        except RecordRejectedError:  # find the unreadable games; the others can be read
            uids = self._uids(*transactions)
            self._read_readable(transactions, uids, optional, found)
            found.games.sort(key=lambda game: (game.tx, game.game_uid))
        return found

    def _read(
        self,
        transactions: tuple[str, int, int],
        first_uid: object,
        last_uid: object,
        optional: tuple[OptionalColumn, ...],
    ) -> list[StoredGame]:
        """Return the games of some transactions whose uids are in a range.

        Args:
            transactions: the run, the transaction before the first one, and the last one.
            first_uid: lowest uid.
            last_uid: highest uid.
            optional: columns to read in addition.

        Raises:
            RecordRejectedError: the rows of a game do not fit together.
        """
        run, after_tx, next_tx = transactions
        parameters = {
            "run": run,
            "after_tx": after_tx,
            "next_tx": next_tx,
            "first_uid": str(first_uid),
            "last_uid": str(last_uid),
        }
        with self._transaction() as connection:
            connection.execute(text(KEEP_ROWS))
            row = connection.execute(_read_query(optional), parameters).one()
        return _games(row, optional)

    def _read_readable(
        self,
        transactions: tuple[str, int, int],
        uids: Sequence[UUID],
        optional: tuple[OptionalColumn, ...],
        found: WindowPage,
    ) -> None:
        """Add games to a page; halve their range until each unreadable game is alone.

        Args:
            transactions: as for ``_read``.
            uids: the uids of the games, in order.
            optional: columns to read in addition.
            found: the page.
        """
        try:
            found.games.extend(self._read(transactions, uids[0], uids[-1], optional))
        except RecordRejectedError as error:
            if len(uids) == 1:
                found.unreadable.append((uids[0], str(error)))
                return
            middle = len(uids) // 2
            for half in (uids[:middle], uids[middle:]):
                self._read_readable(transactions, half, optional, found)

    def _uids(self, run: str, after_tx: int, next_tx: int) -> list[UUID]:
        rows = self._rows(
            "SELECT game_uid FROM games WHERE run = :run AND kind <> 'match' "
            "AND tx > CAST(CAST(:after_tx AS text) AS xid8) "
            "AND tx <= CAST(CAST(:next_tx AS text) AS xid8) ORDER BY game_uid",
            run=run,
            after_tx=after_tx,
            next_tx=next_tx,
        )
        return [row.game_uid for row in rows]

    def window_start(self, run: str, newest_games: int) -> int:
        """Return the ``after_tx`` from which ``read_games`` returns the newest games, and few more.

        0 if there are fewer than ``newest_games``.
        """
        rows = self._rows(_WINDOW_START, run=run, newest_games=newest_games)
        return int(rows[0].first_tx) - 1 if rows else 0

    def window_blocker(self, run: str) -> WindowBlocker | None:
        """Return what keeps games from ``read_games`` for longer than storing takes; None: nothing.

        Only a transaction that may store games itself can: not the console's, and none of another
        database.
        """
        rows = self._rows("SELECT * FROM window_blocker(:run)", run=run)
        if not rows or rows[0].waiting_seconds < _BLOCKER_SECONDS:
            return None
        return WindowBlocker(*rows[0])

    def reject_game(self, run: str, game_uid: UUID, reason: str) -> None:
        """Note that a stored game does not replay; ``read_games`` leaves it out from now on."""
        self._run(
            "INSERT INTO unreadable_games (run, game_uid, reason) "
            "VALUES (:run, CAST(:game_uid AS uuid), :reason) ON CONFLICT DO NOTHING",
            run=run,
            game_uid=str(game_uid),
            reason=reason,
        )

    def count_games(self, run: str, kind: str = "selfplay") -> int:
        """Return the number of stored games."""
        [row] = self._rows(
            "SELECT count(*) AS games FROM games WHERE run = :run AND kind = :kind",
            run=run,
            kind=kind,
        )
        return row.games


def _games(row: Row[Any], optional: tuple[OptionalColumn, ...]) -> list[StoredGame]:
    """Return the games of a row of ``_read_query``.

    Raises:
        RecordRejectedError: their stored columns do not fit together.
    """
    if row.game_uids is None:
        return []
    uids = bytes(row.game_uids)
    first_plies = _starts(np.asarray(row.lengths, np.int64))
    children = np.frombuffer(row.children or b"", ">i4").astype(np.int64)
    if len(children) != first_plies[-1]:
        raise RecordRejectedError(f"{len(children)} positions of {first_plies[-1]} plies")
    first_children = _starts(children)
    ply_columns = {
        name: ply_values(DTYPES[name], getattr(row, name))
        for name in _wanted(_PLY_COLUMNS, optional)
    }
    names = _wanted(_ACTION_COLUMNS[:-1], optional)
    action_columns = {name: array_elements(name, getattr(row, name), children) for name in names}
    action_columns["policy_weights"] = _policy_weights(row, children, action_columns)
    games: list[StoredGame] = []
    facts = zip(row.txs, row.results, row.reasons, row.starts, row.given, strict=True)
    for i, (tx, result, reason, start, given) in enumerate(facts):
        plies = slice(first_plies[i], first_plies[i + 1])
        offsets = first_children[first_plies[i] : first_plies[i + 1] + 1]
        entries = slice(offsets[0], offsets[-1])
        games.append(
            StoredGame(
                UUID(bytes=uids[16 * i : 16 * i + 16]),
                tx,
                result,
                reason,
                (offsets - offsets[0]).astype(np.int32),
                start=start,
                given=given,
                **{name: column[plies] for name, column in ply_columns.items()},
                **{name: column[entries] for name, column in action_columns.items()},
            )
        )
    return games


def _policy_weights(
    row: Row[Any], children: NDArray[np.int64], columns: dict[str, NDArray[Any]]
) -> NDArray[np.int32]:
    """Return the targets of all plies: their own if they have any, else the visit counts."""
    is_weighted = np.frombuffer(row.is_weighted, np.bool_)
    weights = columns["visit_counts"].copy()
    own = array_elements("policy_weights", row.policy_weights, children[is_weighted])
    weights[np.repeat(is_weighted, children)] = own
    return weights


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
