"""The training loop: read new games, take the steps that they pay for, save, publish."""

from __future__ import annotations

import time
from functools import partial

import structlog

from zerofleet import games
from zerofleet.config import ResignSection, RunConfig
from zerofleet.database import Resignations, WritableRestarts
from zerofleet.errors import IncompatibleModelError, StoreUnavailableError, ZerofleetError
from zerofleet.fleet.figures import ABSURD_LOSS, DemandFigures, TrainerFigures
from zerofleet.learning.learner import Learner, gpu_fault
from zerofleet.learning.measurement import TrainBatch
from zerofleet.learning.window import Demand, Window, sample_seed
from zerofleet.services.trainer.checkpoints import Resumed, Snapshot, TrainerStores
from zerofleet.services.trainer.forgetting import Forgetting, HeldGames
from zerofleet.services.trainer.publishing import Publisher, VariantRequests
from zerofleet.services.trainer.recorder import Recorder, TensorBoard
from zerofleet.waiting import Backoff, StoppedError, WorkStatus

POLL_SECONDS = 0.5
_LOG_SECONDS = 15.0
_PROGRESS_SECONDS = 2.0
_RESTARTS_SECONDS = 60.0
_LONGEST_GAP_SECONDS = 60.0  # most seconds between two steps that count as training

_log = structlog.get_logger()


