"""Answer predictions of a run's models: ``python -m zerofleet.services.inference RUN_FILE``."""

from __future__ import annotations

from zerofleet.service import run_service
from zerofleet.services.inference.service import serve
from zerofleet.services.inference.settings import InferenceSettings

if __name__ == "__main__":
    run_service("inference", InferenceSettings, serve)
