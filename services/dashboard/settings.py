"""The settings of a dashboard process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, Field

from zerofleet.config import ProcessSettings

_VISITOR_DATABASE_URL = "postgresql://zerofleet_visitor@127.0.0.1:5432/zerofleet"


class OtherRun(BaseModel):
    """A run of another database, whose curves the dashboard shows next to its own run."""

    label: str
    """Name on the page: the run's name, with its folder if another run has the same name."""
    run: str
    database_url: str
    usage_file: Path | None = None


class DashboardSettings(ProcessSettings):
    """Settings of every process, the address of the dashboard, and limits for visitors."""

    visitor_database_url: str | None = None
    """Postgres for the queries that visitors write, as the role ``zerofleet_visitor``.

    Unset: ``database_url``, whose connections a visitor's query can then see.
    """
    visitor_database_password_file: Path | None = None
    """File whose first line is the password of that role."""
    dashboard_address: str = "127.0.0.1:0"
    """Address of the dashboard, ``host:port``; port 0 takes a free one."""
    dashboard_tls_folder: Path | None = None
    """Folder with ``tls.crt`` and ``tls.key``, to serve the dashboard over HTTPS; unset: HTTP."""
    dashboard_behind_proxy: bool = False
    """HTTPS ends in a proxy, which alone can reach this address.

    The proxy gives the visitor's address in ``X-Forwarded-For``, and may give the scheme in
    ``X-Forwarded-Proto``.
    """
    dashboard_simulations: int | None = Field(default=None, ge=1)
    """Simulations a minute of all logins with one token.

    Unset: half of the limit of all visitors, and all of it if no login is required.
    """
    dashboard_all_simulations: int = Field(default=20_000, ge=1)
    """Simulations a minute of all visitors together.

    It limits what visitors take from self-play. Each costs inference 0.1 to 0.4 ms of CPU in
    addition to its row of the network.
    """
    dashboard_searches: int = Field(default=4, ge=1)
    """Most searches of all visitors at once; each has one row in a batch."""
    dashboard_run_stopped: bool = False
    """Show a stopped run (set by ``zerofleet page``): training services are not shown as down."""

    dashboard_usage_file: Path | None = None
    """File with the CPU-seconds of the run over time (set by ``zerofleet up`` and ``page``)."""
    dashboard_other_runs: tuple[OtherRun, ...] = ()
    """Runs of other databases, to compare, as JSON (set by ``zerofleet page --with``)."""

    _stores: ClassVar[Mapping[str, str]] = {
        **ProcessSettings._stores,
        "visitor_database": _VISITOR_DATABASE_URL,
    }
