"""A fork as a person makes it: a data folder, another network, ``zerofleet up``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN_FILE = Path(__file__).parents[2] / "runs" / "tictactoe.toml"
TINY = ("--set", "search.num_simulations=10", "--set", "network.channels=8")
WIDER = ("--set", "search.num_simulations=10", "--set", "network.channels=16")
SOON = ("--no-dashboard", "--set", "trainer.publish_every_steps=50")
SOON += ("--set", "trainer.min_positions=500")

pytestmark = [pytest.mark.slow, pytest.mark.fleet, pytest.mark.timeout(1800)]


def ask(*arguments: object, status: int = 0) -> str:
    completed = subprocess.run(
        [sys.executable, "-m", "zerofleet.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    answer = completed.stdout + completed.stderr
    assert completed.returncode == status, answer
    return answer


def status_of(data: Path) -> dict[str, object]:
    return json.loads(ask("status", "--data", data, "--json"))


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder of a run with games."""
    data = tmp_path_factory.mktemp("source") / "old"
    ask("up", RUN_FILE, "--data", data, *TINY, *SOON, "--until", "300games")
    return data


@pytest.fixture
def bigger(tmp_path: Path) -> Path:
    """The run file of a fork."""
    path = tmp_path / "bigger.toml"
    path.write_text(RUN_FILE.read_text().replace('"tictactoe"', '"bigger"'))
    return path


def test_a_fork_with_another_network_learns_and_then_plays(
    old: Path, bigger: Path, tmp_path: Path
) -> None:
    refused = ask("up", RUN_FILE, "--data", old, *WIDER, status=2)
    assert "zerofleet fork tictactoe --to NEW.toml" in refused
    said = ask("fork", old, "--to", bigger, "--data", tmp_path / "new", *WIDER)
    assert "games of the run tictactoe" in said
    assert str(tmp_path / "new") in said
    for end in ("40games", "60steps"):
        ask("up", bigger, "--data", tmp_path / "new", *WIDER, *SOON, "--until", end)
    found = status_of(tmp_path / "new")
    assert int(str(found["given_games"])) >= 300
    assert int(str(found["games"])) >= 40
    assert int(str(found["models"])) > 1


def test_a_fork_that_only_learns_plays_no_game(old: Path, bigger: Path, tmp_path: Path) -> None:
    data = tmp_path / "alone"
    few = ("--set", "trainer.min_positions=500")
    said = ask("fork", old, "--to", bigger, "--data", data, *WIDER, *few, "--retrain")
    assert "it learns from them alone" in said
    refused = ask("up", bigger, "--data", data, *WIDER, *SOON, "--until", "40games", status=2)
    assert "plays none" in refused
    said = ask("up", bigger, "--data", data, *WIDER, *SOON, "--until", "150steps")
    assert "given games, 0 games" in said
    found = status_of(data)
    assert found["games"] == 0
    assert int(str(found["models"])) > 1
    assert "given games" in ask("status", "--data", data)
