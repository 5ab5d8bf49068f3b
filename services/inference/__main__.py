"""Answer predictions of a run's models: ``python -m services.inference RUN_FILE``."""

from __future__ import annotations

from services.inference.service import serve
from services.inference.settings import InferenceSettings
from zerofleet.service import run_service

if __name__ == "__main__":
    run_service("inference", InferenceSettings, serve)
