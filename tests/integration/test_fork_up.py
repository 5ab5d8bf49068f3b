"""A fork as a person makes it: a data folder, another network, ``zerofleet up``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN_FILE = Path(__file__).parents[2] / "runs" / "tictactoe.toml"
TINY = ("--set", "search.num_simulations=10", "--set", "network.channels=8")

pytestmark = [pytest.mark.slow, pytest.mark.fleet]


def ask(*arguments: object, status: int = 0) -> str:
    completed = subprocess.run(
        [sys.executable, "-m", "zerofleet.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    answer = completed.stdout + completed.stderr
    assert completed.returncode == status, answer
    return answer


def status_of(data: Path) -> dict[str, object]:
    return json.loads(ask("status", "--data", data, "--json"))


def test_a_fork_with_another_network_learns_and_plays_or_only_learns(tmp_path: Path) -> None:
    old, new, alone = (tmp_path / name for name in ("old", "new", "alone"))
    ask("up", RUN_FILE, "--data", old, *TINY, "--until", "300games", "--no-dashboard")
    games = status_of(old)["games"]
    other = tmp_path / "bigger.toml"
    other.write_text(RUN_FILE.read_text().replace('"tictactoe"', '"bigger"'))
    wider = ("--set", "network.channels=16", "--set", "search.num_simulations=10")

    refused = ask("up", RUN_FILE, "--data", old, *wider, status=2)
    assert "zerofleet fork tictactoe --to NEW.toml" in refused

    said = ask("fork", old, "--to", other, "--data", new, *wider)
    assert f"{games:,} games of the run tictactoe" in said
    assert str(new) in said
    more = ("--no-dashboard", "--set", "trainer.publish_every_steps=50")
    ask("up", other, "--data", new, *wider, *more, "--until", "40games")
    found = status_of(new)
    assert found["given_games"] == games
    assert int(str(found["games"])) >= 40
    assert int(str(found["models"])) > 1

    ask("fork", old, "--to", other, "--data", alone, *wider, "--retrain")
    waits = ask("up", other, "--data", alone, *wider, "--until", "40games", status=2)
    assert "plays none" in waits
    said = ask("up", other, "--data", alone, *wider, *more, "--until", "150steps")
    assert f"{games:,} given games, 0 games" in said
    found = status_of(alone)
    assert found["games"] == 0
    assert int(str(found["models"])) > 1
    assert "given games" in ask("status", "--data", alone)
