"""The evaluator service, wired: stores, inference, the loop, the reconciler, the heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine
from typing import Any

import structlog

from services.evaluator.evaluator import Evaluator
from services.evaluator.openings import draw_openings
from services.evaluator.patience import Patience
from services.evaluator.promotion import Promoter, reconcile
from services.evaluator.referee import Referee
from services.evaluator.settings import EvaluatorSettings
from zerofleet.best import BestPointer
from zerofleet.config import RunConfig
from zerofleet.database import Database
from zerofleet.errors import StaleEpochError, StoreUnavailableError
from zerofleet.heartbeat import Heartbeats
from zerofleet.rpc import InferenceClient

_log = structlog.get_logger()

_BEAT_SECONDS = 1.0


async def serve(run: RunConfig, settings: EvaluatorSettings) -> None:
    """Judge models until SIGTERM or SIGINT, or until another evaluator takes over.

    Raises:
        ConfigError: the run file contradicts the rules of its game, or the stored run.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await work(run, settings, stop)


async def work(run: RunConfig, settings: EvaluatorSettings, stop: asyncio.Event) -> None:
    """Judge models until ``stop`` is set; see ``serve``."""
    draw_openings(run.game.name, run.evaluator.opening_plies, 1, 0)  # fails early if it must
    patience = Patience()
    with (
        contextlib.closing(Heartbeats(settings.redis_url, run.name)) as heartbeats,
        contextlib.closing(BestPointer(settings.redis_url, run.name)) as pointer,
        Database(settings.database_url) as database,
    ):
        async with InferenceClient(settings.inference_address) as client:
            life = Life(run, settings, database, pointer, client, patience)
            try:
                await _first_of(
                    stop.wait(), life.judge(), reconcile(pointer, database), life.beat(heartbeats)
                )
            except StaleEpochError as error:
                _log.warning("fenced", reason=str(error))
    _log.info("stopped")


class Life:
    """One evaluator from its fence on.

    Args:
        run: the run.
        settings: of this process.
        database: the record.
        pointer: to the best model.
        client: of the inference service.
        patience: told what is waited for.
    """

    def __init__(
        self,
        run: RunConfig,
        settings: EvaluatorSettings,
        database: Database,
        pointer: BestPointer,
        client: InferenceClient,
        patience: Patience,
    ) -> None:
        self._run = run
        self._worker = settings.worker_name
        self._database = database
        self._pointer = pointer
        self._client = client
        self._patience = patience
        self._evaluator: Evaluator | None = None

    async def judge(self) -> None:
        """Take over as the run's evaluator, then judge until cancelled.

        Raises:
            StaleEpochError: another evaluator has taken over.
        """
        run, database, patience = self._run, self._database, self._patience
        await patience.ask(database.wait_ready, 5.0)
        await patience.ask(database.register_run, run)
        epoch = await patience.ask(database.acquire_fence, run.name, "evaluator")
        _log.info("judging", run=run.name, worker=self._worker, epoch=epoch)
        promoter = Promoter(database, self._pointer, run.name, self._worker, epoch, patience)
        referee = Referee(run, database, self._client, patience, self._worker, epoch)
        self._evaluator = Evaluator(run, database, referee, promoter, patience)
        await self._evaluator.run()

    async def beat(self, heartbeats: Heartbeats) -> None:
        """Report progress and what is waited for; a Redis that is away is no reason to stop."""
        while True:
            evaluator = self._evaluator
            with contextlib.suppress(StoreUnavailableError):
                await asyncio.to_thread(
                    heartbeats.beat,
                    "evaluator",
                    self._worker,
                    evaluator.progress if evaluator else 0,
                    self._patience.waiting_for,
                    evaluator.figures if evaluator else {},
                )
            await asyncio.sleep(_BEAT_SECONDS)


async def _first_of(*parts: Coroutine[Any, Any, object]) -> None:
    """Run ``parts`` until the first of them ends, then cancel the others; raise its error."""
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
