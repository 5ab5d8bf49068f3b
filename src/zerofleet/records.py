"""The record of one game: what self-play writes and the trainer reads."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from zerofleet_core import GameColumns, game_columns

from zerofleet.errors import RecordRejectedError


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a game; it has this name in the core, in Python, in JSON and in Postgres."""

    name: str
    dtype: np.dtype[Any]
    entry: str  # unit of one entry: "ply", or "legal action"
    meaning: str


COLUMNS = tuple(
    Column(name, np.dtype(dtype), entry, meaning) for name, dtype, entry, meaning in game_columns()
)
"""Columns of a game, in the order of ``game_columns.h``.

``offsets`` ([plies + 1] int32) is stored with them: the search table of ply ``i`` is the range
``[offsets[i], offsets[i + 1])`` of the columns with an entry for each legal action.
"""
DTYPES: dict[str, np.dtype[Any]] = {column.name: column.dtype for column in COLUMNS} | {
    "offsets": np.dtype(np.int32)
}
"""The dtype of each array of a game, including ``offsets``."""

_LATER_FACTS = {"start": "", "restarted": False}  # records of earlier versions lack these
_FACTS = ("result", "reason", "resign_threshold", "plays_on", "next_full_search", *_LATER_FACTS)
_READ_AS = {"i": "i", "f": "fi", "b": "b"}  # kinds of dtypes, and the kinds they can be read from

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_RANDOM_BITS = 74  # bits of a UUIDv7: 12 before its variant and 62 after it


@dataclass(frozen=True, slots=True, eq=False)
class GameRecord:
    """One game with its name and times; unfinished while its ``result`` is None."""

    game_uid: UUID
    game: str
    columns: GameColumns
    started_at: datetime
    finished_at: datetime | None

    @property
    def length(self) -> int:
        """Number of plies played so far."""
        return self.columns.plies

    @property
    def result(self) -> int | None:
        """Result for the first player: +1 win, 0 draw, -1 loss."""
        return self.columns.result

    @property
    def reason(self) -> str:
        """``rules``, or ``resign``: the player to move after the last ply resigned and lost."""
        return self.columns.reason

    def digest(self) -> bytes:
        """SHA-256 of the game's content; two deliveries of one game have the same."""
        columns = self.columns
        content = hashlib.sha256(
            f"{self.game_uid}|{self.game}|{columns.result}|{columns.reason}|"
            f"{columns.resign_threshold}|{columns.plays_on}|".encode()
        )
        # Left out where earlier versions have neither, so that they compute the same.
        if columns.start:
            content.update(f"{columns.start}|".encode())
        if columns.restarted:
            content.update(b"restarted|")
        for name in DTYPES:
            content.update(getattr(columns, name))
        return content.digest()

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON values; its columns are Postgres array literals.

        ``policy_weights`` are null where the visit counts themselves are the training target.
        ``from_json`` restores the same record, bit for bit.
        """
        columns = self.columns
        is_target_visits = np.array_equal(columns.policy_weights, columns.visit_counts)
        omitted = {"policy_weights"} if is_target_visits else set[str]()
        return {
            "game_uid": str(self.game_uid),
            "game": self.game,
            **{
                name: None if name in omitted else _literal(getattr(columns, name))
                for name in DTYPES
            },
            **{fact: getattr(columns, fact) for fact in _FACTS},
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> GameRecord:
        """Rebuild a record from the values of ``to_json``, or from Postgres' JSON for them.

        Raises:
            RecordRejectedError: the values do not describe a record.
        """
        try:
            values = dict(data)
            if values["policy_weights"] is None:
                values["policy_weights"] = values["visit_counts"]
            arrays: dict[str, Any] = {
                name: _array(values[name], dtype) for name, dtype in DTYPES.items()
            }
            finished_at = data["finished_at"]
            return cls(
                game_uid=UUID(data["game_uid"]),
                game=data["game"],
                columns=GameColumns(**_facts(data), **arrays),
                started_at=datetime.fromisoformat(data["started_at"]),
                finished_at=None if finished_at is None else datetime.fromisoformat(finished_at),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise RecordRejectedError(f"this is not a record of a game: {error!r}") from error


def _facts(data: Mapping[str, Any]) -> dict[str, Any]:
    return {fact: data[fact] for fact in _FACTS if fact in data or fact not in _LATER_FACTS}


def changed(columns: GameColumns, **changes: NDArray[Any] | float | str | None) -> GameColumns:
    """Return the same game with other columns or facts (``result``, ``reason``, ...).

    Raises:
        ValueError: the columns do not fit together.
        TypeError: there is no such column, or it has another dtype.
    """
    given: dict[str, Any] = {name: getattr(columns, name) for name in (*DTYPES, *_FACTS)}
    given.update(changes)
    return GameColumns(**given)


def new_game_uid(began_at: datetime) -> UUID:
    """Return a uid for a game that begins: a UUIDv7 (RFC 9562, section 5.7).

    Its first 48 bits are the time in milliseconds, so that the searches of games from the same day
    are kept, and later deleted, together. 74 further bits are random.
    """
    return game_uid_of(began_at, secrets.randbits(_RANDOM_BITS))


def game_uid_of(began_at: datetime, random_bits: int) -> UUID:
    """Return the UUIDv7 of a time and the lowest 74 bits of ``random_bits``.

    Raises:
        ValueError: the time is before 1970 or after the year 10889, which 48 bits cannot hold.
    """
    milliseconds = (began_at - _EPOCH) // _MILLISECOND
    if not 0 <= milliseconds < 1 << 48:
        raise ValueError(f"{began_at} has no UUIDv7: its milliseconds since 1970 need 48 bits")
    first, last = random_bits >> 62 & 0xFFF, random_bits & (1 << 62) - 1
    return UUID(int=milliseconds << 80 | 0x7 << 76 | first << 64 | 0b10 << 62 | last)


SEARCH_TARGETS = ("root_value", "search_surprise", "plies_to_end")
"""Targets of the replay buffer that only ``Network.extra_targets`` adds; each is one number."""


def is_held_out(game_uid: UUID, share: float) -> bool:
    """Return whether a game belongs to the validation set; its uid alone decides."""
    return int.from_bytes(hashlib.sha256(game_uid.bytes).digest()[:8], "big") < share * 2.0**64


def read_json(text: str) -> Any:  # noqa: ANN401 - JSON is anything
    """Parse JSON for ``from_json``: Postgres writes -0.0 as -0, which must keep its sign."""
    return json.loads(text, parse_int=lambda digits: -0.0 if digits == "-0" else int(digits))


def _literal(column: NDArray[Any]) -> str:
    """Return a Postgres array literal; nine digits restore every float32 exactly."""
    values = column.tolist()
    if column.dtype.kind == "f":
        return "{" + ("%.9g," * len(values))[:-1] % tuple(values) + "}"
    return "{" + str(values)[1:-1] + "}"


def _array(column: str | list[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Parse our array literal, or an array as Postgres writes it in JSON."""
    if isinstance(column, str):
        text = column[1:-1]
        column = read_json(f"[{text.lower() if dtype.kind == 'b' else text}]")
    array = np.asarray(column)
    if array.ndim != 1 or (array.size and array.dtype.kind not in _READ_AS[dtype.kind]):
        raise ValueError(f"no array of {dtype}: {str(column)[:60]}")
    values = array.astype(dtype)
    if dtype.kind == "i" and not np.array_equal(values, array):
        raise ValueError(f"a number beyond {dtype}: {str(column)[:60]}")
    return values
