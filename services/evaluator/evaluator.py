"""The evaluator's loop: exam of the best model, next candidate, match, verdict, promotion."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import structlog

from zerofleet.database import MatchRow, Promotion
from zerofleet.errors import IncompatibleModelError
from zerofleet.service import first_of
from zerofleet.services.evaluator.context import EvaluatorContext, Players
from zerofleet.services.evaluator.examiner import Examiner
from zerofleet.services.evaluator.promotion_gate import Promoter, Referee
from zerofleet.services.evaluator.spare_games import RatingPool, SpareTime
from zerofleet.verdict import Judgement, MatchStatistics

_log = structlog.get_logger()

_POLL_SECONDS = 0.5
# A candidate that does not answer is given up after this time if there is a newer one.
_PATIENCE_SECONDS = 5.0

_NEWER = MatchStatistics(decided_by="newer_candidate")
_UNUSABLE = MatchStatistics(decided_by="unusable")
_OTHER_BEST = MatchStatistics(decided_by="other_best")
_OTHER_OPENINGS = MatchStatistics(decided_by="other_openings")


@dataclass(frozen=True, slots=True)
class Work:
    """The next model to judge, and older candidates to skip because of it."""

    candidate: int
    skipped: tuple[int, ...] = ()


def choose(
    versions: Iterable[int],
    judged: Iterable[int],
    *,
    is_first: bool,
    gate: bool,
    begun: int | None = None,
) -> Work | None:
    """Return the next model to judge; None if none waits.

    Models older than a judged one are no longer judged. The first model of a run becomes the best
    without a match. Without a gate, each model that answers becomes the best, in order. With a gate
    the newest candidate plays, because it was trained the longest and a match costs more than a
    model. A match that has begun is finished first.

    Args:
        versions: every model of the run.
        judged: models with a verdict or a promotion; without a gate also models that did not
            answer before a newer one came.
        is_first: whether the run has no best model yet.
        gate: whether a match decides.
        begun: candidate of an unfinished match against the current best.
    """
    newest_judged = max(judged, default=0)
    waiting = sorted(version for version in versions if version > newest_judged)
    if not waiting:
        return None
    if is_first or not gate:
        return Work(waiting[0])
    candidate = begun if begun in waiting else waiting[-1]
    return Work(candidate, tuple(version for version in waiting if version < candidate))


class Evaluator:
    """Judges the models of one run, one after the other.

    It reads its state from the database at each turn, so another evaluator, or this one after a
    restart, resumes where it stopped.
    """

    def __init__(
        self,
        context: EvaluatorContext,
        players: Players,
        referee: Referee,
        promoter: Promoter,
        pool: RatingPool,
        spare: SpareTime,
    ) -> None:
        self._context = context
        self._run = context.run
        self._name = context.run.name
        self._database = context.database
        self._players = players
        self._referee = referee
        self._promoter = promoter
        self._pool = pool
        self._spare = spare
        self._examiner = Examiner(context, players)
        self._ask = context.ask
        self._waits = context.waits
        self._judged = 0

    @property
    def progress(self) -> int:
        """Games played and models judged; grows while this evaluator makes progress."""
        return self._judged + self._context.games_played

    async def run(self) -> None:
        """Judge models until cancelled.

        Raises:
            StaleEpochError: another evaluator has taken over.
        """
        await self._pool.rate()
        await first_of(self._judge_all(), self._spare.run())

    async def _judge_all(self) -> None:
        while True:
            head = await self._ask(self._database.promotion_head, self._name)
            if head is not None:
                self._context.figures.best_version = head.version
                await self._examiner.examine(head.version)
            work = await self._next(head)
            if work is None:
                self._report_idle(head)
                await asyncio.sleep(_POLL_SECONDS)
                continue
            self._waits.end("evaluator")
            began = time.monotonic()
            with self._spare.paused():
                if head is None:
                    await self._promoter.promote(work.candidate, None, head)
                elif self._run.evaluator.gate:
                    await self._judge(work.candidate, head)
                else:
                    await self._promote_untested(work.candidate, head)
            self._judged += 1
            # If candidates come faster than they are judged, there is no spare time at all.
            share = self._run.rating.share
            await self._spare.play_on((time.monotonic() - began) * share / (1 - share))

    def _report_idle(self, head: Promotion | None) -> None:
        """Note that there is no model to evaluate, unless other games are played meanwhile."""
        if self._spare.in_play:
            self._waits.end("evaluator")
            return
        self._waits.begin("evaluator", "a new model" if head else "the first model", "idle")

    async def _next(self, head: Promotion | None) -> Work | None:
        """Return the next model to judge; record the models that it skips."""
        models = await self._ask(self._database.models, self._name)
        promotions = await self._ask(self._database.promotions, self._name)
        matches = await self._ask(self._database.matches, self._name)
        gate = self._run.evaluator.gate
        judged = {
            match.candidate
            for match in matches
            if match.verdict in ("promoted", "rejected")
            or (not gate and match.decided_by == _NEWER.decided_by)
        }
        work = choose(
            [model.version for model in models],
            judged | {promotion.version for promotion in promotions},
            is_first=head is None,
            gate=gate,
            begun=await self._begun_candidate(matches, head),
        )
        if work is not None and head is not None:
            noted = {match.candidate for match in matches if match.verdict is not None}
            for version in sorted(set(work.skipped) - noted):
                match = await self._referee.open(version, head.version)
                await self._referee.close(match, "skipped", _NEWER)
        return work

    async def _begun_candidate(
        self, matches: Sequence[MatchRow], head: Promotion | None
    ) -> int | None:
        """Return the candidate of a match that has games; close matches against a former best."""
        begun: int | None = None
        for match in matches:
            if match.verdict is not None:
                continue
            if head is None or match.best != head.version:
                await self._referee.close(match, "skipped", _OTHER_BEST)
            elif await self._ask(self._database.match_places, match.match_id):
                begun = match.candidate
        return begun

    async def _judge(self, candidate: int, head: Promotion) -> None:
        """Play the match that decides on a candidate, or the rest of it."""
        match = await self._referee.open(candidate, head.version)
        if not await self._admit(match):
            return
        try:
            judgement = await self._referee.play(match)
        except IncompatibleModelError as error:
            await self._decide_without_match(match, head, str(error))
            return
        if judgement.verdict is None:
            # Its openings differ from the current run file's: the next turn begins another match.
            _log.error("match_incomplete", match_id=match.match_id, games=match.games)
            await self._referee.close(match, "skipped", _OTHER_OPENINGS)
            return
        self._log_verdict(match, judgement)
        if judgement.verdict == "promoted":
            await self._promoter.promote(candidate, match.match_id, head, judgement.statistics)
        else:
            await self._referee.close(match, "rejected", judgement.statistics)
        await self._pool.rate()

    async def _promote_untested(self, candidate: int, head: Promotion) -> None:
        """Promote a model that answers; record any other as skipped or rejected."""
        can_play = await self._can_play(candidate)
        if can_play:
            await self._promoter.promote(candidate, None, head)
            return
        match = await self._referee.open(candidate, head.version)
        if can_play is None:
            await self._referee.close(match, "skipped", _NEWER)
        else:
            await self._referee.close(match, "rejected", _UNUSABLE)

    def _log_verdict(self, match: MatchRow, judgement: Judgement) -> None:
        statistics = judgement.statistics
        _log.info(
            "judged",
            candidate=match.candidate,
            best=match.best,
            verdict=judgement.verdict,
            decided_by=statistics.decided_by,
            score=statistics.score,
            llr=statistics.llr,
            pentanomial=statistics.pentanomial,
            games_counted=statistics.games_counted,
            duplicates=statistics.duplicates,
        )

    async def _admit(self, match: MatchRow) -> bool:
        """Return whether the candidate answers; reject it if it cannot."""
        can_play = await self._can_play(match.candidate)
        if can_play is False:
            await self._referee.close(match, "rejected", _UNUSABLE)
        return can_play is True  # None: the next turn records it as skipped

    async def _decide_without_match(self, match: MatchRow, head: Promotion, reason: str) -> None:
        """Decide without a match, because a model failed in play.

        A candidate that fails is rejected. A best model that fails is replaced without a win: no
        match against it would ever end.
        """
        _log.error("match_broken_off", candidate=match.candidate, best=match.best, reason=reason)
        if not await self._admit(match):
            return
        if await self._players.can_play(match.best):
            await asyncio.sleep(_POLL_SECONDS)  # both answer again: the next turn continues
            return
        _log.error("best_unusable", best=match.best, promoted_without_match=match.candidate)
        if await self._promoter.promote(match.candidate, None, head) is not None:
            await self._referee.close(match, "skipped", _UNUSABLE)

    async def _can_play(self, candidate: int) -> bool | None:
        """Return whether a candidate answers; None if a newer one came while it did not."""
        asking = asyncio.create_task(self._players.can_play(candidate))
        try:
            while not asking.done():
                await asyncio.wait({asking}, timeout=_PATIENCE_SECONDS)
                models = await self._ask(self._database.models, self._name)
                if not asking.done() and models[-1].version > candidate:
                    return None
            return asking.result()
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
