"""Show a run in a browser: ``python -m zerofleet.services.dashboard RUN_FILE``."""

from __future__ import annotations

from zerofleet.service import run_service
from zerofleet.services.dashboard.service import serve
from zerofleet.services.dashboard.settings import DashboardSettings

if __name__ == "__main__":
    run_service("dashboard", DashboardSettings, serve)
