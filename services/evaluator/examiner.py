"""After a promotion: how often the new best errs where perfect play is known."""

from __future__ import annotations

import structlog

from zerofleet.config import RunConfig
from zerofleet.exam import ExamResult, examine, has_exam
from zerofleet.prediction import Predictor

_log = structlog.get_logger()


async def examine_version(run: RunConfig, version: int, predictor: Predictor) -> ExamResult:
    """Examine one version of a run whose game has an exam, as the run file says."""
    result = await examine(
        run.game.name,
        predictor,
        num_simulations=run.exam.num_simulations,
        positions=run.exam.positions,
        search=run.search,
        most_rows=run.inference.max_batch_rows,
    )
    _log.info("examined", version=version, errors=result.errors, positions=result.positions)
    return result


def needs_exam(run: RunConfig, version: int, examined: list[int]) -> bool:
    """Whether the best model's exam is still to come."""
    return has_exam(run.game.name) and version not in examined
