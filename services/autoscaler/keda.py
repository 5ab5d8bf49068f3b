"""Watches the fleet and answers KEDA: the metric of each trigger is the number of replicas.

``Watch`` reads the heartbeats every few seconds, applies the scaling rule, and logs changes.
``KedaScaler`` answers with the newest numbers.
"""

from __future__ import annotations

import asyncio
import difflib
import time
from enum import StrEnum

import structlog

from zerofleet.config import ScalingSection
from zerofleet.errors import InvalidRequestError, StoreUnavailableError
from zerofleet.fleet.figures import AutoscalerFigures
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.fleet.need import FleetFigures, observe
from zerofleet.rpc.scaler import ScaledObject
from zerofleet.service import Pulse
from zerofleet.services.autoscaler.desired_replicas import Desired, ScalingRule
from zerofleet.waiting import awaited

_OURS = ("role", "run")
# KEDA passes all keys of the trigger's metadata, including its own.
_KEDAS = (
    *("scalerAddress", "enableTLS", "unsafeSsl", "tlsCertFile"),
    *("caCert", "tlsClientCert", "tlsClientKey"),
)

_LOG_SECONDS = 60.0  # between two lines without a change

_log = structlog.get_logger()


class Role(StrEnum):
    """Service whose replicas are counted."""

    SELFPLAY = "selfplay"
    INFERENCE = "inference"


class KedaScaler:
    """Answers for one run; a ``zerofleet.rpc.scaler.Scaler``."""

    def __init__(self, run: str, watch: Watch) -> None:
        self._run = run
        self._watch = watch

    def metric(self, scaled: ScaledObject) -> str:
        """Return the name of the metric of the trigger's role.

        Raises:
            InvalidRequestError: the trigger's metadata is wrong.
        """
        return f"zerofleet-{read_trigger(scaled, self._run).value}-replicas"

    def replicas(self, scaled: ScaledObject) -> int:
        """Return the useful number of replicas of the trigger's role.

        Raises:
            InvalidRequestError: the trigger's metadata is wrong.
            StoreUnavailableError: the fleet is not known yet. A guess would be worse: without a
                metric Kubernetes keeps the present replicas.
        """
        role, answers = read_trigger(scaled, self._run), self._watch.answers
        if answers is None:
            raise StoreUnavailableError(
                "how many replicas are useful is not known yet: "
                + (self._watch.fleet.missing or "the fleet is watched for a while first")
            )
        return (answers.selfplay if role is Role.SELFPLAY else answers.inference).count


def read_trigger(scaled: ScaledObject, run: str) -> Role:
    """Return the role that a trigger names.

    Args:
        scaled: the object that the trigger belongs to.
        run: name of the run that is watched here.

    Raises:
        InvalidRequestError: a key is missing or unknown, or has an unknown value. The message names
            the object, the key, the value and the remedy.
    """
    place = f"scalerMetadata of {scaled.namespace}/{scaled.name}"
    for key in scaled.metadata:
        if key not in _OURS and key not in _KEDAS:
            near = difflib.get_close_matches(key, (*_OURS, *_KEDAS), n=1, cutoff=0.5)
            hint = f"did you mean '{near[0]}'?" if near else f"ours are {', '.join(_OURS)}"
            raise InvalidRequestError(f"{place}: unknown key '{key}': {hint}")
    roles = " or ".join(f"'{role}'" for role in Role)
    found = scaled.metadata.get("role")
    if found is None:
        raise InvalidRequestError(f"{place}: the key 'role' is missing: give {roles}")
    if found not in set(Role):
        raise InvalidRequestError(f"{place}: role = '{found}': give {roles}")
    asked = scaled.metadata.get("run", run)
    if asked != run:
        raise InvalidRequestError(
            f"{place}: run = '{asked}', but this autoscaler watches '{run}': give it its own, or "
            "the address of the other run's"
        )
    return Role(found)


class Watch:
    """Observes the fleet every few seconds, and holds the newest answers.

    While Redis is down, the last answers stay.
    """

    def __init__(self, heartbeats: Heartbeats, section: ScalingSection) -> None:
        self._heartbeats = heartbeats
        self._section = section
        self._rule = ScalingRule(section)
        self._next_log = 0.0
        self._waiting_for = "the fleet's first figures"
        self.answers: Desired | None = None
        """Desired replicas; None until the fleet was watched for long enough."""
        self.fleet = FleetFigures()
        """Figures of the fleet at the last observation."""
        self.looks = 0
        """Observations that found Redis up, with heartbeats that are renewed."""
        self.missed_looks = 0
        """Observations that did not."""

    async def watch(self) -> None:
        """Observe until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._section.every_seconds)

    async def look(self) -> None:
        """Observe once, and log the answers."""
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
        self._log_answers(now, answers, reason)
        self.answers = answers

    def _miss(self, thing: str, why: str) -> Desired | None:
        """Repeat the last answers, because Redis is down or takes no writes."""
        self.missed_looks += 1
        self._waiting_for = thing
        return self._rule.hold(why)

    def pulse(self) -> Pulse[AutoscalerFigures]:
        """Return the state for the heartbeat; progress is the number of observations."""
        answers = self.answers
        figures = AutoscalerFigures(
            selfplay_replicas=answers and answers.selfplay.count,
            inference_replicas=answers and answers.inference.count,
        )
        status = "running" if not self._waiting_for else "blocked" if self.missed_looks else "idle"
        return Pulse(self.looks, self._waiting_for, figures, status)

    def _log_answers(self, now: float, answers: Desired | None, reason: str) -> None:
        """Log each change at once, and otherwise one line a minute."""
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
