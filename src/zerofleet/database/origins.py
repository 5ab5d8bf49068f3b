"""Games that a run learns from and did not play: copied from another run, or read from files.

A copy goes in chunks. Each one, and the place in the other run's games up to which it reaches, is
one transaction. A copy that was killed continues there: no game is copied twice, and none is
missing. Copied games get new uids, because the two runs may share a database. Their uids are of the
time of the copy, so their searches lie in the partitions of that time.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from psycopg2 import sql
from sqlalchemy import text

from zerofleet.database.connection import ConnectionPool
from zerofleet.errors import ConfigError, StoreUnavailableError

CHUNK_ENTRIES = 1_000_000
"""Approximate entries of search tables that one transaction copies, of 22 bytes each."""
_MOST_CHUNK_GAMES = 2_000

_COLUMNS = (
    "kind, source, place, chosen, games, positions, left_out, retrain, first_game, last_game, "
    "first_at, last_at, began_at, finished_at"
)
ORIGIN = f"SELECT {_COLUMNS} FROM origins WHERE run = :run"
"""Query for the origin of a run's given games; ``Origin`` takes its columns."""

# The newest games that the new run's window can hold. Positions without a full search are no
# training targets, so more plies are needed.
_WINDOW = """
WITH newest AS MATERIALIZED (
    SELECT game_uid, tx, length, ingested_at, sum(length) OVER (ORDER BY tx DESC, game_uid) AS plies
    FROM games
    WHERE run = :run AND kind <> 'match' AND tx < (SELECT window_end())
    ORDER BY tx DESC, game_uid LIMIT :most_games
), chosen AS MATERIALIZED (
    SELECT * FROM newest
    WHERE plies - length < coalesce(CAST(:most_positions AS float8) / (
        SELECT coalesce(CAST(config #>> '{selfplay,full_search_share}' AS float8), 1)
        FROM runs WHERE name = :run
    ), 'Infinity')
)
SELECT
    count(*) AS games,
    coalesce(sum(length), 0) AS plies,
    coalesce(min(CAST(CAST(tx AS text) AS bigint)), 0) AS first_tx,
    coalesce(max(CAST(CAST(tx AS text) AS bigint)), 0) AS last_tx,
    (array_agg(game_uid ORDER BY tx, game_uid))[1] AS first_game,
    (array_agg(game_uid ORDER BY tx DESC, game_uid DESC))[1] AS last_game,
    min(ingested_at) AS first_at,
    max(ingested_at) AS last_at
FROM chosen
"""
_HAS_SEARCHES = """
SELECT EXISTS (
    SELECT FROM games AS g WHERE run = :run AND kind <> 'match'
        AND tx >= CAST(CAST(:first_tx AS text) AS xid8)
        AND EXISTS (SELECT FROM positions AS p WHERE p.game_uid = g.game_uid OFFSET 0)
) AS found
"""

