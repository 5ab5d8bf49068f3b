"""What asynchronous services do alike: start, stop on a signal, beat, end together."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from zerofleet import games, telemetry
from zerofleet.config import ProcessSettings, RunConfig, load_run, read_settings
from zerofleet.errors import AccessDeniedError, ConfigError, StoreUnavailableError
from zerofleet.heartbeat import Heartbeats

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

_BEAT_SECONDS = 1.0

_Settings = TypeVar("_Settings", bound=ProcessSettings)


def run_service(
    name: str,
    settings_type: type[_Settings],
    serve: Callable[[RunConfig, _Settings, asyncio.Event], Awaitable[None]],
) -> None:
    """Be the service ``name`` until SIGTERM or SIGINT.

    Bad input, and credentials that a server refuses, are one line and exit status 2.

    Args:
        name: bound to every log record.
        settings_type: read from the command line and the environment.
        serve: runs until the event that it is given is set, then leaves within seconds.
    """
    try:
        settings = read_settings(settings_type, sys.argv[1:])
        telemetry.configure(name, level=settings.log_level)
        run = load_run(settings.run_file)
        games.spec(run.game.name)  # a game that is not there ends it here, with the way out
        asyncio.run(_serve(run, settings, serve))
    except (ConfigError, AccessDeniedError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)


async def _serve(
    run: RunConfig,
    settings: _Settings,
    serve: Callable[[RunConfig, _Settings, asyncio.Event], Awaitable[None]],
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve(run, settings, stop)


async def first_of(*parts: Coroutine[Any, Any, object]) -> None:
    """Run ``parts`` until the first of them ends, then cancel the others.

    An error is raised as it is, not in a group: who started the parts knows what it means.
    """
    tasks = [asyncio.create_task(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a service says of itself once a second."""

    progress: int
    """Grows while the service gets on: progress, not life."""
    waiting_for: str
    figures: Mapping[str, float] = field(default_factory=dict[str, float])


async def beat(
    heartbeats: Heartbeats, service: str, worker: str, pulse: Callable[[], Pulse]
) -> None:
    """Beat for ever; a Redis that is away is no reason to stop."""
    while True:
        now = pulse()
        with contextlib.suppress(StoreUnavailableError):
            await asyncio.to_thread(
                heartbeats.beat, service, worker, now.progress, now.waiting_for, dict(now.figures)
            )
        await asyncio.sleep(_BEAT_SECONDS)


@contextlib.contextmanager
def served_metrics(address: str, collector: Collector) -> Generator[None]:
    """Serve ``/metrics`` from a thread while this is entered.

    Raises:
        ConfigError: the address is not ``host:port``, or cannot be bound.
    """
    # Here, because only who wants metrics pays for the library.
    from prometheus_client import CollectorRegistry, start_http_server

    host, _, port = address.rpartition(":")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    try:
        server, thread = start_http_server(int(port), host.strip("[]") or "127.0.0.1", registry)
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"cannot serve metrics on '{address}' ({error}): "
            "give a free host:port in ZEROFLEET_METRICS_ADDRESS"
        ) from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
