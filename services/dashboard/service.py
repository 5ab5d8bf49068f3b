"""Connects the dashboard: a web server in the service's event loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from asyncio import Event
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import structlog
import uvicorn
from fastapi import FastAPI
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zerofleet.config import RunConfig
from zerofleet.errors import ConfigError
from zerofleet.fleet.figures import DashboardFigures
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.rpc.health import HealthServer
from zerofleet.rpc.tls import followed_certificates, is_local
from zerofleet.secrets.files import Followed
from zerofleet.secrets.tokens import read_tokens
from zerofleet.service import Pulse, beat, first_of, give_memory_back, served_metrics
from zerofleet.services.dashboard.compare_page import add_compare_page
from zerofleet.services.dashboard.exam_page import add_exam_page
from zerofleet.services.dashboard.fleet_page import add_fleet_page
from zerofleet.services.dashboard.frame import Frame, NothingThereError, Visit
from zerofleet.services.dashboard.game_page import add_game_page
from zerofleet.services.dashboard.games_page import add_games_page
from zerofleet.services.dashboard.gate import (
    MOST_CONNECTIONS,
    MOST_MESSAGE_BYTES,
    MOST_OF_ADDRESS,
    MOST_UNREAD,
    Gate,
    PageListener,
    limit_events,
)
from zerofleet.services.dashboard.match_page import add_match_page
from zerofleet.services.dashboard.mistakes_page import add_mistakes_page
from zerofleet.services.dashboard.models_page import add_model_page, add_models_page
from zerofleet.services.dashboard.openings_page import add_openings_page
from zerofleet.services.dashboard.play_page import add_play_page
from zerofleet.services.dashboard.run_page import add_run_page
from zerofleet.services.dashboard.runs_page import add_runs_page
from zerofleet.services.dashboard.settings import DashboardSettings
from zerofleet.services.dashboard.sources import Sources
from zerofleet.services.dashboard.sql_page import add_sql_page
from zerofleet.services.dashboard.sql_queries import VisitorQueries
from zerofleet.services.dashboard.toolkit import Client, ui
from zerofleet.services.dashboard.visitors import Visitors

_log = structlog.get_logger()

_DRAIN_SECONDS = 2
_THREADS = 24  # threads that wait for stores: some may hang, and the others still answer
_LANGUAGE = "en-GB"
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    '<circle cx="11" cy="16" r="9" fill="#2f6db3"/><circle cx="21" cy="16" r="9" fill="#9a6700"/>'
    "</svg>"
)


def add_pages(frame: Frame, queries: VisitorQueries) -> None:
    """Register every page, in the order of the navigation."""
    add_run_page(frame)
    add_runs_page(frame)
    add_models_page(frame)
    add_model_page(frame)
    add_compare_page(frame)
    add_match_page(frame)
    add_games_page(frame)
    add_game_page(frame)
    add_play_page(frame)
    add_openings_page(frame)
    add_exam_page(frame)
    add_mistakes_page(frame)
    add_fleet_page(frame)
    add_sql_page(frame, queries)

    # Last, because it matches every remaining address.
    @frame.page("/{path:path}", "not there", under="")
    async def _(visit: Visit) -> None:
        raise NothingThereError(f"there is no page /{visit.parameters['path']}")


async def serve(run: RunConfig, settings: DashboardSettings, stop: Event) -> None:
    """Serve pages until ``stop`` is set; then close them and return within seconds.

    Raises:
        ConfigError: an address is invalid, cannot be bound, or would expose the page without a
            login or in plaintext; or a file of tokens or certificates is invalid.
    """
    check_exposure(settings)
    tokens_file = settings.token_roles_file
    tokens = None
    if tokens_file is not None:
        tokens = Followed([tokens_file], lambda: read_tokens(tokens_file)).get
    visitors = Visitors(tokens, simulations_of_one(settings))
    threads = ThreadPoolExecutor(_THREADS, "reads")
    asyncio.get_running_loop().set_default_executor(threads)
    with (
        contextlib.closing(Heartbeats(settings.redis_url, run.name)) as heartbeats,
        bound(settings.dashboard_address) as sock,
        HealthServer(settings.health_address) as health,
        contextlib.closing(
            VisitorQueries(settings.visitor_database_url or settings.database_url)
        ) as queries,
    ):
        async with (
            Sources(run, settings) as sources,
            PageServer(sources, queries, visitors, settings, sock) as server,
        ):
            with served_metrics(settings.metrics_address, server.collector):
                await first_of(
                    stop.wait(),
                    server.ended(),
                    beat(heartbeats, settings.worker_name, server.pulse),
                    visitors.keep_ending(),
                    server.limits.keep_closing(),
                    give_memory_back(),
                    health.keep_ticking(),
                )
                _log.info("draining")
    _log.info("stopped")


class PageServer:
    """NiceGUI on FastAPI in uvicorn, for ``async with``, in the service's own event loop.

    Args:
        sources: sources of the pages.
        queries: runs the visitors' queries.
        visitors: the visitors who may see the pages.
        sock: bound to the address of the page.

    Raises:
        ConfigError: a file of the certificate is invalid.
    """

    def __init__(
        self,
        sources: Sources,
        queries: VisitorQueries,
        visitors: Visitors,
        settings: DashboardSettings,
        sock: socket.socket,
    ) -> None:
        frame = Frame(sources)
        self.limits = frame.limits
        """Limits of open pages."""
        add_pages(frame, queries)
        limit_events()
        api = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        ui.run_with(
            api,
            title="zerofleet",
            favicon=_ICON,
            dark=None,
            language=_LANGUAGE,
            binding_refresh_interval=None,
            tailwind=False,
            show_welcome_message=False,
            message_history_length=MOST_UNREAD,
        )
        folder, proxy = settings.dashboard_tls_folder, settings.dashboard_behind_proxy
        gate = Gate(api, visitors, https=folder is not None or proxy, behind_proxy=proxy)
        # It would log the address of each WebSocket, with the ID of its page, and a line for each
        # request that is not HTTP: anybody could fill the log.
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        config = uvicorn.Config(
            gate,
            log_config=None,
            access_log=False,
            proxy_headers=False,
            workers=1,  # otherwise WEB_CONCURRENCY is read
            forwarded_allow_ips="",  # otherwise FORWARDED_ALLOW_IPS is read
            ssl_certfile=folder and folder / "tls.crt",
            ssl_keyfile=folder and folder / "tls.key",
            timeout_graceful_shutdown=_DRAIN_SECONDS,
            server_header=False,
            ws_max_size=MOST_MESSAGE_BYTES,
        )
        if folder is not None and followed_certificates(folder, server=False).get().chain is None:
            raise ConfigError(
                f"ZEROFLEET_DASHBOARD_TLS_FOLDER = '{folder}' lacks tls.crt and tls.key"
            )
        self._scheme = "http" if folder is None else "https"
        # Behind a proxy all connections come from one address.
        most = MOST_CONNECTIONS if proxy else MOST_OF_ADDRESS
        self._server = PageListener(config, sock, most_of_address=most)
        self._sock = sock

    async def __aenter__(self) -> Self:
        self._serving = asyncio.create_task(self._server.serve([]))
        host, port = self._sock.getsockname()[:2]
        _log.info("serving", url=f"{self._scheme}://{host}:{port}")
        return self

    async def __aexit__(self, *exception: object) -> None:
        self._server.should_exit = True
        await asyncio.wait({self._serving}, timeout=2 * _DRAIN_SECONDS)

    async def ended(self) -> None:
        """Wait for the unexpected end of the server."""
        await asyncio.wait({self._serving})
        self._serving.result()

    def pulse(self) -> Pulse[DashboardFigures]:
        """Return the heartbeat's content; progress is the number of requests answered."""
        answered = self._server.server_state.total_requests
        return Pulse(answered, "", DashboardFigures(open_pages=open_pages()))

    def collector(self) -> PageCollector:
        """Return the collector of the metrics."""
        return PageCollector(self._server)


