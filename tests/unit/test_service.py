"""Features of all services: metrics over HTTP, and messages to the process that started them."""

import asyncio
import contextlib
import gc
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from zerofleet import service
from zerofleet.errors import ConfigError
from zerofleet.fleet.figures import TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.local.processes import free_port
from zerofleet.service import LOST_GAMES_FD, Pulse, beat, served_metrics, tell_lost_games


class Counting(Collector):
    """Says how often it was asked."""

    def __init__(self) -> None:
        self._asked = 0

    def collect(self) -> Iterator[Metric]:
        self._asked += 1
        yield GaugeMetricFamily("asked", "Times.", value=self._asked)


def page(host: str, port: int) -> str:
    with urllib.request.urlopen(f"http://{host}:{port}/metrics") as answer:
        return answer.read().decode()


def test_metrics_are_those_of_the_moment() -> None:
    port = free_port()
    with served_metrics(f"127.0.0.1:{port}", Counting):
        first, second = page("127.0.0.1", port), page("127.0.0.1", port)
    assert ("asked 1.0" in first, "asked 2.0" in second) == (True, True)


def test_an_address_of_version_6() -> None:
    port = free_port()
    with served_metrics(f"[::1]:{port}", Counting):
        assert "asked 1.0" in page("[::1]", port)


def test_a_port_alone_is_that_port_on_every_address() -> None:
    """As where gRPC listens: ``127.0.0.2`` is this machine too, but not what localhost means."""
    port = free_port()
    with served_metrics(f":{port}", Counting):
        assert "asked 1.0" in page("127.0.0.1", port)
        assert "asked 2.0" in page("127.0.0.2", port)
    port = free_port()
    with (
        served_metrics(f"127.0.0.1:{port}", Counting),
        pytest.raises(OSError, match="refused"),
    ):
        page("127.0.0.2", port)


@pytest.mark.parametrize("said", [b"", b"GET /metr"], ids=["nothing", "half"])
def test_a_connection_that_says_nothing_is_closed(
    said: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    assert service._SILENCE_SECONDS <= 10
    port = free_port()
    with (
        served_metrics(f"127.0.0.1:{port}", Counting, silence_seconds=0.1),
        socket.create_connection(("127.0.0.1", port), timeout=120) as silent,
        contextlib.suppress(ConnectionError),  # closed before this side had written
    ):
        silent.sendall(said)
        assert silent.recv(1) == b""
    assert capfd.readouterr().err == ""


def test_silent_connections_do_not_keep_a_scrape_out() -> None:
    port = free_port()
    with contextlib.ExitStack() as held, served_metrics(f"127.0.0.1:{port}", Counting, 600):
        silent = [
            held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=120))
            for _ in range(service._MOST_SCRAPES)
        ]
        assert "asked 1.0" in page("127.0.0.1", port)
        assert silent[0].recv(1) == b""


def test_nothing_is_served_or_imported_where_no_address_is_given() -> None:
    def never() -> Collector:
        raise AssertionError("it was made")

    with served_metrics(None, never):
        pass


@pytest.mark.parametrize("address", ["nowhere", "9100", "127.0.0.1:port", "127.0.0.1:99999"])
def test_addresses_that_are_none(address: str) -> None:
    with (
        pytest.raises(ConfigError, match="give a free host:port in ZEROFLEET_METRICS_ADDRESS"),
        served_metrics(address, Counting),
    ):
        pytest.fail("it was served")


def test_lost_games_are_told_to_a_pipe_and_to_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    try:
        monkeypatch.setenv(LOST_GAMES_FD, str(writing))
        tell_lost_games(12)
        assert os.read(reading, 10) == b"12"
    finally:
        os.close(reading)
        os.close(writing)
    tell_lost_games(12)  # the number is nobody's now
    with (tmp_path / "file").open("w") as other:
        monkeypatch.setenv(LOST_GAMES_FD, str(other.fileno()))
        tell_lost_games(12)
    assert (tmp_path / "file").read_text() == ""


async def test_a_service_that_ends_without_redis_logs_no_traceback() -> None:
    """Its message is the last line that a person reads."""
    loop = asyncio.get_running_loop()
    reported: list[object] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))
    with contextlib.closing(Heartbeats(f"redis://127.0.0.1:{free_port()}", "run")) as heartbeats:
        beating = asyncio.create_task(
            beat(heartbeats, "worker", lambda: Pulse(0, "", TrainerFigures()))
        )
        await asyncio.sleep(0)  # it sends its first heartbeat
        beating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await beating
    del beating
    gc.collect()
    await asyncio.sleep(0)
    assert reported == []


def test_a_port_in_use() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(ConfigError, match="cannot serve metrics"),
            served_metrics(address, Counting),
        ):
            pytest.fail("it was served")


@pytest.mark.parametrize("json", [True, False])
def test_records_cannot_command_a_terminal(json: bool, capfd: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b]0;title\x07"
    code = (
        "import structlog; from zerofleet.service import configure_logs\n"
        f"configure_logs('selfplay', json={json})\n"
        f"log = structlog.get_logger(); log.warning('said', by={hostile!r})\n"
        f"try: raise ValueError({hostile!r})\n"
        "except ValueError: log.exception('failed')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    written = capfd.readouterr().err
    assert written.count("title") >= 2
    assert "\x07" not in written
    assert "\x1b]" not in written
