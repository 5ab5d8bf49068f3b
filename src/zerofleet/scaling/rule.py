"""The rule: from looks at the fleet to the replicas that are asked for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from zerofleet.config import ScalingSection
from zerofleet.scaling.fleet import Fleet, mean
from zerofleet.scaling.need import Need, need_of
from zerofleet.scaling.quiet import Quiet
from zerofleet.scaling.reason import Answer, Reason, whole, within
from zerofleet.scaling.words import figures_text, inference_text

_MOST_GROWTH = 2  # times those that are there, until these have shown what they do
_LEAST_LEFT = 0.5  # of what was asked for, when it shrinks


@dataclass(frozen=True, slots=True)
class Answers:
    """What is asked for of both, and what it follows from."""

    selfplay: Answer
    inference: Answer
    need: Need | None
    """None while figures are missing."""


class Rule:
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
        self._looks: deque[tuple[float, Fleet]] = deque()
        self._began: float | None = None
        self._heard = 0
        self._heard_replicas = 0
        self._workers = 0  # none is asked for yet
        self._replicas = 0
        times = section.shrink_after_seconds, section.window_seconds
        self._quiet_workers = Quiet(*times)
        self._quiet_replicas = Quiet(*times)

    def look(self, seconds: float, fleet: Fleet) -> Answers | None:
        """Take in how things are, and answer.

        Args:
            seconds: by a clock that never goes back.
            fleet: at that time.

        Returns:
            None until the fleet has been watched for ``window_seconds``, and a worker and an
            inference replica were heard of: who knows nothing asks for nothing.
        """
        if not self._is_begun(seconds, fleet):
            return None
        if fleet.missing:
            return self.hold(fleet.missing)
        need = need_of(mean([each for _, each in self._looks]), self._section)
        workers = self._answer_workers(seconds, need, fleet)
        replicas = self._answer_replicas(seconds, need, fleet)
        self._workers, self._replicas = workers.count, replicas.count
        return Answers(workers, replicas, need)

    def hold(self, missing: str) -> Answers | None:
        """Answer as before, because figures are missing.

        Args:
            missing: which, and why.
        """
        self._quiet_workers.stand_still()
        self._quiet_replicas.stand_still()
        if not self._workers:
            return None
        words = f"held: {missing}"
        return Answers(
            Answer(self._workers, self._workers, Reason.HELD, words),
            Answer(self._replicas, self._replicas, Reason.HELD, words),
            None,
        )

    def _is_begun(self, seconds: float, fleet: Fleet) -> bool:
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
        # As many as ever were heard of at once: Redis may have been emptied a moment ago.
        self._heard = max(self._heard, round(fleet.workers))
        self._heard_replicas = max(self._heard_replicas, round(fleet.replicas))
        if seconds - self._began < section.window_seconds:
            return False
        if not self._heard or not self._heard_replicas:
            return False
        self._workers = within(section.min_workers, self._heard, section.max_workers)
        self._replicas = within(section.min_inference, self._heard_replicas, section.max_inference)
        return True

    def _answer_workers(self, seconds: float, need: Need, fleet: Fleet) -> Answer:
        section, now = self._section, self._workers
        bounds = section.min_workers, section.max_workers
        if need.workers > section.grow_above * now:
            self._quiet_workers.end()
            return self._grow_workers(need, fleet)
        peak = self._quiet_workers.peak(
            seconds, need.workers, quiet=need.workers < section.shrink_below * now
        )
        if peak is None:
            surplus = need.workers < section.shrink_below * now
            reason = Reason.SURPLUS if surplus and now > bounds[0] else Reason.ENOUGH
            return Answer(now, now, reason, f"enough: {figures_text(need)}")
        left = max(whole(peak), whole(_LEAST_LEFT * now))
        return _answer(now, left, bounds, Reason.SHRANK, figures_text(need))

    def _grow_workers(self, need: Need, fleet: Fleet) -> Answer:
        """More would be used: as many as inference feeds, and as those there allow to judge."""
        section, now = self._section, self._workers
        bounds = section.min_workers, section.max_workers
        text = figures_text(need)
        if need.wait >= section.max_wait or need.fed < now + 1:
            return Answer(now, now, Reason.INFERENCE, inference_text(need, section, self._replicas))
        most = _MOST_GROWTH * max(1, round(fleet.workers))
        if most <= now:
            words = f"{fleet.workers:.0f} of them work as yet: {text}"
            return Answer(now, now, Reason.STARTING, words)
        wanted = int(min(whole(need.workers), need.fed, most))
        return _answer(now, max(now, wanted), bounds, Reason.GREW, text)

    def _answer_replicas(self, seconds: float, need: Need, fleet: Fleet) -> Answer:
        section, now = self._section, self._replicas
        bounds = section.min_inference, section.max_inference
        text = f"{figures_text(need)}, load {need.load:.2f}"
        # For the rows of the next two steps of self-play: a replica takes longer to come up than a
        # worker. Of more, nobody knows yet whether it will be needed.
        wanted = need.replicas * min(1.0, _MOST_GROWTH**2 * fleet.workers / need.workers)
        if need.workers > section.grow_above * need.playing and need.wait >= section.max_wait:
            wanted = max(wanted, section.grow_above * fleet.replicas + 0.01)
        if wanted > section.grow_above * now:
            self._quiet_replicas.end()
            most = _MOST_GROWTH * max(1, round(fleet.replicas))
            return _answer(now, max(now, min(whole(wanted), most)), bounds, Reason.GREW, text)
        use = max(need.replicas, need.replicas_now)
        quiet = use > 0 and whole(use) < now and need.wait < section.max_wait
        peak = self._quiet_replicas.peak(seconds, use, quiet=quiet)
        if peak is None:
            reason = Reason.SURPLUS if quiet else Reason.ENOUGH
            return Answer(now, now, reason, f"enough: {text}")
        left = max(whole(peak), whole(_LEAST_LEFT * now))
        return _answer(now, left, bounds, Reason.SHRANK, text)


def _answer(now: int, wanted: int, bounds: tuple[int, int], reason: Reason, text: str) -> Answer:
    """A change as far as the bounds allow it, with the words for it."""
    count = within(bounds[0], wanted, bounds[1])
    if count != now:
        return Answer(count, now, reason, text)
    if wanted == now:
        return Answer(now, now, Reason.ENOUGH, f"enough: {text}")
    reason = Reason.AT_MOST if wanted > now else Reason.AT_LEAST
    return Answer(now, now, reason, f"{reason.words}: {text}")
