"""The record of one game, from the first move on: what self-play writes and the trainer reads."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_RANDOM_BITS = 74  # of a UUIDv7: 12 before its variant and 62 after it


@dataclass(frozen=True, slots=True, eq=False)
class GameRecord:
    """One game as columns, a row for each ply; unfinished while ``result`` is None.

    The search table of ply ``i`` is ``[offsets[i], offsets[i + 1])`` of the ``child_*`` columns.
    Values are for the player to move at that ply.
    """

    game_uid: UUID
    game: str
    actions: NDArray[np.int16]  # [plies]
    model_versions: NDArray[np.int32]  # [plies]
    root_values: NDArray[np.float32]  # [plies] after search
    network_values: NDArray[np.float32]  # [plies] before search
    best_child_values: NDArray[np.float32]  # [plies] of the best child, which is not always played
    simulations: NDArray[np.int32]  # [plies]
    full_search: NDArray[np.bool_]  # [plies] may it become a training target
    offsets: NDArray[np.int32]  # [plies + 1]
    child_actions: NDArray[np.int16]  # [offsets[-1]] legal; after a fast search those visited
    child_visit_counts: NDArray[np.int32]  # [offsets[-1]] of the search
    child_priors: NDArray[np.float32]  # [offsets[-1]] network's, without noise
    child_policy_weights: NDArray[np.int32]  # [offsets[-1]] training target, up to scale
    result: int | None  # +1 the first player won, -1 the second did, 0 a draw
    reason: str  # "rules", or "resign": the player to move after the last ply gave up and lost
    started_at: datetime
    finished_at: datetime | None
    resign_threshold: float | None = None  # v_resign when it began; None: nobody could resign
    plays_on: bool = False  # nobody resigns, so that v_resign can be computed from it
    to_play: NDArray[np.int8] | None = None  # [plies] who moved; None: the players took turns
    next_full_search: bool | None = None  # unfinished: what was drawn for the ply to come

    @property
    def length(self) -> int:
        """Number of plies played so far."""
        return len(self.actions)

    def digest(self) -> bytes:
        """Sha256 over everything the game's content is: two deliveries of one game agree."""
        content = hashlib.sha256()
        content.update(f"{self.game_uid}|{self.game}|{self.result}|{self.reason}|".encode())
        content.update(f"{self.resign_threshold}|{self.plays_on}|".encode())
        for column in (
            self.actions,
            self.model_versions,
            self.root_values,
            self.network_values,
            self.best_child_values,
            self.simulations,
            self.full_search,
            self.offsets,
            self.child_actions,
            self.child_visit_counts,
            self.child_priors,
            self.child_policy_weights,
        ):
            content.update(np.ascontiguousarray(column).tobytes())
        if self.to_play is not None:
            content.update(np.ascontiguousarray(self.to_play).tobytes())
        return content.digest()

    @property
    def is_target_visits(self) -> bool:
        """Whether the visit counts themselves are the training target, as without pruning."""
        return np.array_equal(self.child_policy_weights, self.child_visit_counts)

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values; ``from_json`` gives the same record back, bit for bit."""
        return {
            "game_uid": str(self.game_uid),
            "game": self.game,
            "actions": self.actions.tolist(),
            "model_versions": self.model_versions.tolist(),
            "root_values": self.root_values.tolist(),
            "network_values": self.network_values.tolist(),
            "best_child_values": self.best_child_values.tolist(),
            "simulations": self.simulations.tolist(),
            "full_search": self.full_search.tolist(),
            "offsets": self.offsets.tolist(),
            "child_actions": self.child_actions.tolist(),
            "child_visit_counts": self.child_visit_counts.tolist(),
            "child_priors": self.child_priors.tolist(),
            "child_policy_weights": (
                None if self.is_target_visits else self.child_policy_weights.tolist()
            ),
            "result": self.result,
            "reason": self.reason,
            "resign_threshold": self.resign_threshold,
            "plays_on": self.plays_on,
            "to_play": None if self.to_play is None else self.to_play.tolist(),
            "next_full_search": self.next_full_search,
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> GameRecord:
        """Rebuild a record from ``to_json``'s values.

        What a record from before resignation lacks is read as what it meant: the root's values
        decide alone, the visit counts are the target, nobody could resign.
        """
        finished_at = data["finished_at"]
        best_child_values = data.get("best_child_values", data["root_values"])
        weights = data.get("child_policy_weights")
        if weights is None:
            weights = data["child_visit_counts"]
        return cls(
            game_uid=UUID(data["game_uid"]),
            game=data["game"],
            actions=np.asarray(data["actions"], np.int16),
            model_versions=np.asarray(data["model_versions"], np.int32),
            root_values=np.asarray(data["root_values"], np.float32),
            network_values=np.asarray(data["network_values"], np.float32),
            best_child_values=np.asarray(best_child_values, np.float32),
            simulations=np.asarray(data["simulations"], np.int32),
            full_search=np.asarray(data["full_search"], np.bool_),
            offsets=np.asarray(data["offsets"], np.int32),
            child_actions=np.asarray(data["child_actions"], np.int16),
            child_visit_counts=np.asarray(data["child_visit_counts"], np.int32),
            child_priors=np.asarray(data["child_priors"], np.float32),
            child_policy_weights=np.asarray(weights, np.int32),
            result=data["result"],
            reason=data["reason"],
            started_at=datetime.fromisoformat(data["started_at"]),
            finished_at=datetime.fromisoformat(finished_at) if finished_at else None,
            resign_threshold=data.get("resign_threshold"),
            plays_on=data.get("plays_on", False),
            to_play=None if data.get("to_play") is None else np.asarray(data["to_play"], np.int8),
            next_full_search=data.get("next_full_search"),
        )


def new_game_uid(began_at: datetime) -> UUID:
    """A uid for a game that begins: a UUIDv7 (RFC 9562, section 5.7).

    Its first 48 bits are the time in milliseconds, so that the searches of games that began on one
    day are kept, and later forgotten, together; 74 others are random.
    """
    return game_uid_of(began_at, secrets.randbits(_RANDOM_BITS))


def game_uid_of(began_at: datetime, random_bits: int) -> UUID:
    """The UUIDv7 of a time and of the lowest 74 of ``random_bits``.

    Raises:
        ValueError: the time is before 1970 or after the year 10889, which 48 bits do not hold.
    """
    milliseconds = (began_at - _EPOCH) // _MILLISECOND
    if not 0 <= milliseconds < 1 << 48:
        raise ValueError(f"{began_at} has no UUIDv7: its milliseconds since 1970 need 48 bits")
    first, last = random_bits >> 62 & 0xFFF, random_bits & (1 << 62) - 1
    return UUID(int=milliseconds << 80 | 0x7 << 76 | first << 64 | 0b10 << 62 | last)


def is_held_out(game_uid: UUID, share: float) -> bool:
    """Whether a game belongs to the part that is never trained on, decided by its uid alone."""
    return int.from_bytes(hashlib.sha256(game_uid.bytes).digest()[:8], "big") < share * 2.0**64
