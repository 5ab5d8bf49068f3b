"""What KEDA asks an external scaler, in plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ScaledObject:
    """Who asks: an object of the cluster, and the metadata of its trigger."""

    name: str
    namespace: str
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ScalingMetric:
    """A metric by name, and its value for one replica."""

    name: str
    target: float


class Scaler(Protocol):
    """Knows how many replicas are useful."""

    def metric(self, scaled: ScaledObject) -> ScalingMetric:
        """What this object is scaled by; always the same for the same object.

        Raises:
            InvalidRequestError: its metadata is not right; the message names the key.
        """
        ...

    def value(self, scaled: ScaledObject) -> float:
        """What that metric is now.

        Raises:
            InvalidRequestError: its metadata is not right; the message names the key.
            ZerofleetError: nobody knows; KEDA then changes nothing.
        """
        ...
