"""The numbers that Kubernetes scales to: desired workers and inference replicas, and the reasons.

``zerofleet.fleet.need`` computes how many would be useful. The rule here decides when to request
them, in which steps and within which bounds. docs/how-to/autoscaling.md has it as a table.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from zerofleet.config import ScalingSection
from zerofleet.fleet.need import FleetFigures, Need, mean, need_of, whole, within

_MOST_GROWTH = 2  # times the current number, until new replicas have shown their speed
_LEAST_LEFT = 0.5  # share of the last desired number, when it shrinks


class ScalingReason(StrEnum):
    """Reason of a desired number; also a label of metrics."""

    GREW = "grew"
    SHRANK = "shrank"
    ENOUGH = "enough"
    SURPLUS = "surplus"
    """Fewer would do, but not for long enough yet."""
    INFERENCE = "inference"
    """More are wanted, but inference could not feed them."""
    STARTING = "starting"
    """More are wanted, but too few of the new ones have started to judge."""
    AT_MOST = "at_most"
    AT_LEAST = "at_least"
    HELD = "held"
    """Figures are missing."""

    @property
    def words(self) -> str:
        """The reason as words of a sentence."""
        return self.value.replace("_", " its ")


@dataclass(frozen=True, slots=True)
class DesiredReplicas:
    """Desired number of replicas."""

    count: int
    before: int
    """The desired number before this one."""
    reason: ScalingReason
    words: str

    @property
    def text(self) -> str:
        """Summary, such as ``12 -> 18: reuse 6.1 of 4.0, fill 0.31, wait/compute 0.2``."""
        counts = f"{self.before} -> {self.count}" if self.count != self.before else f"{self.count}"
        return f"{counts}: {self.words}"


@dataclass(frozen=True, slots=True)
class Desired:
    """Desired numbers of both, and the need they follow from."""

    selfplay: DesiredReplicas
    inference: DesiredReplicas
    need: Need | None
    """None while figures are missing."""


class ScalingRule:
    """Scaling rule: observes the fleet every few seconds, and remembers the last desired numbers.

    - Growth is immediate, at most to twice the current number, and never beyond what inference can
      feed. If requests wait longer than a batch takes, more workers would only slow the server
      down.
    - Shrinking takes ``shrink_after_seconds`` in which less than ``shrink_below`` was useful at
      every observation. The largest useful number of that time remains, and at least half.
    - Inference grows with the rows of self-play's next two steps, and shrinks after self-play.
    - Missing figures change nothing: the last desired numbers stay.

    Args:
        section: bounds and times.
    """

    def __init__(self, section: ScalingSection) -> None:
        self._section = section
        self._looks: deque[tuple[float, FleetFigures]] = deque()
        self._began: float | None = None
        self._heard = 0
        self._heard_replicas = 0
        self._workers = 0  # no number is desired yet
        self._replicas = 0
        times = section.shrink_after_seconds, section.window_seconds
        self._surplus_workers = SurplusTime(*times)
        self._surplus_replicas = SurplusTime(*times)

    def look(self, seconds: float, fleet: FleetFigures) -> Desired | None:
        """Take in one observation, and return the desired numbers.

        Args:
            seconds: time by a clock that never goes back.
            fleet: figures of the fleet at that time.

        Returns:
            None until the fleet was watched for ``window_seconds``, and a worker and an inference
                replica have sent heartbeats: an autoscaler without data requests nothing.
        """
        if not self._is_begun(seconds, fleet):
            return None
        if fleet.missing:
            return self.hold(fleet.missing)
        need = need_of(mean([each for _, each in self._looks]), self._section)
        workers = self._answer_workers(seconds, need, fleet)
        replicas = self._answer_replicas(seconds, need, fleet)
        self._workers, self._replicas = workers.count, replicas.count
        return Desired(workers, replicas, need)

    def hold(self, missing: str) -> Desired | None:
        """Return the last answer again, because figures are missing.

        Args:
            missing: the missing figures, and the cause.
        """
        self._surplus_workers.stand_still()
        self._surplus_replicas.stand_still()
        if not self._workers:
            return None
        words = f"held: {missing}"
        return Desired(
            DesiredReplicas(self._workers, self._workers, ScalingReason.HELD, words),
            DesiredReplicas(self._replicas, self._replicas, ScalingReason.HELD, words),
            None,
        )

    def _is_begun(self, seconds: float, fleet: FleetFigures) -> bool:
        """Store a complete observation; return whether the first answer is due or was given."""
        section = self._section
        if self._began is None:
            self._began = seconds
        if not fleet.missing:
            self._looks.append((seconds, fleet))
        while self._looks and seconds - self._looks[0][0] >= section.window_seconds:
            self._looks.popleft()
        if self._workers:
            return True
        watched = seconds - self._began
        # Take the largest number seen in the second half of the window. The first half may include
        # processes that have just died, and at a single observation Redis may just have been
        # emptied.
        if watched >= section.window_seconds / 2:
            self._heard = max(self._heard, round(fleet.workers))
            self._heard_replicas = max(self._heard_replicas, round(fleet.replicas))
        if watched < section.window_seconds:
            return False
        if not self._heard or not self._heard_replicas:
            return False
        self._workers = within(section.min_workers, self._heard, section.max_workers)
        self._replicas = within(section.min_inference, self._heard_replicas, section.max_inference)
        return True

    def _answer_workers(self, seconds: float, need: Need, fleet: FleetFigures) -> DesiredReplicas:
        section, now = self._section, self._workers
        bounds = section.min_workers, section.max_workers
        if need.workers > section.grow_above * now:
            self._surplus_workers.end()
            return self._grow_workers(need, fleet)
        peak = self._surplus_workers.peak(
            seconds, need.workers, surplus=need.workers < section.shrink_below * now
        )
        if peak is None:
            surplus = need.workers < section.shrink_below * now
            reason = ScalingReason.SURPLUS if surplus and now > bounds[0] else ScalingReason.ENOUGH
            return DesiredReplicas(now, now, reason, f"enough: {need.text}")
        left = max(whole(peak), whole(_LEAST_LEFT * now))
        return _answer(now, left, bounds, ScalingReason.SHRANK, need.text)

    def _grow_workers(self, need: Need, fleet: FleetFigures) -> DesiredReplicas:
        """Return a larger number: what inference can feed, within what current speeds justify."""
        section, now = self._section, self._workers
        bounds = section.min_workers, section.max_workers
        text = need.text
        if need.wait >= section.max_wait or need.fed < now + 1:
            return DesiredReplicas(
                now, now, ScalingReason.INFERENCE, need.inference_text(section, self._replicas)
            )
        most = _MOST_GROWTH * max(1, round(fleet.workers))
        if most <= now:
            words = f"{fleet.workers:.0f} of them work so far: {text}"
            return DesiredReplicas(now, now, ScalingReason.STARTING, words)
        wanted = int(min(whole(need.workers), need.fed, most))
        return _answer(now, max(now, wanted), bounds, ScalingReason.GREW, text)

    def _answer_replicas(self, seconds: float, need: Need, fleet: FleetFigures) -> DesiredReplicas:
        section, now = self._section, self._replicas
        bounds = section.min_inference, section.max_inference
        text = f"{need.text}, load {need.load:.2f}"
        # For the rows of the next two steps of self-play, because a replica takes longer to start
        # than a worker. Whether more will be needed is not known yet.
        wanted = need.replicas * min(1.0, _MOST_GROWTH**2 * fleet.workers / need.workers)
        if need.workers > section.grow_above * need.playing and need.wait >= section.max_wait:
            wanted = max(wanted, section.grow_above * fleet.replicas + 0.01)
        if wanted > section.grow_above * now:
            self._surplus_replicas.end()
            most = _MOST_GROWTH * max(1, round(fleet.replicas))
            return _answer(
                now, max(now, min(whole(wanted), most)), bounds, ScalingReason.GREW, text
            )
        use = max(need.replicas, need.replicas_now)
        surplus = use > 0 and whole(use) < now and need.wait < section.max_wait
        peak = self._surplus_replicas.peak(seconds, use, surplus=surplus)
        if peak is None:
            reason = ScalingReason.SURPLUS if surplus else ScalingReason.ENOUGH
            return DesiredReplicas(now, now, reason, f"enough: {text}")
        left = max(whole(peak), whole(_LEAST_LEFT * now))
        return _answer(now, left, bounds, ScalingReason.SHRANK, text)


def _answer(
    now: int, wanted: int, bounds: tuple[int, int], reason: ScalingReason, text: str
) -> DesiredReplicas:
    """Return a change within the bounds, with its explanation."""
    count = within(bounds[0], wanted, bounds[1])
    if count != now:
        return DesiredReplicas(count, now, reason, text)
    if wanted == now:
        return DesiredReplicas(now, now, ScalingReason.ENOUGH, f"enough: {text}")
    reason = ScalingReason.AT_MOST if wanted > now else ScalingReason.AT_LEAST
    return DesiredReplicas(now, now, reason, f"{reason.words}: {text}")


class SurplusTime:
    """A time of surplus replicas; it does not grow while figures are missing.

    Args:
        after: seconds that it must have lasted to count.
        settled: seconds after which means no longer include the time before.
    """

    def __init__(self, after: float, settled: float) -> None:
        self._after = after
        self._settled = min(settled, after / 2)
        self._lasted = 0.0
        self._seen: float | None = None
        self._peak = 0.0

    def end(self) -> None:
        """End the surplus, because more were useful."""
        self._lasted = self._peak = 0.0
        self._seen = None

    def stand_still(self) -> None:
        """Figures are missing: do not count the time until the next observation."""
        self._seen = None

    def peak(self, seconds: float, use: float, *, surplus: bool) -> float | None:
        """Return the largest useful number of a surplus that lasted long enough; None before.

        An answer other than None ends that surplus, and the resulting change begins a new one.

        Args:
            seconds: current time.
            use: currently useful number.
            surplus: whether that is less than the current number.
        """
        if not surplus:
            self.end()
            return None
        if self._seen is not None:
            self._lasted += seconds - self._seen
        self._seen = seconds
        if self._lasted >= self._settled:
            self._peak = max(self._peak, use)
        if self._lasted < self._after:
            return None
        peak = self._peak
        self.end()
        return peak
