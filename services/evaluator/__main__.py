"""Judge new models: ``python -m zerofleet.services.evaluator RUN_FILE``."""

from __future__ import annotations

from zerofleet.config import ProcessSettings
from zerofleet.service import run_service
from zerofleet.services.evaluator.service import serve

if __name__ == "__main__":
    run_service("evaluator", ProcessSettings, serve)
