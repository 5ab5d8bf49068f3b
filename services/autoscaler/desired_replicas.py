"""What Kubernetes scales on: how many workers and inference replicas are asked for, and why.

``zerofleet.fleet.need`` computes how many would be useful. The rule here decides when to ask for
them, in which steps and within which bounds. docs/autoscaling.md has it as a table.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from zerofleet.config import ScalingSection
from zerofleet.fleet.need import FleetFigures, Need, mean, need_of, whole, within

_MOST_GROWTH = 2  # times those that are there, until these have shown what they do
_LEAST_LEFT = 0.5  # of what was asked for, when it shrinks


class ScalingReason(StrEnum):
    """Why so many; also a label of metrics."""

    GREW = "grew"
    SHRANK = "shrank"
    ENOUGH = "enough"
    SURPLUS = "surplus"
    """Fewer would do, but not for long enough yet."""
    INFERENCE = "inference"
    """More are wanted, but inference could not feed them."""
    STARTING = "starting"
    """More are wanted than those that have come up let one judge."""
    AT_MOST = "at_most"
    AT_LEAST = "at_least"
    HELD = "held"
    """Figures are missing."""

    @property
    def words(self) -> str:
        """In a sentence."""
        return self.value.replace("_", " its ")


@dataclass(frozen=True, slots=True)
class DesiredReplicas:
    """Replicas that are asked for."""

    count: int
    before: int
    """What was asked for at the look before."""
    reason: ScalingReason
    words: str

    @property
    def text(self) -> str:
        """Such as ``12 -> 18: reuse 6.1 of 4.0, fill 0.31, wait/compute 0.2``."""
        counts = f"{self.before} -> {self.count}" if self.count != self.before else f"{self.count}"
        return f"{counts}: {self.words}"


@dataclass(frozen=True, slots=True)
class Desired:
    """What is asked for of both, and what it follows from."""

    selfplay: DesiredReplicas
    inference: DesiredReplicas
    need: Need | None
    """None while figures are missing."""


class ScalingRule:
    """Looks at the fleet now and then, and remembers what it asked for.

    - Growth is at once, at most to twice what is there, and never past what inference can feed:
      a request that waits for longer than a batch takes finds a server that more workers only slow
      down.
    - Shrinking takes ``shrink_after_seconds`` in which less than ``shrink_below`` was of use at
      every look; then what was of use at the busiest of them remains, and at least half.
    - Inference grows with what the rows of self-play's next two steps need, and shrinks after it.
    - Missing figures change nothing: what was asked for is asked for again.

    Args:
        section: bounds and times.
    """

    def __init__(self, section: ScalingSection) -> None:
        self._section = section
        self._looks: deque[tuple[float, FleetFigures]] = deque()
        self._began: float | None = None
        self._heard = 0
        self._heard_replicas = 0
        self._workers = 0  # none is asked for yet
        self._replicas = 0
        times = section.shrink_after_seconds, section.window_seconds
        self._surplus_workers = SurplusTime(*times)
        self._surplus_replicas = SurplusTime(*times)

    def look(self, seconds: float, fleet: FleetFigures) -> Desired | None:
        """Take in how things are, and answer.

        Args:
            seconds: by a clock that never goes back.
            fleet: at that time.

        Returns:
            None until the fleet has been watched for ``window_seconds``, and a worker and an
            inference replica were heard of: an autoscaler that knows nothing asks for nothing.
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
        """Answer as before, because figures are missing.

        Args:
            missing: which, and why.
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
        """Keep the look if it is complete; whether the first answer is due, or was given."""
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
        # As many as were heard of at once in the later half: in the first half those are heard of
        # that died a moment ago, and at one look Redis may just have been emptied.
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
        """More would be used: as many as inference feeds, and as those there allow to judge."""
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
        # For the rows of the next two steps of self-play: a replica takes longer to come up than a
        # worker. Whether more will be needed is not known yet.
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
    """A change as far as the bounds allow it, with the words for it."""
    count = within(bounds[0], wanted, bounds[1])
    if count != now:
        return DesiredReplicas(count, now, reason, text)
    if wanted == now:
        return DesiredReplicas(now, now, ScalingReason.ENOUGH, f"enough: {text}")
    reason = ScalingReason.AT_MOST if wanted > now else ScalingReason.AT_LEAST
    return DesiredReplicas(now, now, reason, f"{reason.words}: {text}")


class SurplusTime:
    """A time in which fewer would have done; while figures are missing, it stands still.

    Args:
        after: seconds that it must have lasted to count.
        settled: seconds for which means still hold something of the time before.
    """

    def __init__(self, after: float, settled: float) -> None:
        self._after = after
        self._settled = min(settled, after / 2)
        self._lasted = 0.0
        self._seen: float | None = None
        self._peak = 0.0

    def end(self) -> None:
        """More was of use."""
        self._lasted = self._peak = 0.0
        self._seen = None

    def stand_still(self) -> None:
        """Figures are missing: until the next look, time does not count."""
        self._seen = None

    def peak(self, seconds: float, use: float, *, surplus: bool) -> float | None:
        """The most that was of use in a time that has lasted long enough; None before.

        An answer that is not None ends that time: what follows from it begins a new one.

        Args:
            seconds: now.
            use: how many are of use now.
            surplus: whether that is less than there are.
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
