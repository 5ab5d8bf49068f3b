"""The record of one game, from the first move on: what self-play writes and the trainer reads."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray


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
    simulations: NDArray[np.int32]  # [plies]
    full_search: NDArray[np.bool_]  # [plies] may it become a training target
    offsets: NDArray[np.int32]  # [plies + 1]
    child_actions: NDArray[np.int16]  # [offsets[-1]] legal actions
    child_visit_counts: NDArray[np.int32]  # [offsets[-1]] of the search
    child_priors: NDArray[np.float32]  # [offsets[-1]] network's, without noise
    result: int | None  # +1 the first player won, -1 the second did, 0 a draw
    reason: str  # "rules" while nothing but the rules ends games
    started_at: datetime
    finished_at: datetime | None

    @property
    def length(self) -> int:
        """Number of plies played so far."""
        return len(self.actions)

    def digest(self) -> bytes:
        """Sha256 over everything the game's content is: two deliveries of one game agree."""
        content = hashlib.sha256()
        content.update(f"{self.game_uid}|{self.game}|{self.result}|{self.reason}|".encode())
        for column in (
            self.actions,
            self.model_versions,
            self.root_values,
            self.network_values,
            self.simulations,
            self.full_search,
            self.offsets,
            self.child_actions,
            self.child_visit_counts,
            self.child_priors,
        ):
            content.update(np.ascontiguousarray(column).tobytes())
        return content.digest()

    def to_json(self) -> dict[str, Any]:
        """The record as JSON values; ``from_json`` gives the same record back, bit for bit."""
        return {
            "game_uid": str(self.game_uid),
            "game": self.game,
            "actions": self.actions.tolist(),
            "model_versions": self.model_versions.tolist(),
            "root_values": self.root_values.tolist(),
            "network_values": self.network_values.tolist(),
            "simulations": self.simulations.tolist(),
            "full_search": self.full_search.tolist(),
            "offsets": self.offsets.tolist(),
            "child_actions": self.child_actions.tolist(),
            "child_visit_counts": self.child_visit_counts.tolist(),
            "child_priors": self.child_priors.tolist(),
            "result": self.result,
            "reason": self.reason,
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat() if self.finished_at else None,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> GameRecord:
        """Rebuild a record from ``to_json``'s values."""
        finished_at = data["finished_at"]
        return cls(
            game_uid=UUID(data["game_uid"]),
            game=data["game"],
            actions=np.asarray(data["actions"], np.int16),
            model_versions=np.asarray(data["model_versions"], np.int32),
            root_values=np.asarray(data["root_values"], np.float32),
            network_values=np.asarray(data["network_values"], np.float32),
            simulations=np.asarray(data["simulations"], np.int32),
            full_search=np.asarray(data["full_search"], np.bool_),
            offsets=np.asarray(data["offsets"], np.int32),
            child_actions=np.asarray(data["child_actions"], np.int16),
            child_visit_counts=np.asarray(data["child_visit_counts"], np.int32),
            child_priors=np.asarray(data["child_priors"], np.float32),
            result=data["result"],
            reason=data["reason"],
            started_at=datetime.fromisoformat(data["started_at"]),
            finished_at=datetime.fromisoformat(finished_at) if finished_at else None,
        )


def is_held_out(game_uid: UUID, share: float) -> bool:
    """Whether a game belongs to the part that is never trained on, decided by its uid alone."""
    return int.from_bytes(hashlib.sha256(game_uid.bytes).digest()[:8], "big") < share * 2.0**64
