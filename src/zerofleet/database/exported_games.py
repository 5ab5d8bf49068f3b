"""Reading the games of a run with their searches, in large pages of columns."""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime
from io import BytesIO
from typing import Any, TypeVar
from uuid import UUID

import numpy as np
import psycopg2.extensions
from numpy.typing import NDArray
from sqlalchemy import Connection, exc, text

from zerofleet.config import RunConfig, stored_run
from zerofleet.database.binary_columns import (
    KEEP_ROWS,
    array_elements,
    ply_values,
    send_expression,
)
from zerofleet.database.connection import explain
from zerofleet.database.played_games import PlayedGames
from zerofleet.errors import (
    ConfigError,
    InvalidRequestError,
    RecordRejectedError,
    StoreReadOnlyError,
)
from zerofleet.records import COLUMNS, DTYPES

GAME_COLUMNS = (
    "game_uid",
    "kind",
    "first_model",
    "second_model",
    "result",
    "reason",
    "length",
    "start",
    "moves",
    "opening_plies",
    "resign_threshold",
    "plays_on",
    "restarted",
    "worker",
    "began_at",
    "started_at",
    "finished_at",
    "ingested_at",
)
"""Columns of the table games that an export has."""
PLY_COLUMNS = tuple(column.name for column in COLUMNS if column.entry == "ply")
"""Columns of a search with one entry for each ply."""
LIST_COLUMNS = tuple(column.name for column in COLUMNS if column.entry != "ply")
"""Columns of a search with one entry for each legal action."""
CSV_HEADERS = {
    "games": ",".join(GAME_COLUMNS),
    "searches": ",".join(("game_uid", "ply", *PLY_COLUMNS, *LIST_COLUMNS)),
}
"""First lines of the CSV of games and searches, without the line break."""

PAGE_ENTRIES = 1_000_000
"""Approximate number of legal actions in a page, of all its searches."""
_FIRST_PAGE_GAMES = 64
_MOST_PAGE_GAMES = 16_384
_COPY_HEADER_BYTES = 19  # COPY's binary format: signature, flags, length of the extension
_NO_UID = UUID(int=0)
_CSV_ENTRY_BYTES = 12  # a legal action takes about this many

GameRows = dict[str, list[Any]]
"""The columns ``GAME_COLUMNS``, each with one entry for each game."""
_Content = TypeVar("_Content")

_CHOSEN = """
    g.run = :run AND g.ingested_at <= :until AND g.game_uid >= CAST(:first_uid AS uuid)
    AND (CAST(:since AS timestamptz) IS NULL OR g.ingested_at >= :since)
    AND (CAST(:model AS integer) IS NULL OR :model IN (g.first_model, g.second_model))
"""
_GAMES = f"""
SELECT {", ".join(f"g.{name}" for name in GAME_COLUMNS)} FROM games AS g
WHERE {_CHOSEN} AND g.game_uid > CAST(:after AS uuid)
ORDER BY g.game_uid LIMIT :games
"""
_FIRST_OF_NEWEST = f"""
SELECT g.game_uid FROM games AS g WHERE {_CHOSEN}
ORDER BY g.game_uid DESC OFFSET :games - 1 LIMIT 1
"""
# For each game a look into the primary key, which has the plies in order: nothing is sorted.
# The lowest and highest uid tell the planner which partitions to leave out.
_SEARCHES = """
FROM unnest(%(uids)s::uuid[]) AS chosen (uid)
CROSS JOIN LATERAL (
    SELECT * FROM positions
    WHERE positions.game_uid = chosen.uid
        AND positions.game_uid BETWEEN %(first)s::uuid AND %(last)s::uuid
    ORDER BY positions.ply OFFSET 0
) AS p
"""
_COLUMNS_QUERY = f"""
COPY (
    SELECT
        string_agg(uuid_send(game_uid), '') FILTER (WHERE ply = 0),
        string_agg(int2send(ply), ''),
        string_agg(int4send(cardinality(legal_actions)), ''),
        string_agg(boolsend(policy_weights IS NOT NULL), ''),
        {", ".join(map(send_expression, (*PLY_COLUMNS, *LIST_COLUMNS)))}
    {_SEARCHES}
) TO STDOUT (FORMAT binary)
"""
_CSV_LISTS = {name: f"array_to_json({name})" for name in LIST_COLUMNS} | {
    "policy_weights": "array_to_json(coalesce(policy_weights, visit_counts))"
}
_CSV_SEARCHES = f"""
COPY (
    SELECT game_uid, ply, {", ".join(PLY_COLUMNS)},
        {", ".join(f"{sql} AS {name}" for name, sql in _CSV_LISTS.items())}
    {_SEARCHES}
) TO STDOUT (FORMAT csv)
"""
_CSV_GAMES = f"""
COPY (
    SELECT {", ".join(GAME_COLUMNS)} FROM games WHERE game_uid = ANY(%(uids)s::uuid[])
    ORDER BY game_uid
) TO STDOUT (FORMAT csv)
"""


