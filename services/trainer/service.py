"""Wires the trainer service: stores, folders, the training thread, metrics, heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import structlog
import torch
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zerofleet import games
from zerofleet.config import ProcessSettings, RunConfig
from zerofleet.database import TrainerDatabase
from zerofleet.errors import ZerofleetError
from zerofleet.fleet.disk import data_folder_of
from zerofleet.fleet.figures import Measurement, TrainerFigures, numbers
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.learning.learner import Learner, Team
from zerofleet.models.model_store import ModelStore, open_store
from zerofleet.rpc.health import HealthServer
from zerofleet.service import Pulse, beat, first_of, served_metrics
from zerofleet.services.trainer.checkpoints import CheckpointFolder, TrainerStores, take_over
from zerofleet.services.trainer.recorder import TensorBoard
from zerofleet.services.trainer.team import ProcessTeam, open_team
from zerofleet.services.trainer.trainer import Trainer
from zerofleet.waiting import StoppedError, Waits

# One step of a large network on a slow machine, or the variants of one model, may take minutes.
STUCK_SECONDS = 600.0
# After this time the heartbeat reports that a step or a publication takes long.
SLOW_SECONDS = 30.0

# Parts of messages of torch, CUDA, cuDNN and cuBLAS.
_NO_MEMORY = ("out of memory", "allocate memory", "not enough memory", "ALLOC_FAILED")
_GPU_FAILED = ("CUDA error", "cuDNN error", "CUBLAS_STATUS", "CUDNN_STATUS")

_log = structlog.get_logger()


async def serve(run: RunConfig, settings: ProcessSettings, stop: asyncio.Event) -> None:
    """Train until ``stop`` is set: alone, or as one of the processes that torchrun started.

    One thread does all of torch's work, except copying batches to a GPU. This event loop only sends
    heartbeats and serves metrics.

    Raises:
        ConfigError: a person must fix something; the message says what.
        StaleEpochError: another trainer has taken over this run.
        IncompatibleModelError: the first model cannot be published.
        ZerofleetError: the trainer ran out of memory, or cannot write its last checkpoint.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="training") as thread:
        in_thread = asyncio.get_running_loop().run_in_executor
        team = await in_thread(thread, open_team, run.trainer.batch_size)
        try:
            if isinstance(team, ProcessTeam) and team.rank > 0:
                await in_thread(thread, follow, run, team)
            else:
                await lead(run, settings, stop, team, thread)
        except ZerofleetError:
            if team.rank == 0:
                await in_thread(thread, team.dismiss)  # it may have failed before training began
            raise
        finally:
            await in_thread(thread, team.close)


def follow(run: RunConfig, team: ProcessTeam) -> None:
    """Train as the leader says, without database or folders, until it dismisses the team."""
    spec = games.spec(run.game.name)
    torch.set_num_threads(run.trainer.threads)
    team.follow(Learner(spec, run, team), (spec.observation_bytes, spec.num_actions))


async def lead(
    run: RunConfig,
    settings: ProcessSettings,
    stop: asyncio.Event,
    team: Team,
    thread: ThreadPoolExecutor,
) -> None:
    """Lead the team's training as the process that has the database; the others end with it.

    Raises:
        ZerofleetError: as ``serve`` says.
    """
    with (
        HealthServer(settings.health_address, stuck_seconds=STUCK_SECONDS) as health,
        TrainerDatabase(settings.database_url) as database,
        contextlib.closing(Heartbeats(settings.redis_url, run.name)) as heartbeats,
        contextlib.closing(Heartbeats(settings.redis_url, run.name)) as read_heartbeats,
    ):
        models = open_store(settings, run.name, run.inference.max_batch_rows)
        checkpoints = CheckpointFolder(settings.checkpoint_folder / run.name)
        folder = data_folder_of(settings.run_file)
        trainer = TrainerThread(
            run, database, models, checkpoints, read_heartbeats, team, health, folder
        )

        with served_metrics(settings.metrics_address, lambda: TrainerCollector(trainer.pulse)):
            training = asyncio.get_running_loop().run_in_executor(thread, trainer.train)
            try:
                await first_of(
                    stop.wait(),
                    asyncio.wait([training]),
                    beat(heartbeats, settings.worker_name, trainer.heartbeat),
                )
            finally:
                trainer.stop()
                await asyncio.wait([training])
            training.result()


