"""Checkpoints: atomic files with everything that the trainer needs to resume.

A checkpoint is two files. ``<name>.safetensors`` has the tensors. The manifest ``<name>.json`` has
the rest of the state and the sha256 of both. Each file is written under a temporary name, fsynced
and renamed; the manifest comes last.

``initial.safetensors`` has the weights that a new run starts from, if it does not start from random
ones. ``zerofleet up --from`` writes it.

A name starts with the fence epoch. A trainer may not know yet that another one has replaced it. Its
checkpoints still never look newer than its successor's.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import safetensors
import structlog
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from zerofleet import games
from zerofleet.config import INITIAL_WEIGHTS, RunConfig, check_sizes
from zerofleet.database import ModelRow, Origin, TrainerDatabase
from zerofleet.errors import ConfigError
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.learning.learner import Learner, LostWeightsError, Team
from zerofleet.learning.overfit import OverfitWatch
from zerofleet.learning.schedule import window_reach
from zerofleet.learning.window import TrainBucket, Training
from zerofleet.models.folder import fsync_folder
from zerofleet.models.model_store import ModelStore
from zerofleet.waiting import Backoff, Waits

KEEP = 3
_NAME = re.compile(r"checkpoint-(\d+)-(\d+)\.json")
_FILE = re.compile(r"checkpoint-(\d+)-\d+\.(?:json|safetensors)(?:\.tmp)?")

_log = structlog.get_logger()

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class TrainerState:
    """The part of a checkpoint that is not tensors."""

    run: str
    game: str
    seed: int  # the run file's seed when this was written
    step: int
    samples: float  # samples left in the train bucket
    received: int  # positions that have paid into it
    drawn: int  # samples that have been drawn from it
    next_tx: int  # watermark: games up to here have paid into the bucket
    seconds: float = 0.0  # seconds of training
    overfit: Mapping[str, Any] = field(default_factory=dict[str, Any])  # the watch's own state


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One complete checkpoint, read and verified."""

    state: TrainerState
    tensors: dict[str, Tensor]
    path: Path


