"""The settings of a dashboard process."""

from __future__ import annotations

from zerofleet.config import ProcessSettings


class DashboardSettings(ProcessSettings):
    """Those of every process, and where browsers find this one."""

    dashboard_address: str = "127.0.0.1:0"
    """Where the page is served: ``host:port`` of this machine; port 0 takes a free one."""
