"""Show a run in a browser: ``python -m services.dashboard RUN_FILE``."""

from __future__ import annotations

from services.dashboard.service import serve
from services.dashboard.settings import DashboardSettings
from zerofleet.service import run_service

if __name__ == "__main__":
    run_service("dashboard", DashboardSettings, serve)
