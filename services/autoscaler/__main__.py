"""Tell KEDA how many replicas are useful: ``python -m zerofleet.services.autoscaler RUN_FILE``."""

from __future__ import annotations

from zerofleet.service import run_service
from zerofleet.services.autoscaler.service import AutoscalerSettings, serve

if __name__ == "__main__":
    run_service("autoscaler", AutoscalerSettings, serve)
