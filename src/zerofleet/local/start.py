"""Start a run in its data folder: the checkpoint to resume from, and undoing a failed start."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, Self

from zerofleet_core import GameSpec

from zerofleet.config import Overrides, RunConfig
from zerofleet.config.renamed import MARKER
from zerofleet.errors import ConfigError
from zerofleet.local.data_folder import OLD, REPLACED, DataFolder, full_disk_named, is_log
from zerofleet.local.postgres import SHARED
from zerofleet.local.postgres_cluster import Cluster

_POOLED_EVERY = 3  # the value in zerofleet.learning
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
                    seconds=state.get("seconds", 0.0),  # 1.0 did not count them
                    shapes=_shapes_of(path.with_suffix(".safetensors")),
                )
            except (OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError):
                continue  # the trainer also skips a damaged one
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
            f"{key} = {toml_text(wanted)}, but this run was trained with {toml_text(found)}: keep "
            "that value, or start a new run from its games: "
            f"`zerofleet fork {self.run} --to NEW.toml`"
            for key, wanted, found in self._differences(run, spec)
        ]
        if mistakes:
            raise ConfigError(*mistakes)
        planes, rows, columns = spec.observation_shape
        if run.network.is_own:
            return  # the trainer compares its sizes
        shape = (input_planes(self.shapes), self._size("value_head.2.weight", 1))
        # Dense heads without and with pooling; a convolutional one has the same size for all games.
        lasts = (self.shapes.get(f"network.policy_head.{last}.weight") for last in ("2", "last"))
        actions = next((shape[0] for shape in lasts if shape is not None), spec.num_actions)
        if shape != (planes, self._size("value_head.0.0.weight") * rows * columns):
            self._refuse_game("on other input planes")
        if actions != spec.num_actions:
            self._refuse_game(f"with {actions} actions instead of {spec.num_actions}")

    def _refuse_game(self, difference: str) -> NoReturn:
        why, remedy = "changed with a version of zerofleet (see the changelog)", "start"
        if self.game.startswith("python:"):
            why, remedy = "has changed", "undo the change of the class, or start"
        raise ConfigError(
            f"{self.path} was trained {difference}: {self.game} {why}; {remedy} a new run with "
            "another --data"
        )

    def _differences(self, run: RunConfig, spec: GameSpec) -> list[tuple[str, object, object]]:
        """Return key, value of the run file and value of the checkpoint where they differ."""
        wanted = {f"network.{key}": value for key, value in run.network}
        if run.network.is_own:
            wanted["network.name"] = OWN
        found = {f"network.{key}": value for key, value in network_keys(self.shapes).items()}
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

    def _size(self, weight: str, axis: int = 0) -> int:
        return self.shapes[f"network.{weight}"][axis]

    def _has(self, start: str) -> bool:
        return any(name.startswith(start) for name in self.shapes)


OWN = "python:MODULE:CLASS"


def input_planes(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Return the input planes of one of our networks."""
    first = "network.tower.0.0.weight"
    return shapes[first if first in shapes else "network.tower.embed.weight"][1]


def network_keys(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, object]:
    """Return the keys of ``[network]`` that the shapes of a network's tensors show.

    They do not show which class a network of one's own is: its name is ``OWN``.

    Args:
        shapes: by name; names of the network's tensors begin with ``network.``.
    """

    def size(weight: str) -> int:
        return shapes[f"network.{weight}"][0]

    def has(start: str) -> bool:
        return any(name.startswith(start) for name in shapes)

    is_attention = has("network.tower.embed.")
    if not is_attention and not has("network.tower.0.0."):
        return {"name": OWN}
    start = "network.tower.blocks." if is_attention else "network.tower."
    numbers = {name.removeprefix(start).split(".")[0] for name in shapes if name.startswith(start)}
    blocks = len(numbers) if is_attention else len(numbers) - 1
    is_convolutional = has("network.policy_head.points.")
    has_filters = has("network.policy_head.filters.")
    filters = "policy_head.filters.0.weight" if has_filters else "policy_head.0.0.weight"
    keys: dict[str, object] = {
        "name": "attention" if is_attention else "residual",
        "blocks": blocks,
        "channels": size("tower.embed.weight" if is_attention else "tower.0.0.weight"),
        "policy_channels": size(filters),
        "policy_head": "convolutional" if is_convolutional else "dense",
        "value_channels": size("value_head.0.0.weight"),
        "value_hidden": size("value_head.2.weight"),
        "value_head": "scalar" if size("value_head.4.weight") == 1 else "outcome",
    }
    has_pooled_block = not is_attention and any(".first_norm." in name for name in shapes)
    # Otherwise no shape reveals it.
    if not is_convolutional or (blocks >= _POOLED_EVERY and not is_attention):
        keys["global_pooling"] = has_pooled_block or has("network.policy_head.last.")
    if blocks and not is_attention:
        keys["squeeze_excitation"] = any(".gate." in name for name in shapes)
    return keys


