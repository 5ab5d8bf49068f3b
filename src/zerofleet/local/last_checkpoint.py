"""The newest checkpoint of a run, read without torch: progress and network of the training.

The trainer writes them (``zerofleet.services.trainer.checkpoints``) and checks every byte when it
resumes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from zerofleet_core import GameSpec

from zerofleet.config import RunConfig
from zerofleet.errors import ConfigError

_POOLED_EVERY = 3  # as zerofleet.learning has it
_NAME = re.compile(r"checkpoint-(\d+)-(\d+)\.json")


@dataclass(frozen=True, slots=True)
class LastCheckpoint:
    """State of a run in a checkpoint, and the shapes of its tensors by name."""

    path: Path
    run: str
    game: str
    step: int
    samples: int
    """Positions drawn for training."""
    seconds: float
    """Seconds of training."""
    shapes: Mapping[str, tuple[int, ...]]

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """Return the newest readable checkpoint of a run's folder; None if there is none."""
        named = [(_NAME.fullmatch(path.name), path) for path in folder.glob("*.json")]
        ordered = sorted((int(name[1]), int(name[2]), path) for name, path in named if name)
        for _, _, path in reversed(ordered):
            try:
                state: dict[str, Any] = json.loads(path.read_bytes())["state"]
                return cls(
                    path=path,
                    run=state["run"],
                    game=state["game"],
                    step=state["step"],
                    samples=state["drawn"],
                    seconds=state["seconds"],
                    shapes=_shapes(path.with_suffix(".safetensors")),
                )
            except (OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError):
                continue  # the trainer skips a damaged one, too
        return None

    def check(self, run: RunConfig, spec: GameSpec) -> None:
        """Refuse a run file with which the trainer could not resume from this checkpoint.

        Raises:
            ConfigError: one line for each key that must keep its value.
        """
        if (self.run, self.game) != (run.name, run.game.name):
            raise ConfigError(
                f"{self.path} belongs to the run '{self.run}' of {self.game}, not to "
                f"'{run.name}' of {run.game.name}: give another --data"
            )
        mistakes = [
            f"{key} = {_toml(wanted)}, but this run was trained with {_toml(found)}: keep that "
            "value, or start a new run with another --data"
            for key, wanted, found in self._differences(run, spec)
        ]
        if mistakes:
            raise ConfigError(*mistakes)
        planes, rows, columns = spec.observation_shape
        shape = (self._size("tower.0.0.weight", 1), self._size("value_head.2.weight", 1))
        if shape != (planes, self._size("value_head.0.0.weight") * rows * columns):
            raise ConfigError(
                f"{self.path} was trained on other input planes of {self.game} than this zerofleet "
                "has (see its changelog): start a new run with another --data"
            )

    def _differences(self, run: RunConfig, spec: GameSpec) -> list[tuple[str, object, object]]:
        """Return key, value of the run file and value of the checkpoint where they differ."""
        wanted = {f"network.{key}": value for key, value in run.network}
        found = {f"network.{key}": value for key, value in self._network().items()}
        offered = {
            "soft_policy": True,
            "opponent_policy": True,
            "final_planes": spec.num_final_planes > 0,
            "final_score": spec.has_final_score,
        }
        differences = [
            (key, wanted[key], value) for key, value in found.items() if wanted[key] != value
        ]
        for target, is_offered in offered.items():
            has_head = self._has(f"network.auxiliary.{target}.")
            weight = run.trainer.auxiliary_weights.get(target, 0.0)
            if is_offered and has_head != (weight > 0):
                known = "a weight above 0" if has_head else 0
                differences.append((f"trainer.{target}_weight", weight, known))
        was_adamw, optimizer = self._has("square."), run.trainer.optimizer
        if was_adamw != (optimizer == "adamw"):
            known = "adamw" if was_adamw else "sgd or muon"
            differences.append(("trainer.optimizer", optimizer, known))
        return differences

    def _network(self) -> dict[str, object]:
        """Return the keys of ``[network]`` that the shapes show."""
        blocks = len({name.split(".")[2] for name in self.shapes if _in_tower(name)}) - 1
        is_convolutional = self._has("network.policy_head.points.")
        has_filters = self._has("network.policy_head.filters.")
        filters = "policy_head.filters.0.weight" if has_filters else "policy_head.0.0.weight"
        keys: dict[str, object] = {
            "blocks": blocks,
            "channels": self._size("tower.0.0.weight"),
            "policy_channels": self._size(filters),
            "policy_head": "convolutional" if is_convolutional else "dense",
            "value_channels": self._size("value_head.0.0.weight"),
            "value_hidden": self._size("value_head.2.weight"),
            "value_head": "scalar" if self._size("value_head.4.weight") == 1 else "outcome",
        }
        if blocks >= _POOLED_EVERY or not is_convolutional:  # otherwise no shape shows it
            has_block = any(".first_norm." in name for name in self.shapes)
            keys["global_pooling"] = has_block or self._has("network.policy_head.last.")
        if blocks:
            keys["squeeze_excitation"] = any(".gate." in name for name in self.shapes)
        return keys

    def _size(self, weight: str, axis: int = 0) -> int:
        return self.shapes[f"network.{weight}"][axis]

    def _has(self, start: str) -> bool:
        return any(name.startswith(start) for name in self.shapes)


def _in_tower(name: str) -> bool:
    return name.startswith("network.tower.")


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a safetensors file from its header.

    The header is JSON after its length, 8 bytes, least significant first
    (https://huggingface.co/docs/safetensors, "Format").
    """
    with path.open("rb") as file:
        header: dict[str, Any] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {name: tuple(each["shape"]) for name, each in header.items() if "shape" in each}
