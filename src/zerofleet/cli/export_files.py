"""The files of an export: written into a hidden folder, and moved when all are complete."""

from __future__ import annotations

import contextlib
import errno
import importlib
import json
import shutil
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from zerofleet import __version__, games
from zerofleet.cli.terminal import replace_line
from zerofleet.config import RunConfig
from zerofleet.database.exported_games import (
    CSV_HEADERS,
    ExportBounds,
    ExportedGames,
    ExportPage,
    GameChoice,
    GameRows,
)
from zerofleet.database.exported_tables import (
    Column,
    Lists,
    Table,
    TrainingPositions,
    arrow_table,
    games_table,
    require_pyarrow,
    searches_table,
    text_bytes,
)
from zerofleet.database.played_games import PGN, SGF, PlayedGame
from zerofleet.errors import ConfigError, RecordRejectedError

PART_BYTES = 256 << 20
"""Size of a file at which a large export begins the next one."""
_NPZ_BYTES = 96 << 20  # an npz file is put together in memory
_GROUP_BYTES = 16 << 20  # size of a row group of Parquet in memory
_INCOMPLETE = ".incomplete"
_RECORDS = {"sgf": SGF, "pgn": PGN}
_LINE_SECONDS = 1.0


@dataclass(slots=True)
class Exported:
    """The rows that an export has written."""

    games: int = 0
    searches: int = 0
    positions: int = 0
    skipped: list[str] = field(default_factory=list[str])
    """A line for each game that could not be read."""

    def skip(self, unreadable: Sequence[tuple[UUID, str]]) -> None:
        """Record games that are left out, and why."""
        self.skipped += [
            f"game {uid} is skipped, it cannot be read: {reason}" for uid, reason in unreadable
        ]


def require_packages(file_format: str) -> None:
    """Check that what a format needs is installed.

    Raises:
        ConfigError: pyarrow is missing.
    """
    if file_format == "parquet":
        require_pyarrow()


def export_games(
    database: ExportedGames,
    run: RunConfig,
    folder: Path,
    file_format: str,
    choice: GameChoice,
    *,
    planes: bool = False,
) -> Exported:
    """Write games of a run into a new or empty folder.

    Args:
        database: source of the games.
        run: the run, as its run file has it.
        folder: made if there is none.
        file_format: ``parquet``, ``npz``, ``csv``, ``sgf`` or ``pgn``.
        choice: which games.
        planes: write the training positions too; Parquet and npz.

    Raises:
        ConfigError: the folder is not empty or cannot be written, the disk is full, the format is
            not one of this game, or no game fits the choice. Nothing is written then.
    """
    if file_format in _RECORDS:
        _RECORDS[file_format].require(run.game.name)
    positions = TrainingPositions(run, games.spec(run.game.name)) if planes else None
    about = _about(run, file_format, positions)
    _require_empty(folder)
    bounds = database.bounds(run.name, choice)
    progress = _Progress()
    with _complete_folder(folder) as incomplete:
        if file_format in _RECORDS:
            done = _write_records(database, bounds, incomplete, file_format, progress)
        elif file_format == "csv":
            done = _write_csv(database, bounds, incomplete, progress)
        else:
            files = _ParquetFiles(incomplete) if file_format == "parquet" else _NpzFiles(incomplete)
            done = _write_tables(database, bounds, files, _Tables(run, positions), progress)
        if not done.games:
            raise ConfigError(*done.skipped, "no game could be read: nothing was written")
        about |= {"games": done.games, "searches": done.searches, "positions": done.positions}
        text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
        (incomplete / "export.json").write_text(text, encoding="utf-8")
    progress.end()
    return done


def _about(
    run: RunConfig, file_format: str, positions: TrainingPositions | None
) -> dict[str, object]:
    """Return what a reader of the files needs to know, for ``export.json``."""
    spec = games.spec(run.game.name)
    about: dict[str, object] = {
        "zerofleet": __version__,
        "format": file_format,
        "run": run.name,
        "game": run.game.name,
        "num_actions": spec.num_actions,
        "observation_shape": list(spec.observation_shape),
    }
    return about if positions is None else about | {"auxiliary": positions.auxiliary}