class PageCollector(Collector):
    """Counts open pages and requests at each scrape."""

    def __init__(self, server: uvicorn.Server) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        """Yield the two numbers."""
        yield GaugeMetricFamily(
            "zerofleet_dashboard_open_pages", "Pages that a browser shows.", value=open_pages()
        )
        yield CounterMetricFamily(
            "zerofleet_dashboard_requests",
            "HTTP requests.",
            value=self._server.server_state.total_requests,
        )


def open_pages() -> int:
    """Return the number of pages that a browser shows now."""
    return sum(client.has_socket_connection for client in Client.instances.values())


def simulations_of_one(settings: DashboardSettings) -> int:
    """Return the simulations a minute of one token, or of everybody if there is no login."""
    if settings.dashboard_simulations is not None:
        return settings.dashboard_simulations
    everybody = settings.dashboard_all_simulations
    return everybody if settings.token_roles_file is None else max(everybody // 2, 1)


def check_exposure(settings: DashboardSettings) -> None:
    """Refuse to show the page to other machines without a login, or in plaintext.

    Raises:
        ConfigError: the settings would do so; the message says what to set.
    """
    address = settings.dashboard_address
    if is_local(address):
        return
    reached = f"ZEROFLEET_DASHBOARD_ADDRESS = '{address}' can be reached from other machines"
    if settings.token_roles_file is None:
        raise ConfigError(
            f"{reached}, and without a login everybody there could see it: set "
            "ZEROFLEET_TOKEN_ROLES_FILE, or give a port of 127.0.0.1"
        )
    may = settings.dashboard_behind_proxy or settings.allow_plaintext
    if settings.dashboard_tls_folder is None and not may:
        raise ConfigError(
            f"{reached}, and without TLS others could read the traffic: set "
            "ZEROFLEET_DASHBOARD_TLS_FOLDER, ZEROFLEET_DASHBOARD_BEHIND_PROXY=true where a proxy "
            "ends TLS, or ZEROFLEET_ALLOW_PLAINTEXT=true in a network that you trust"
        )


@contextlib.contextmanager
def bound(address: str) -> Generator[socket.socket]:
    """Yield a listening socket.

    Args:
        address: ``host:port``; port 0 is a free one.

    Raises:
        ConfigError: the address is invalid, or cannot be bound.
    """
    host, _, port = address.rpartition(":")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as sock:
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((host.strip("[]"), int(port)))
            sock.listen()  # clients that come before uvicorn is ready wait, and are not refused
        except (OSError, ValueError, OverflowError) as error:
            raise ConfigError(
                f"cannot listen on {address}: {error}. Set ZEROFLEET_DASHBOARD_ADDRESS to a free "
                "host:port"
            ) from error
        yield sock
