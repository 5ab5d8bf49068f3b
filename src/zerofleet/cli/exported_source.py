"""The games of a Parquet export as the first games of a new run: ``zerofleet fork FOLDER``."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import itertools
import json
import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import GameColumns, ReplayBuffer

from zerofleet.cli.given_games import Counter, NewRun, Tries, require_enough
from zerofleet.cli.terminal import echo
from zerofleet.database import Submission, add_to_buffer
from zerofleet.database.exported_games import LIST_COLUMNS, PLY_COLUMNS
from zerofleet.database.exported_tables import require_pyarrow
from zerofleet.database.origins import SourceWindow
from zerofleet.errors import ConfigError
from zerofleet.records import DTYPES, GameRecord, game_uid_of

if TYPE_CHECKING:
    from zerofleet.config import RunConfig

_BATCH_GAMES = 100
_GAME_COLUMNS = (
    "game_uid",
    "kind",
    "result",
    "reason",
    "length",
    "start",
    "resign_threshold",
    "plays_on",
    "started_at",
    "finished_at",
    "ingested_at",
)
_LATER_COLUMN = "restarted"  # exports of earlier versions lack it: no game of theirs is marked
_NULLABLE = ("start", "resign_threshold")
_UID = "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
# The models of another run are not models of this one.
_SEARCH_COLUMNS = (
    "game_uid",
    "ply",
    *(name for name in PLY_COLUMNS if name != "model_version"),
    *LIST_COLUMNS,
)


def is_export(path: Path) -> bool:
    """Return whether a folder has games of ``zerofleet export``, complete or not."""
    if any((path / name).exists() for name in ("export.json", ".incomplete")):
        return True
    return all((path / name).is_dir() for name in ("games", "searches"))


@dataclass(frozen=True, slots=True)
class ExportedGame:
    """A game of an export with its searches."""

    uid: str
    columns: GameColumns
    started_at: datetime
    finished_at: datetime

    def submission(self, run: str, game: str, began_at: datetime) -> Submission:
        """Return the record of this game in another run.

        Its uid depends only on these arguments and the game's uid in the export, so a repeated copy
        stores no game twice.

        Args:
            run: the new run.
            game: game with its rules.
            began_at: when the first copy began.
        """
        digest = hashlib.sha256(f"{run}/{self.uid}".encode()).digest()
        uid = game_uid_of(began_at, int.from_bytes(digest[:16], "big"))
        record = GameRecord(uid, game, self.columns, self.started_at, self.finished_at)
        return Submission(record, kind="given")


@dataclass(frozen=True)
class GamesExport:
    """A folder of ``zerofleet export --format parquet``.

    Raises:
        ConfigError: the folder is not such an export, it lacks columns, or a file is damaged.
    """

    folder: Path
    run: str
    game: str
    table: Any
    """Games that are not of matches, oldest first, as a table of pyarrow."""

    @classmethod
    def open(cls, folder: Path) -> GamesExport:
        """Read which games a folder has, but not their searches."""
        about = _about(folder)
        require_pyarrow()
        pa: Any = importlib.import_module("pyarrow")
        compute: Any = importlib.import_module("pyarrow.compute")
        tables: list[Any] = []
        for path in _files(folder, "games"):
            with _readable(path):
                file = _opened(path)
                names = file.schema_arrow.names
                _require_columns(folder / "games", names, _GAME_COLUMNS)
                wanted = [each for each in names if each in (*_GAME_COLUMNS, _LATER_COLUMN)]
                tables.append(_whole_games(file.read(columns=wanted)))
        for path in _files(folder, "searches"):
            with _readable(path):
                names = _opened(path).schema_arrow.names
                _require_columns(folder / "searches", names, _SEARCH_COLUMNS)
        with _readable(folder / "games"):
            table = pa.concat_tables(tables)
            table = table.filter(compute.not_equal(table["kind"], "match")).sort_by("game_uid")
            uids = table["game_uid"].to_numpy(zero_copy_only=False)
        again = np.flatnonzero(uids[1:] == uids[:-1])
        if len(again):
            raise ConfigError(
                f"{folder / 'games'} has the game {uids[again[0]]} twice, and {len(again):,} games "
                "in all more than once: keep one copy of each file"
            )
        return cls(folder, about["run"], about["game"], table)

    @cached_property
    def full_search_share(self) -> float:
        """Share of the searches that are training positions."""
        full, plies = 0, 0
        for path in _files(self.folder, "searches"):
            with _readable(path):
                for batch in _opened(path).iter_batches(columns=["full_search"]):
                    full += batch.column(0).true_count
                    plies += len(batch)
        return full / plies if plies else 1.0

    def newest(self, most_games: int, most_positions: float | None) -> list[dict[str, Any]]:
        """Return the newest games, oldest first.

        Args:
            most_games: most games.
            most_positions: most training positions, approximately; None: no limit.
        """
        most = math.inf if most_positions is None else most_positions / self.full_search_share
        newest_first = self.table["length"].to_numpy()[::-1][:most_games].astype(np.int64)
        plies_before = np.cumsum(newest_first) - newest_first
        count = int((plies_before < most).sum())
        rows: list[dict[str, Any]] = self.table.slice(len(self.table) - count).to_pylist()
        return rows

    def games(self, rows: Sequence[dict[str, Any]]) -> Iterator[ExportedGame]:
        """Yield the chosen games that have searches, a row group in memory at a time.

        Raises:
            ConfigError: a file is damaged, or its rows do not fit together.
        """
        chosen = {row["game_uid"]: row for row in rows}
        first = min(chosen, default="")
        groups = itertools.chain.from_iterable(
            _row_groups(path, first) for path in _files(self.folder, "searches")
        )
        for path, uid, columns in _joined_games(groups):
            row = chosen.pop(uid, None)
            if row is None:
                continue
            with _readable(path, f"game {uid}: "):
                yield ExportedGame(
                    uid,
                    _game_columns(row, columns),
                    row["started_at"],
                    row["finished_at"],
                )


@contextlib.contextmanager
def _readable(path: Path, what: str = "") -> Generator[None]:
    """Turn an error of the block, or of pyarrow, into one that names the file."""
    try:
        yield
    except (OSError, ValueError, KeyError, TypeError, NotImplementedError) as error:
        reason = str(error).splitlines()[0] if str(error) else repr(error)
        raise ConfigError(f"{path} cannot be read: {what}{reason}") from error


def _opened(path: Path) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return a file of pyarrow, which compares its pages with their checksums where it has any."""
    parquet: Any = importlib.import_module("pyarrow.parquet")
    return parquet.ParquetFile(path, page_checksum_verification=True)


