"""The state of training, and how checkpoints save and restore it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
import torch

from zerofleet import games
from zerofleet.config import RunConfig, check_sizes
from zerofleet.database import ModelRow
from zerofleet.errors import ConfigError
from zerofleet.learning.learner import Learner, LostWeightsError, Team
from zerofleet.learning.overfit import OverfitWatch
from zerofleet.learning.schedule import window_reach
from zerofleet.learning.window import TrainBucket, Training
from zerofleet.services.trainer.checkpoints import Checkpoint, CheckpointFolder, TrainerState
from zerofleet.services.trainer.trainer_stores import TrainerStores

_log = structlog.get_logger()


class Checkpoints:
    """Saves and restores one run's training.

    Args:
        run: the run file.
        folder: where checkpoints go.
        training: what is saved, and restored in place.
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
        """Go on from the newest whole checkpoint; write the first one when the run is new.

        Args:
            published_step: of the newest published model; None when there is none.

        Raises:
            ConfigError: the run is not new but has no whole checkpoint, or has another run's.
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
        # Without models this is another database than the checkpoint's: all its games are new.
        training.paid_tx = state.next_tx if published_step is not None else 0
        self._saved_step = state.step
        _log.info("checkpoint_restored", step=state.step, path=str(checkpoint.path))

    @property
    def due(self) -> bool:
        """Whether the next interval has been reached since the last one was written."""
        every = self._run.trainer.checkpoint_every_steps
        return self._training.learner.step // every > (self._saved_step or 0) // every

    def save(self) -> None:
        """Write a checkpoint now.

        Raises:
            OSError: the folder cannot be written; earlier checkpoints are untouched.
        """
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
        self._folder.write(state, learner.state(), self._epoch)
        self._saved_step = learner.step

    def save_last(self, is_sound: Callable[[], bool]) -> None:
        """Before leaving: write what a crash would lose, unless training has diverged.

        Args:
            is_sound: returns whether training could go on from it.
        """
        is_behind = self._saved_step not in (None, self._training.learner.step)
        if is_behind and is_sound():
            self.save()

    def go_back(self, is_sound: Callable[[], bool]) -> None:
        """Go back to the newest checkpoint from which training can go on.

        Older versions kept checkpoints of training that had diverged. Games have paid already:
        only weights and the number of steps and samples are those of the checkpoint.

        Args:
            is_sound: measures the present weights.

        Raises:
            ConfigError: there is none.
        """
        lost: Checkpoint | None = None
        for checkpoint in self._folder.whole():
            if lost is not None:
                state = checkpoint.state
                learner, bucket = self._training.learner, self._training.bucket
                learner.restore(checkpoint.tensors, state.step, state.drawn, state.seconds)
                bucket.drawn, self._saved_step = state.drawn, state.step
                learner.share()
                _log.warning("went_back", step=state.step, lost=str(lost.path))
            if _holds(is_sound):
                return
            lost = checkpoint
        if lost is not None:
            raise ConfigError(
                f"training had diverged in every checkpoint of {self._folder.folder}: start a new "
                "run with another --data and a lower trainer.learning_rate"
            )


def _holds(is_sound: Callable[[], bool]) -> bool:
    try:
        return is_sound()
    except LostWeightsError:
        return False


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a trainer goes on from, once it has the run's fence."""

    epoch: int  # of the fence
    training: Training
    checkpoints: Checkpoints
    published: Sequence[ModelRow]
    next_tx: int  # the window begins with the games after this transaction


def take_over(run: RunConfig, stores: TrainerStores, team: Team) -> Resumed:
    """Become the run's trainer: take the fence, and find the state to go on from.

    Args:
        run: the run file.
        stores: stores and folders.
        team: the processes that this one leads.

    Raises:
        ConfigError: with these sizes training could never start, or the checkpoints are not this
            run's.
        StoppedError: told to leave while a store or the disk was waited for.
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
    above = stores.checkpoints.newest_epoch()
    epoch = ask(lambda: database.acquire_fence(run.name, "trainer", above=above))
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
    return Resumed(epoch, training, checkpoints, published, next_tx)


def _bucket(run: RunConfig) -> TrainBucket:
    settings, ahead = run.trainer, run.selfplay.max_ahead_positions
    # A trainer that could not take a step yet is not behind.
    behind = max(ahead / 2, settings.first_step_positions) if ahead else math.inf
    return TrainBucket(
        settings.samples_per_position,
        least_samples_per_position=settings.least_samples_per_position or math.inf,
        behind=behind,
    )
