"""Measures whether training learns or overfits, records it, and slows or pauses training."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from zerofleet import games
from zerofleet.config import RunConfig
from zerofleet.database import RecentPlay
from zerofleet.database.metrics import Split
from zerofleet.errors import ConfigError
from zerofleet.fleet.figures import Measurement, numbers
from zerofleet.learning.overfit import Event
from zerofleet.learning.window import Training, Window
from zerofleet.network import TARGETS
from zerofleet.services.trainer.checkpoints import TrainerStores

_log = structlog.get_logger()

SPLITS: tuple[Split, ...] = ("train", "held_out")


class TensorBoard:
    """Writes scalars to a folder that ``tensorboard --logdir`` shows.

    Args:
        folder: the folder; created at the first write.

    Raises:
        ConfigError: the package is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            # Imported here because it takes a second, which only runs with TensorBoard should pay.
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ConfigError(
                "trainer.tensorboard = true needs a package that is not installed: "
                "pip install 'zerofleet[tensorboard]' (in a checkout: make setup), or leave out "
                "the key"
            ) from error
        self._kind: Any = SummaryWriter
        self._folder = folder
        self._writer: Any = None

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Add one point to each curve; training and validation curves share a section.

        The first call hides points that an earlier trainer wrote for this step or later ones.
        """
        if self._writer is None:
            self._writer = self._kind(str(self._folder), purge_step=step)
        for name, figure in figures.items():
            split = next((s for s in ("train", "held_out") if name.startswith(f"{s}_")), None)
            tag = f"{name.removeprefix(f'{split}_')}/{split}" if split else f"trainer/{name}"
            self._writer.add_scalar(tag, figure, step)
        self._writer.flush()

    def close(self) -> None:
        """Write the remaining points and close the file."""
        if self._writer is not None:
            self._writer.close()


class Recorder:
    """Measures both splits, updates the overfit watch, and writes rows and events.

    Args:
        run: the run file.
        stores: store of the rows.
        epoch: the trainer's fence epoch.
        training: the training to measure, and to slow down when it overfits.
        window: source of the samples.
        sample_seed: returns the seed of a draw for a purpose, at the present step.
        tensorboard: also gets the figures; None: no TensorBoard.
    """

    def __init__(
        self,
        run: RunConfig,
        stores: TrainerStores,
        epoch: int,
        training: Training,
        window: Window,
        sample_seed: Callable[[str], int],
        tensorboard: TensorBoard | None = None,
    ) -> None:
        self._run = run
        self._stores = stores
        self._epoch = epoch
        self._training = training
        self._window = window
        self._sample_seed = sample_seed
        self._tensorboard = tensorboard
        self._max_length = games.spec(run.game.name).max_length
        self.measured: Mapping[Split, Measurement] = {}
        """Newest measurement of each split."""
        self.gradient_norm: float | None = None
        """Gradient norm of the step before the newest measurement. The training thread reads it,
        because reading it from a GPU waits for all work before it."""
        self.auxiliary_losses: Mapping[str, float] = {}
        """Losses of the auxiliary heads on that step's batch, as ``soft_policy_loss`` and so on."""
        self.own_losses: Mapping[str, float] = {}
        """Losses that a network of one's own adds, on the same batch, by their names in it."""
        self.play = RecentPlay()
        """Statistics of the newest games, at the newest measurement."""
        self.narrows: str | None = None
        """Why self-play explores too little."""
        self._measured_at: int | None = None  # positions received by the newest measurement

    def measure(self) -> None:
        """Measure equal samples of both splits, record the figures, and adapt the pace."""
        size, learner = self._run.trainer.batch_size, self._training.learner
        measured = dict(self.measured)
        for split in SPLITS:
            traced = self._window.trace(split, size, self._sample_seed("measure"))
            if traced is not None:
                measured[split] = learner.measure(traced)
        self.gradient_norm = learner.gradient_norm
        losses = learner.auxiliary_losses
        ours = [name for name in losses if name in TARGETS]
        self.auxiliary_losses = {f"{name}_loss": losses[name] for name in ours}
        self.own_losses = {name: losses[name] for name in losses if name not in TARGETS}
        self.measured = measured  # replaced as a whole, because other threads read it
        self._measured_at = self._training.bucket.received
        event = self._observe()
        run, epoch, insert = self._run.name, self._epoch, self._stores.database.insert_train_metrics
        for split, found in measured.items():
            self._stores.ask(
                partial(insert, run, learner.step, split, self._row(split, found), epoch)
            )
        if event is not None:
            self._change_pace()
        self._warn()
        if self._tensorboard is not None:
            self._tensorboard.write(learner.step, self.by_name())

    def is_sound(self) -> bool:
        """Return whether training can go on from the present weights, judged by a sample's loss.

        Raises:
            LostWeightsError: the loss is not finite.
        """
        size = self._run.trainer.batch_size
        traced = self._window.trace("train", size, self._sample_seed("measure"))
        return traced is None or self._training.learner.is_sound(traced)

    def look_again(self) -> None:
        """Measure again during a wait, once games for a whole interval have arrived.

        The interval is the number of positions that pay for the steps between two measurements.
        """
        bucket, watch = self._training.bucket, self._training.watch
        if self._measured_at is None:  # the trainer was restarted while it waited
            self._measured_at = bucket.received
        event = watch.look_at_window(bucket.received)
        if event is not None:
            self._change_pace()
            self._warn()
        elif bucket.received - self._measured_at >= self._interval:
            self.measure()

    def by_name(self) -> dict[str, float]:
        """Return the newest known figures as ``train_policy_loss`` and so on."""
        watch = self._training.watch
        found = {"overfit": float(watch.active)}
        for split, measured in self.measured.items():
            found |= numbers(measured, f"{split}_")
            for stage in measured.calibration:
                table = numbers(stage, f"{split}_stage_{stage.stage}_")
                del table[f"{split}_stage_{stage.stage}_stage"]
                found |= table
        known = {
            "policy_gap": watch.policy_gap,
            "value_gap": watch.value_gap,
            "gradient_norm": self.gradient_norm,
        }
        found |= {name: figure for name, figure in known.items() if figure is not None}
        own = {f"own_{name}_loss": loss for name, loss in self.own_losses.items()}
        return {**found, **self.auxiliary_losses, **own}

    def _warn(self) -> None:
        """Record each training warning that has begun or ended."""
        run, database, watch = self._run, self._stores.database, self._training.watch
        step, samples = self._training.learner.step, self._training.bucket.samples_per_position
        warnings = self._stores.ask(partial(database.training_warnings, run.name))
        told = {each.warning for each in warnings}
        self.play = self._stores.ask(partial(database.recent_play, run.name))
        self.narrows = self.play.narrows(self._max_length, was_narrow="narrows" in told)
        overfit = f"{watch.explain()}: {watch.consequence(samples)}"
        # Compared with the stored events, not with the last check: a restart is no news, and a
        # state that a crash left untrue is corrected. If this step already has an event, because
        # training waits and checks again, the next step writes it.
        for name, is_wrong, detail in (
            ("overfit", watch.active, overfit),
            ("narrow", self.narrows is not None, self.narrows or "self-play explores again"),
        ):
            if is_wrong == (f"{name}s" in told):
                continue
            event = f"{name}_begins" if is_wrong else f"{name}_ends"
            gaps = {"policy_gap": watch.policy_gap, "value_gap": watch.value_gap}
            figures = gaps | {"action": run.overfit.action} if name == "overfit" else {}
            _log.warning(event, step=step, detail=detail, **figures)
            insert = partial(database.insert_train_event, run.name, step, event, detail)
            self._stores.ask(partial(insert, self._epoch))

    def _observe(self) -> Event | None:
        if len(self.measured) < len(SPLITS):
            return None
        return self._training.watch.observe(
            self.measured["train"],
            self.measured["held_out"],
            self._window.held_out.positions,
            self._training.bucket.received,
            self._window.trained.positions,
        )

    def _change_pace(self) -> None:
        bucket, watch = self._training.bucket, self._training.watch
        if watch.pace < 1:
            bucket.slow(watch.pace)
        else:
            bucket.full_pace()

    def _row(self, split: Split, measured: Measurement) -> dict[str, Any]:
        learner, bucket, watch = self._training.learner, self._training.bucket, self._training.watch
        row = asdict(measured) | {
            "learning_rate": learner.learning_rate,
            "samples": bucket.drawn,
            "samples_per_position": bucket.reuse,
            "window_positions": self._window.trained.positions,
            "window_games": self._window.trained.games,
            "window_limit": self._window.limit,
            "policy_gap": watch.policy_gap,
            "value_gap": watch.value_gap,
            "overfit": watch.active,
        }
        if split == "train":
            row |= {"gradient_norm": self.gradient_norm, **self.auxiliary_losses}
            row["own_losses"] = dict(self.own_losses) or None
        return row

    @property
    def _interval(self) -> int:
        settings = self._run.trainer
        samples = settings.batch_size * settings.metrics_every_steps
        return math.ceil(samples / settings.samples_per_position)