class TrainerThread:
    """Controls the run's trainer from outside its thread; it begins by waiting for its stores.

    Args:
        run: the run file.
        database: the database.
        models: the store of published models.
        checkpoints: the run's checkpoints.
        heartbeats: the heartbeats of the run, for the training thread only.
        team: the processes that this one leads.
        health: the health server. Each round of the training loop reports to it, because the event
            loop of this process still runs while training is stuck.
        data_folder: data folder of ``zerofleet up``; its files count toward the disk limit.
    """

    def __init__(
        self,
        run: RunConfig,
        database: TrainerDatabase,
        models: ModelStore,
        checkpoints: CheckpointFolder,
        heartbeats: Heartbeats,
        team: Team,
        health: HealthServer,
        data_folder: Path | None = None,
    ) -> None:
        self._run = run
        self._team = team
        self._health = health
        self._waits = Waits(self._tick)
        self._stop = Event()
        self._stores = TrainerStores(
            database=database,
            models=models,
            checkpoints=checkpoints,
            waits=self._waits,
            stop=self._stop,
            tick=self._tick,
            data_folder=data_folder,
            heartbeats=heartbeats,
        )
        self._trainer: Trainer | None = None
        self._last_tick = time.monotonic()

    def train(self) -> None:
        """Take over as the run's trainer, then train until told to stop. This call blocks.

        Raises:
            ZerofleetError: as ``serve`` says.
        """
        run, stores = self._run, self._stores
        try:
            folder = stores.checkpoints.folder / "tensorboard"
            tensorboard = TensorBoard(folder) if run.trainer.tensorboard else None
            resumed = take_over(run, stores, self._team)
            self._trainer = Trainer(run, stores, resumed, tensorboard)
            self._trainer.run()
        except StoppedError:
            pass
        except ZerofleetError:
            self._team.dismiss()
            raise
        except (MemoryError, RuntimeError) as error:
            failure = explained_error(run, error)
            if failure is not None and self._team.size == 1:
                raise failure from error
            raise
        # After any other error the team may be in the middle of a step and would not receive this.
        # Its processes end with the connection.
        self._team.dismiss()

    def stop(self) -> None:
        """Make ``train`` return after its present step or wait."""
        self._stop.set()

    def pulse(self) -> Pulse[TrainerFigures]:
        """Return the step, the current wait and the figures."""
        trainer, quiet = self._trainer, time.monotonic() - self._last_tick
        waiting_for, status = str(self._waits), self._waits.status
        if not waiting_for and quiet >= SLOW_SECONDS:
            waiting_for = f"a step that has taken {quiet:.0f} s so far"
        if trainer is None:
            return Pulse(0, waiting_for, TrainerFigures(), status)
        if not waiting_for:
            waiting_for, status = trainer.lacks, trainer.status
        return Pulse(trainer.step, waiting_for, trainer.figures(), status)

    def heartbeat(self) -> Pulse[TrainerFigures] | None:
        """Return the pulse; None while training is stuck, because a heartbeat shows progress."""
        is_stuck = time.monotonic() - self._last_tick >= STUCK_SECONDS
        return None if is_stuck else self.pulse()

    def _tick(self) -> None:
        self._last_tick = time.monotonic()
        self._health.tick()


def explained_error(run: RunConfig, error: Exception) -> ZerofleetError | None:
    """Return an error that says what to do about an error of torch; None if its cause is unknown.

    For a lack of memory, the message names the keys that decide how much memory the trainer needs.
    After another GPU error this process cannot use the GPU, so its supervisor must restart it.
    """
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    # torch reports most errors as a RuntimeError whose text says what failed.
    if isinstance(error, MemoryError) or any(word in str(error) for word in _NO_MEMORY):
        network = run.network
        smaller = f"network.channels = {network.channels} or network.blocks = {network.blocks}"
        if network.is_own:
            smaller = f"the sizes of the network {network.name}"
        return ZerofleetError(
            f"the trainer ran out of memory ({reason}): lower trainer.batch_size = "
            f"{run.trainer.batch_size}, trainer.window_positions = {run.trainer.window_positions} "
            f"or, in a new run, {smaller}"
        )
    if any(word in str(error) for word in _GPU_FAILED):
        return ZerofleetError(
            f"the trainer's GPU failed ({reason}): the trainer exits, and continues from the last "
            "checkpoint once it is restarted. If this repeats, look for the cause with nvidia-smi "
            "and dmesg"
        )
    return None


_METRIC_PREFIX = "zerofleet_trainer"


class TrainerCollector(Collector):
    """Turns the trainer's figures into gauges.

    Args:
        pulse: returns the present step and figures.
    """

    def __init__(self, pulse: Callable[[], Pulse[TrainerFigures]]) -> None:
        self._pulse = pulse

    def collect(self) -> Iterator[Metric]:
        """Yield one gauge for each figure known so far; labels tell the game's stages apart."""
        pulse = self._pulse()
        yield GaugeMetricFamily(
            f"{_METRIC_PREFIX}_step", "Training steps taken.", value=pulse.progress
        )
        figures = pulse.figures
        measured = {"train": figures.train, "held_out": figures.held_out}
        known = numbers(figures) | numbers(figures.demand)
        for split, measurement in measured.items():
            if measurement is not None:
                known |= numbers(measurement, f"{split}_")
        for precision, variant in figures.variants.items():
            known |= numbers(variant, f"{precision}_")
        for name, value in known.items():
            yield GaugeMetricFamily(f"{_METRIC_PREFIX}_{name}", f"{_words(name)}.", value=value)
        yield from _by_stage(measured)


def _by_stage(measured: dict[str, Measurement | None]) -> Iterator[Metric]:
    tables: dict[str, GaugeMetricFamily] = {}
    for split, measurement in measured.items():
        for stage in measurement.calibration if measurement is not None else ():
            for column, value in numbers(stage).items():
                if column == "stage":
                    continue
                if column not in tables:
                    tables[column] = GaugeMetricFamily(
                        f"{_METRIC_PREFIX}_value_by_stage_{column}",
                        f"{_words(column)}: the value's calibration by quarter of the game, "
                        "1 to 4.",
                        labels=("split", "stage"),
                    )
                tables[column].add_metric((split, str(stage.stage)), value)
    yield from tables.values()


def _words(name: str) -> str:
    return name.replace("_", " ").capitalize()