def toml_text(value: object) -> str:
    """Return a value of a run file as messages show it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shapes_of(path: Path) -> dict[str, tuple[int, ...]]:
    with path.open("rb") as file:
        return tensor_shapes(file)


def tensor_shapes(file: BinaryIO) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor of a safetensors file by its name, read from its header.

    The header is JSON after its length, 8 bytes, least significant first
    (https://huggingface.co/docs/safetensors, "Format").

    Args:
        file: the file, at its beginning.
    """
    header: dict[str, Any] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    return {name: tuple(each["shape"]) for name, each in header.items() if "shape" in each}


class Start:
    """Holds the data folder of a run while ``zerofleet up`` runs.

    Leaving the block before ``succeeded`` is called undoes the start: an old folder gets its run
    file and its list of stores back, and a new folder is removed except for its logs. If the
    process is killed before, the next command that uses the folder restores these files.

    Args:
        root: the data folder, which need not exist.
        run_file: the file that the run was read from.
        overrides: keys given over the run file; by default the keys of ``ZEROFLEET_SET``.

    Raises:
        ConfigError: the run file cannot be copied; or the folder belongs to another run, is in use,
            holds other things, or cannot be written.
    """

    def __init__(
        self, root: Path, run: RunConfig, run_file: Path, overrides: Overrides | None = None
    ) -> None:
        self._overrides = overrides
        self._root = root
        self._run = run
        self._run_file = run_file
        self._written = False
        self._succeeded = False
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if not self._run_file.is_file():  # a shell's <(...), which can be read only once
            raise ConfigError(f"cannot copy {self._run_file}: give a run file that is a plain file")
        folders = [self._root.absolute(), *self._root.absolute().parents]
        self._made = [folder for folder in folders if not os.path.lexists(folder)]
        had_marker = os.path.exists(self._root / MARKER)
        try:
            self.folder = DataFolder.for_run(self._root, self._run)
            self._exit.enter_context(self.folder.hold("up"))
        except BaseException:
            self._remove_empty()
            raise
        self._root = self.folder.root
        try:
            self._check_rights()
        except BaseException:
            self._exit.close()
            raise
        self.is_new = not had_marker and not self.folder.run_file.exists()
        return self

    def __exit__(self, *exception: object) -> None:
        with self._exit:
            if self._succeeded:
                return
            if self.is_new:
                self._remove()
            else:
                self._restore()

    def write(self, run: RunConfig) -> None:
        """Copy the run file into the folder, where the services read it.

        Args:
            run: the run to write into the copy.

        Raises:
            ConfigError: the copy cannot be written.
        """
        with full_disk_named(self._root):
            for name in REPLACED:
                source, copy = self._root / name, self._root / f"{name}{OLD}"
                part = copy.with_name(f"{copy.name}.new")
                part.unlink(missing_ok=True)
                if source.exists():
                    part.touch(0o600)  # no other user may read a password at any moment
                    shutil.copy2(source, part)
                    part.replace(copy)  # an incomplete copy must never be restored
        self._written = True
        self.folder.keep_run_file(self._run_file, run, self._overrides)

    def succeeded(self) -> None:
        """Keep the changes of this start."""
        if not self._succeeded:
            self._succeeded = True
            for name in REPLACED:  # now, because a run that is killed hours later has started
                (self._root / f"{name}{OLD}").unlink(missing_ok=True)

    def _check_rights(self) -> None:
        """Refuse a folder with files of another user, such as a copy made by root.

        Raises:
            ConfigError: a file cannot be read, or a folder or log cannot be written.
        """
        if os.geteuid() == 0:
            return
        for folder, folders, names in os.walk(self._root):
            if Path(folder) == self._root / "postgres":
                folders[:] = [name for name in folders if name != "cluster"]  # Cluster checks it
            for name in (*folders, *names):
                path = Path(folder) / name
                is_written = name in folders or is_log(name) or "valkey" in path.parts
                mode = os.R_OK | (os.W_OK if is_written else 0)
                effective = os.access in os.supports_effective_ids
                if not os.access(path, mode, effective_ids=effective):
                    raise ConfigError(
                        f"{path} belongs to user ID {path.lstat().st_uid} and cannot be used: "
                        "start as that user, or as root give the data folder to your user "
                        f"(chown -R {os.geteuid()}:{os.getegid()} {self._root})"
                    )

    def _restore(self) -> None:
        given_back = self.folder.give_back()
        for name in REPLACED:
            if self._written and name not in given_back:
                (self._root / name).unlink(missing_ok=True)

    def _remove(self) -> None:
        """Remove everything except logs, which the error may refer to."""
        Cluster(self._root / "postgres", SHARED).remove_outside()
        for folder, _, names in os.walk(self._root):
            for name in names:
                if not is_log(name):
                    (Path(folder) / name).unlink(missing_ok=True)
        for folder, names, _ in os.walk(self._root, topdown=False):
            for name in names:
                path = Path(folder) / name
                with contextlib.suppress(OSError):  # it holds logs
                    path.unlink() if path.is_symlink() else path.rmdir()
        self._remove_empty()

    def _remove_empty(self) -> None:
        """Remove the folders that this start has made if they are empty."""
        for folder in self._made:
            with contextlib.suppress(OSError):
                folder.rmdir()