class Trainer:
    """One trainer of one run; only the trainer that acquired the fence last may write.

    Args:
        run: the run file.
        stores: stores and folders.
        resumed: the state to resume from.
        tensorboard: gets the measurements; None: no TensorBoard.
    """

    def __init__(
        self,
        run: RunConfig,
        stores: TrainerStores,
        resumed: Resumed,
        tensorboard: TensorBoard | None = None,
    ) -> None:
        spec = games.spec(run.game.name)
        self._run = run
        self._stores = stores
        self._epoch = resumed.epoch  # the fence epoch, not a pass over the data
        self._training = resumed.training
        self._checkpoints = resumed.checkpoints
        origin = resumed.origin
        given = 0 if origin is None else origin.positions
        self._window = window = Window(run, stores.database, resumed.training, given)
        self._retrains = origin is not None and origin.retrain
        window.next_tx = resumed.next_tx
        self._tensorboard = tensorboard
        self._demand = Demand(self._training.bucket)
        self._recorder = Recorder(
            run, stores, resumed.epoch, self._training, window, self._sample_seed, tensorboard
        )
        self._resign_threshold = ResignThresholdWriter(run.name, run.resign, stores.database)
        self._restarts = RestartWriter(run.name, window, stores.database, resumed.epoch)
        self._variants = VariantRequests(run, spec, window, self._sample_seed, stores)
        self._publisher = Publisher(
            run.name,
            spec,
            stores,
            resumed.epoch,
            run.trainer.publish_every_steps,
            resumed.published,
        )
        self._forgetting = Forgetting(
            run, stores.database, stores.models, resumed.epoch, folder=stores.data_folder
        )
        self._batches = self._learner.batches(self._draw)
        self._runs_on = self._learner.runs_on
        self._publish_backoff = Backoff(1.0, 60.0)
        self._publish_after = 0.0  # monotonic clock
        self._model_snapshot: Snapshot | None = None  # the step of the model that is being made
        self._unpublished = ""  # why a model that is due is not published yet
        self._window_read = False
        self._stepped: float | None = None  # when the last step began, monotonic clock
        self._next_poll = 0.0
        self._next_progress = 0.0
        self._is_unsound = False  # result of the last check before a checkpoint
        self._next_log = 0.0
        self.lacks = ""
        """Description of what the next step needs; empty while training."""
        self.status: WorkStatus = "running"
        """Idle while positions are missing, blocked if more positions alone would not help."""

    @property
    def step(self) -> int:
        """Number of training steps since the run began."""
        return self._learner.step

    def run(self) -> None:
        """Train until told to stop, then save.

        Raises:
            StaleEpochError: another trainer has taken over; nothing was written since.
            ConfigError: a person must fix something.
            IncompatibleModelError: the first model cannot be published.
            ZerofleetError: the last checkpoint cannot be written.
        """
        fault = gpu_fault()
        log = _log.warning if fault else _log.info
        log(
            "trainer_started",
            step=self.step,
            epoch=self._epoch,
            runs_on=self._runs_on,
            **({"gpu_not_used": fault} if fault else {}),
        )
        stop = self._stores.stop
        try:
            try:
                self._refill()
                while not stop.is_set():
                    self._run_round()
            except StoppedError:
                pass
            self._save_last()
        except BaseException:
            stop.set()  # the model that is being made is given up
            raise
        finally:
            self._batches.close()
            self._publisher.close()
            if self._tensorboard is not None:
                self._tensorboard.close()
        _log.info("trainer_stopped", step=self.step)

    def _save_last(self) -> None:
        """Save a checkpoint of the last step, or of the step of an unpublished model."""
        snapshot = None
        if self._publisher.is_busy:
            try:
                self._record_publication()
            except (StoppedError, OSError) as error:
                snapshot = self._model_snapshot
                _log.info("model_given_up", reason=str(error) or "the trainer stops")
            except StoreUnavailableError as error:
                _log.warning("model_postponed", reason=str(error))
        try:
            self._checkpoints.save_last(self._is_sound, snapshot)
        except OSError as error:
            folder = self._stores.checkpoints.folder
            raise ZerofleetError(
                f"the last checkpoint, after step {self.step}, cannot be written to {folder}: "
                f"{error.strerror or error}. Free disk space or make the folder writable. The run "
                "resumes from the checkpoint before"
            ) from error

    def _refill(self) -> None:
        """Read the whole window before training, so as not to train on its oldest part alone."""
        self._publish_if_due()
        self._finish_publication()
        while not self._stores.stop.is_set() and self._read():
            read = self._window.trained.positions
            self._lack(f"the training window to load: {read:,} positions so far", "running")
        self._window_read = True
        if self.step:
            self._checkpoints.go_back(self._recorder.is_sound)

    def _run_round(self) -> None:
        """Run one round: everything that is due, then one step or one wait."""
        self._stores.tick()
        if self._checkpoints.due and self._is_sound():
            # No checkpoint may be newer than an unpublished model: a restart would skip the model.
            self._finish_publication()
            folder = self._stores.checkpoints.folder
            self._stores.on_disk("checkpoint folder", folder, self._checkpoints.save)
        self._publish_if_due()
        if self._resign_threshold.due():
            self._stores.ask(self._resign_threshold.write)
        if self._restarts.due():
            self._stores.ask(self._restarts.write)
        if self._forgetting.due():
            # Not repeated until it succeeds: training goes on without it.
            window = self._window
            games = window.trained.games + window.held_out.games + window.rejected
            self._forgetting.carry_out(HeldGames(games, window.next_tx))
        arrived = time.monotonic() >= self._next_poll and self._read()
        self._record_progress()
        missing = self._missing()
        self._demand.turn(hungry=bool(missing) and not arrived)
        if not missing:
            self.lacks, self.status = "", "running"
            self._train()
        elif not arrived:
            is_kept = self._window.blocker is not None
            stuck = bool(self._unpublished) or is_kept or self._retrains
            # Without a published model self-play produces no positions.
            self._lack(self._unpublished or missing, "blocked" if stuck else "idle")
            self._stores.stop.wait(POLL_SECONDS)

    def _is_sound(self) -> bool:
        """Return whether a checkpoint of these weights would be useful; log once if not."""
        is_sound = self._recorder.is_sound()
        if not is_sound and not self._is_unsound:
            _log.warning(
                "checkpoint_not_kept",
                step=self.step,
                reason=f"a loss is {ABSURD_LOSS:g} or more: no checkpoint is kept until it falls. "
                "If it does not, lower trainer.learning_rate (now "
                f"{self._learner.learning_rate:g}) and start again",
            )
        self._is_unsound = not is_sound
        return is_sound

    def _record_progress(self) -> None:
        """Record the progress in Postgres, because Redis may be down or refuse writes."""
        now = time.monotonic()
        if not self._run.selfplay.max_ahead_positions or now < self._next_progress:
            return
        self._next_progress = now + _PROGRESS_SECONDS
        unspent, tx = self._unspent_positions(), self._training.paid_tx
        if unspent is not None:
            record = self._stores.database.record_progress
            self._stores.ask(partial(record, self._run.name, unspent, tx, self._epoch))

    def _unspent_positions(self) -> float | None:
        """Return positions whose samples are not drawn yet; None until the window is read."""
        if not self._window_read:
            return None
        if self._retrains:
            return 0.0
        bucket = self._training.bucket
        # A trainer that waits for games reports none unspent, so that self-play does not pause.
        is_hungry = self._training.watch.waits or self._missing_positions() > 0
        return 0.0 if is_hungry else bucket.samples / bucket.rate

    def _missing(self) -> str:
        """Describe what is missing for the next step; empty if it can be taken now."""
        training, watch = self._training, self._training.watch
        if self._retrains:
            return self._missing_for_retraining()
        if watch.waits:
            self._recorder.look_again()
        if watch.waits:
            missing = max(0, watch.renewed_at - training.bucket.received)
            return f"new games, at most {missing:,} positions: {watch.explain()}"
        missing = self._missing_positions()
        if missing <= 0:
            return ""
        if self._window.blocker is not None:
            return f"{missing:,} positions, and {self._window.blocker}"
        slowed = f" (slowed down: {watch.explain()})" if watch.pace < 1 else ""
        return f"{missing:,} positions{slowed}"

    def _missing_for_retraining(self) -> str:
        """Describe what is missing in a run with given games alone; empty if nothing is."""
        least, found = self._run.trainer.min_positions, self._window.trained.positions
        if found >= least:
            return ""
        return f"{least - found:,} more positions than the given games have: lower min_positions"

    def _lack(self, words: str, status: WorkStatus) -> None:
        """Report what is missing; log it only now and then, as it changes with every game."""
        self._stores.tick()
        self.lacks, self.status = words, status
        now = time.monotonic()
        if now >= self._next_log:
            self._next_log = now + _LOG_SECONDS
            _log.info("waiting", waiting_for=words)

    def _read(self) -> bool:
        """Read one page of games; the next one follows at once while there are more."""
        was_page = self._stores.ask(self._window.read_page)
        self._stores.ask(self._window.record_rejections)
        if was_page:
            self._batches.discard()
        else:
            self._next_poll = time.monotonic() + POLL_SECONDS
        return was_page

    def _missing_positions(self) -> int:
        """Return the number of positions that must still arrive before the next step."""
        settings = self._run.trainer
        return max(
            settings.min_positions - self._window.trained.positions,
            self._training.bucket.missing_positions(settings.batch_size),
        )

    def _train(self) -> None:
        size = self._run.trainer.batch_size
        now = time.monotonic()
        if self._stepped is not None:
            # A store that was down for a night must not use up the budget.
            self._learner.seconds += min(now - self._stepped, _LONGEST_GAP_SECONDS)
        self._stepped = now
        self._learner.train(self._batches.take(self._learner.step))
        self._training.bucket.draw(size)
        if self._learner.step % self._run.trainer.metrics_every_steps == 0:
            self._recorder.measure()

    def _draw(self, step: int) -> TrainBatch:
        """Draw the batch of a step; the thread of ``Prefetcher`` may call this."""
        seed = sample_seed(self._run.seed, "train", step)
        return self._window.sample(self._run.trainer.batch_size, seed)

    def _sample_seed(self, purpose: str) -> int:
        return sample_seed(self._run.seed, purpose, self._learner.step)

    def _publish_if_due(self) -> None:
        """Publish the model that is ready, and begin to make the next one if it is due.

        While the model store is down, train on and back off.
        """
        publisher = self._publisher
        if publisher.is_ready or (publisher.is_busy and publisher.due(self.step)):
            self._finish_publication()
        if not publisher.due(self.step) or time.monotonic() < self._publish_after:
            return
        learner = self._learner
        try:
            # Check the store first, because making variants takes minutes.
            self._stores.models.check()
            figures, variants = self._model_figures(), self._variants.request()
            publisher.begin(learner.published, learner.step, figures, variants)
        except StoreUnavailableError as error:
            self._postpone(error)
        except IncompatibleModelError as error:
            self._refuse(learner.step, error)
        else:
            self._model_snapshot = self._checkpoints.snapshot().copy()
            if not publisher.version:
                self._finish_publication()  # nothing can begin without a first model

    def _finish_publication(self) -> None:
        """Wait for the model that is being made, if there is one, and publish it."""
        if not self._publisher.is_busy:
            return
        try:
            folder = self._stores.models.staging
            self._stores.on_disk("model folder", folder, self._record_publication)
        except StoreUnavailableError as error:
            self._postpone(error)
        else:
            if self._unpublished:
                _log.info("model_store_answers")
            self._publish_backoff.reset()
            self._unpublished = ""
            self._model_snapshot = None

    def _record_publication(self) -> None:
        assert self._model_snapshot is not None
        step = self._model_snapshot.state.step
        try:
            published = self._publisher.finish()
        except IncompatibleModelError as error:
            self._refuse(step, error)
        else:
            self._variants.report(self._publisher.version, published.variants)

    def _refuse(self, step: int, error: IncompatibleModelError) -> None:
        if not self._publisher.version:
            raise error  # nothing can begin without a first model
        _log.error("model_not_published", step=step, reason=str(error))
        self._publisher.pass_over(step)

    def _postpone(self, error: StoreUnavailableError) -> None:
        pause = self._publish_backoff.delay()
        self._publish_after = time.monotonic() + pause
        self._unpublished = f"the store of models: {error}"
        self._model_snapshot = None
        _log.warning("model_postponed", seconds=round(pause, 1), reason=str(error))

    @property
    def _learner(self) -> Learner:
        return self._training.learner

    def figures(self) -> TrainerFigures:
        """Return the figures for heartbeat and metrics; safe to call from another thread."""
        bucket, watch, window = self._training.bucket, self._training.watch, self._window
        measured, auxiliary = self._recorder.measured, self._recorder.auxiliary_losses
        return TrainerFigures(
            runs_on=self._runs_on,
            games=window.trained.games,
            held_out_games=window.held_out.games,
            rejected_games=window.rejected,
            positions=window.trained.positions,
            window_limit=window.limit,
            unspent_positions=self._unspent_positions(),
            samples_per_position=bucket.reuse,
            pace=bucket.pace,
            learning_rate=self._learner.learning_rate,
            budget_used=self._learner.budget_used,
            overfit=watch.active,
            policy_gap=watch.policy_gap,
            value_gap=watch.value_gap,
            gradient_norm=self._recorder.gradient_norm,
            soft_policy_loss=auxiliary.get("soft_policy_loss"),
            opponent_policy_loss=auxiliary.get("opponent_policy_loss"),
            final_planes_loss=auxiliary.get("final_planes_loss"),
            final_score_loss=auxiliary.get("final_score_loss"),
            distinct_game_share=self._recorder.play.distinct_game_share,
            drawn_game_share=self._recorder.play.drawn_game_share,
            narrow=self._recorder.narrows is not None,
            train=measured.get("train"),
            held_out=measured.get("held_out"),
            # A run with given games alone needs no self-play.
            demand=DemandFigures() if self._retrains else self._demand.figures(),
            variants=self._variants.figures,
        )

    def _model_figures(self) -> dict[str, float]:
        """Return the figures stored with a published model: its losses and its EMA settings."""
        settings, figures = self._run.trainer, self._recorder.by_name()
        if settings.average_decay:
            figures["average_decay"] = settings.average_decay
            figures["average_every_steps"] = settings.average_every_steps
        return figures


