"""Looks at the fleet every few seconds, has the rule judge, and says what changed."""

from __future__ import annotations

import asyncio
import time

import structlog

from zerofleet.config import ScalingSection
from zerofleet.errors import StoreUnavailableError
from zerofleet.fleet.figures import AutoscalerFigures
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.fleet.need import FleetFigures, observe
from zerofleet.service import Pulse
from zerofleet.services.autoscaler.desired_replicas import Desired, ScalingRule
from zerofleet.waiting import awaited

_LOG_SECONDS = 60.0  # between two lines in which nothing changed

_log = structlog.get_logger()


class Watch:
    """The newest answers.

    Args:
        heartbeats: of the run; Redis may be away, and then nothing changes.
        section: of the run file.
    """

    def __init__(self, heartbeats: Heartbeats, section: ScalingSection) -> None:
        self._heartbeats = heartbeats
        self._section = section
        self._rule = ScalingRule(section)
        self._next_log = 0.0
        self._waiting_for = "the fleet's first figures"
        self.answers: Desired | None = None
        """None until the fleet was watched for long enough to say anything."""
        self.fleet = FleetFigures()
        """As it was at the last look."""
        self.looks = 0
        """That found Redis, and heartbeats that are renewed."""
        self.missed_looks = 0
        """That did not."""

    async def watch(self) -> None:
        """Look for ever."""
        while True:
            await self.look()
            await asyncio.sleep(self._section.every_seconds)

    async def look(self) -> None:
        """Look once, and log what follows."""
        now = time.monotonic()
        try:
            found = await asyncio.to_thread(self._heartbeats.read)
        except StoreUnavailableError as error:
            answers = self._miss(awaited(error, "Redis"), "Redis does not answer")
            reason = str(error)
        else:
            state = self._heartbeats.state
            if state.status == "up":
                self.looks += 1
                self._waiting_for = ""
                self.fleet = observe(found)
                answers = self._rule.look(now, self.fleet)
                reason = self.fleet.missing or "the fleet is watched for a while first"
            else:  # heartbeats that cannot be renewed expire, though their processes run
                answers = self._miss("Redis to take writes", "Redis takes no writes")
                reason = state.reason
        self._tell(now, answers, reason)
        self.answers = answers

    def _miss(self, thing: str, why: str) -> Desired | None:
        """Repeat the last answers, because of Redis."""
        self.missed_looks += 1
        self._waiting_for = thing
        return self._rule.hold(why)

    def pulse(self) -> Pulse[AutoscalerFigures]:
        """For the heartbeat; progress is the looks taken."""
        answers = self.answers
        figures = AutoscalerFigures(
            selfplay_replicas=answers and answers.selfplay.count,
            inference_replicas=answers and answers.inference.count,
        )
        status = "running" if not self._waiting_for else "blocked" if self.missed_looks else "idle"
        return Pulse(self.looks, self._waiting_for, figures, status)

    def _tell(self, now: float, answers: Desired | None, reason: str) -> None:
        """Each change at once, and else a line a minute."""
        if answers is None:
            if now >= self._next_log:
                self._next_log = now + _LOG_SECONDS
                _log.info("no_answer_yet", reason=reason)
            return
        both = {"selfplay": answers.selfplay, "inference": answers.inference}
        changed = {role: each for role, each in both.items() if each.count != each.before}
        for role, answer in changed.items():
            _log.info(
                "replicas_changed",
                role=role,
                replicas=answer.count,
                reason=answer.reason.value,
                answer=answer.text,
            )
        is_first = self.answers is None
        if not changed and (is_first or now >= self._next_log):
            _log.info("replicas_kept", **{role: each.text for role, each in both.items()})
        if changed or is_first or now >= self._next_log:
            self._next_log = now + _LOG_SECONDS