# One transaction reads all of a chunk. The locks come first, as in window_games.py, and its one
# snapshot keeps searches that another session deletes meanwhile.
_ONE_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
_KEEP_ROWS = "LOCK TABLE ONLY positions, ONLY positions_default IN ACCESS SHARE MODE"
_PAGE = """
SELECT
    count(*) AS games,
    max(CAST(CAST(tx AS text) AS bigint)) AS next_tx,
    min(game_uid::text COLLATE "C") AS first_uid,
    max(game_uid::text COLLATE "C") AS last_uid
FROM (
    SELECT game_uid, tx FROM games
    WHERE run = :run AND kind <> 'match' AND tx > CAST(CAST(:after_tx AS text) AS xid8)
        AND tx <= CAST(CAST(:last_tx AS text) AS xid8)
    ORDER BY games.tx FETCH FIRST :limit ROWS WITH TIES
) AS page
"""
_CHUNK = """
WITH chunk AS MATERIALIZED (
    SELECT *, (
        {time}::text || '7' || substr(md5({to}::text || game_uid), 1, 3)
        || 'a' || substr(md5({to}::text || game_uid), 4, 15)
    )::uuid AS new_uid
    FROM games AS g
    WHERE run = {run} AND kind <> 'match'
        AND tx > {after_tx}::text::xid8 AND tx <= {next_tx}::text::xid8
        AND NOT EXISTS (
            SELECT FROM unreadable_games AS r WHERE r.run = {run} AND r.game_uid = g.game_uid
        )
        AND EXISTS (
            SELECT FROM positions AS p
            WHERE p.game_uid = g.game_uid AND p.ply = 0
                AND p.game_uid BETWEEN {first_uid} AND {last_uid}
            OFFSET 0
        )
)
"""
_PLIES = """
FROM chunk AS c CROSS JOIN LATERAL (
    SELECT * FROM positions AS p
    WHERE p.game_uid = c.game_uid AND p.game_uid BETWEEN {first_uid} AND {last_uid}
    OFFSET 0
) AS p
"""
# Name of each column, and its value in the copy.
_GAME_COLUMNS: dict[str, str | None] = {
    "game_uid": "new_uid",
    "run": "{to}::text",
    "kind": "'given'::text",
    "first_model": "0",
    "second_model": "CASE WHEN second_model IS NOT NULL THEN 0 END",
    **dict.fromkeys(("result", "reason", "length")),
    "worker": "left('fork of ' || run, 200)",
    **dict.fromkeys(
        ("started_at", "finished_at", "moves", "content_sha256", "resign_threshold", "plays_on")
    ),
    **dict.fromkeys(("began_at", "opening_plies", "start", "restarted")),
}
_POSITION_COLUMNS: dict[str, str | None] = {
    "game_uid": "c.new_uid",
    **dict.fromkeys(("ply", "action", "to_play")),
    "model_version": "0",
    **dict.fromkeys(("root_value", "network_value", "best_child_value", "simulations")),
    **dict.fromkeys(("full_search", "legal_actions", "visit_counts", "priors", "policy_weights")),
}


# An empty table in the binary form of COPY: signature, flags, no extension, trailer.
_NO_ROWS = b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\xff\xff"


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of games that a run learns from and did not play."""

    kind: Literal["fork", "import"]
    source: str  # name of the other run; or the files
    place: str  # data folder or database of the other run; or the folder of the files
    chosen: int  # games of the window or the files
    games: int  # games that are here
    positions: int  # positions to train on in them
    left_out: int  # games whose searches were dropped, or which do not replay
    retrain: bool  # the run plays no games
    first_game: UUID | None
    last_game: UUID | None
    first_at: datetime | None
    last_at: datetime | None
    began_at: datetime
    finished_at: datetime | None  # None: the copy or import is incomplete

    def __str__(self) -> str:
        """Return the origin in words, for people."""
        what = f"{self.games:,} games of {self.source}"
        if self.kind == "fork" and self.first_at is not None and self.last_at is not None:
            what += f", stored there from {_minute(self.first_at)} to {_minute(self.last_at)}"
        if self.finished_at is None:
            done = "copied" if self.kind == "fork" else "imported"
            return f"{what}, {done} in part: run `zerofleet {self.kind}` again"
        done = "copied" if self.kind == "fork" else "imported"
        left = f"; {self.left_out:,} were left out" if self.left_out else ""
        alone = "; it learns from them alone" if self.retrain else ""
        return f"{what}, {done} {_minute(self.finished_at)}{left}{alone}"


def _minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


@dataclass(frozen=True, slots=True)
class SourceWindow:
    """The games of another run that a fork copies: its newest at one moment."""

    games: int
    plies: int
    first_tx: int
    last_tx: int
    first_game: UUID | None
    last_game: UUID | None
    first_at: datetime | None
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class SourceRun:
    """A run whose games are to be copied."""

    game: str
    identity: str  # tells this run from another of the same name


@dataclass(frozen=True, slots=True)
class CopyState:
    """How far a copy or an import has come."""

    next_tx: int
    last_tx: int
    games: int
    left_out: int
    is_finished: bool
    began_at: datetime


@dataclass(frozen=True, slots=True)
class Chunk:
    """Games of another run as rows of the new one."""

    next_tx: int
    read: int  # games of the other run, with those left out
    games: int
    positions: int
    game_rows: io.BytesIO  # in the binary form of COPY
    position_rows: io.BytesIO


class Origins(ConnectionPool):
    """The trainer's side: which games a run has that it did not play."""

    def origin(self, run: str) -> Origin | None:
        """Return where the given games of a run come from; None: it has none."""
        rows = self._rows(ORIGIN, run=run)
        return Origin(*rows[0]) if rows else None

    def whole_origin(self, run: str) -> Origin | None:
        """Return where the run's given games come from, once all are there; None: it has none.

        Raises:
            StoreUnavailableError: they are not all there yet.
        """
        origin = self.origin(run)
        if origin is not None and origin.finished_at is None:
            raise StoreUnavailableError(f"the run '{run}' begins with {origin}")
        return origin


