"""Pages of games as tables of columns: games, searches, and positions as the trainer sees them.

A column is a numpy array, a list with one value or None for each row, or ``Lists``. ``arrow_table``
makes a pyarrow table of them.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import GameColumns, GameSpec, ReplayBuffer

from zerofleet.config import RunConfig
from zerofleet.database.exported_games import LIST_COLUMNS, PLY_COLUMNS, ExportPage, GameRows
from zerofleet.database.window_games import add_to_buffer
from zerofleet.errors import ConfigError
from zerofleet.records import SEARCH_TARGETS, is_held_out

_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), "S2")
_DASHES = (8, 13, 18, 23)  # places in the text of a UUID
_SCALARS = ("final_score", *SEARCH_TARGETS)  # one number each


@dataclass(frozen=True, slots=True, eq=False)
class Lists:
    """A column of lists: row ``i`` is ``values[offsets[i] : offsets[i + 1]]``."""

    values: NDArray[Any]
    offsets: NDArray[np.int64]


Column = NDArray[Any] | Sequence[Any] | Lists
Table = dict[str, Column]
"""Columns of equal length by name."""


def games_table(games: GameRows, run: RunConfig) -> Table:
    """Return games as a table, with the name of their run and of what it plays."""
    uids = games["game_uid"]
    others = {name: column for name, column in games.items() if name != "game_uid"}
    constant = {"run": [run.name] * len(uids), "game": [run.game.name] * len(uids)}
    return {"game_uid": uid_texts(uids), **constant, **others}


def searches_table(page: ExportPage) -> Table:
    """Return the searches of a page: a row for each ply of each game that has searches."""
    return {
        "game_uid": uid_texts(page.uids).repeat(page.searches),
        "ply": page.columns["ply"],
        **{name: page.columns[name] for name in PLY_COLUMNS},
        **{name: Lists(page.columns[name], page.offsets) for name in LIST_COLUMNS},
    }


class TrainingPositions:
    """The rows that the trainer of a run samples from.

    Args:
        run: its targets, and the share of its validation games.
        spec: sizes of its game.
    """

    def __init__(self, run: RunConfig, spec: GameSpec) -> None:
        self._run = run
        self.num_actions = spec.num_actions
        weighted = run.trainer.drawn_targets
        widths = {
            "opponent_policy": spec.num_actions,
            "final_planes": spec.num_final_planes * spec.board_points,
            "final_score": int(spec.has_final_score),
        }
        self.auxiliary = {
            **{name: width for name, width in widths.items() if name in weighted and width},
            **dict.fromkeys(SEARCH_TARGETS, 1),
        }
        """Widths of the auxiliary targets by name, in their order."""

    def table(self, page: ExportPage) -> tuple[Table, list[tuple[UUID, str]]]:
        """Return the training positions of a page's self-play games, as they were played.

        The replay buffer of the trainer makes them, so they are equal to the trainer's to the bit.

        Returns:
            The table, without rows if the page has only matches; then the games that do not replay
            under the rules, and why. The columns are ``game_uid``, ``ply`` (int16), ``held_out``
            (bool), ``observation`` (uint8 [positions, observation_bytes]), ``policy_target``
            (float32 [positions, num_actions]) and ``value_target`` (float32). Each auxiliary target
            adds a float32 column: first the targets with a weight in the run, then the targets that
            only own networks use.
        """
        settings = self._run.trainer
        buffer = ReplayBuffer(
            self._run.game.name,
            len(page.columns["ply"]) + 1,
            len(page.uids) + 1,
            value_lambda=settings.value_lambda,
            auxiliary=list(self.auxiliary),
        )
        starts = np.cumsum(page.searches) - page.searches
        added: list[int] = []
        rejected: list[tuple[UUID, str]] = []
        for game in np.flatnonzero(page.searches).tolist():
            if page.games["kind"][game] == "match":
                continue
            try:
                if _add(buffer, page, game, int(starts[game])):
                    added.append(game)
            except ValueError as error:
                rejected.append((page.uids[game], str(error)))
        observation, policy, value, auxiliary, ply, number = buffer.all_positions()
        uids = [page.uids[game] for game in added]
        held_out = [is_held_out(uid, settings.held_out_share) for uid in uids]
        table: Table = {
            "game_uid": uid_texts(uids)[number],
            "ply": ply.astype(np.int16),
            "held_out": np.asarray(held_out, bool)[number],
            "observation": observation,
            "policy_target": policy,
            "value_target": value,
        }
        return table | self._split(auxiliary), rejected

    def _split(self, auxiliary: NDArray[np.float32]) -> Table:
        ends = np.cumsum(list(self.auxiliary.values()))
        parts = np.split(auxiliary, ends[:-1], axis=1) if len(ends) else []
        return {
            name: part[:, 0] if name in _SCALARS else part
            for name, part in zip(self.auxiliary, parts, strict=True)
        }


def _add(buffer: ReplayBuffer, page: ExportPage, game: int, first: int) -> int:
    """Add a game of a page, whose searches begin at ``first``; return its number of positions.

    Raises:
        ValueError: it does not replay under the rules.
    """
    plies = slice(first, first + int(page.searches[game]))
    offsets = page.offsets[plies.start : plies.stop + 1]
    entries = slice(int(offsets[0]), int(offsets[-1]))
    fields = ("result", "reason", "resign_threshold", "plays_on", "restarted", "start")
    columns = GameColumns(
        offsets=(offsets - offsets[0]).astype(np.int32),
        **{name: page.columns[name][plies] for name in PLY_COLUMNS},
        **{name: page.columns[name][entries] for name in LIST_COLUMNS},
        **{name: page.games[name][game] for name in fields},
    )
    return add_to_buffer(buffer, columns)


def uid_texts(uids: Sequence[UUID]) -> NDArray[np.bytes_]:
    """Return uids as text, [uids] of the dtype S36."""
    numbers = np.frombuffer(b"".join(uid.bytes for uid in uids), np.uint8)
    digits = _HEX[numbers].view(np.uint8).reshape(-1, 32)
    texts = np.full((len(uids), 36), ord("-"), np.uint8)
    texts[:, [place for place in range(36) if place not in _DASHES]] = digits
    return texts.view("S36")[:, 0]


def text_bytes(texts: Sequence[str]) -> NDArray[np.bytes_]:
    """Return texts in UTF-8, of the dtype S with the length of the longest one."""
    return np.array([text.encode() for text in texts], np.bytes_)


def require_pyarrow() -> None:
    """Check that pyarrow is installed.

    Raises:
        ConfigError: it is not.
    """
    try:
        importlib.import_module("pyarrow")
    except ImportError as error:
        raise ConfigError(
            "this needs pyarrow, which is not installed: pip install 'zerofleet[data]'"
        ) from error


def arrow_table(table: Table) -> Any:  # noqa: ANN401 - pyarrow has no types
    """Return a table of pyarrow, whose columns have the same types for every page.

    A column of texts is a string; of two dimensions, a list of fixed length, or binary of fixed
    length for uint8. Needs pyarrow.
    """
    pa: Any = importlib.import_module("pyarrow")

    times = pa.timestamp("us", "UTC")
    types: Mapping[str, Any] = {
        "first_model": pa.int32(),
        "second_model": pa.int32(),
        "result": pa.int8(),
        "length": pa.int16(),
        "opening_plies": pa.int16(),
        "resign_threshold": pa.float32(),
        "plays_on": pa.bool_(),
        "restarted": pa.bool_(),
        "began_at": times,
        "started_at": times,
        "finished_at": times,
        "ingested_at": times,
    }
    arrays: dict[str, Any] = {}
    for name, column in table.items():
        if isinstance(column, Lists):
            offsets = pa.array(column.offsets.astype(np.int32))
            arrays[name] = pa.ListArray.from_arrays(offsets, pa.array(column.values))
        elif isinstance(column, np.ndarray):
            arrays[name] = _arrow_array(column)
        else:
            arrays[name] = pa.array(column, types.get(name, pa.string()))
    return pa.table(arrays)


def _arrow_array(column: NDArray[Any]) -> Any:  # noqa: ANN401 - pyarrow has no types
    pa: Any = importlib.import_module("pyarrow")

    rows = len(column)
    if column.dtype.kind == "S":
        width = column.dtype.itemsize
        offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * width)
        content = pa.py_buffer(np.ascontiguousarray(column))
        return pa.StringArray.from_buffers(rows, offsets, content)
    if column.ndim == 1:
        return pa.array(column)
    width = column.shape[1]
    if column.dtype == np.uint8:
        content = pa.py_buffer(np.ascontiguousarray(column))
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), rows, [None, content])
    values = pa.array(np.ascontiguousarray(column).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(values, width)