def _require_empty(folder: Path) -> None:
    try:
        names = sorted(path.name for path in folder.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise _cannot_write(folder, error) from error
    if _INCOMPLETE in names:
        raise ConfigError(
            f"--folder {folder} holds an export that is in progress or was killed: delete the "
            "folder if no other command writes to it, or give another one"
        )
    if names:
        raise ConfigError(f"--folder {folder} is not empty: give a new or empty folder")


@contextlib.contextmanager
def _complete_folder(folder: Path) -> Generator[Path]:
    """Yield a folder for the files, which appear in ``folder`` after the block.

    If the block fails, nothing of it stays.
    """
    is_new = not folder.exists()
    incomplete = folder / _INCOMPLETE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        incomplete.mkdir()
        yield incomplete
        for path in sorted(incomplete.iterdir()):
            path.rename(folder / path.name)
        incomplete.rmdir()
    except BaseException as error:
        shutil.rmtree(incomplete, ignore_errors=True)
        if is_new:
            with contextlib.suppress(OSError):
                folder.rmdir()
        if isinstance(error, OSError):
            raise _cannot_write(folder, error) from error
        raise


def _cannot_write(folder: Path, error: OSError) -> ConfigError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return ConfigError(
        f"cannot write to --folder {folder}: {error.strerror or error}. Nothing was written: "
        + ("make room, or give another folder" if full else "give another folder")
    )


class _Progress:
    """A line on the terminal that says how far an export is."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._next = time.monotonic() + _LINE_SECONDS
        self._is_shown = False

    def show(self, done: Exported) -> None:
        """Replace the line, from time to time."""
        if self._is_terminal and time.monotonic() >= self._next:
            self._next = time.monotonic() + _LINE_SECONDS
            self._is_shown = True
            replace_line(f"{done.games:,} games, {done.searches:,} searches")

    def end(self) -> None:
        """Remove the line."""
        if self._is_shown:
            replace_line("")


class _Parts:
    """Numbered files of a folder; a new one begins when the last one is large."""

    def __init__(self, folder: Path, suffix: str, first_line: bytes = b"") -> None:
        self._folder = folder
        self._suffix = suffix
        self._first_line = first_line
        self._count = 0
        self._file: BinaryIO | None = None

    def open_next(self) -> BinaryIO:
        """Return a new file, which the caller closes."""
        self._folder.mkdir(exist_ok=True)
        path = self._folder / f"part-{self._count:05}.{self._suffix}"
        self._count += 1
        return path.open("xb")

    def write(self, content: bytes) -> None:
        """Write whole lines."""
        if self._file is None:
            self._file = self.open_next()
            self._file.write(self._first_line)
        self._file.write(content)
        if self._file.tell() >= PART_BYTES:
            self.close()

    def close(self) -> None:
        """Complete the last file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _write_records(
    database: ExportedGames,
    bounds: ExportBounds,
    folder: Path,
    file_format: str,
    progress: _Progress,
) -> Exported:
    """Write SGF or PGN, many games in a file."""
    form = _RECORDS[file_format]

    def read(rows: GameRows) -> list[tuple[UUID, PlayedGame | RecordRejectedError]]:
        uids = rows["game_uid"]
        return list(zip(uids, database.played_games(bounds.run, uids), strict=True))

    def entries(page: list[tuple[UUID, PlayedGame | RecordRejectedError]]) -> int:
        # Values in Python take more memory than in columns.
        found = [game for _, game in page if isinstance(game, PlayedGame)]
        return 16 * sum(len(ply.legal_actions) for game in found for ply in game.plies)

    done = Exported()
    with (
        contextlib.closing(_Parts(folder, form.suffix)) as parts,
        contextlib.closing(database.pages(bounds, read, entries)) as pages,
    ):
        for page in pages:
            for uid, game in page:
                try:
                    if isinstance(game, RecordRejectedError):
                        raise game
                    text = form.text_of(bounds.run, game)
                except ValueError as error:
                    done.skip([(uid, str(error))])
                    continue
                parts.write(text.rstrip("\n").encode() + b"\n\n")
                done.games += 1
                done.searches += len(game.plies)
            progress.show(done)
    return done


def _write_csv(
    database: ExportedGames, bounds: ExportBounds, folder: Path, progress: _Progress
) -> Exported:
    done = Exported()
    parts = {
        name: _Parts(folder / name, "csv", f"{header}\n".encode())
        for name, header in CSV_HEADERS.items()
    }
    pages = database.pages(bounds, database.as_csv, lambda page: page.entries)
    with contextlib.ExitStack() as stack:
        for part in parts.values():
            stack.enter_context(contextlib.closing(part))
        stack.enter_context(contextlib.closing(pages))
        for page in pages:
            parts["games"].write(page.games)
            parts["searches"].write(page.searches)
            done.games += page.game_count
            done.searches += page.searches.count(b"\n")
            progress.show(done)
    return done


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of a page."""

    run: RunConfig
    positions: TrainingPositions | None

    def of(self, page: ExportPage, done: Exported) -> dict[str, Table]:
        """Return the tables by name, and count their rows."""
        done.skip(page.unreadable)
        done.games += len(page.uids)
        done.searches += len(page.columns["ply"])
        tables = {"games": games_table(page.games, self.run), "searches": searches_table(page)}
        if self.positions is not None:
            tables["positions"], rejected = self.positions.table(page)
            done.skip(rejected)
            plies = tables["positions"]["ply"]
            assert isinstance(plies, np.ndarray)
            done.positions += len(plies)
        return tables

    def entries(self, page: ExportPage) -> int:
        """Return the size of a page, as a number of legal actions."""
        if self.positions is None:
            return page.entries
        # A policy target has an entry for every action.
        return max(page.entries, len(page.columns["ply"]) * self.positions.num_actions // 8)


def _write_tables(
    database: ExportedGames,
    bounds: ExportBounds,
    files: _ParquetFiles | _NpzFiles,
    tables: _Tables,
    progress: _Progress,
) -> Exported:
    done = Exported()
    pages = database.pages(bounds, database.with_searches, tables.entries)
    with contextlib.closing(pages), contextlib.closing(files):
        for page in pages:
            files.write(tables.of(page, done))
            progress.show(done)
        files.complete()
    return done


class _ParquetFiles:
    """Parquet: a folder for each table, zstd, row groups of about 16 MB in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._tables: dict[str, _ParquetTable] = {}

    def write(self, tables: Mapping[str, Table]) -> None:
        """Write the tables of a page."""
        for name, table in tables.items():
            if name not in self._tables:
                self._tables[name] = _ParquetTable(self._folder / name)
            self._tables[name].write(arrow_table(table))

    def complete(self) -> None:
        """Write what is left, and complete the files."""
        for table in self._tables.values():
            table.complete()

    def close(self) -> None:
        """Close the files as they are."""
        for table in self._tables.values():
            table.close()


class _ParquetTable:
    def __init__(self, folder: Path) -> None:
        self._parts = _Parts(folder, "parquet")
        self._waiting: list[Any] = []
        self._waiting_bytes = 0
        self._file: BinaryIO | None = None
        self._writer: Any = None

    def write(self, table: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        self._waiting.append(table)
        self._waiting_bytes += table.nbytes
        if self._waiting_bytes >= _GROUP_BYTES:
            self._write_group()
            if self._file is not None and self._file.tell() >= PART_BYTES:
                self._end_file()

    def complete(self) -> None:
        if self._waiting:
            self._write_group()
        self._end_file()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._end_file()

    def _write_group(self) -> None:
        pa: Any = importlib.import_module("pyarrow")
        parquet: Any = importlib.import_module("pyarrow.parquet")
        table = pa.concat_tables(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        if self._writer is None:
            self._file = self._parts.open_next()
            texts = [each.name for each in table.schema if pa.types.is_string(each.type)]
            self._writer = parquet.ParquetWriter(
                self._file,
                table.schema,
                compression="zstd",
                compression_level=1,
                use_dictionary=[name for name in texts if name != "moves"],
                write_page_checksum=True,
            )
        self._writer.write_table(table, row_group_size=max(1, len(table)))

    def _end_file(self) -> None:
        writer, self._writer = self._writer, None
        file, self._file = self._file, None
        if file is not None:
            with file:
                writer.close()


class _NpzFiles:
    """npz: files of whole games with all tables, without compression."""

    def __init__(self, folder: Path) -> None:
        self._parts = _Parts(folder, "npz")
        self._waiting: list[dict[str, NDArray[Any]]] = []
        self._waiting_bytes = 0

    def write(self, tables: Mapping[str, Table]) -> None:
        """Write the tables of a page."""
        arrays = _npz_arrays(tables)
        self._waiting.append(arrays)
        self._waiting_bytes += sum(array.nbytes for array in arrays.values())
        if self._waiting_bytes >= _NPZ_BYTES:
            self._write_file()

    def complete(self) -> None:
        """Write what is left."""
        if self._waiting:
            self._write_file()

    def close(self) -> None:
        """Do nothing: each file is closed as soon as it is written."""

    def _write_file(self) -> None:
        pages, self._waiting, self._waiting_bytes = self._waiting, [], 0
        with self._parts.open_next() as file:
            np.savez(file, allow_pickle=False, **_joined(pages))


def _npz_arrays(tables: Mapping[str, Table]) -> dict[str, NDArray[Any]]:
    """Return the tables of a page as arrays ``TABLE.COLUMN``; games are named by their number.

    Lists are an array of all their values, and ``TABLE.offsets`` of one more than there are rows.
    """
    arrays: dict[str, NDArray[Any]] = {}
    numbers = np.asarray(tables["games"]["game_uid"])
    for name, table in tables.items():
        for column_name, column in table.items():
            if isinstance(column, Lists):
                arrays[f"{name}.offsets"] = column.offsets
                arrays[f"{name}.{column_name}"] = column.values
            elif column_name == "game_uid" and name != "games":
                arrays[f"{name}.game_number"] = np.searchsorted(numbers, np.asarray(column))
            else:
                arrays[f"{name}.{column_name}"] = _npz_array(column_name, column)
    return arrays


_NPZ_DTYPES: dict[str, tuple[str, Any]] = {
    "first_model": ("i4", -1),
    "second_model": ("i4", -1),
    "result": ("i1", 0),
    "length": ("i2", 0),
    "opening_plies": ("i2", -1),
    "resign_threshold": ("f4", np.nan),
    "plays_on": ("?", False),
    "restarted": ("?", False),
}
"""Dtypes of the columns of games, and what stands for a null."""


def _npz_array(name: str, column: Column) -> NDArray[Any]:
    if isinstance(column, np.ndarray):
        return column
    values: list[Any] = list(column) if not isinstance(column, Lists) else []
    if name.endswith("_at"):
        return np.array([at.replace(tzinfo=None) for at in values], "datetime64[us]")
    if name in _NPZ_DTYPES:
        dtype, null = _NPZ_DTYPES[name]
        return np.array([null if value is None else value for value in values], dtype)
    return text_bytes(values)


def _joined(pages: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of several pages one after the other, with numbers of games that go on."""
    names = list(dict.fromkeys(name for page in pages for name in page))
    joined: dict[str, list[NDArray[Any]]] = {name: [] for name in names}
    games_before = 0
    entries_before: dict[str, int] = {}
    for page in pages:
        for name, array in page.items():
            if name.endswith(".offsets"):
                before = entries_before.get(name)
                joined[name].append(array if before is None else array[1:] + before)
                entries_before[name] = int(array[-1]) + (before or 0)
            elif name.endswith(".game_number"):
                joined[name].append(array + games_before)
            else:
                joined[name].append(array)
        games_before += len(page["games.game_uid"])
    return {name: np.concatenate(arrays) for name, arrays in joined.items()}
