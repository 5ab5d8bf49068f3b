"""Where a fleet's run stands, asked where the environment names its stores."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from zerofleet.cli import app
from zerofleet.config import load_run
from zerofleet.database import Database
from zerofleet.fleet.figures import DemandFigures, InferenceFigures, SelfplayFigures, TrainerFigures
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.stores import Running

RUN = 'name = "test"\ngame = "tic_tac_toe"\n'

Ask = Callable[..., str]


@pytest.fixture
def ask(
    database: Database,
    role_url: Callable[[str], str],
    valkey_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Ask:
    """``zerofleet status`` in a container of the fleet."""
    del database  # has the run
    run_file = tmp_path / "run.toml"
    run_file.write_text(RUN)
    monkeypatch.setenv("ZEROFLEET_DATABASE_URL", role_url("console"))
    monkeypatch.setenv("ZEROFLEET_REDIS_URL", valkey_url)
    monkeypatch.setenv("ZEROFLEET_RUN_FILE", str(run_file))

    def asked(*options: str) -> str:
        found = CliRunner().invoke(app, ["status", *options], catch_exceptions=False)
        assert found.exit_code == 0
        return found.output

    return asked


def beat(redis_url: str, samples: float) -> None:
    with contextlib.closing(Heartbeats(redis_url, "test")) as heartbeats:
        trainer = {"samples_per_second": samples, "reuse_target": 4.0}
        beats = [Heartbeat("t", 1, "", TrainerFigures(demand=DemandFigures(**trainer)))]
        rows = {"rows_per_second": 200.0, "capacity_rows_per_second": 10_000.0}
        inference = {**rows, "fill": 0.31, "queue_wait_per_compute": 0.2}
        beats += [Heartbeat("i", 1, "", InferenceFigures(**inference))]
        play = SelfplayFigures(training_positions_per_second=10.0)
        beats += [Heartbeat(name, 1, "", play) for name in ("a", "b")]
        for each in beats:
            heartbeats.beat(each, ttl=600.0)


def test_says_how_many_workers_would_be_used(ask: Ask, valkey_url: str) -> None:
    beat(valkey_url, samples=120.0)
    advice = "2 workers running. The trainer could use 3."
    figures = "reuse 6.0 of 4.0, fill 0.31, wait/compute 0.2"
    lines = [line.split(maxsplit=1) for line in ask().splitlines()]
    assert ["advice", advice] in lines
    assert any(line[0] == "selfplay" and line[1].startswith("2 of 2: ") for line in lines)
    found = json.loads(ask("--json"))
    assert found["advice"] == {"workers": 2, "useful": 3, "words": advice, "figures": figures}
    assert found["up"]


def test_says_which_model_answers_for_one_that_cannot_be_used(ask: Ask, valkey_url: str) -> None:
    with contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats:
        figures = InferenceFigures(model_version=3, best_fault="model 4: FILE is damaged")
        heartbeats.beat(Heartbeat("i", 1, "", figures))
    lines = [line.split(maxsplit=1) for line in ask().splitlines()]
    assert ["answers", "model 3, in place of model 4: FILE is damaged"] in lines


def test_watched_it_is_asked_again_and_again_until_interrupted(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = iter([None, KeyboardInterrupt])

    def pause(seconds: float) -> None:
        if error := next(pauses):
            raise error

    command = sys.modules["zerofleet.cli.status"]  # whose name in its package is the function
    monkeypatch.setattr(command, "time", SimpleNamespace(sleep=pause))
    looks = [json.loads(line) for line in ask("--watch", "--json").splitlines()]
    assert [look["run"] for look in looks] == ["test", "test"]


def test_a_watched_run_that_is_started_anew_is_found_where_it_is_then(
    database: Database,
    role_url: Callable[[str], str],
    valkey_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del database  # has the run
    run_file = tmp_path / "run.toml"
    run_file.write_text(RUN)
    run = load_run(run_file)
    folder = DataFolder.for_run(tmp_path / "data", run)
    folder.keep_run_file(run_file, run)
    urls = {"console": role_url("console")}
    with contextlib.ExitStack() as runs:
        runs.enter_context(folder.hold("up"))
        away = {"console": "postgresql://console@127.0.0.1:1/zerofleet"}
        running = Running(os.getpid(), away, valkey_url, "127.0.0.1:1")
        runs.enter_context(running.announced(folder))

        def start_anew() -> None:
            runs.enter_context(replace(running, database_urls=urls).announced(folder))

        pauses = iter([start_anew, lambda: None, None])

        def pause(seconds: float) -> None:
            happens = next(pauses)
            if happens is None:
                raise KeyboardInterrupt
            happens()

        monkeypatch.setattr(
            sys.modules["zerofleet.cli.status"], "time", SimpleNamespace(sleep=pause)
        )
        found = CliRunner().invoke(
            app, ["status", "--watch", "--json", "--data", str(folder.root)], catch_exceptions=False
        )
    assert [json.loads(line)["run"] for line in found.stdout.splitlines()] == ["test"] * 2
    assert "Postgres" in found.stderr


def test_a_fleet_of_which_nothing_is_heard_is_stopped_and_gets_no_advice(ask: Ask) -> None:
    found = json.loads(ask("--json"))
    assert (found["up"], found["advice"]) == (False, None)
    assert "no heartbeats: starting or stopped" in ask()


def test_without_a_run_file_it_says_what_to_give(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    del ask
    monkeypatch.delenv("ZEROFLEET_RUN_FILE")
    found = CliRunner().invoke(app, ["status"])
    assert "give its run file, or ZEROFLEET_RUN_FILE" in str(found.exception)