class CheckpointFolder:
    """The newest few checkpoints of a run.

    Args:
        folder: the folder; created when the first checkpoint is written.
        keep: number of checkpoints to keep.
    """

    def __init__(self, folder: Path, keep: int = KEEP) -> None:
        self.folder = folder
        self._keep = keep

    def write(self, state: TrainerState, tensors: Mapping[str, Tensor], epoch: int) -> Path:
        """Write a checkpoint; once this returns, it survives a power cut.

        Raises:
            ConfigError: a tensor is not finite, so training could not resume from it.
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
        _write_durably(manifest_path.with_suffix(".safetensors"), content)
        values = asdict(state)
        manifest = {
            "state": values,
            "state_sha256": _digest(values),
            "tensors_sha256": hashlib.sha256(content).hexdigest(),
        }
        _write_durably(manifest_path, json.dumps(manifest, indent=1).encode())
        fsync_folder(self.folder)
        self._prune(epoch)
        return manifest_path

    def newest(self) -> Checkpoint | None:
        """Return the newest complete checkpoint; damaged ones are skipped."""
        return next(self.complete(), None)

    def complete(self) -> Iterator[Checkpoint]:
        """Read the complete checkpoints, newest first."""
        for manifest_path in reversed(self._manifests()):
            checkpoint = _read(manifest_path)
            if checkpoint is not None:
                yield checkpoint

    def newest_epoch(self) -> int:
        """Return the highest fence epoch of any file, complete or not; 0 if there is no file.

        The next trainer's epoch must be higher, because the folder keeps the checkpoints of the
        highest epochs.
        """
        names = (_FILE.fullmatch(path.name) for path in self.folder.glob("checkpoint-*"))
        return max((int(name[1]) for name in names if name), default=0)

    def _manifests(self) -> list[Path]:
        """Return the manifests, oldest first: by epoch, then by step."""
        named = [(_NAME.fullmatch(path.name), path) for path in self.folder.glob("*.json")]
        ordered = [(int(name[1]), int(name[2]), path) for name, path in named if name]
        return [path for _, _, path in sorted(ordered)]

    def _prune(self, epoch: int) -> None:
        """Remove checkpoints older than the newest few, and files that a killed writer left.

        Files of a newer epoch stay: its trainer may be between the two files of a checkpoint.
        """
        kept = {path.stem for path in self._manifests()[-self._keep :]}
        for path in self.folder.iterdir():
            name = _FILE.fullmatch(path.name)
            if name and int(name[1]) <= epoch and path.stem not in kept:
                path.unlink(missing_ok=True)


def _read(manifest_path: Path) -> Checkpoint | None:
    """Return the checkpoint; None if any byte of it is not as it was written."""
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


def _write_durably(path: Path, content: bytes) -> None:
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


@dataclass(frozen=True, slots=True)
class TrainerStores:
    """The stores that the training thread reads and writes, and its signals to the process."""

    database: TrainerDatabase
    models: ModelStore
    checkpoints: CheckpointFolder
    waits: Waits  # where waits are reported
    stop: Event  # set when the process must stop
    tick: Callable[[], None]  # called at each round of the loop, to show that it is not stuck
    data_folder: Path | None = None  # the data folder of `zerofleet up`; counts to the disk limit
    heartbeats: Heartbeats | None = None  # to read what inference runs on; None: unknown

    def ask(self, call: Callable[[], _Answer], store: str = "Postgres") -> _Answer:
        """Repeat a call to a store until the store answers.

        Every write goes through here, so it may be sent twice. It must be idempotent, or the
        caller must be able to recognise the repetition.

        Raises:
            StoppedError: the process was told to stop before the store answered.
        """
        return self.waits.retry(self.stop, call, store)

    def on_disk(self, place: str, folder: Path, write: Callable[[], None]) -> None:
        """Repeat a write until the disk accepts it; training waits, self-play does not.

        Args:
            place: description of the folder, for logs and heartbeats.
            folder: the folder to write to; it need not exist yet.
            write: writes the files; safe to repeat.

        Raises:
            StoppedError: the process was told to stop before the write succeeded.
        """

        def tried() -> None:
            try:
                write()
            except OSError as error:
                where = {"folder": str(folder), "free_bytes": _free_bytes(folder)}
                _log.error("disk_refuses", **where, reason=str(error))
                raise

        # A person has to free disk space: frequent attempts would only fill the log.
        self.waits.retry(self.stop, tried, f"the {place} {folder}", OSError, Backoff(5.0, 60.0))


def _free_bytes(folder: Path) -> int | None:
    """Return the free bytes of a folder's disk; None if they cannot be read."""
    try:
        return shutil.disk_usage(next(p for p in (folder, *folder.parents) if p.exists())).free
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The content of a checkpoint."""

    state: TrainerState
    tensors: Mapping[str, Tensor]

    def copy(self) -> Snapshot:
        """Return a snapshot that further steps do not change."""
        return Snapshot(self.state, {name: each.clone() for name, each in self.tensors.items()})


class Checkpoints:
    """Saves and restores one run's training.

    Args:
        run: the run file.
        folder: the folder of the checkpoints.
        training: the state to save, and to restore in place.
        epoch: the trainer's fence epoch.
    """

    def __init__(
        self, run: RunConfig, folder: CheckpointFolder, training: Training, epoch: int
    ) -> None:
        self._run = run
        self._folder = folder
        self._training = training
        self._epoch = epoch
        self._saved_step: int | None = None

    def resume(self, published_step: int | None) -> None:
        """Resume from the newest complete checkpoint; write the first one if the run is new.

        Args:
            published_step: step of the newest published model; None if there is no model.

        Raises:
            ConfigError: the run is not new but has no complete checkpoint, or the checkpoint is
                another run's.
            OSError: the folder cannot be written.
        """
        checkpoint = self._folder.newest()
        if checkpoint is None:
            if published_step:
                raise ConfigError(
                    f"run '{self._run.name}' has published models up to step {published_step}, but "
                    f"{self._folder.folder} holds no whole checkpoint: give the folder that has "
                    "them, or start a run of another name"
                )
            self._start_from_initial_weights()
            self.save()
            return
        state, training = checkpoint.state, self._training
        if (state.run, state.game) != (self._run.name, self._run.game.name):
            raise ConfigError(
                f"{checkpoint.path} belongs to the run '{state.run}' of {state.game}, not to "
                f"'{self._run.name}' of {self._run.game.name}: give another checkpoint folder"
            )
        training.learner.restore(checkpoint.tensors, state.step, state.drawn, state.seconds)
        training.bucket.samples = state.samples
        training.bucket.received, training.bucket.drawn = state.received, state.drawn
        training.watch.restore(state.overfit)
        training.bucket.pace = training.watch.pace
        # Without models this is a different database from the checkpoint's: all its games are new.
        training.paid_tx = state.next_tx if published_step is not None else 0
        self._saved_step = state.step
        _log.info("checkpoint_restored", step=state.step, path=str(checkpoint.path))

    def _start_from_initial_weights(self) -> None:
        path = self._folder.folder / INITIAL_WEIGHTS
        if not path.exists():
            return
        try:
            weights = load_tensors(path.read_bytes())
        except safetensors.SafetensorError as error:
            raise ConfigError(f"the starting weights {path} are damaged: {error}") from error
        self._training.learner.start_from(weights)
        _log.info("started_from_weights", path=str(path))

    @property
    def due(self) -> bool:
        """Whether the next checkpoint interval has been reached since the last write."""
        every = self._run.trainer.checkpoint_every_steps
        return self._training.learner.step // every > (self._saved_step or 0) // every

    def snapshot(self) -> Snapshot:
        """Return the present state; on a CPU the next step changes its tensors."""
        learner, bucket = self._training.learner, self._training.bucket
        state = TrainerState(
            run=self._run.name,
            game=self._run.game.name,
            seed=self._run.seed,
            step=learner.step,
            samples=bucket.samples,
            received=bucket.received,
            drawn=bucket.drawn,
            next_tx=self._training.paid_tx,
            seconds=learner.seconds,
            overfit=self._training.watch.state(),
        )
        return Snapshot(state, learner.state())

    def save(self, snapshot: Snapshot | None = None) -> None:
        """Write a checkpoint.

        Args:
            snapshot: the state to save; None: the present one.

        Raises:
            OSError: the folder cannot be written; earlier checkpoints are untouched.
        """
        snapshot = self.snapshot() if snapshot is None else snapshot
        self._folder.write(snapshot.state, snapshot.tensors, self._epoch)
        self._saved_step = snapshot.state.step

    def save_last(self, is_sound: Callable[[], bool], snapshot: Snapshot | None = None) -> None:
        """Save the steps since the last checkpoint before exit, unless training has diverged.

        Args:
            is_sound: returns whether training could go on from the present weights.
            snapshot: the state to save; None: the present one.
        """
        step = self._training.learner.step if snapshot is None else snapshot.state.step
        is_behind = self._saved_step not in (None, step)
        if is_behind and is_sound():
            self.save(snapshot)

    def go_back(self, is_sound: Callable[[], bool]) -> None:
        """Go back to the newest checkpoint from which training can go on.

        Older versions kept checkpoints of training that had diverged. Only the weights and the
        numbers of steps and samples come from the checkpoint, because its games have already paid
        into the train bucket.

        Args:
            is_sound: measures the present weights.

        Raises:
            ConfigError: training had diverged in every checkpoint.
        """
        lost: Checkpoint | None = None
        for checkpoint in self._folder.complete():
            if lost is not None:
                state = checkpoint.state
                learner, bucket = self._training.learner, self._training.bucket
                learner.restore(checkpoint.tensors, state.step, state.drawn, state.seconds)
                bucket.drawn, self._saved_step = state.drawn, state.step
                learner.share()
                _log.warning("went_back", step=state.step, lost=str(lost.path))
            if _has_not_diverged(is_sound):
                return
            lost = checkpoint
        if lost is not None:
            raise ConfigError(
                f"training had diverged in every checkpoint of {self._folder.folder}: start a new "
                "run with another --data and a lower trainer.learning_rate"
            )


def _has_not_diverged(is_sound: Callable[[], bool]) -> bool:
    try:
        return is_sound()
    except LostWeightsError:
        return False


@dataclass(frozen=True, slots=True)
class Resumed:
    """The state from which a trainer goes on once it has acquired the run's fence."""

    epoch: int  # the fence epoch
    training: Training
    checkpoints: Checkpoints
    published: Sequence[ModelRow]
    next_tx: int  # the window begins with the games after this transaction
    origin: Origin | None = None  # where given games come from


