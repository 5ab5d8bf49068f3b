"""Ports of the dashboard and of the metrics; no port is given out twice, in any process."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from zerofleet.config import load_run
from zerofleet.errors import ConfigError
from zerofleet.local import programs
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.processes import free_port, take_port
from zerofleet.local.programs import (
    chosen_metrics_ports,
    chosen_page_address,
    keep_page_port,
    require_different_ports,
)

RUN_FILE = Path(__file__).parents[2] / "runs" / "tictactoe.toml"

ASK = """
import sys
from zerofleet.local.processes import free_port
print(*(free_port() for _ in range(300)), flush=True)
sys.stdin.read()  # they are this process's until it ends
"""


def test_no_two_processes_are_given_one_port() -> None:
    askers = [
        subprocess.Popen(
            [sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    given: list[str] = []
    for asker in askers:
        assert asker.stdout is not None
        given += asker.stdout.readline().split()
    for asker in askers:
        asker.communicate()
        assert asker.returncode == 0
    assert len(given) == len(set(given)) == 900


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return DataFolder.for_run(tmp_path / "data", load_run(RUN_FILE))


@pytest.mark.parametrize("port", ["true", "0", "-5", "65536", "1e400", '"8080"', "null", "8080.0"])
def test_a_damaged_port_of_the_page_is_replaced(folder: DataFolder, port: str) -> None:
    (folder.root / "page.json").write_text(f'{{"port": {port}}}')
    assert folder.page_port() is None
    keep_page_port(folder, "127.0.0.1:8099", None)
    assert folder.page_port() == 8099


def test_the_page_has_the_same_port_at_each_start(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[str] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        first, free = taken.getsockname()[1], free_port()
        monkeypatch.setattr(programs, "PAGE_PORTS", range(first, first + 1))
        # All are taken, so any port is used.
        assert first not in (chosen_port(folder, None, messages), free)
        monkeypatch.setattr(programs, "PAGE_PORTS", (first, free))
        assert chosen_port(folder, None, messages) == free
        assert folder.page_port() is None  # until the dashboard runs
        keep_page_port(folder, f"127.0.0.1:{free}", None)
        monkeypatch.setattr(programs, "PAGE_PORTS", ())
        assert chosen_port(folder, None, messages) == free
        assert messages == []

        keep_page_port(folder, f"127.0.0.1:{first}", first)  # given with --dashboard-port
        other = chosen_port(folder, None, messages)
        assert other != first
        assert messages == [
            f"port {first}, which this run's dashboard usually has, is in use. "
            f"This time the dashboard is on port {other}."
        ]
        keep_page_port(folder, f"127.0.0.1:{other}", None)
        assert folder.page_port() == first
        with pytest.raises(ConfigError, match=f"port {first} cannot be used: Address already in"):
            chosen_port(folder, first, messages)


def chosen_port(folder: DataFolder, given: int | None, messages: list[str]) -> int:
    return int(chosen_page_address(folder, given, messages.append).rpartition(":")[2])


def test_a_damaged_note_of_the_port_is_no_port(folder: DataFolder) -> None:
    for damage in ("{", "[]", '{"port": "x"}'):
        (folder.root / "page.json").write_text(damage)
        assert folder.page_port() is None
    folder.keep_page_port(8080)
    assert folder.page_port() == 8080


def test_metrics_have_a_port_for_each_process() -> None:
    base = free_row(7)
    assert chosen_metrics_ports(base, 3, page=True) == {
        "trainer": base,
        "evaluator": base + 1,
        "dashboard": base + 2,
        "selfplay-1": base + 3,
        "selfplay-2": base + 4,
        "selfplay-3": base + 5,
        "inference": base + 6,
    }
    assert chosen_metrics_ports(base, 1, page=False) == {
        "trainer": base,
        "evaluator": base + 1,
        "selfplay": base + 3,
        "inference": base + 4,
    }
    free = chosen_metrics_ports(None, 1, page=True)
    assert len({*free.values()}) == len(free) == 5
    with pytest.raises(ConfigError, match=r"5 processes need 5 ports .* choose a lower one"):
        chosen_metrics_ports(65_533, 1, page=True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", base + 1))
        taken.listen()
        words = f"--metrics-port {base}: port {base + 1}, for the metrics of evaluator, cannot be"
        with pytest.raises(ConfigError, match=re.escape(words)):
            chosen_metrics_ports(base, 1, page=True)


def free_row(length: int) -> int:
    """Return the first port of a free range; this process holds the whole range until it ends."""
    row: list[int] = []
    for port in range(12_000, 20_000):
        try:
            take_port(port)
        except OSError:
            row.clear()
        else:
            row.append(port)
        if len(row) == length:
            return row[0]
    raise AssertionError


def test_one_port_is_for_one_server() -> None:
    require_different_ports({"the page": 1, "predictions": 2})
    with pytest.raises(
        ConfigError, match="port 1 is for the page and for predictions: choose different"
    ):
        require_different_ports({"the page": 1, "predictions": 1})
