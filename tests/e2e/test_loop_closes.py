"""The whole promise in one run: from nothing to a player of tic-tac-toe that never loses."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

RUN_FILE = Path(__file__).parents[2] / "runs" / "tictactoe.toml"
QUESTIONS = {
    "games per hour": "SELECT hour, games FROM games_per_hour",
    "win share of the first player by model": (
        "SELECT model, games, first_player_win_percent FROM model_summary"
    ),
    "one game's moves": (
        "SELECT ply, move, visits, value FROM game_moves WHERE game_uid = "
        "(SELECT game_uid FROM games WHERE kind = 'selfplay' ORDER BY ingested_at LIMIT 1)"
    ),
    "promotions": "SELECT seq, model, against, score_percent FROM promotion_history",
}

pytestmark = [pytest.mark.slow, pytest.mark.fleet, pytest.mark.timeout(1800)]


@pytest.fixture
def data(store_folder: Path, tmp_path: Path) -> Iterator[Path]:
    """A data folder that Postgres' user may enter."""
    folder = store_folder / tmp_path.name
    yield folder
    shutil.rmtree(folder)


def zerofleet(*arguments: str, seconds: float = 300.0) -> str:
    completed = subprocess.run(
        [sys.executable, "-m", "zerofleet.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


def test_the_loop_closes(data: Path) -> None:
    at = ("--data", str(data))
    said = zerofleet("up", str(RUN_FILE), *at, "--until", "goal", seconds=1200.0)
    goal = re.search(
        r"Goal reached: model (\d+) has an exam error rate of 0.00% \(0 of (\d+)", said
    )
    assert goal, said

    exam = json.loads(zerofleet("exam", *at, "--json"))
    assert exam["model"] == int(goal[1])
    assert exam["positions"] == int(goal[2])
    assert exam["errors"] == 0

    status = json.loads(zerofleet("status", *at, "--json"))
    assert status["best_version"] == exam["model"]
    assert status["promotions"] >= 2
    first, *_, last = status["exams"]
    assert first["error_rate"] > last["error_rate"]
    assert status["train"]["policy"] < 2.0
    assert status["held_out"]["policy"] < 2.1

    for question, query in QUESTIONS.items():
        assert len(zerofleet("sql", *at, "-c", query).splitlines()) >= 3, question
