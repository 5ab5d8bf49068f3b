"""Play with the best model: ``python -m zerofleet.services.selfplay RUN_FILE``."""

from __future__ import annotations

from zerofleet.service import run_service
from zerofleet.services.selfplay.service import serve
from zerofleet.services.selfplay.settings import SelfplaySettings

if __name__ == "__main__":
    run_service("selfplay", SelfplaySettings, serve)
