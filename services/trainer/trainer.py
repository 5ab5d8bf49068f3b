"""The loop: read what came in, train as much as it paid for, save, publish."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event
from typing import TypeVar

import structlog
import torch
from zerofleet_core import GameSpec

from services.trainer.board import TensorBoard
from services.trainer.bucket import TrainBucket
from services.trainer.checkpoints import CheckpointFolder
from services.trainer.demand import Demand
from services.trainer.learner import Learner
from services.trainer.overfit import OverfitWatch
from services.trainer.patience import Patience, StoppedError
from services.trainer.postponement import Postponement
from services.trainer.publisher import Publisher
from services.trainer.pulse import Pulse
from services.trainer.recorder import Recorder
from services.trainer.resignation import Calibrator
from services.trainer.retention import Retention
from services.trainer.state import Checkpoints, Training
from services.trainer.team import Team
from services.trainer.variants import Variants
from services.trainer.window import Window
from zerofleet.config import RunConfig, TrainerSection
from zerofleet.database import Database
from zerofleet.errors import ConfigError, IncompatibleModelError, StoreUnavailableError
from zerofleet.heartbeat import Heartbeats
from zerofleet.models.store import ModelStore
from zerofleet.models.variant import Variant

POLL_SECONDS = 0.5
DISK_SECONDS = 5.0

_log = structlog.get_logger()
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Places:
    """Where the trainer's surroundings are."""

    database: Database
    heartbeats: Heartbeats
    models: ModelStore
    checkpoints: CheckpointFolder
    worker: str