@dataclass(frozen=True, slots=True)
class GameChoice:
    """Which games of a run to read.

    Args:
        since: only games that were stored at this time or later.
        model: only games in which this model version moved first, or as either player of a match.
        limit: at most this many games, the ones that began last.
    """

    since: datetime | None = None
    model: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class ExportBounds:
    """A choice as the parameters of a query; games that are stored later are left out."""

    run: str
    until: datetime
    since: datetime | None
    model: int | None
    first_uid: UUID = _NO_UID

    def parameters(self) -> dict[str, object]:
        """Return the parameters of a query with ``_CHOSEN``."""
        return {
            "run": self.run,
            "until": self.until,
            "since": self.since,
            "model": self.model,
            "first_uid": str(self.first_uid),
        }


@dataclass(frozen=True, slots=True, eq=False)
class ExportPage:
    """Games, oldest first by the time in their uid, with their searches.

    Args:
        games: the columns ``GAME_COLUMNS``, each with one entry for each game.
        searches: [games] number of stored searches; 0 if they were deleted.
        offsets: [searches + 1] int64; search ``i`` has the entries
            ``[offsets[i], offsets[i + 1])`` of the list columns.
        columns: ``ply`` and ``PLY_COLUMNS``, [searches] each, and ``LIST_COLUMNS``,
            [offsets[-1]] each, of all games one after the other. ``policy_weights`` are the visit
            counts where the database has none.
        unreadable: games that are left out because their rows do not fit together, and why.
    """

    games: GameRows
    searches: NDArray[np.int64]
    offsets: NDArray[np.int64]
    columns: dict[str, NDArray[Any]]
    unreadable: tuple[tuple[UUID, str], ...] = ()

    @property
    def uids(self) -> list[UUID]:
        """The uids of the games."""
        return self.games["game_uid"]

    @property
    def entries(self) -> int:
        """Number of legal actions of all searches."""
        return int(self.offsets[-1])


@dataclass(frozen=True, slots=True)
class CsvPage:
    """Games and their searches as CSV without a header; lists are JSON."""

    game_count: int
    games: bytes
    searches: bytes

    @property
    def entries(self) -> int:
        """Approximate number of legal actions of all searches."""
        return len(self.searches) // _CSV_ENTRY_BYTES


