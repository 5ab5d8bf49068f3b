"""Common behaviour of services: start, log, stop on a signal, send heartbeats, serve metrics."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import io
import logging
import os
import resource
import signal
import socket
import stat
import sys
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TextIO, TypeVar, cast

import structlog

from zerofleet import games
from zerofleet.config import ProcessSettings, RunConfig, load_run, read_settings
from zerofleet.errors import ConfigError, StoreUnavailableError, ZerofleetError
from zerofleet.fleet.figures import Figures
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.printable import printable_lines
from zerofleet.waiting import Waits, WorkStatus, awaited

if TYPE_CHECKING:
    from wsgiref.simple_server import WSGIServer

    from prometheus_client.registry import Collector

BEAT_SECONDS = 1.0
LOST_GAMES_FD = "ZEROFLEET_LOST_GAMES_FD"
"""Name of the variable with the descriptor of the pipe on which ``zerofleet up`` reads lost games.

``tell_lost_games`` writes to it.
"""
_MOST_DESCRIPTORS = 65_536
_SILENCE_SECONDS = 10.0
_MOST_SCRAPES = 32
_TRIM_SECONDS = 5.0

_Settings = TypeVar("_Settings", bound=ProcessSettings)
_Figures = TypeVar("_Figures", bound=Figures, covariant=True)


def run_service(
    name: str,
    settings_type: type[_Settings],
    serve: Callable[[RunConfig, _Settings, asyncio.Event], Awaitable[None]],
) -> None:
    """Run the service ``name`` until SIGTERM or SIGINT.

    An error raised on purpose is reported in one line. The exit status is 2 for bad input and for
    credentials that a server refuses, otherwise 1.

    Args:
        name: bound to every log record.
        settings_type: read from the command line and the environment.
        serve: runs until the event passed to it is set, then returns within seconds.
    """
    try:
        settings = read_settings(settings_type, sys.argv[1:])
        configure_logs(name, level=settings.log_level)
        raise_descriptor_limit()
        run = load_run(settings.run_file)
        games.spec(run.game.name)  # an unknown game is refused here
        asyncio.run(_serve(run, settings, serve))
    except ZerofleetError as error:
        sys.stderr.write(f"{printable_lines(str(error))}\n")
        sys.exit(error.exit_code)


def raise_descriptor_limit() -> None:
    """Raise the limit of open files up to what the system allows; a shell's 1,024 are few."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def configure_logs(service: str, *, level: str = "info", json: bool | None = None) -> None:
    """Send structlog's and the standard library's records through one pipeline to stderr.

    Args:
        service: bound to every record.
        level: the least severe level to show.
        json: force JSON or console; by default JSON unless stderr is a terminal.
    """
    as_json = not sys.stderr.isatty() if json is None else json
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    console = structlog.dev.ConsoleRenderer(exception_formatter=_write_traceback)
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if as_json else console
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    finish: list[structlog.typing.Processor] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta
    ]
    finish.append(structlog.processors.format_exc_info if as_json else _printable_values)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared, processors=[*finish, renderer]
        )
    )
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    structlog.contextvars.bind_contextvars(service=service)


