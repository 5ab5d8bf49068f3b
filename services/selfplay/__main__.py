"""Play with the best model: ``python -m services.selfplay RUN_FILE``."""

from __future__ import annotations

from services.selfplay.service import serve
from services.selfplay.settings import SelfplaySettings
from zerofleet.service import run_service

if __name__ == "__main__":
    run_service("selfplay", SelfplaySettings, serve)
