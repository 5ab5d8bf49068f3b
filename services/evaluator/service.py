"""Connects the evaluator: stores, inference, the loop, the reconciler, the heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

import structlog
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zerofleet.best_pointer import BestPointer
from zerofleet.client import AsyncModel
from zerofleet.config import ProcessSettings, RunConfig
from zerofleet.database import EvaluatorDatabase
from zerofleet.errors import StaleEpochError
from zerofleet.fleet.figures import EvaluatorFigures, numbers
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.games import format_actions
from zerofleet.match.opening_book import checked_openings
from zerofleet.match.play_match import MatchGamesInPlay, draw_openings
from zerofleet.rpc.health import HealthServer
from zerofleet.rpc.tls import client_credentials
from zerofleet.service import Pulse, beat, first_of, served_metrics
from zerofleet.services.evaluator.context import EvaluatorContext, Players
from zerofleet.services.evaluator.evaluator import Evaluator
from zerofleet.services.evaluator.promotion_gate import Promoter, Referee, reconcile
from zerofleet.services.evaluator.spare_games import RatingPool, SpareTime, Trials
from zerofleet.waiting import Waits

_log = structlog.get_logger()

_SHOWN_GAMES = 4


async def serve(run: RunConfig, settings: ProcessSettings, stop: asyncio.Event) -> None:
    """Judge models until ``stop`` is set, or until another evaluator takes over.

    Raises:
        ConfigError: the run file contradicts the rules of its game, or the stored run; or an
            address or a file of credentials cannot be used.
        AccessDeniedError: the inference service refuses this evaluator.
    """
    draw_openings(run.game.name, run.evaluator.opening_plies, 1, 0)  # fails early if it must
    checked_openings(run.game.name, run.rating.openings, "rating.openings")
    waits = Waits()
    with (
        HealthServer(settings.health_address) as health,
        contextlib.closing(Heartbeats(settings.redis_url, run.name)) as heartbeats,
        contextlib.closing(BestPointer(settings.redis_url, run.name)) as pointer,
        EvaluatorDatabase(settings.database_url) as database,
    ):
        async with AsyncModel(
            settings.inference_address, run.name, **client_credentials(settings)
        ) as model:
            evaluator = FencedEvaluator(run, settings, database, pointer, model, waits)

            try:
                with served_metrics(
                    settings.metrics_address, lambda: PulseCollector(evaluator.pulse)
                ):
                    await first_of(
                        stop.wait(),
                        evaluator.judge(),
                        reconcile(pointer, database, waits),
                        beat(heartbeats, settings.worker_name, evaluator.heartbeat),
                        health.keep_ticking(),
                    )
            except StaleEpochError as error:
                _log.warning("fenced", reason=str(error))
    _log.info("stopped")


class FencedEvaluator:
    """An evaluator that waits for its stores, takes the fence, then judges."""

    def __init__(
        self,
        run: RunConfig,
        settings: ProcessSettings,
        database: EvaluatorDatabase,
        pointer: BestPointer,
        model: AsyncModel,
        waits: Waits,
    ) -> None:
        self._run = run
        self._worker = settings.worker_name
        self._trials_only = settings.trials_only
        self._engines = settings.allowed_engines
        self._database = database
        self._pointer = pointer
        self._model = model
        self._waits = waits
        self._figures = EvaluatorFigures()
        self._in_play = MatchGamesInPlay()
        self._evaluator: Evaluator | None = None

    async def judge(self) -> None:
        """Take over as the run's evaluator, then judge until cancelled.

        Raises:
            StaleEpochError: another evaluator has taken over.
        """
        run, database, waits = self._run, self._database, self._waits
        await waits.ask_store(database.wait_ready, 5.0)
        await waits.ask_store(database.register_run, run)
        epoch = await waits.ask_store(database.acquire_fence, run.name, "evaluator")
        _log.info("judging", run=run.name, worker=self._worker, epoch=epoch)
        clock_ahead = await waits.ask_store(database.clock_ahead)
        context = EvaluatorContext(
            run,
            database,
            waits,
            self._worker,
            epoch,
            clock_ahead=clock_ahead,
            figures=self._figures,
            in_play=self._in_play,
            engines=self._engines,
        )
        players = Players(context, self._model)
        referee, promoter = Referee(context, players), Promoter(context, self._pointer)
        go = asyncio.Event()
        go.set()
        pool = RatingPool(context, players, go)
        trials = Trials(context, players, go, pool.rate)
        if self._trials_only:
            await SpareTime([trials], go).run()
        spare = SpareTime([trials, pool], go)
        self._evaluator = Evaluator(context, players, referee, promoter, pool, spare)
        await self._evaluator.run()

    def pulse(self) -> Pulse[EvaluatorFigures]:
        """Return the progress, the waits and the figures."""
        progress = 0 if self._evaluator is None else self._evaluator.progress
        return Pulse(progress, str(self._waits), replace(self._figures), self._waits.status)

    def heartbeat(self) -> Pulse[EvaluatorFigures]:
        """Return the pulse, with the moves of some games in play."""
        pulse, game = self.pulse(), self._run.game.name
        lines = self._in_play.lines(_SHOWN_GAMES)
        pulse.figures.games_in_play = tuple(
            f"{start};{format_actions(game, line, start)}".removeprefix(";")
            for start, line in lines
        )
        return pulse


_METRIC_PREFIX = "zerofleet_evaluator"


class PulseCollector(Collector):
    """Collects an evaluator's pulse at each scrape."""

    def __init__(self, pulse: Callable[[], Pulse[EvaluatorFigures]]) -> None:
        self._pulse = pulse

    def collect(self) -> Iterator[Metric]:
        """Yield progress as a counter, and the figures of the heartbeat as gauges."""
        pulse = self._pulse()
        yield CounterMetricFamily(
            f"{_METRIC_PREFIX}_progress", "Games played and models judged.", value=pulse.progress
        )
        for name, value in numbers(pulse.figures).items():
            words = name.replace("_", " ").capitalize()
            yield GaugeMetricFamily(f"{_METRIC_PREFIX}_{name}", f"{words}.", value=value)
