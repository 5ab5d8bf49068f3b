"""Checkpoints: everything the trainer needs to go on, on disk, whole or not there at all.

A checkpoint is two files: ``<name>.safetensors`` with the tensors, and ``<name>.json``, its
manifest, with the rest of the state and the sha256 of both. Each is written under a temporary name,
fsynced and renamed; the manifest comes last. A name starts with the fence epoch, so that a trainer
that does not know yet that it was replaced can never write a checkpoint that looks newer than its
successor's.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import safetensors
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from zerofleet.errors import ConfigError
from zerofleet.models.folder import fsync_folder

KEEP = 3
_NAME = re.compile(r"checkpoint-(\d+)-(\d+)\.json")
_FILE = re.compile(r"checkpoint-(\d+)-\d+\.(?:json|safetensors)(?:\.tmp)?")


@dataclass(frozen=True, slots=True)
class TrainerState:
    """What is not a tensor."""

    run: str
    game: str
    seed: int  # of the run file that it was written under
    step: int
    samples: float  # left in the train bucket
    received: int  # positions that have paid into it
    drawn: int  # samples that have been drawn from it
    next_tx: int  # watermark: games up to here have paid into the bucket
    seconds: float = 0.0  # of training
    overfit: Mapping[str, Any] = field(default_factory=dict[str, Any])  # the watch's own state


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One whole checkpoint, read and verified."""

    state: TrainerState
    tensors: dict[str, Tensor]
    path: Path


class CheckpointFolder:
    """The newest few checkpoints of a run.

    Args:
        folder: made when the first checkpoint is written.
        keep: checkpoints kept.
    """

    def __init__(self, folder: Path, keep: int = KEEP) -> None:
        self.folder = folder
        self._keep = keep

    def write(self, state: TrainerState, tensors: Mapping[str, Tensor], epoch: int) -> Path:
        """Write a checkpoint; once this returns it survives a power cut.

        Raises:
            ConfigError: a tensor is not finite: training that resumes from it would learn nothing.
            OSError: the folder cannot be written; earlier checkpoints are untouched.
        """
        if not all(tensor.isfinite().all() for tensor in tensors.values()):
            raise ConfigError(
                f"the weights are not finite at step {state.step}: lower trainer.learning_rate and "
                "start again, which resumes from the last checkpoint"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        manifest_path = self.folder / f"checkpoint-{epoch:06d}-{state.step:010d}.json"
        content = save_tensors(dict(tensors))
        _write_whole(manifest_path.with_suffix(".safetensors"), content)
        values = asdict(state)
        manifest = {
            "state": values,
            "state_sha256": _digest(values),
            "tensors_sha256": hashlib.sha256(content).hexdigest(),
        }
        _write_whole(manifest_path, json.dumps(manifest, indent=1).encode())
        fsync_folder(self.folder)
        self._prune(epoch)
        return manifest_path

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that is whole; damaged ones are passed over."""
        return next(self.whole(), None)

    def whole(self) -> Iterator[Checkpoint]:
        """Read the checkpoints that are whole, newest first."""
        for manifest_path in reversed(self._manifests()):
            checkpoint = _read(manifest_path)
            if checkpoint is not None:
                yield checkpoint

    def newest_epoch(self) -> int:
        """The newest fence epoch of any file, whole or not; 0 of none.

        The next trainer's must be above it: of checkpoints the newest few by name are kept.
        """
        names = (_FILE.fullmatch(path.name) for path in self.folder.glob("checkpoint-*"))
        return max((int(name[1]) for name in names if name), default=0)

    def _manifests(self) -> list[Path]:
        """Oldest first, by epoch and then by step."""
        named = [(_NAME.fullmatch(path.name), path) for path in self.folder.glob("*.json")]
        ordered = [(int(name[1]), int(name[2]), path) for name, path in named if name]
        return [path for _, _, path in sorted(ordered)]

    def _prune(self, epoch: int) -> None:
        """Remove what is older than the newest few, and what a killed writer left.

        Files of a newer epoch are its own, who may be between two of them.
        """
        kept = {path.stem for path in self._manifests()[-self._keep :]}
        for path in self.folder.iterdir():
            name = _FILE.fullmatch(path.name)
            if name and int(name[1]) <= epoch and path.stem not in kept:
                path.unlink(missing_ok=True)


def _read(manifest_path: Path) -> Checkpoint | None:
    """The checkpoint, or None if any byte of it is not as it was written."""
    try:
        manifest: dict[str, Any] = json.loads(manifest_path.read_bytes())
        values: dict[str, Any] = manifest["state"]
        content = manifest_path.with_suffix(".safetensors").read_bytes()
        if (
            manifest["state_sha256"] != _digest(values)
            or manifest["tensors_sha256"] != hashlib.sha256(content).hexdigest()
        ):
            return None
        return Checkpoint(TrainerState(**values), load_tensors(content), manifest_path)
    except (OSError, ValueError, KeyError, TypeError, safetensors.SafetensorError):
        return None


def _digest(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
