"""Stored games leave the database as SGF."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import psycopg2
import pytest
from sgfmill import sgf as sgfmill_sgf
from typer.testing import CliRunner

from tests.support.random_records import random_record, resigned_record
from zerofleet.cli import app
from zerofleet.config import run_from_values
from zerofleet.database import Database, Submission
from zerofleet.database.played_games import PlayedGame, sgf_of_game
from zerofleet.errors import ConfigError
from zerofleet.games import sgf
from zerofleet.records import GameRecord

GAME = "go(size=5,komi=7.5,suicide=false)"


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(f'name = "go5"\ngame = "{GAME}"\n')
    return path


@pytest.fixture
def records(database_url: str) -> list[GameRecord]:
    """Stored one after the other; the last one was resigned."""
    kept = [random_record(seed, GAME, model_version=seed + 2) for seed in (1, 2)]
    kept.append(resigned_record(3, 7, GAME))
    with Database(database_url) as database:
        database.register_run(run_from_values({"name": "go5", "game": {"name": GAME}}))
        for record in kept:
            assert database.submit_game("go5", "w", Submission(record)) == "stored"
    return kept


def read_game(record: GameRecord) -> sgf.ReadGame:
    actions = record.columns.action.tolist()
    return sgf.ReadGame(GAME, actions, "", result=record.result)


def wrote(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["sgf", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_game_by_its_uid(database_url: str, run_file: Path, records: list[GameRecord]) -> None:
    record = records[1]
    text = wrote(run_file, record.game_uid, "--database-url", database_url)
    assert sgf.read(text) == read_game(record)
    game = sgfmill_sgf.Sgf_game.from_string(text)
    root, first = game.get_root(), game.get_main_sequence()[1]
    assert (root.get("PB"), root.get("PW")) == ("go5 4", "go5 4")
    assert root.get("GN") == str(record.game_uid)
    assert root.get("RE")[0] == {1: "B", -1: "W"}[record.result]
    # Sabaki's graph: Black's win rate of the position at each node, in percent.
    shares = [float(node.get_raw("SBKV")) for node in game.get_main_sequence()[:2]]
    values = record.columns.root_value[:2] * (1, -1)
    assert shares == pytest.approx([50 * (1 + value) for value in values], abs=0.01)
    value, visits = first.get("C").splitlines()
    assert value == (
        f"value for Black {record.columns.root_value[0]:+.3f} after 50 simulations "
        f"({record.columns.network_value[0]:+.3f} before), model 4"
    )
    assert visits.startswith("visits: ")
    assert (
        str(record.columns.visit_counts[: record.columns.offsets[1]].max()) in visits.split(",")[0]
    )


def test_the_last_games(
    database_url: str, run_file: Path, records: list[GameRecord], tmp_path: Path
) -> None:
    text = wrote(run_file, "--last", 1, "--database-url", database_url)
    assert sgf.read(text).actions == records[2].columns.action.tolist()
    assert f"RE[{'B' if records[2].result == 1 else 'W'}+R]" in text
    folder = tmp_path / "new" / "games"
    assert wrote(run_file, "--last", 2, "--folder", folder, "--database-url", database_url) == ""
    written = {path.stem: sgf.read(path.read_text()).actions for path in folder.glob("*.sgf")}
    assert written == {str(r.game_uid): r.columns.action.tolist() for r in records[1:]}
    collection = wrote(run_file, "--last", 9, "--database-url", database_url)
    assert collection.count("FF[4]") == 3


def test_a_game_whose_searches_are_forgotten_has_its_moves_without_comments(
    database_url: str, run_file: Path, records: list[GameRecord]
) -> None:
    with closing(psycopg2.connect(database_url)) as owner, owner, owner.cursor() as cursor:
        cursor.execute("DELETE FROM positions")
    for record in records:
        text = wrote(run_file, record.game_uid, "--database-url", database_url)
        assert sgf.read(text) == read_game(record)
        assert "C[" not in text
        assert f"RE[{'B' if record.result == 1 else 'W'}" in text


def test_in_a_container_of_the_fleet_the_database_need_not_be_named(
    role_url: Callable[[str], str],
    run_file: Path,
    records: list[GameRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ZEROFLEET_DATABASE_URL", role_url("console"))
    monkeypatch.setenv("ZEROFLEET_RUN_FILE", str(run_file))
    monkeypatch.setenv("ZEROFLEET_REDIS_URL", "redis://unused")
    assert wrote(records[1].game_uid) == wrote(run_file, records[1].game_uid)
    assert sgf.read(wrote(run_file, "--last", 1)).actions == records[2].columns.action.tolist()


def test_a_game_that_cannot_be_read_is_named_and_the_others_are_written(
    database_url: str, run_file: Path, records: list[GameRecord]
) -> None:
    bad = records[1].game_uid
    with Database(database_url) as database, database._transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE positions SET visit_counts = visit_counts[2:] WHERE game_uid = %s AND ply = 0",
            (str(bad),),
        )
    result = CliRunner().invoke(
        app, ["sgf", str(run_file), "--last", "3", "--database-url", database_url]
    )
    assert result.exit_code == 0
    assert result.stdout.count("FF[4]") == 2
    assert f"game {bad} is skipped, it cannot be read: " in result.stderr
    assert "ply 0: legal_actions and visit_counts do not fit" in result.stderr
    alone = CliRunner().invoke(
        app, ["sgf", str(run_file), str(bad), "--database-url", database_url]
    )
    assert (alone.exit_code, alone.stdout) == (1, "")


def test_what_cannot_be_written(
    database_url: str, run_file: Path, records: list[GameRecord], tmp_path: Path
) -> None:
    def refused(*arguments: object) -> str:
        result = CliRunner().invoke(app, ["sgf", *map(str, arguments)])
        assert isinstance(result.exception, ConfigError)
        return str(result.exception)

    strange = refused(run_file, uuid4(), "--database-url", database_url)
    assert "the run 'go5' has no finished game" in strange
    assert "give a game's uid" in refused(run_file, "--database-url", database_url)
    unnamed = refused(records[0].game_uid, "--database-url", database_url)
    assert "needs the run file too" in unnamed
    both = refused(run_file, records[0].game_uid, "--last", 1, "--database-url", database_url)
    assert "give a game's uid" in both
    other = tmp_path / "other.toml"
    other.write_text(f'name = "c4"\ngame = {json.dumps("connect_four")}\n')
    assert "SGF is for go and othello, not for 'connect_four'" in refused(other, "--last", 1)


def test_a_folder_that_cannot_be_written(
    database_url: str, run_file: Path, records: list[GameRecord], tmp_path: Path
) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    for folder in (blocked, blocked / "below"):
        options = ["--last", "1", "--folder", str(folder), "--database-url", database_url]
        result = CliRunner().invoke(app, ["sgf", str(run_file), *options])
        assert isinstance(result.exception, ConfigError)
        assert f"cannot write to --folder {folder}: " in str(result.exception)


def test_a_stored_name_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run's row may be anybody's: no module that it names is imported for an SGF."""
    (tmp_path / "hostile.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    now = datetime.now(UTC)
    played = PlayedGame(
        uuid4(),
        "python:hostile:Game",
        "selfplay",
        1,
        None,
        0,
        "rules",
        now,
        "",
        "",
        None,
        None,
        None,
        None,
        [],
    )
    with pytest.raises(ConfigError, match="SGF is for go and othello"):
        sgf_of_game("r", played)
    assert "hostile" not in sys.modules
