"""Exams of the best model: its error rate compared with perfect play."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import structlog

from zerofleet.database import ExamFigures, ModelName
from zerofleet.errors import IncompatibleModelError
from zerofleet.exam import ExamResult, PositionKind, examine, position_kinds
from zerofleet.services.evaluator.context import EvaluatorContext, Players

_log = structlog.get_logger()


class Examiner:
    """Examines models of one run and stores the results.

    Args:
        players: finds players by name.
    """

    def __init__(self, context: EvaluatorContext, players: Players) -> None:
        self._context = context
        self._players = players

    async def examine(self, version: int) -> None:
        """Run the exams of a model that are not stored yet, one for each kind of positions.

        The model answers in the precision in which inference serves it, as in self-play.
        """
        run = self._context.run
        kinds = await asyncio.to_thread(position_kinds, run.game.name)
        if not kinds:
            return
        exams = await self._context.ask(self._context.database.exams, run.name)
        done = {exam.kind for exam in exams if exam.version == version}
        if done.issuperset(kinds) or not await self._players.can_play(version):
            return
        for kind in kinds:
            if kind not in done:
                await self._examine_in(version, kind)

    async def _examine_in(self, version: int, kind: PositionKind) -> None:
        """Examine a model in one kind of positions, and store the result."""
        run = self._context.run
        try:
            async with AsyncExitStack() as streams:
                result = await examine(
                    run.game.name,
                    await self._players.predictor(streams, ModelName(version)),
                    num_simulations=run.exam.num_simulations,
                    positions=run.exam.positions,
                    kind=kind,
                    search=run.search,
                    most_rows=run.inference.max_batch_rows,
                )
        except IncompatibleModelError as error:
            _log.error("exam_broken_off", version=version, reason=str(error))
            return
        _log.info(
            "examined",
            version=version,
            kind=kind,
            errors=result.errors,
            prior_errors=result.prior_errors,
            positions=result.positions,
            value_error=result.value_error,
        )
        self._update_figures(result)
        await self._context.ask(
            self._context.database.insert_exam,
            run.name,
            version,
            run.exam.num_simulations,
            result.positions,
            result.errors,
            kind=kind,
            figures=ExamFigures(result.prior_errors, result.value_error),
            wrong_answers=result.wrong_answers,
            groups=result.groups,
        )

    def _update_figures(self, result: ExamResult) -> None:
        """Put the results of an exam into the figures of the heartbeat."""
        figures, prior = self._context.figures, result.prior_errors
        prior_error_rate = None if prior is None else prior / result.positions
        if result.kind == "good":
            figures.good_exam_error_rate = result.error_rate
            figures.good_exam_prior_error_rate = prior_error_rate
            figures.good_exam_value_error = result.value_error
        elif result.kind == position_kinds(result.game)[0]:
            figures.exam_error_rate = result.error_rate
            figures.exam_prior_error_rate = prior_error_rate
            figures.exam_value_error = result.value_error
