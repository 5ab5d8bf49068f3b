"""Judge new models: ``python -m services.evaluator RUN_FILE``."""

from __future__ import annotations

from services.evaluator.service import serve
from zerofleet.config import ProcessSettings
from zerofleet.service import run_service

if __name__ == "__main__":
    run_service("evaluator", ProcessSettings, serve)