class ExportedGames(PlayedGames):
    """Reading games for an export, for any role that may select from games and positions.

    Its sessions only read, even as the database's owner.
    """

    def _connect(self, url: str) -> psycopg2.extensions.connection:
        connection = super()._connect(url)
        with connection.cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = on")
        connection.commit()
        return connection

    def run_of(self, name: str | None) -> RunConfig:
        """Return a run of this database as it was registered.

        Args:
            name: None: the only run of the database.

        Raises:
            ConfigError: there is no such run, or there are several and none is named.
        """
        rows = self._rows("SELECT name, config FROM runs ORDER BY created_at")
        names = ", ".join(f"'{row.name}'" for row in rows) or "none"
        chosen = [row for row in rows if name in (None, row.name)]
        if not chosen:
            wanted = "it has no run" if name is None else f"it has no run '{name}'. Its runs"
            raise ConfigError(f"the database at {self._place}: {wanted}: {names}")
        if len(chosen) > 1:
            raise ConfigError(
                f"the database at {self._place} has several runs: name one of {names}"
            )
        try:
            return stored_run(chosen[0].config)
        except ValueError as error:
            raise ConfigError(
                f"the database at {self._place}: the configuration of the run '{chosen[0].name}' "
                f"cannot be read: {error}"
            ) from error

    def query(self, query: str, **parameters: object) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of the columns of a query's result, and its rows.

        Raises:
            InvalidRequestError: the query is wrong, or would write.
        """
        try:
            with self._transaction() as connection:
                result = connection.execute(text(query), parameters)
                return list(result.keys()), [tuple(row) for row in result.all()]
        except StoreReadOnlyError as error:
            raise InvalidRequestError(f"queries only read: {error}") from error
        except exc.SQLAlchemyError as error:
            raise InvalidRequestError(f"this query is wrong: {explain(error)}") from error

    def bounds(self, run: str, choice: GameChoice) -> ExportBounds:
        """Return the bounds of the games that are stored now, for ``page``.

        Raises:
            ConfigError: the database has no such run, the run no such model, or none of its games
                fits the choice.
        """
        if not self._rows("SELECT FROM runs WHERE name = :run", run=run):
            self.run_of(run)
        if choice.model is not None:
            self._require_model(run, choice.model)
        [now] = self._rows("SELECT clock_timestamp() AS at")
        bounds = ExportBounds(run, now.at, choice.since, choice.model)
        first = self._rows(_GAMES, **bounds.parameters(), after=str(_NO_UID), games=1)
        if not first:
            raise ConfigError(_no_games(run, choice))
        if choice.limit is not None:
            rows = self._rows(_FIRST_OF_NEWEST, **bounds.parameters(), games=choice.limit)
            return replace(bounds, first_uid=rows[0].game_uid) if rows else bounds
        return bounds

    def _require_model(self, run: str, model: int) -> None:
        [known] = self._rows(
            "SELECT coalesce(bool_or(version = :model), false) AS is_known, "
            "min(version) AS first, max(version) AS last FROM models WHERE run = :run",
            run=run,
            model=model,
        )
        if not known.is_known:
            has = "none yet" if known.first is None else f"{known.first} to {known.last}"
            raise ConfigError(f"the run '{run}' has no model {model}: its models are {has}")

    def page_games(self, bounds: ExportBounds, after: UUID | None, games: int) -> GameRows:
        """Return the columns of the next games, oldest first; empty lists after the last one.

        Args:
            after: the last game of the previous page; None: from the first game.
            games: the most games to return.
        """
        rows = self._rows(_GAMES, **bounds.parameters(), after=str(after or _NO_UID), games=games)
        return {name: [row[i] for row in rows] for i, name in enumerate(GAME_COLUMNS)}

    def pages(
        self,
        bounds: ExportBounds,
        read: Callable[[GameRows], _Content],
        entries: Callable[[_Content], int],
    ) -> Generator[_Content]:
        """Yield all games, oldest first; the next page is read while this one is used.

        Args:
            bounds: which games.
            read: reads what belongs to the games of a page: ``with_searches`` or ``as_csv``. It
                runs in a thread of its own.
            entries: returns the number of legal actions of a page, from which the next page's
                number of games follows.
        """

        def next_page(after: UUID | None, games: int) -> tuple[UUID, int, _Content] | None:
            rows = self.page_games(bounds, after, games)
            uids = rows["game_uid"]
            return (uids[-1], len(uids), read(rows)) if uids else None

        with ThreadPoolExecutor(1, "games") as pool:
            games = _FIRST_PAGE_GAMES
            coming = pool.submit(next_page, None, games)
            while (page := coming.result()) is not None:
                after, count, content = page
                games = _next_page_games(games, count, entries(content))
                coming = pool.submit(next_page, after, games)
                yield content

    def with_searches(self, games: GameRows) -> ExportPage:
        """Return games with their searches, as columns.

        A game whose rows do not fit together is left out and named in ``unreadable``.
        """
        try:
            return self._read_searches(games)
        except RecordRejectedError as error:
            count = len(games["game_uid"])
            if count == 1:
                nothing = {name: list[Any]() for name in GAME_COLUMNS}
                page = self._read_searches(nothing)
                return replace(page, unreadable=((games["game_uid"][0], str(error)),))
        halves = [
            self.with_searches({name: column[part] for name, column in games.items()})
            for part in (slice(count // 2), slice(count // 2, None))
        ]
        return _joined(*halves)

    def _read_searches(self, games: GameRows) -> ExportPage:
        uids = games["game_uid"]
        if not uids:
            return _decoded(games, [None] * (4 + len(PLY_COLUMNS) + len(LIST_COLUMNS)))
        with self._transaction() as connection:
            connection.execute(text(KEEP_ROWS))
            buffer = BytesIO()
            _copy(connection, _COLUMNS_QUERY, uids, buffer)
        return _decoded(games, _fields(buffer.getbuffer()))

    def as_csv(self, games: GameRows) -> CsvPage:
        """Return games and their searches as CSV."""
        uids = games["game_uid"]
        with self._transaction() as connection:
            connection.execute(text(KEEP_ROWS))
            rows, searches = BytesIO(), BytesIO()
            _copy(connection, _CSV_GAMES, uids, rows)
            _copy(connection, _CSV_SEARCHES, uids, searches)
        return CsvPage(len(uids), rows.getvalue(), searches.getvalue())


def _next_page_games(games: int, count: int, entries: int) -> int:
    """Return the number of games for the next page; it grows slowly, as games may grow longer.

    Args:
        games: the most that this page could have.
        count: games that it had.
        entries: legal actions that its searches had.
    """
    fitting = PAGE_ENTRIES * count // entries if entries else _MOST_PAGE_GAMES
    return max(1, min(4 * games, fitting, _MOST_PAGE_GAMES))


def _no_games(run: str, choice: GameChoice) -> str:
    limits = [
        *([f"stored since {choice.since.isoformat()}"] if choice.since else []),
        *([f"of model {choice.model}"] if choice.model is not None else []),
    ]
    if limits:
        return f"the run '{run}' has no finished game {' and '.join(limits)}"
    return f"the run '{run}' has no finished game yet"


def _copy(connection: Connection, query: str, uids: Sequence[UUID], file: BytesIO) -> None:
    """Write the result of a COPY to a file; its parameters are the games."""
    raw: Any = connection.connection.dbapi_connection
    parameters = {
        "uids": [str(uid) for uid in uids],
        "first": str(uids[0]),
        "last": str(uids[-1]),
    }
    with raw.cursor() as cursor:
        cursor.copy_expert(cursor.mogrify(query, parameters).decode(), file)


def _fields(copied: memoryview) -> list[memoryview | None]:
    """Return the fields of the only row of a COPY in binary form; None for a null."""
    place = _COPY_HEADER_BYTES
    (count,) = struct.unpack_from(">h", copied, place)
    place += 2
    fields: list[memoryview | None] = []
    for _ in range(count):
        (length,) = struct.unpack_from(">i", copied, place)
        place += 4
        fields.append(None if length < 0 else copied[place : place + length])
        place += max(length, 0)
    return fields


def _decoded(games: GameRows, fields: Sequence[memoryview | None]) -> ExportPage:
    """Return a page from the fields of ``_COLUMNS_QUERY``.

    Raises:
        RecordRejectedError: stored columns do not fit together.
    """
    uids, ply, lengths, weighted, *rest = (field or memoryview(b"") for field in fields)
    counts = _searches(games, bytes(uids))
    total = int(counts.sum())
    plies = ply_values(np.dtype(np.int16), ply)
    starts = np.cumsum(counts) - counts
    if len(plies) != total or not np.array_equal(plies, np.arange(total) - starts.repeat(counts)):
        raise RecordRejectedError(f"{len(plies)} positions of {total} plies")
    children = ply_values(np.dtype(np.int32), lengths).astype(np.int64)
    columns: dict[str, NDArray[Any]] = {"ply": plies}
    for name, field in zip(PLY_COLUMNS, rest, strict=False):
        columns[name] = ply_values(DTYPES[name], field)
    arrays = dict(zip(LIST_COLUMNS, rest[len(PLY_COLUMNS) :], strict=True))
    own = arrays.pop("policy_weights")
    for name, field in arrays.items():
        columns[name] = array_elements(name, field, children)
    is_weighted = np.frombuffer(weighted, np.bool_)
    weights = columns["visit_counts"].astype(DTYPES["policy_weights"])
    weights[is_weighted.repeat(children)] = array_elements(
        "policy_weights", own, children[is_weighted]
    )
    columns["policy_weights"] = weights
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(children)])
    return ExportPage(dict(games), counts, offsets, columns)


def _searches(games: GameRows, with_searches: bytes) -> NDArray[np.int64]:
    """Return the number of searches of each game: one for each ply, or none."""
    lengths = np.asarray(games["length"], np.int64)
    if len(with_searches) == 16 * len(lengths):  # the usual case
        return lengths
    found = {with_searches[i : i + 16] for i in range(0, len(with_searches), 16)}
    return lengths * np.asarray([uid.bytes in found for uid in games["game_uid"]], np.int64)


def _joined(first: ExportPage, second: ExportPage) -> ExportPage:
    return ExportPage(
        {name: [*column, *second.games[name]] for name, column in first.games.items()},
        np.concatenate([first.searches, second.searches]),
        np.concatenate([first.offsets, first.offsets[-1] + second.offsets[1:]]),
        {
            name: np.concatenate([column, second.columns[name]])
            for name, column in first.columns.items()
        },
        first.unreadable + second.unreadable,
    )
