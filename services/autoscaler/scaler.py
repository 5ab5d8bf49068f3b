"""The answers as KEDA wants them: a metric that is the number of replicas itself."""

from __future__ import annotations

from services.autoscaler.trigger import Role, trigger
from services.autoscaler.watch import Watch
from zerofleet.errors import StoreUnavailableError
from zerofleet.rpc.scaler import ScaledObject, ScalingMetric
from zerofleet.scaling import Answer, Answers

_TARGET = 1.0  # for one replica: with metricType AverageValue the metric is the replicas


class FleetScaler:
    """Answers for one run; a ``Scaler``.

    Args:
        run: name of the run that is watched.
        watch: has the newest answers.
    """

    def __init__(self, run: str, watch: Watch) -> None:
        self._run = run
        self._watch = watch

    def metric(self, scaled: ScaledObject) -> ScalingMetric:
        """The number of useful replicas of the trigger's role.

        Raises:
            InvalidRequestError: the trigger's metadata is not right.
        """
        return ScalingMetric(f"zerofleet-{trigger(scaled, self._run).value}-replicas", _TARGET)

    def value(self, scaled: ScaledObject) -> float:
        """That number.

        Raises:
            InvalidRequestError: the trigger's metadata is not right.
            StoreUnavailableError: the fleet is not known yet, and a guess would be worse than
                nothing: without a metric Kubernetes keeps the replicas that there are.
        """
        role, answers = trigger(scaled, self._run), self._watch.answers
        if answers is None:
            raise StoreUnavailableError(
                "how many replicas are useful is not known yet: "
                + (self._watch.fleet.missing or "the fleet is watched for a while first")
            )
        return float(_of(role, answers).count)


def _of(role: Role, answers: Answers) -> Answer:
    return answers.selfplay if role is Role.SELFPLAY else answers.inference