def _printable_values(
    logger: object, method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape terminal control sequences: records repeat text of other processes."""
    del logger, method
    return {
        name: printable_lines(value) if isinstance(value, str) else value
        for name, value in event.items()
    }


def _write_traceback(sio: TextIO, exc_info: structlog.typing.ExcInfo) -> None:
    """Write a traceback for people, without the values of variables, some of which are secrets."""
    text = io.StringIO()
    structlog.dev.plain_traceback(text, exc_info)
    sio.write(printable_lines(text.getvalue()))


async def _serve(
    run: RunConfig,
    settings: _Settings,
    serve: Callable[[RunConfig, _Settings, asyncio.Event], Awaitable[None]],
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await serve(run, settings, stop)


def tell_lost_games(games: int) -> None:
    """Tell ``zerofleet up``, if it started this process, how many finished games are lost.

    Call it once, when the number is known.
    """
    if LOST_GAMES_FD not in os.environ:
        return
    descriptor = int(os.environ[LOST_GAMES_FD])
    with contextlib.suppress(OSError):  # the reader may be gone
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):  # the variable may be another process's
            os.write(descriptor, str(games).encode())


async def first_of(*parts: Coroutine[Any, Any, object]) -> None:
    """Run ``parts`` until the first of them ends, then cancel the others.

    An error is raised as it is, not in an ExceptionGroup, so that callers can catch its class.
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
class Pulse(Generic[_Figures]):
    """A service's report about itself, sent once a second."""

    progress: int
    """Grows with the work done; it does not change while the service is stuck."""
    waiting_for: str
    figures: _Figures
    status: WorkStatus | None = None
    """None means blocked while the service waits for anything, otherwise running."""


async def beat(
    heartbeats: Heartbeats, worker: str, pulse: Callable[[], Pulse[Figures] | None]
) -> None:
    """Send heartbeats until cancelled, then remove the last one, so that nobody misses the process.

    The log records when Redis goes down or refuses writes, and when it recovers.

    Args:
        heartbeats: where to send them.
        pulse: called for each heartbeat; if it returns None, the service is stuck and none is sent.
    """
    waits = Waits()
    said: Heartbeat | None = None
    sending: asyncio.Task[None] | None = None
    try:
        while True:
            now = pulse()
            if now is not None:
                said = Heartbeat(
                    worker, now.progress, now.waiting_for, now.figures, status=now.status
                )
                sending = asyncio.create_task(asyncio.to_thread(heartbeats.beat, said))
                try:
                    await asyncio.shield(sending)
                    waits.end("heartbeat")
                except StoreUnavailableError as error:
                    waits.begin("heartbeat", awaited(error, "Redis"), reason=str(error))
            await asyncio.sleep(BEAT_SECONDS)
    finally:
        if sending is not None:  # else it could arrive after the removal
            # Nobody awaits its error any more, and asyncio would log it.
            sending.add_done_callback(lambda task: task.cancelled() or task.exception())
            # A Redis that hangs must not delay the exit of a process that was told to stop.
            await asyncio.wait({sending}, timeout=BEAT_SECONDS)
        if said is not None and sending is not None and sending.done() and not waits:
            with contextlib.suppress(ZerofleetError):
                await asyncio.to_thread(heartbeats.remove, said.service, worker)


async def give_memory_back(every_seconds: float = _TRIM_SECONDS) -> None:
    """Return freed memory to the system every few seconds, forever; for ``first_of``.

    glibc keeps freed memory between pieces that are in use: 700 MB in inference after 350 calls
    with 1 MB of metadata each. Trimming takes 0.5 to 6 ms under full load and runs in a thread.
    Other C libraries have no such function and are left alone.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while True:
        await asyncio.sleep(every_seconds)
        if trim is not None:
            await asyncio.to_thread(trim, 0)


@contextlib.contextmanager
def served_metrics(
    address: str | None,
    collector: Callable[[], Collector],
    silence_seconds: float = _SILENCE_SECONDS,
) -> Generator[None]:
    """Serve ``/metrics`` from threads in this context; connection 33 closes the oldest.

    Args:
        address: ``host:port``. ``:port`` listens on every address of this machine, as gRPC does.
            None serves nothing.
        collector: makes the served metrics. It is called only with an address.
        silence_seconds: closes a connection that neither sends nor receives for this long.

    Raises:
        ConfigError: the address is not ``host:port``, or cannot be bound.
    """
    if address is None:
        yield
        return
    try:
        server = _metrics_server(address, collector(), silence_seconds)
    except (OSError, ValueError, OverflowError) as error:
        raise ConfigError(
            f"cannot serve metrics on '{address}' ({error}): "
            "give a free host:port in ZEROFLEET_METRICS_ADDRESS"
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    structlog.get_logger().info("metrics", address=address)
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _metrics_server(address: str, collector: Collector, silence_seconds: float) -> WSGIServer:
    """Make prometheus_client's server; the library's own waits forever for a silent client."""
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    from prometheus_client import CollectorRegistry, exposition

    host, port = _host_and_port(address)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    app = cast("Any", exposition).make_wsgi_app(registry)
    lock = threading.Lock()

    class MetricsServer(exposition.ThreadingWSGIServer):
        address_family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # File descriptors to connections, oldest first.
        connections: ClassVar[OrderedDict[int, socket.socket]] = OrderedDict()

        def process_request(
            self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
        ) -> None:
            connection = cast("socket.socket", request)  # it is a pair for datagrams only
            with lock:
                while len(self.connections) >= _MOST_SCRAPES:
                    _, oldest = self.connections.popitem(last=False)
                    with contextlib.suppress(OSError):
                        oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end and closes it
                self.connections[connection.fileno()] = connection
            super().process_request(request, client_address)

        def shutdown_request(self, request: socket.socket | tuple[bytes, socket.socket]) -> None:
            with lock:
                self.connections.pop(cast("socket.socket", request).fileno(), None)
            super().shutdown_request(request)

    class MetricsHandler(WSGIRequestHandler):
        timeout = silence_seconds

        def handle(self) -> None:
            with contextlib.suppress(OSError):  # the client is silent or gone
                super().handle()

        def log_message(self, *words: object, **named: object) -> None:
            """Log no requests."""

    return make_server(host, port, app, MetricsServer, MetricsHandler)


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon:
        raise ValueError("no port is named")
    if not host:
        host = "::"
        if not socket.has_dualstack_ipv6():
            host = "0.0.0.0"  # nosec B104
    return host.strip("[]"), int(port)