class Trainer:
    """One trainer of one run; whichever acquired the fence last may write.

    Args:
        run: the run file.
        spec: the run's game.
        places: stores and folders.
        stop: set when the process must leave; the loop then ends after the step it is in.
        team: the processes that this one leads; by default none.

    Raises:
        ConfigError: with these sizes training could never start, or a package is missing.
    """

    def __init__(
        self,
        run: RunConfig,
        spec: GameSpec,
        places: Places,
        stop: Event,
        team: Team | None = None,
    ) -> None:
        check_sizes(run.trainer)
        torch.set_num_threads(run.trainer.threads)
        self._run = run
        self._spec = spec
        self._places = places
        self._stop = stop
        self._training = Training(
            Learner(spec, run, team),
            TrainBucket(run.trainer.samples_per_position),
            OverfitWatch(run.overfit),
        )
        self._demand = Demand(self._training.bucket)
        self._window = Window(run, places.database, self._training)
        folder = places.checkpoints.folder / "tensorboard"
        self._board = TensorBoard(folder) if run.trainer.tensorboard else None
        self._recorder = Recorder(run, self._training, self._window, self._sample_seed, self._board)
        self._calibrator = Calibrator(run.name, run.resign, places.database)
        self._pulse = Pulse(places.heartbeats, places.worker, self.figures)
        self._patience = Patience(stop, self._pulse.waiting)
        self._postponed = Postponement()
        self._variants = Variants(run, spec, self._window, self._sample_seed, self._making)
        self._next_poll = 0.0

    def run(self) -> None:
        """Train until told to stop, then save.

        Raises:
            StaleEpochError: another trainer has taken over; nothing was written since.
            ConfigError: a person must mend something.
        """
        try:
            self._begin()
        except StoppedError:
            return
        _log.info("trainer_started", step=self._learner.step, epoch=self._epoch)
        self._recorder.open(self._places.database, self._ask, self._epoch)
        try:
            self._refill()
            while not self._stop.is_set():
                self._turn()
        except StoppedError:
            pass
        finally:
            if self._board is not None:
                self._board.close()
        self._checkpoints.save_last()
        _log.info("trainer_stopped", step=self._learner.step)

    def _begin(self) -> None:
        """Take the fence and find the state to go on from."""
        run, places = self._run, self._places
        self._ask(lambda: places.database.wait_ready(0))
        self._ask(lambda: places.database.register_run(run))
        self._epoch = self._ask(lambda: places.database.acquire_fence(run.name, "trainer"))
        rows = self._ask(lambda: places.database.models(run.name))
        self._checkpoints = Checkpoints(run, places.checkpoints, self._training, self._epoch)
        published_step = max((row.step for row in rows), default=None)
        self._on_disk("checkpoint folder", lambda: self._checkpoints.resume(published_step))
        self._learner.share()
        self._patience(
            "Postgres or the store of models",
            lambda: places.models.sweep(
                lambda sha256: places.database.names_file(run.name, sha256)
            ),
        )
        self._publisher = Publisher(
            run.name,
            self._spec,
            places.models,
            places.database,
            self._insert,
            run.trainer.publish_every_steps,
            rows,
        )
        self._retention = Retention(run, places.database, places.models, self._epoch)
        self._window.next_tx = self._ask(
            lambda: places.database.window_start(run.name, run.trainer.window_games)
        )

    def _refill(self) -> None:
        """Read the whole window before training on it: its oldest part alone is not the window."""
        self._publish_if_due()
        while not self._stop.is_set() and self._read():
            positions = self._window.trained.positions
            self._pulse.waiting("the window", f"the window, {positions:,} positions read so far")

    def _turn(self) -> None:
        """One round: what is due, then one step or one wait."""
        if self._checkpoints.due:
            self._on_disk("checkpoint folder", self._checkpoints.save)
        self._publish_if_due()
        if self._calibrator.due():
            self._ask(self._calibrator.calibrate)
        if self._retention.due():
            self._ask(self._retention.carry_out)
        arrived = time.monotonic() >= self._next_poll and self._read()
        wait = self._wait()
        self._demand.turn(hungry=wait is not None and not arrived)
        if wait is None:
            self._train()
            self._pulse.working()
        elif not arrived:
            if self._postponed.reason:  # without a model there will be no positions
                wait = "the store of models", self._postponed.reason
            self._pulse.waiting(*wait)
            self._stop.wait(POLL_SECONDS)

    def _wait(self) -> tuple[str, str] | None:
        """Why no step can be taken now: the kind of wait, and its words with figures."""
        training, watch = self._training, self._training.watch
        if watch.waits:
            self._recorder.look_again()
        if watch.waits:
            missing = max(0, watch.renewed_at - training.bucket.received)
            words = f"new games, at most {missing:,} positions: {watch.explain()}"
            return "overfit", words
        missing = self._missing_positions()
        if missing <= 0:
            return None
        if self._window.blocker is not None:
            return "positions", f"{missing:,} positions, and {self._window.blocker}"
        slowed = f" (slowed down: {watch.explain()})" if watch.pace < 1 else ""
        return "positions", f"{missing:,} positions{slowed}"

    def _read(self) -> bool:
        """Read one page of games; the next one follows at once while there are more."""
        was_page = self._ask(self._window.read_page)
        self._ask(self._window.record_rejections)
        if not was_page:
            self._next_poll = time.monotonic() + POLL_SECONDS
        return was_page

    def _missing_positions(self) -> int:
        """Positions that must still come in before the next step."""
        settings = self._run.trainer
        return max(
            settings.min_positions - self._window.trained.positions,
            self._training.bucket.missing_positions(settings.batch_size),
        )

    def _train(self) -> None:
        size = self._run.trainer.batch_size
        self._learner.train(self._window.sample(size, self._sample_seed("train")))
        self._training.bucket.draw(size)
        if self._learner.step % self._run.trainer.metrics_every_steps == 0:
            self._recorder.measure()

    def _sample_seed(self, purpose: str) -> int:
        return sample_seed(self._run.seed, purpose, self._learner.step)

    def _publish_if_due(self) -> None:
        if not (self._publisher.due(self._learner.step) and self._postponed.over):
            return
        try:
            # First of all: making variants takes minutes.
            self._places.models.check()
            self._on_disk("model folder", self._publish)
        except StoreUnavailableError as error:
            self._postponed.again(error)
        else:
            self._postponed.end()

    def _publish(self) -> None:
        learner = self._learner
        try:
            published = self._publisher.publish(
                learner.published, learner.step, self._model_figures(), self._variants.request()
            )
        except IncompatibleModelError as error:
            if not self._publisher.version:
                raise  # nothing can begin without a first model
            _log.error("model_not_published", step=learner.step, reason=str(error))
            self._publisher.pass_over(learner.step)
        else:
            self._variants.report(self._publisher.version, published.variants)

    def _making(self, precision: str) -> None:
        """A variant is being made, which takes a while; whoever was told to leave does not wait."""
        self._pulse.waiting(f"the {precision} variant of a model")
        if self._stop.is_set():
            raise StoppedError

    def _insert(
        self,
        version: int,
        sha256: str,
        step: int,
        metrics: Mapping[str, float],
        location: str,
        variants: Sequence[Variant],
    ) -> None:
        name, database = self._run.name, self._places.database
        self._ask(
            lambda: database.insert_model(
                name, version, sha256, step, metrics, location, self._epoch, variants
            )
        )

    def _on_disk(self, place: str, write: Callable[[], None]) -> None:
        """Write, again and again while the disk refuses; training waits, games do not."""
        while True:
            try:
                return write()
            except OSError as error:
                _log.error("disk_refused", place=place, reason=str(error))
                self._pulse.waiting(f"the {place}: {error.strerror}")
            if self._stop.wait(DISK_SECONDS):
                raise StoppedError

    def _ask(self, call: Callable[[], Answer]) -> Answer:
        return self._patience("Postgres", call)

    @property
    def _learner(self) -> Learner:
        return self._training.learner

    def figures(self) -> tuple[int, dict[str, float]]:
        """The step, and what somebody who watches wants to know."""
        bucket, window = self._training.bucket, self._window
        # Whoever waits for games has none unspent: self-play must not wait for the trainer then.
        hungry = self._training.watch.waits or self._missing_positions() > 0
        return self._learner.step, {
            "games": window.trained.games,
            "held_out_games": window.held_out.games,
            "rejected_games": window.rejected,
            "positions": window.trained.positions,
            "window_limit": window.limit,
            "unspent_positions": 0.0 if hungry else bucket.samples / bucket.rate,
            "samples_per_position": bucket.reuse,
            "pace": bucket.pace,
            "learning_rate": self._learner.learning_rate,
            **self._demand.figures(),
            **self._recorder.figures(),
            **self._variants.figures(),
        }

    def _model_figures(self) -> dict[str, float]:
        """What is kept with a published model: how it fits, and what its weights are."""
        settings, figures = self._run.trainer, self._recorder.figures()
        if settings.average_decay:
            figures["average_decay"] = settings.average_decay
            figures["average_every_steps"] = settings.average_every_steps
        return figures


def check_sizes(settings: TrainerSection) -> None:
    """Refuse sizes with which the trainer would wait for ever.

    Raises:
        ConfigError: one line that names both keys.
    """
    room = settings.window_positions
    if settings.min_positions > room:
        raise ConfigError(
            f"trainer.min_positions = {settings.min_positions}, but trainer.window_positions = "
            f"{room}: training could never start; lower the first or raise the second"
        )
    if settings.batch_size > room * settings.samples_per_position:
        raise ConfigError(
            f"trainer.batch_size = {settings.batch_size}, but trainer.window_positions = {room} "
            f"pay for {room * settings.samples_per_position:g} samples at most: lower the first "
            "or raise the second"
        )


def sample_seed(seed: int, purpose: str, step: int) -> int:
    """A seed for one draw, from the run's seed: a resumed trainer draws what it would have."""
    text = f"{seed}/{purpose}/{step}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
