"""Shared state of an evaluator's parts: its run, the database, its fence, and the players."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ParamSpec, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray
from zerofleet_core import SearchConfig

from zerofleet.client import AsyncModel
from zerofleet.config import RunConfig
from zerofleet.cpus import usable_cpus
from zerofleet.database import EvaluatorDatabase, MatchGame, ModelName
from zerofleet.errors import (
    IncompatibleModelError,
    InferenceUnavailableError,
    ModelNotFoundError,
)
from zerofleet.fleet.figures import EvaluatorFigures
from zerofleet.games import State
from zerofleet.match.anchors import anchor_player
from zerofleet.match.play_match import MatchGamesInPlay, MatchPlayer, SearchPlayer
from zerofleet.prediction import Prediction, Predictor
from zerofleet.waiting import PatientPredictor, Waits

_log = structlog.get_logger()

_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(slots=True)
class EvaluatorContext:
    """One evaluator, from the moment it took the fence."""

    run: RunConfig
    database: EvaluatorDatabase
    waits: Waits
    worker: str
    """Name of this process."""
    epoch: int
    """Epoch of the evaluator's fence; the database refuses writes with an older one."""
    clock_ahead: timedelta = timedelta(0)
    """How far this machine's clock is ahead of Postgres', by which game uids are made."""
    figures: EvaluatorFigures = field(default_factory=EvaluatorFigures)
    """Figures of the heartbeat."""
    in_play: MatchGamesInPlay = field(default_factory=MatchGamesInPlay)
    """Games in play in all its matches."""
    engines: frozenset[str] = frozenset()
    """Programs and classes that anchors may start; see ``ProcessSettings.engines``."""
    games_played: int = 0
    """Games stored by this process."""

    async def ask(self, call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a store in a thread, repeatedly until it answers."""
        return await self.waits.ask_store(call, *args, **kwargs)

    async def record(self, match_id: int, games: Sequence[MatchGame]) -> None:
        """Store finished games of a match; see ``Matches.record_match_games``."""
        for game in games:
            if game.remark is not None:
                place = {"opening": game.opening, "color": game.color}
                _log.warning("forfeit", match_id=match_id, **place, reason=game.remark)
        database, run = self.database, self.run.name
        await self.ask(
            database.record_match_games, run, self.worker, match_id, games, epoch=self.epoch
        )
        self.games_played += len(games)


class Players:
    """Finds the players of matches by name: a version, a version in one precision, or an anchor.

    Args:
        model: client for the run's models at the inference service.
    """

    def __init__(self, context: EvaluatorContext, model: AsyncModel) -> None:
        self._context = context
        self._model = model
        self._thinking = asyncio.Semaphore(usable_cpus())

    async def predictor(self, streams: AsyncExitStack, name: ModelName) -> Predictor:
        """Connect to one exact model, over a stream that ends with ``streams``."""
        waits, who = self._context.waits, f"version {name.version}"
        stream = self._model.stream(version=name.version, precision=name.precision)
        predictor: Predictor = await streams.enter_async_context(stream)
        predictor = ExactPredictor(predictor, name.precision, lambda: self._files(name))
        if name.precision is not None:
            who += f" in {name.precision}"
        streams.callback(waits.end, who)
        return PatientPredictor(predictor, waits, who, f"inference to load {who}")

    async def _files(self, name: ModelName) -> frozenset[str]:
        """Return the sha256 of each file that may answer for a model; none if its row is gone."""
        context = self._context
        files = await context.ask(context.database.model_files, context.run.name, [name.version])
        return frozenset(file.sha256 for file in files if name.precision in (None, file.precision))

    async def player(
        self, streams: AsyncExitStack, name: str, search: SearchConfig, seed: int
    ) -> MatchPlayer:
        """Return the player of this name.

        Args:
            streams: streams and programs of the player end with this.
            name: a model's version, a version with its precision, or an anchor.
            search: how models search; the anchor ``search`` runs as many simulations.
            seed: seed of the anchor ``random``.

        Raises:
            ConfigError: the anchor cannot play here.
        """
        model = ModelName.of(name)
        if model is None:
            game = self._context.run.game.name
            simulations = search.num_simulations
            engines = self._context.engines
            return anchor_player(name, game, simulations, seed, streams, self._thinking, engines)
        return SearchPlayer(await self.predictor(streams, model), search, model.version)

    async def can_play(self, version: int) -> bool:
        """Return whether a model answers; waits until the inference service has tried it."""
        async with AsyncExitStack() as streams:
            predictor = await self.predictor(streams, ModelName(version))
            start = State(self._context.run.game.name).observation()[np.newaxis]
            try:
                await predictor.predict(start)
            except IncompatibleModelError as error:
                _log.error("model_unusable", version=version, reason=str(error))
                return False
        return True


class ExactPredictor:
    """Checks which file gave each answer.

    A server without variants ignores the request for a precision. A server may also have loaded a
    version before a failover of Postgres replaced it. Answers that name no file are not checked:
    they come from an older server or one of another kind.

    Args:
        predictor: a stream that requests the precision.
        precision: the precision that must answer; None if any may.
        files: reads the sha256 of each file that may answer.
    """

    def __init__(
        self,
        predictor: Predictor,
        precision: str | None,
        files: Callable[[], Awaitable[frozenset[str]]],
    ) -> None:
        self._predictor = predictor
        self._precision = precision
        self._read_files = files
        self._files = frozenset[str]()  # read at the first answer

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict with one of the files.

        Raises:
            IncompatibleModelError: the server lacks the variant, or answers in another precision.
                The variant's row exists, so waiting does not help.
            InferenceUnavailableError: the server answers from another file. It drops that file
                within a minute, so waiting helps.
        """
        try:
            prediction = await self._predictor.predict(observations)
        except ModelNotFoundError as error:
            if self._precision is None:
                raise
            raise IncompatibleModelError(str(error)) from error
        if self._precision not in (None, prediction.precision):
            answered = prediction.precision or "a precision that it does not name"
            raise IncompatibleModelError(
                f"requested {self._precision}, but inference answered in {answered}: use an "
                "inference service that serves variants"
            )
        if prediction.sha256 and prediction.sha256 not in self._files:
            self._files = await self._read_files()
            if prediction.sha256 not in self._files:
                raise InferenceUnavailableError(
                    f"inference answered for version {prediction.model_version} from the file "
                    f"{prediction.sha256[:64]}, but the database names "
                    f"{', '.join(sorted(self._files)) or 'none'}"
                )
        return prediction
