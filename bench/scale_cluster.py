"""Kubernetes in a simulation: a Deployment, and the HorizontalPodAutoscaler that sizes it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.scale_events import Events

_TOLERANCE = 0.1  # of the HPA: a metric nearer to its target changes nothing


@dataclass(frozen=True, slots=True)
class Behavior:
    """The HPA's own limits, as deploy/k8s sets them for both Deployments."""

    most: int
    least: int = 1
    up_share: float = 1.0  # of the replicas that there were a minute ago
    down_share: float = 0.25
    period_seconds: float = 60.0
    down_stabilization_seconds: float = 300.0


class Hpa:
    """One HPA of an External metric with an AverageValue.

    Args:
        behavior: its limits.
        replicas: that it begins with.
    """

    def __init__(self, behavior: Behavior, replicas: int) -> None:
        self._behavior = behavior
        self._advice: deque[tuple[float, int]] = deque()
        self._changes: deque[tuple[float, int]] = deque()
        self.replicas = replicas

    def sync(self, now: float, metric: float | None, target: float) -> None:
        """Look at the metric; None: there is none, and nothing changes."""
        if metric is None:
            return
        limits, wanted = self._behavior, self.replicas
        if abs(metric / (target * self.replicas) - 1) > _TOLERANCE:
            wanted = math.ceil(metric / target - 1e-9)
        wanted = max(limits.least, min(wanted, limits.most))
        self._advice.append((now, wanted))
        while now - self._advice[0][0] > limits.down_stabilization_seconds:
            self._advice.popleft()
        if wanted < self.replicas:
            wanted = min(self.replicas, max(each for _, each in self._advice))
        self._set(now, self._paced(now, wanted))

    def _paced(self, now: float, wanted: int) -> int:
        limits = self._behavior
        while self._changes and now - self._changes[0][0] >= limits.period_seconds:
            self._changes.popleft()
        before = self.replicas - sum(change for _, change in self._changes)
        if wanted > self.replicas:
            most = math.ceil(before * (1 + limits.up_share))
            return max(self.replicas, min(wanted, most))
        return min(self.replicas, max(wanted, math.floor(before * (1 - limits.down_share))))

    def _set(self, now: float, replicas: int) -> None:
        if replicas != self.replicas:
            self._changes.append((now, replicas - self.replicas))
            self.replicas = replicas


class Deployment:
    """Keeps as many pods as it is told; a new one takes a while to come up.

    Args:
        events: the clock.
        random: how long that is.
        start_seconds: the least and the most of it.
        begin: a pod is up.
        end: so many pods that are up must go.
    """

    def __init__(
        self,
        events: Events,
        random: np.random.Generator,
        start_seconds: tuple[float, float],
        begin: Callable[[], None],
        end: Callable[[int], None],
    ) -> None:
        self._events, self._random, self._start_seconds = events, random, start_seconds
        self._begin, self._end = begin, end
        self._wanted = 0
        self._given_up = 0  # pods that were starting and are not wanted any more
        self.starting = 0
        self.up = 0

    def scale(self, replicas: int) -> None:
        """Set how many there should be."""
        self._wanted = replicas
        surplus = self.up + self.starting - replicas
        if surplus > 0:
            cancelled = min(surplus, self.starting)  # those that are not ready go first
            self.starting -= cancelled
            self._given_up += cancelled
            if surplus > cancelled:
                self.up -= surplus - cancelled
                self._end(surplus - cancelled)
        for _ in range(-surplus):
            self._start()

    def lose(self, pods: int) -> None:
        """Pods that were up are gone (whoever took them has told the fleet); others come."""
        self.up -= pods
        self.scale(self._wanted)

    def _start(self) -> None:
        self.starting += 1
        self._events.after(float(self._random.uniform(*self._start_seconds)), self._is_up)

    def _is_up(self) -> None:
        if self._given_up:
            self._given_up -= 1
            return
        self.starting -= 1
        self.up += 1
        self._begin()