class RestartWriter:
    """Stores the positions at which self-play games restart, every minute.

    Args:
        run: name of the run.
        window: the games whose regrets are known.
        database: what the workers read.
        epoch: the trainer's fence epoch.
    """

    def __init__(self, run: str, window: Window, database: WritableRestarts, epoch: int) -> None:
        self._run = run
        self._window = window
        self._database = database
        self._epoch = epoch
        self._next = 0.0

    def due(self) -> bool:
        """Return whether it is time to write them."""
        return self._window.restarts is not None and time.monotonic() >= self._next

    def write(self) -> None:
        """Store the current positions.

        Raises:
            StoreUnavailableError: Postgres does not answer.
            StaleEpochError: another trainer has taken over.
        """
        assert self._window.restarts is not None
        found = [(each.actions, each.regret) for each in self._window.restarts.restarts()]
        self._database.store_restarts(self._run, found, self._epoch)
        self._next = time.monotonic() + _RESTARTS_SECONDS


class ResignThresholdWriter:
    """Has Postgres compute v_resign at fixed intervals, and logs each change.

    Args:
        run: name of the run.
        settings: the ``[resign]`` section.
        database: the database of the run's games.
    """

    def __init__(self, run: str, settings: ResignSection, database: Resignations) -> None:
        self._run = run
        self._settings = settings
        self._database = database
        self._next = 0.0
        self._threshold: float | None = None

    def due(self, now: float | None = None) -> bool:
        """Return whether it is time to compute the threshold.

        Args:
            now: the monotonic clock, in seconds.
        """
        return self._settings.enabled and (time.monotonic() if now is None else now) >= self._next

    def write(self, now: float | None = None) -> None:
        """Compute and store the threshold now.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        row = self._database.compute_v_resign(
            self._run,
            false_positive_share=self._settings.false_positive_share,
            min_games=self._settings.min_games,
            window_games=self._settings.window_games,
            highest=self._settings.highest,
        )
        self._next = (time.monotonic() if now is None else now) + self._settings.every_seconds
        if row.threshold != self._threshold:
            self._threshold = row.threshold
            _log.info(
                "resign_threshold",
                threshold=row.threshold,
                games=row.games,
                would_resign=row.would_resign,
                wrong=row.wrong,
            )