def _whole_games(table: Any) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return a table of games of pyarrow with the types of ``zerofleet export``.

    Raises:
        ValueError: a column has another type or a null, or a uid is not a UUID.
    """
    pa: Any = importlib.import_module("pyarrow")
    compute: Any = importlib.import_module("pyarrow.compute")
    types: dict[str, Any] = {
        "result": pa.int8(),
        "length": pa.int16(),
        "resign_threshold": pa.float32(),
        **dict.fromkeys(("plays_on", _LATER_COLUMN), pa.bool_()),
        **dict.fromkeys(("started_at", "finished_at", "ingested_at"), pa.timestamp("us", "UTC")),
    }
    if _LATER_COLUMN not in table.column_names:
        table = table.append_column(_LATER_COLUMN, pa.array(np.zeros(len(table), np.bool_)))
    columns: dict[str, Any] = {}
    for name in (*_GAME_COLUMNS, _LATER_COLUMN):
        try:
            columns[name] = table[name].cast(types.get(name, pa.string()))
        except (ValueError, NotImplementedError) as error:
            raise ValueError(f"the column {name}: {error}") from error
        if columns[name].null_count and name not in _NULLABLE:
            raise ValueError(f"the column {name} has a null")
    is_uid = compute.match_substring_regex(columns["game_uid"], _UID)
    if (place := compute.index(is_uid, value=False).as_py()) >= 0:
        raise ValueError(f"game_uid has {columns['game_uid'][place].as_py()!r}, which is no UUID")
    return pa.table(columns)


def _about(folder: Path) -> dict[str, Any]:
    path = folder / "export.json"
    if (folder / ".incomplete").exists():
        raise ConfigError(f"the export {folder} is not complete: export the games again")
    if not path.exists():
        raise ConfigError(
            f"{folder} has no export.json, which names the run and the game: give a folder that "
            "`zerofleet export` wrote"
        )
    with _readable(path):
        about: Any = json.loads(path.read_text(encoding="utf-8"))
    values = cast("dict[str, Any]", about) if isinstance(about, dict) else {}
    if not all(isinstance(values.get(name), str) for name in ("run", "game", "format")):
        raise ConfigError(
            f"{path} lacks run, game or format: give a folder that `zerofleet export` wrote"
        )
    if values["format"] != "parquet":
        raise ConfigError(
            f"the export {folder} has the format {values['format']}, and `zerofleet fork` needs "
            "Parquet: export the games again with --format parquet"
        )
    return values


def _files(folder: Path, table: str) -> list[Path]:
    """Return the files of a table in their order.

    Raises:
        ConfigError: there is none.
    """
    found = sorted((folder / table).glob("*.parquet"))
    if not found:
        what = "searches, so there is nothing to learn from" if table == "searches" else "games"
        raise ConfigError(f"the export {folder} has no {what}: {folder / table} has no files")
    return found


def _require_columns(place: Path, names: Sequence[str], needed: Sequence[str]) -> None:
    missing = [name for name in needed if name not in names]
    if missing:
        raise ConfigError(
            f"{place} lacks the columns {', '.join(missing)}: `zerofleet fork` needs all columns "
            "of `zerofleet export`"
        )


_Rows = dict[str, NDArray[Any]]
"""Columns of searches: ``uid``, ``ply``, one array for each other column, and ``offsets``."""


def _row_groups(path: Path, first: str) -> Iterator[tuple[Path, _Rows]]:
    """Yield the row groups of a file that may have games from the uid ``first`` on."""
    with _readable(path):
        file = _opened(path)
        place = file.schema_arrow.names.index("game_uid")
        for group in range(file.num_row_groups):
            uids = file.metadata.row_group(group).column(place).statistics
            if uids is not None and uids.has_min_max and uids.max < first:
                continue
            yield path, _rows(file.read_row_group(group, columns=list(_SEARCH_COLUMNS)))


def _rows(table: Any) -> _Rows:  # noqa: ANN401 - pyarrow has no types
    """Return the columns of a table of pyarrow.

    Raises:
        ValueError: a column has another type or a null, or its lists differ in length.
    """
    pa: Any = importlib.import_module("pyarrow")

    def whole(name: str, kind: Any) -> Any:  # noqa: ANN401 - as above
        column = table[name].cast(kind).combine_chunks()
        if column.null_count:
            raise ValueError(f"the column {name} has a null")
        return column

    rows: _Rows = {
        "game_uid": whole("game_uid", pa.string()).to_numpy(zero_copy_only=False),
        "ply": whole("ply", pa.int32()).to_numpy(),
    }
    for name in _SEARCH_COLUMNS[2:]:
        dtype = DTYPES[name]
        kind = pa.from_numpy_dtype(dtype)
        if name not in LIST_COLUMNS:
            rows[name] = whole(name, kind).to_numpy(zero_copy_only=False)
            continue
        lists = whole(name, pa.list_(kind))
        offsets = lists.offsets.to_numpy().astype(np.int64)
        values = lists.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
        if len(values) != offsets[-1] - offsets[0] or lists.values.null_count:
            raise ValueError(f"the column {name} has a null")
        offsets = offsets - offsets[0]
        if not np.array_equal(rows.setdefault("offsets", offsets), offsets):
            raise ValueError(f"the lists of {name} and legal_actions differ in length")
        rows[name] = values
    return rows


def _joined_games(groups: Iterator[tuple[Path, _Rows]]) -> Iterator[tuple[Path, str, _Rows]]:
    """Yield the searches of each game; they may begin in one row group and end in the next."""
    open_path, open_uid, parts = Path(), "", list[_Rows]()
    for path, rows in groups:
        uids = rows["game_uid"]
        if not len(uids):
            continue
        cuts = [0, *(np.flatnonzero(uids[1:] != uids[:-1]) + 1).tolist(), len(uids)]
        for begin, end in itertools.pairwise(cuts):
            if uids[begin] != open_uid:
                if parts:
                    yield open_path, open_uid, _concatenated(parts)
                open_path, open_uid, parts = path, str(uids[begin]), []
            parts.append(_sliced(rows, begin, end))
    if parts:
        yield open_path, open_uid, _concatenated(parts)


def _sliced(rows: _Rows, begin: int, end: int) -> _Rows:
    offsets = rows["offsets"][begin : end + 1]
    entries = slice(int(offsets[0]), int(offsets[-1]))
    return {
        name: offsets - offsets[0]
        if name == "offsets"
        else column[entries if name in LIST_COLUMNS else slice(begin, end)]
        for name, column in rows.items()
    }


def _concatenated(parts: Sequence[_Rows]) -> _Rows:
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part["offsets"]) for part in parts])
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return joined | {"offsets": np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])}


def _game_columns(row: dict[str, Any], rows: _Rows) -> GameColumns:
    """Return a game of the new run; its moves are of model 0.

    Raises:
        ValueError: the rows do not fit the game.
    """
    plies, length = len(rows["ply"]), int(row["length"])
    if not np.array_equal(rows["ply"], np.arange(length)):
        raise ValueError(f"the plies of its {plies} searches are not 0 to {length - 1} in order")
    arrays: dict[str, Any] = {
        name: np.ascontiguousarray(rows[name], DTYPES[name])
        for name in (*_SEARCH_COLUMNS[2:], "offsets")
    }
    return GameColumns(
        result=row["result"],
        reason=row["reason"],
        resign_threshold=row["resign_threshold"],
        plays_on=row["plays_on"],
        restarted=row["restarted"],
        start=row["start"] or "",
        model_version=np.zeros(plies, DTYPES["model_version"]),
        **arrays,
    )


def fork_export(folder: Path, new: NewRun, games: int | None, *, retrain: bool) -> None:
    """Give the newest games of an export to a new run.

    All files are read and checked before anything is written.

    Args:
        folder: folder of the export.
        new: the new run.
        games: most games; None: as many as fit into the window.
        retrain: the new run plays no games.

    Raises:
        ConfigError: the export cannot be used for this run.
    """
    export, run = GamesExport.open(folder), new.run
    if export.game != run.game.name:
        raise ConfigError(
            f"the export {folder} has games of {export.game}, and {new.run_file} plays "
            f"{run.game.name}: `zerofleet fork` needs the same game with the same options"
        )
    share = 1 - run.trainer.held_out_share
    rows = export.newest(
        math.ceil(run.trainer.window_games / share) if games is None else games,
        run.trainer.window_positions / share if games is None else None,
    )
    if not rows:
        raise ConfigError(
            f"the export {folder} has no games of self-play: there is nothing to learn from. "
            "Export more games"
        )
    positions = _checked(export, run, rows)
    if retrain:
        require_enough(run, sum(positions.values()))
    usable = [row for row in rows if row["game_uid"] in positions]
    with new.opened() as target:
        database, name = target.database, run.name
        keys = "\n".join([export.game, *positions])
        state = database.begin_origin(
            name,
            "fork",
            source=f"the run {export.run}, from its export {folder.resolve().name}",
            place=str(folder.resolve()),
            source_id=hashlib.sha256(keys.encode()).hexdigest(),
            retrain=retrain,
            window=_window(rows),
        )
        target.keep()
        if not state.is_finished:
            stored = _store(export, new, database, usable, state.began_at)
            if not stored:
                raise ConfigError(
                    f"Postgres refused every game of the export {folder}: the table refused_games "
                    "has the reasons"
                )
            database.finish_origin(
                name,
                games=len(stored),
                positions=sum(positions[uid] for uid in stored),
                left_out=len(rows) - len(stored),
            )
        new.report(database, until=" --until 5000steps" if retrain else "")


def _checked(export: GamesExport, run: RunConfig, rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """Read and replay games; return the training positions of each that can be used.

    Raises:
        ConfigError: a file is damaged, or no game can be used.
    """
    positions: dict[str, int] = {}
    bad: list[str] = []
    counter = Counter("checked", len(rows))
    games = export.games(rows)
    while batch := list(itertools.islice(games, _BATCH_GAMES)):
        plies = sum(game.columns.plies for game in batch)
        buffer = ReplayBuffer(run.game.name, plies + 1, len(batch) + 1)
        for game in batch:
            try:
                positions[game.uid] = add_to_buffer(buffer, game.columns)
            except ValueError as error:
                bad.append(f"game {game.uid}: {error}")
        counter.show(len(positions) + len(bad))
    if not positions and bad:
        raise ConfigError(
            f"the games of the export {export.folder} do not replay under the rules that "
            f"{run.game.name} has now: {bad[0]}"
        )
    if not positions:
        raise ConfigError(
            f"none of the {len(rows):,} newest games of the export {export.folder} has searches, "
            "so there is nothing to learn from"
        )
    left_out = len(rows) - len(positions)
    if left_out:
        why = f"; {len(bad):,} do not replay, the first: {bad[0]}" if bad else ""
        echo(f"left out {left_out:,} of {len(rows):,} games without usable searches{why}")
    return positions


def _window(rows: Sequence[dict[str, Any]]) -> SourceWindow:
    times = [row["ingested_at"] for row in rows]
    return SourceWindow(
        games=len(rows),
        plies=sum(row["length"] for row in rows),
        first_tx=1,  # an export has no transactions: nothing is left to read
        last_tx=0,
        first_game=UUID(rows[0]["game_uid"]),
        last_game=UUID(rows[-1]["game_uid"]),
        first_at=min(times),
        last_at=max(times),
    )


def _store(
    export: GamesExport,
    new: NewRun,
    database: Any,  # noqa: ANN401
    rows: Sequence[dict[str, Any]],
    began_at: datetime,
) -> list[str]:
    """Store games; return the uids, as in the export, of the games that Postgres has."""
    run, tries, counter = new.run, Tries(), Counter("copied", len(rows))
    worker = f"fork of {export.run}"[:200]
    stored: list[str] = []
    games = export.games(rows)
    while batch := list(itertools.islice(games, _BATCH_GAMES)):
        made = [game.submission(run.name, run.game.name, began_at) for game in batch]
        answers = tries(partial(database.submit_games, run.name, worker, made))
        for game, answer in zip(batch, answers, strict=True):
            if answer in ("stored", "duplicate"):
                stored.append(game.uid)
        counter.show(len(stored))
    return stored
