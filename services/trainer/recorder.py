"""Is it learning, is it overfitting: what is measured, where that goes, and what follows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

import structlog

from services.trainer.measurement import Measurement
from services.trainer.overfit import Event
from services.trainer.state import Training
from services.trainer.window import Window
from zerofleet.config import RunConfig
from zerofleet.database.metrics import Split

_log = structlog.get_logger()

Answer = TypeVar("Answer")
SPLITS: tuple[Split, ...] = ("train", "held_out")


class MetricRows(Protocol):
    """The part of the database that a recorder writes to."""

    def insert_train_metrics(
        self, run: str, step: int, split: Split, values: Mapping[str, Any], epoch: int
    ) -> None:
        """Record the figures of one split."""
        ...

    def insert_train_event(self, run: str, step: int, event: str, detail: str, epoch: int) -> None:
        """Write down what happened."""
        ...


class Board(Protocol):
    """Somebody else who wants the figures."""

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Show figures by name at a step."""
        ...


class Patient(Protocol):
    """Repeats a call until the database answers."""

    def __call__(self, call: Callable[[], Answer], /) -> Answer:
        """The answer."""
        ...


class Recorder:
    """Measures both splits, tells the overfit watch, and writes rows and events.

    Args:
        run: the run file.
        training: what is measured, and slowed when it overfits.
        window: what samples are drawn from.
        sample_seed: the seed of a draw for a purpose, at the present step.
        board: shown the same figures.
    """

    def __init__(
        self,
        run: RunConfig,
        training: Training,
        window: Window,
        sample_seed: Callable[[str], int],
        board: Board | None = None,
    ) -> None:
        self._run = run
        self._training = training
        self._window = window
        self._sample_seed = sample_seed
        self._board = board
        self._measured: dict[Split, Measurement] = {}
        self._measured_at: int | None = None  # positions received by then

    def open(self, rows: MetricRows, ask: Patient, epoch: int) -> None:
        """Say where rows go; once, before anything is measured.

        Args:
            rows: the database.
            ask: waits for it.
            epoch: the trainer's fence epoch.
        """
        self._rows, self._ask, self._epoch = rows, ask, epoch

    def measure(self) -> None:
        """Measure equal samples of both splits, write them down, and draw the consequences."""
        size, learner = self._run.trainer.batch_size, self._training.learner
        for split in SPLITS:
            traced = self._window.trace(split, size, self._sample_seed("measure"))
            if traced is not None:
                self._measured[split] = learner.measure(traced)
        self._measured_at = self._training.bucket.received
        event = self._observe()
        for split, measured in self._measured.items():
            values = self._row(split, measured)
            self._ask(
                lambda split=split, values=values: self._rows.insert_train_metrics(
                    self._run.name, learner.step, split, values, self._epoch
                )
            )
        if event is not None:
            self._happened(event)
        if self._board is not None:
            self._board.write(learner.step, self.figures())

    def look_again(self) -> None:
        """While training waits: measure again once games for a whole interval have come in.

        The interval is as many positions as pay for the steps between two measurements.
        """
        bucket, watch = self._training.bucket, self._training.watch
        if self._measured_at is None:  # the trainer was restarted while it waited
            self._measured_at = bucket.received
        event = watch.look_at_window(bucket.received)
        if event is not None:
            self._happened(event)
        elif bucket.received - self._measured_at >= self._interval:
            self.measure()

    def figures(self) -> dict[str, float]:
        """The newest figures as ``train_policy_loss`` and so on, those that are known."""
        watch = self._training.watch
        figures: dict[str, float] = {
            f"{split}_{name}": figure
            for split, measured in list(self._measured.items())
            for name, figure in _by_name(measured)
        }
        figures["overfit"] = float(watch.active)
        known = {
            "policy_gap": watch.policy_gap,
            "value_gap": watch.value_gap,
            "gradient_norm": self._training.learner.gradient_norm,
        }
        return figures | {name: figure for name, figure in known.items() if figure is not None}

    def _observe(self) -> Event | None:
        if len(self._measured) < len(SPLITS):
            return None
        return self._training.watch.observe(
            self._measured["train"],
            self._measured["held_out"],
            self._window.held_out.positions,
            self._training.bucket.received,
            self._window.trained.positions,
        )

    def _happened(self, event: Event) -> None:
        """The watch's state has changed: change the pace, and say so."""
        bucket, watch = self._training.bucket, self._training.watch
        if watch.pace < 1:
            bucket.slow(watch.pace)
        else:
            bucket.full_pace()
        detail = f"{watch.explain()}: {watch.consequence(bucket.samples_per_position)}"
        step = self._training.learner.step
        _log.warning(
            event,
            step=step,
            detail=detail,
            policy_gap=watch.policy_gap,
            value_gap=watch.value_gap,
            action=self._run.overfit.action,
        )
        self._ask(
            lambda: self._rows.insert_train_event(self._run.name, step, event, detail, self._epoch)
        )

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
            row["gradient_norm"] = learner.gradient_norm
        return row

    @property
    def _interval(self) -> int:
        settings = self._run.trainer
        samples = settings.batch_size * settings.metrics_every_steps
        return math.ceil(samples / settings.samples_per_position)


def _by_name(measured: Measurement) -> Iterator[tuple[str, float]]:
    """What is known, the table of stages as ``stage_1_predicted`` and so on."""
    for name, figure in asdict(measured).items():
        if isinstance(figure, int | float):  # neither unknown nor the table
            yield name, figure
    for stage in measured.calibration:
        yield f"stage_{stage.stage}_positions", stage.positions
        yield f"stage_{stage.stage}_predicted", stage.predicted
        yield f"stage_{stage.stage}_actual", stage.actual
        yield f"stage_{stage.stage}_squared_error", stage.squared_error
