"""The interface every model file has, whatever is inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

INPUT = "observation"  # uint8 [batch, observation_bytes], bit-packed planes
POLICY_OUTPUT = "policy_logits"  # float16 [batch, num_actions]
VALUE_OUTPUT = "value"  # float32 [batch], in [-1, 1], for the player to move


class ModelShape(Protocol):
    """The two sizes a model is checked against; ``zerofleet_core.GameSpec`` has them."""

    @property
    def observation_bytes(self) -> int:
        """Bytes of one bit-packed observation."""
        ...

    @property
    def num_actions(self) -> int:
        """Actions of the game, legal or not."""
        ...


@dataclass(frozen=True, slots=True)
class Shape:
    """The same two sizes as plain numbers, for a process that does not import the rules."""

    observation_bytes: int
    num_actions: int