class GivenGames(Origins):
    """The owner's side: copying games of another run, and recording an import."""

    def source_run(self, run: str) -> SourceRun:
        """Return a run of this database whose games are to be copied.

        Raises:
            ConfigError: there is no such run.
        """
        rows = self._rows(
            "SELECT game, CAST(extract(epoch FROM created_at) AS text) AS created FROM runs "
            "WHERE name = :run",
            run=run,
        )
        if not rows:
            names = [row.name for row in self._rows("SELECT name FROM runs ORDER BY name LIMIT 20")]
            others = f": it has {', '.join(names)}" if names else ": it has no run yet"
            raise ConfigError(f"there is no run '{run}' in the database at {self._place}{others}")
        row = rows[0]
        return SourceRun(row.game, f"{run} {row.created}")

    def source_window(
        self, run: str, most_games: int, most_positions: float | None
    ) -> SourceWindow:
        """Return the newest games of a run.

        Args:
            run: the run to copy from; it may be running.
            most_games: most games.
            most_positions: most positions to train on, approximately; None: no limit.
        """
        [row] = self._rows(_WINDOW, run=run, most_games=most_games, most_positions=most_positions)
        return SourceWindow(*row)

    def has_searches(self, run: str, window: SourceWindow) -> bool:
        """Return whether any game of a window still has its searches."""
        [row] = self._rows(_HAS_SEARCHES, run=run, first_tx=window.first_tx)
        return row.found

    def begin_origin(
        self,
        run: str,
        kind: Literal["fork", "import"],
        *,
        source: str,
        place: str,
        source_id: str,
        retrain: bool,
        window: SourceWindow | None = None,
        chosen: int = 0,
    ) -> CopyState:
        """Begin to give games to a run that has none, or go on where an earlier call stopped.

        Args:
            run: the registered new run.
            kind: whether they are another run's, or from files.
            source: name of the other run, or of the files.
            place: where that is, for people.
            source_id: the same for a repetition with the same source only.
            retrain: whether the run plays no games itself.
            window: games of the other run; a repetition keeps the window of the first call.
            chosen: games of the files.

        Raises:
            ConfigError: the run has begun already, a trainer of it has started, or it begins with
                another source.
        """
        with self._transaction() as connection:
            run_row = text("SELECT FROM runs WHERE name = :run FOR UPDATE")
            connection.execute(run_row, {"run": run})
            state = self._copy_state(connection, run)
            if state is None:
                begun = text(
                    "SELECT (SELECT count(*) FROM games WHERE run = :run AND kind = 'selfplay') "
                    "AS games, (SELECT count(*) FROM models WHERE run = :run) AS models"
                )
                row = connection.execute(begun, {"run": run}).one()
                if row.games or row.models:
                    raise ConfigError(
                        f"the run '{run}' has begun already, with {row.games:,} games and "
                        f"{row.models:,} models of its own: give the new run another name"
                    )
                # The lock of the run's row makes a trainer's first fence wait. So the trainer sees
                # this origin after its fence, or this sees the fence.
                started = text("SELECT FROM fences WHERE run = :run AND role = 'trainer'")
                if connection.execute(started, {"run": run}).one_or_none() is not None:
                    raise ConfigError(
                        f"a trainer of the run '{run}' has already started, without these games: "
                        "give the new run another name"
                    )
                values: dict[str, Any] = {
                    "run": run,
                    "kind": kind,
                    "source": source,
                    "place": place,
                    "source_id": source_id,
                    "retrain": retrain,
                    "chosen": window.games if window else chosen,
                    "first_game": str(window.first_game) if window else None,
                    "last_game": str(window.last_game) if window else None,
                    "first_at": window.first_at if window else None,
                    "last_at": window.last_at if window else None,
                    "next_tx": window.first_tx - 1 if window else 0,
                    "last_tx": window.last_tx if window else 0,
                }
                names = ", ".join(values)
                given = ", ".join(
                    f"CAST(:{name} AS uuid)" if name.endswith("_game") else f":{name}"
                    for name in values
                )
                connection.execute(text(f"INSERT INTO origins ({names}) VALUES ({given})"), values)
                state = self._copy_state(connection, run)
            assert state is not None
            known, found = state
            if found.source_id != source_id or found.retrain != retrain:
                other = " with --retrain" if found.retrain else " without --retrain"
                same = found.source_id == source_id
                raise ConfigError(
                    f"the run '{run}' begins with games of {found.source}"
                    f"{other if same else ''}: repeat that command, or give the new run another "
                    "name"
                )
        return known

    @staticmethod
    def _copy_state(connection: Any, run: str) -> tuple[CopyState, Any] | None:  # noqa: ANN401
        row = connection.execute(
            text(
                "SELECT next_tx, last_tx, games, left_out, finished_at IS NOT NULL AS is_finished, "
                "began_at, source, source_id, retrain FROM origins WHERE run = :run"
            ),
            {"run": run},
        ).one_or_none()
        return None if row is None else (CopyState(*row[:6]), row)

    def read_chunk(self, run: str, to: str, state: CopyState, limit: int, ms: int) -> Chunk:
        """Read the next games of a run for a copy, as rows of the new run.

        Args:
            run: the run to copy from.
            to: the new run.
            state: how far the copy has come.
            limit: approximate number of games.
            ms: time for the new uids, in milliseconds since 1970.
        """
        with self._transaction() as connection:
            connection.execute(text(_ONE_SNAPSHOT))
            connection.execute(text(_KEEP_ROWS))
            page = connection.execute(
                text(_PAGE),
                {
                    "run": run,
                    "after_tx": state.next_tx,
                    "last_tx": state.last_tx,
                    "limit": limit,
                },
            ).one()
            if page.next_tx is None:
                return Chunk(state.last_tx, 0, 0, 0, io.BytesIO(_NO_ROWS), io.BytesIO(_NO_ROWS))
            parts = {
                "time": f"{ms:012x}",
                "to": to,
                "run": run,
                "after_tx": state.next_tx,
                "next_tx": page.next_tx,
                "first_uid": page.first_uid,
                "last_uid": page.last_uid,
            }
            literals = {name: sql.Literal(value) for name, value in parts.items()}
            raw: Any = connection.connection.dbapi_connection

            def query(select: str) -> sql.Composed:
                return sql.SQL(_CHUNK + select).format(**literals)

            with raw.cursor() as cursor:

                def copied(select: str) -> tuple[int, io.BytesIO]:
                    rows = io.BytesIO()
                    copy = sql.SQL("COPY ({}) TO STDOUT (FORMAT binary)").format(query(select))
                    cursor.copy_expert(copy, rows)
                    count = cursor.rowcount
                    rows.seek(0)
                    return count, rows

                games, game_rows = copied(f"SELECT {_values(_GAME_COLUMNS)} FROM chunk ORDER BY tx")
                _, position_rows = copied(f"SELECT {_values(_POSITION_COLUMNS, 'p.')} {_PLIES}")
                cursor.execute(query(f"SELECT count(*) FILTER (WHERE p.full_search) {_PLIES}"))
                [positions] = cursor.fetchone()
        return Chunk(page.next_tx, page.games, games, positions, game_rows, position_rows)

    def copy_chunk(self, source: GivenGames, from_run: str, run: str, limit: int) -> CopyState:
        """Copy the next games of another run, in one transaction; return how far it came.

        Args:
            source: the database of the other run, with the right to read positions.
            from_run: the other run.
            run: the new run.
            limit: approximate number of games.

        Raises:
            StoreUnavailableError: perhaps nothing was copied; try again.
            ConfigError: another process copies the same games.
        """
        with self._transaction() as connection:
            found = self._copy_state(connection, run)
        assert found is not None
        state, _ = found
        [clock] = self._rows(
            "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) AS ms"
        )
        chunk = source.read_chunk(from_run, run, state, limit, clock.ms)
        with self._transaction() as connection:
            next_tx = connection.scalar(
                text("SELECT next_tx FROM origins WHERE run = :run FOR UPDATE"), {"run": run}
            )
            if next_tx != state.next_tx:
                raise ConfigError(f"another process copies games to the run '{run}' at this moment")
            raw: Any = connection.connection.dbapi_connection
            with raw.cursor() as cursor:
                for table, columns, rows in (
                    ("games", _GAME_COLUMNS, chunk.game_rows),
                    ("positions", _POSITION_COLUMNS, chunk.position_rows),
                ):
                    cursor.copy_expert(
                        f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT binary)", rows
                    )
            [row] = connection.execute(
                text(
                    "UPDATE origins SET next_tx = :next_tx, games = games + :games, "
                    "positions = positions + :positions, left_out = left_out + :left_out "
                    "WHERE run = :run RETURNING games, left_out"
                ),
                {
                    "run": run,
                    "next_tx": chunk.next_tx,
                    "games": chunk.games,
                    "positions": chunk.positions,
                    "left_out": chunk.read - chunk.games,
                },
            ).all()
        return CopyState(
            chunk.next_tx, state.last_tx, row.games, row.left_out, False, state.began_at
        )

    def finish_origin(
        self, run: str, *, games: int | None = None, positions: int = 0, left_out: int = 0
    ) -> None:
        """Record that all games are there: the trainer may begin.

        Args:
            run: the new run.
            games: number of games that an import stored; None: a copy, which has counted them.
            positions: positions to train on in them.
            left_out: games of the files that were left out.
        """
        self._run(
            "UPDATE origins SET finished_at = now(), games = coalesce(:games, games), "
            "positions = CASE WHEN CAST(:games AS bigint) IS NULL THEN positions ELSE :positions "
            "END, left_out = CASE WHEN CAST(:games AS bigint) IS NULL THEN left_out "
            "ELSE :left_out END WHERE run = :run AND finished_at IS NULL",
            run=run,
            games=games,
            positions=positions,
            left_out=left_out,
        )


def chunk_games(window: SourceWindow, num_actions: int) -> int:
    """Return the number of games for one transaction of a copy."""
    entries = max(1, window.plies) * num_actions / max(1, window.games)
    return max(1, min(_MOST_CHUNK_GAMES, int(CHUNK_ENTRIES / entries)))


def _values(columns: dict[str, str | None], prefix: str = "") -> str:
    return ", ".join(value or f"{prefix}{name}" for name, value in columns.items())
