"""The settings of an autoscaler process."""

from __future__ import annotations

from zerofleet.config import ProcessSettings


class AutoscalerSettings(ProcessSettings):
    """Those of every process, and where KEDA finds this one."""

    scaler_address: str = "127.0.0.1:9001"
    """Where the autoscaler listens."""
