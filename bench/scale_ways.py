"""Ways to size a fleet, and what each tells Kubernetes."""

from __future__ import annotations

from typing import Protocol

from services.autoscaler.desired_replicas import Desired, ScalingRule
from zerofleet.config import ScalingSection
from zerofleet.fleet import FleetFigures, need_of

_WHOLE_LOAD = 0.95
_SCRAPE_SECONDS = 30.0


class Way(Protocol):
    """Turns looks at the fleet into metrics for two HPAs."""

    name: str
    settle_seconds: float
    """How long the HPA holds on to what was asked for before it takes pods away."""

    def look(self, seconds: float, fleet: FleetFigures | None) -> None:
        """See the fleet; None: there are no figures."""
        ...

    def metrics(self) -> tuple[float | None, float | None]:
        """Of self-play and of inference, in replicas; None: there is no metric."""
        ...


class ExternalScaler:
    """Our own autoscaler behind KEDA."""

    name = "external scaler"
    settle_seconds = 300.0

    def __init__(self, section: ScalingSection) -> None:
        self._rule = ScalingRule(section)
        self.answers: Desired | None = None

    def look(self, seconds: float, fleet: FleetFigures | None) -> None:
        """Have the rule judge."""
        if fleet is None:
            self.answers = self._rule.hold("Redis does not answer")
        else:
            self.answers = self._rule.look(seconds, fleet)

    def metrics(self) -> tuple[float | None, float | None]:
        """What the rule asks for."""
        if self.answers is None:
            return None, None
        return float(self.answers.selfplay.count), float(self.answers.inference.count)


class ScrapedAnswer(ExternalScaler):
    """A plain HPA that reads the same answer out of Prometheus, through an adapter."""

    name = "HPA on the answer"

    def __init__(self, section: ScalingSection) -> None:
        super().__init__(section)
        self._scraped: tuple[float | None, float | None] = (None, None)
        self._next_scrape = 0.0

    def look(self, seconds: float, fleet: FleetFigures | None) -> None:
        """Have the rule judge; every half minute somebody reads it."""
        if seconds >= self._next_scrape:
            self._scraped = super().metrics()
            self._next_scrape = seconds + _SCRAPE_SECONDS
        super().look(seconds, fleet)

    def metrics(self) -> tuple[float | None, float | None]:
        """What was read last."""
        return self._scraped


class PrometheusFormula:
    """KEDA's trigger ``prometheus`` with the expressions of docs/autoscaling.md.

    A formula has no memory: slowness is left to the HPA's own stabilization.
    """

    name = "Prometheus formula"
    settle_seconds = 600.0

    def __init__(self, section: ScalingSection) -> None:
        self._section = section
        self._found: tuple[float | None, float | None] = (None, None)

    def look(self, seconds: float, fleet: FleetFigures | None) -> None:
        """Evaluate."""
        del seconds
        if fleet is None or fleet.missing:
            self._found = (None, None)
            return
        need = need_of(fleet, self._section)
        held = need.wait >= self._section.max_wait or need.load > _WHOLE_LOAD
        workers = fleet.workers if held else min(need.workers, 2 * fleet.workers)
        growth = min(2.0, max(1.0, need.workers / fleet.workers))
        self._found = max(1.0, workers), max(1.0, need.replicas_now * growth)

    def metrics(self) -> tuple[float | None, float | None]:
        """What came out."""
        return self._found


class ConstantHpa:
    """HPAs on metrics of an adapter, divided by constants: no formula, no memory.

    Self-play: positions a second that the trainer wants, over what a worker made when somebody
    measured it. Inference: rows a second, over a share of a replica's capacity.

    Args:
        positions_of_worker: that constant; of another model than today's, so a little off.
        rows_of_replica: the other one.
    """

    name = "HPA on a constant"
    settle_seconds = 300.0

    def __init__(self, positions_of_worker: float, rows_of_replica: float) -> None:
        self._positions, self._rows = positions_of_worker, rows_of_replica
        self._found: tuple[float | None, float | None] = (None, None)

    def look(self, seconds: float, fleet: FleetFigures | None) -> None:
        """Divide."""
        del seconds
        if fleet is None or not fleet.trainers:
            self._found = (None, None)
            return
        wanted = fleet.samples_per_second / fleet.reuse_target
        self._found = wanted / self._positions, max(1.0, fleet.rows_per_second / self._rows)

    def metrics(self) -> tuple[float | None, float | None]:
        """What came out."""
        return self._found
