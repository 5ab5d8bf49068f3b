"""Tell KEDA how many replicas are useful: ``python -m services.autoscaler RUN_FILE``."""

from __future__ import annotations

from services.autoscaler.service import serve
from services.autoscaler.settings import AutoscalerSettings
from zerofleet.service import run_service

if __name__ == "__main__":
    run_service("autoscaler", AutoscalerSettings, serve)
