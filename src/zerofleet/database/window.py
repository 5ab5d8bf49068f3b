"""The trainer's side: stored games in the order in which their transactions were decided."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Row

from zerofleet.database.connection import ConnectionPool

# Whole transactions (WITH TIES), and only those that no transaction still open can precede.
_PAGE = """
SELECT
    max(tx::text::bigint) AS next_tx,
    min(game_uid::text) AS first_uid,
    max(game_uid::text) AS last_uid
FROM (
    SELECT game_uid, tx FROM games
    WHERE run = :run AND kind = 'selfplay'
        AND tx > CAST(CAST(:after_tx AS text) AS xid8)
        AND tx < (SELECT window_end())
    ORDER BY games.tx FETCH FIRST :limit ROWS WITH TIES
) AS page
"""

# The uids between which the page's games are tell the planner which partitions to leave out; to
# leave them out game by game would cost a third more.
# The arrays leave as one string of bytes for each column, because reading numbers from text one
# by one would cost more than all the rest. Rows of the subquery come in order, so the aggregates
# above it need no sorting of their own.
_READ = """
WITH page AS MATERIALIZED (
    SELECT game_uid, tx, result, reason, length FROM games AS g
    WHERE run = :run AND kind = 'selfplay'
        AND tx > CAST(CAST(:after_tx AS text) AS xid8)
        AND tx <= CAST(CAST(:next_tx AS text) AS xid8)
), kept AS MATERIALIZED (
    SELECT * FROM page
    WHERE NOT EXISTS (
        SELECT FROM rejected_games AS r WHERE r.run = :run AND r.game_uid = page.game_uid
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
    SELECT
        k.tx, k.game_uid, p.ply, p.action, p.full_search, p.actions, p.visit_counts,
        p.policy_weights
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
    (SELECT array_agg(result ORDER BY tx, game_uid) FROM kept) AS results,
    (SELECT array_agg(reason ORDER BY tx, game_uid) FROM kept) AS reasons,
    (SELECT array_agg(length ORDER BY tx, game_uid) FROM kept) AS lengths,
    string_agg(int2send(action), '') AS actions,
    string_agg(boolsend(full_search), '') AS full_search,
    string_agg(int4send(cardinality(actions)), '') AS children,
    string_agg(array_send(actions), '') AS child_actions,
    string_agg(array_send(visit_counts), '') AS child_visit_counts,
    string_agg(boolsend(policy_weights IS NOT NULL), '') AS is_weighted,
    coalesce(string_agg(array_send(policy_weights), ''), '') AS child_policy_weights
FROM plies
"""

_WINDOW_START = """
SELECT tx::text AS first_tx FROM games
WHERE run = :run AND kind = 'selfplay' AND tx < (SELECT window_end())
ORDER BY games.tx DESC OFFSET :newest_games - 1 LIMIT 1
"""

_BLOCKER_SECONDS = 5.0  # a transaction that stores games is over sooner

_HEADER_BYTES = 20  # of array_send: dimensions, flags, element type, length, lower bound
_LENGTH_BYTES = 4  # before each element


@dataclass(frozen=True, slots=True, eq=False)
class StoredGame:
    """What the trainer needs of a stored game; columns as in ``GameRecord``."""

    game_uid: UUID
    tx: int  # transaction that stored it
    result: int
    reason: str  # rules or resign
    actions: NDArray[np.int16]  # [plies]
    full_search: NDArray[np.bool_]  # [plies]
    offsets: NDArray[np.int32]  # [plies + 1]
    child_actions: NDArray[np.int16]  # [offsets[-1]]
    child_visit_counts: NDArray[np.int32]  # [offsets[-1]]
    child_policy_weights: NDArray[np.int32]  # [offsets[-1]]

    @property
    def resigned(self) -> bool:
        """Whether the player to move after the last ply gave up."""
        return self.reason == "resign"


@dataclass(frozen=True, slots=True)
class GameWindow:
    """A page of stored games; the next page begins after ``next_tx``."""

    games: list[StoredGame]
    next_tx: int


@dataclass(frozen=True, slots=True)
class WindowBlocker:
    """An open transaction that keeps stored games from the trainer."""

    pid: int | None  # of its server process; None: it is prepared, in no session
    role: str
    application: str
    since: datetime | None  # it is open; None where the database's owner may not see it
    waits_for: str | None
    games: int  # that are stored and cannot be read
    waiting_seconds: float  # the longest of them

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


class Windows(ConnectionPool):
    """Reading stored games without ever skipping one that commits late."""

    def read_games(self, run: str, after_tx: int, limit: int) -> GameWindow:
        """The next self-play games, oldest transaction first.

        A row's number says when it was begun, not when it could first be seen: going on from the
        highest number seen would skip whatever commits later under a lower one. So only
        transactions below all that are still open are read, and each as a whole.

        Args:
            run: name of the run.
            after_tx: ``next_tx`` of the page before; 0 begins with the first game.
            limit: about how many games; more when a transaction holds more.
        """
        [page] = self._rows(_PAGE, run=run, after_tx=after_tx, limit=limit)
        if page.next_tx is None:
            return GameWindow([], after_tx)
        [row] = self._rows(
            _READ,
            run=run,
            after_tx=after_tx,
            next_tx=page.next_tx,
            first_uid=page.first_uid,
            last_uid=page.last_uid,
        )
        return GameWindow(_games(row) if row.game_uids is not None else [], page.next_tx)

    def window_start(self, run: str, newest_games: int) -> int:
        """The ``after_tx`` from which ``read_games`` gives the newest games, and few more.

        0 when there are fewer than ``newest_games``.
        """
        rows = self._rows(_WINDOW_START, run=run, newest_games=newest_games)
        return int(rows[0].first_tx) - 1 if rows else 0

    def window_blocker(self, run: str) -> WindowBlocker | None:
        """What keeps games from ``read_games`` for longer than storing them takes; None: nothing.

        Only a transaction that may store games itself can: not the console's, and none of another
        database.
        """
        rows = self._rows("SELECT * FROM window_blocker(:run)", run=run)
        if not rows or rows[0].waiting_seconds < _BLOCKER_SECONDS:
            return None
        return WindowBlocker(*rows[0])

    def count_games(self, run: str, kind: str = "selfplay") -> int:
        """How many games are stored."""
        [row] = self._rows(
            "SELECT count(*) AS games FROM games WHERE run = :run AND kind = :kind",
            run=run,
            kind=kind,
        )
        return row.games


def _games(row: Row[Any]) -> list[StoredGame]:
    lengths = np.asarray(row.lengths, np.int64)
    first_plies = _starts(lengths)
    children = np.frombuffer(row.children, ">i4").astype(np.int64)
    first_children = _starts(children)
    actions = np.frombuffer(row.actions, ">i2").astype(np.int16)
    full_search = np.frombuffer(row.full_search, np.bool_).copy()
    child_actions = _elements(row.child_actions, children, ">i2").astype(np.int16)
    visit_counts = _elements(row.child_visit_counts, children, ">i4").astype(np.int32)
    weights = _policy_weights(row, children, visit_counts)
    uids = bytes(row.game_uids)
    games: list[StoredGame] = []
    for i, (tx, result, reason) in enumerate(zip(row.txs, row.results, row.reasons, strict=True)):
        begin, end = first_plies[i], first_plies[i + 1]
        offsets = first_children[begin : end + 1]
        children_of_game = slice(offsets[0], offsets[-1])
        games.append(
            StoredGame(
                UUID(bytes=uids[16 * i : 16 * i + 16]),
                tx,
                result,
                reason,
                actions[begin:end],
                full_search[begin:end],
                (offsets - offsets[0]).astype(np.int32),
                child_actions[children_of_game],
                visit_counts[children_of_game],
                weights[children_of_game],
            )
        )
    return games


def _policy_weights(
    row: Row[Any], children: NDArray[np.int64], visit_counts: NDArray[np.int32]
) -> NDArray[np.int32]:
    """The targets of all plies: their own where they have some, else the visit counts."""
    is_weighted = np.frombuffer(row.is_weighted, np.bool_)
    weights = visit_counts.copy()
    weights[np.repeat(is_weighted, children)] = _elements(
        row.child_policy_weights, children[is_weighted], ">i4"
    )
    return weights


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def _elements(arrays: memoryview, lengths: NDArray[np.int64], dtype: str) -> NDArray[Any]:
    """The elements of many arrays, sent in Postgres' binary form one after another.

    Each array is a header, then for each element its length in bytes and its value.
    """
    words = np.frombuffer(arrays, dtype)
    size = words.itemsize
    stride = (_LENGTH_BYTES + size) // size
    head = _HEADER_BYTES // size
    before = np.repeat(np.arange(1, len(lengths) + 1), lengths)  # headers up to each element
    return words[before * head + np.arange(lengths.sum()) * stride + _LENGTH_BYTES // size]
