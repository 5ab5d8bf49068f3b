"""An evaluator starts a program as an opponent only if its environment allows the program."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from zerofleet.cli import app
from zerofleet.errors import ConfigError

PROGRAM = Path(__file__).parents[2] / "unit/uci_program.py"
RUN = """
name = "laddered"
preset = "plain"
[game]
name = "chess"
[precision]
variants = []
[rating]
games = 2
opponents = [1]
anchors = ["uci:our-engine?nodes=1", "uci:their-engine?nodes=1"]
num_simulations = 2
[evaluator]
opening_plies = 2
[exam]
num_simulations = 2
"""


def stored(fleet: Any, kind: str, opponent: str) -> int:
    [row] = fleet.query(
        "SELECT count(*) AS games FROM match_games JOIN matches USING (match_id) "
        f"WHERE kind = '{kind}' AND opponent = '{opponent}'"
    )
    return int(row.games)


def test_an_evaluator_starts_only_the_programs_that_it_may(make_fleet: Any, tmp_path: Path) -> None:
    """The database and the run file name programs, but they give no permission."""
    folder, heard = tmp_path / "bin", tmp_path / "heard"
    folder.mkdir()
    for name in ("our-engine", "their-engine"):
        (folder / name).write_text(
            f"#!/bin/sh\ntouch '{tmp_path}/{name}.started'\n"
            f"exec '{sys.executable}' '{PROGRAM}' plays '{heard}'\n"
        )
        (folder / name).chmod(0o755)
    fleet = make_fleet(RUN)
    fleet.environment["PATH"] = f"{folder}:{os.environ['PATH']}"
    fleet.publish(1)
    fleet.promote(1)

    def ask(opponent: str, *options: str) -> Any:
        database = ("--database-url", fleet.urls["evaluator"])
        words = ["match", "1", opponent, str(fleet.run_file), "--games", "2", *options, *database]
        return CliRunner().invoke(app, words)

    ask("uci:our-engine?nodes=2", "--no-wait")
    process = fleet.start("evaluator")
    fleet.until(lambda: "trial_left_out" in fleet.log("evaluator"))
    fleet.until(lambda: fleet.log("evaluator").count("anchor_left_out") == 2)
    again = ask("uci:our-engine?nodes=2")
    assert isinstance(again.exception, ConfigError)
    assert "the evaluator may not start 'our-engine': add it to ZEROFLEET_ENGINES" in str(
        again.exception
    )
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert not list(tmp_path.glob("*.started"))

    ask("uci:our-engine?nodes=2", "--no-wait")
    ask("uci:our-engine x?nodes=2", "--no-wait")
    process = fleet.start("evaluator", ZEROFLEET_ENGINES="stockfish;our-engine")
    fleet.until(lambda: stored(fleet, "trial", "uci:our-engine?nodes=2") == 2)
    fleet.until(lambda: stored(fleet, "rating", "uci:our-engine?nodes=1") == 2)
    refused = "SELECT FROM matches WHERE opponent = 'uci:our-engine x?nodes=2' AND left_out <> ''"
    fleet.until(lambda: bool(fleet.query(refused)))
    fleet.until(lambda: len(fleet.database.ratings("laddered")) == 3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert "Traceback" not in fleet.log("evaluator")
    assert not (tmp_path / "their-engine.started").exists()
    assert "go nodes 2" in heard.read_text().splitlines()
    assert fleet.query("SELECT FROM match_games WHERE remark IS NOT NULL") == []