def take_over(run: RunConfig, stores: TrainerStores, team: Team) -> Resumed:
    """Become the run's trainer: acquire the fence and find the state to resume from.

    Args:
        run: the run file.
        stores: stores and folders.
        team: the processes that this one leads.

    Raises:
        ConfigError: with these sizes training could never start, or the checkpoints are not this
            run's.
        StoppedError: the process was told to stop while it waited for a store or the disk.
    """
    spec = games.spec(run.game.name)
    check_sizes(run.trainer, spec.max_length)
    torch.set_num_threads(run.trainer.threads)
    training = Training(
        Learner(spec, run, team),
        _bucket(run),
        OverfitWatch(run.overfit),
    )
    database, ask = stores.database, stores.ask
    ask(lambda: database.wait_ready(0))
    ask(lambda: database.register_run(run))
    ask(lambda: database.whole_origin(run.name), "the rest of the given games")
    above = stores.checkpoints.newest_epoch()
    epoch = ask(lambda: database.acquire_fence(run.name, "trainer", above=above))
    # A fork or an import may have begun just before the fence; none begins after it.
    origin = ask(lambda: database.whole_origin(run.name), "the rest of the given games")
    published = ask(lambda: database.models(run.name))
    checkpoints = Checkpoints(run, stores.checkpoints, training, epoch)
    published_step = max((row.step for row in published), default=None)
    folder = stores.checkpoints.folder
    stores.on_disk("checkpoint folder", folder, lambda: checkpoints.resume(published_step))
    training.learner.share()
    ask(
        lambda: stores.models.sweep(lambda sha256: database.names_file(run.name, sha256)),
        "Postgres or the store of models",
    )
    next_tx = ask(lambda: database.window_start(run.name, window_reach(run.trainer)))
    return Resumed(epoch, training, checkpoints, published, next_tx, origin)


def _bucket(run: RunConfig) -> TrainBucket:
    settings, ahead = run.trainer, run.selfplay.max_ahead_positions
    # A trainer that cannot take a step yet is not behind.
    behind = max(ahead / 2, settings.first_step_positions) if ahead else math.inf
    return TrainBucket(
        settings.samples_per_position,
        least_samples_per_position=settings.least_samples_per_position or math.inf,
        behind=behind,
    )
