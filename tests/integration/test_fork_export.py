"""A run that begins with the games of a Parquet export: ``zerofleet fork FOLDER``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.integration.test_given_games import GAMES, RUN_FILE, SEARCHES, ask, fill, opened
from tests.support.random_records import changed, random_record, resigned_record
from zerofleet.cli import app, export_files
from zerofleet.config import load_run
from zerofleet.database import Database, Submission, exported_games
from zerofleet.records import GameRecord

assert app  # the import registers the commands

# Columns of a game and its searches that an export has; the digest has the new uid.
GAME = """
SELECT moves, result, reason, length, started_at, finished_at, resign_threshold, plays_on,
    opening_plies, start, restarted
FROM games WHERE run = :run ORDER BY moves, started_at
"""
PLIES = SEARCHES.replace("g.content_sha256", "g.moves").replace(
    "p.policy_weights\n", "coalesce(p.policy_weights, p.visit_counts) AS policy_weights\n"
)


@pytest.fixture
def new_toml(tmp_path: Path) -> Path:
    return write_run(tmp_path, "new")


def write_run(folder: Path, name: str, game: str = "tic_tac_toe") -> Path:
    path = folder / f"{name}.toml"
    text = RUN_FILE.format(game=game, blocks=1, value_lambda=1.0)
    path.write_text(text.replace('"new"', f'"{name}"'))
    return path


@pytest.fixture
def export(
    database: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """An export of several files and row groups, in which games continue in the next one."""
    monkeypatch.setattr(exported_games, "PAGE_ENTRIES", 300)
    monkeypatch.setattr(exported_games, "_FIRST_PAGE_GAMES", 3)
    monkeypatch.setattr(export_files, "_GROUP_BYTES", 5_000)
    monkeypatch.setattr(export_files, "PART_BYTES", 20_000)
    fill(database)
    database.submit_game("test", "w", Submission(random_record(901)))
    database.submit_game("test", "w", Submission(resigned_record(902, 3)))
    database.submit_game("test", "w", Submission(changed(opened_record(903, 2), restarted=True)))
    folder = tmp_path / "ttt-parquet"
    run_file = tmp_path / "test.toml"
    run_file.write_text('name = "test"\ngame = "tic_tac_toe"\n')
    status, output = ask("export", run_file, "--folder", folder, "--database-url", database_url)
    assert status == 0, output
    assert len(list((folder / "searches").iterdir())) > 1
    return folder


def opened_record(seed: int, plies: int) -> GameRecord:
    """Make a game whose first plies have no search."""
    record = random_record(seed)
    simulations = np.where(np.arange(record.length) < plies, 0, 50)
    return changed(record, simulations=simulations.astype(np.int32))


def fork(url: str, folder: Path, run_file: Path, *options: object) -> tuple[int, str]:
    return ask("fork", folder, "--to", run_file, "--database-url", url, *options)


def rewritten(folder: Path, table: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Write a table again, in one file, as another program does."""
    rows = pq.read_table(folder / table)
    shutil.rmtree(folder / table)
    (folder / table).mkdir()
    pq.write_table(change(rows), folder / table / "rows.parquet", row_group_size=7)


def test_a_fork_of_an_export_has_every_game_once_with_its_searches(
    database: Database, database_url: str, export: Path, new_toml: Path
) -> None:
    status, output = fork(database_url, export, new_toml)
    assert status == 0, output
    assert f"{GAMES + 3} games of the run test, from its export ttt-parquet" in output
    for query in (GAME, PLIES):
        copied = database._rows(query, run="new")
        assert copied == database._rows(query, run="test")
        assert copied
    query = "SELECT DISTINCT opening_plies FROM games WHERE run = 'new' ORDER BY 1"
    assert [row.opening_plies for row in database._rows(query)] == [0, 2]
    origin = database.origin("new")
    assert origin is not None
    [row] = database._rows(
        "SELECT count(*) FILTER (WHERE full_search) AS positions, "
        "count(DISTINCT game_uid) AS games, min(worker) AS worker, max(model_version) AS model "
        "FROM games JOIN positions USING (game_uid) WHERE run = 'new' AND kind = 'given'"
    )
    assert row == (origin.positions, GAMES + 3, "fork of test", 0)
    assert (origin.kind, origin.games, origin.left_out) == ("fork", GAMES + 3, 0)
    assert origin.place == str(export)
    stored = [each.game_uid for each in database._rows("SELECT game_uid FROM games")]
    assert {origin.first_game, origin.last_game} <= set(stored)
    window, _ = opened(load_run(new_toml), database)
    assert window.rejected == 0
    assert fork(database_url, export, new_toml)[0] == 0  # a second call changes nothing
    assert database.origin("new") == origin
    assert database.count_games("new", "given") == GAMES + 3


def test_a_copy_that_broke_off_goes_on_with_nothing_twice(
    database: Database,
    database_url: str,
    export: Path,
    new_toml: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    submit = Database.submit_games

    def one_batch(self: Database, *arguments: Any) -> Any:
        monkeypatch.setattr(Database, "submit_games", interrupted)
        return submit(self, *arguments)

    def interrupted(*_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("zerofleet.cli.exported_source._BATCH_GAMES", 10)
    monkeypatch.setattr(Database, "submit_games", one_batch)
    status, output = fork(database_url, export, new_toml)
    assert "the same `zerofleet fork` command continues" in output
    assert database.count_games("new", "given") == 10
    origin = database.origin("new")
    assert origin is not None
    assert origin.finished_at is None
    monkeypatch.setattr(Database, "submit_games", submit)
    status, output = fork(database_url, export, new_toml)
    assert status == 0, output
    assert database.count_games("new", "given") == GAMES + 3


def test_the_newest_games_alone_and_the_files_of_another_program(
    database: Database, database_url: str, export: Path, new_toml: Path
) -> None:
    # Exports of earlier versions lack this column.
    rewritten(export, "games", lambda rows: rows.drop_columns(["restarted"]))
    lists = ("legal_actions", "visit_counts", "priors", "policy_weights")

    def larger(rows: pa.Table) -> pa.Table:
        """Return lists with other types, as Polars writes them."""
        for name in lists:
            place = rows.schema.names.index(name)
            kind = pa.float64() if name == "priors" else pa.int64()
            rows = rows.set_column(place, name, rows[name].cast(pa.large_list(kind)))
        return rows

    rewritten(export, "searches", larger)
    status, output = fork(database_url, export, new_toml, "--games", "5")
    assert status == 0, output
    newest = "SELECT moves FROM games WHERE run = 'test' ORDER BY game_uid::text DESC LIMIT 5"
    copied = database._rows("SELECT moves FROM games WHERE run = 'new' ORDER BY 1")
    assert copied == sorted(database._rows(newest))
    expected = database._rows(PLIES, run="test")
    moves = {row.moves for row in copied}
    for row in database._rows(PLIES, run="new"):
        assert row in expected
        assert row.moves in moves


def test_games_without_usable_searches_are_left_out(
    database: Database, database_url: str, export: Path, new_toml: Path
) -> None:
    uids = pq.read_table(export / "games")["game_uid"].to_pylist()
    dropped = pa.array(uids[:4])
    rewritten(
        export,
        "searches",
        lambda rows: rows.filter(pa.compute.invert(pa.compute.is_in(rows["game_uid"], dropped))),
    )

    def lost(rows: pa.Table) -> pa.Table:
        """Make the last game's result contradict its last position."""
        results = [*rows["result"].to_pylist()[:-1], 2 - 3 * abs(rows["result"].to_pylist()[-1])]
        place = rows.schema.names.index("result")
        return rows.set_column(place, "result", pa.array(results, pa.int8()))

    rewritten(export, "games", lost)
    status, output = fork(database_url, export, new_toml)
    assert status == 0, output
    assert f"left out 5 of {GAMES + 3} games" in output
    assert f"1 do not replay, the first: game {uids[-1]}" in output
    assert database.count_games("new", "given") == GAMES + 3 - 5
    origin = database.origin("new")
    assert origin is not None
    assert (origin.chosen, origin.games, origin.left_out) == (GAMES + 3, GAMES + 3 - 5, 5)
    rewritten(export, "searches", lambda rows: rows.slice(0, 0))
    status, output = fork(database_url, export, write_run(new_toml.parent, "third"))
    assert status == 2
    assert f"none of the {GAMES + 3} newest games of the export" in output


def test_wrong_exports_are_refused_in_one_line_and_nothing_is_written(
    database: Database, database_url: str, export: Path, new_toml: Path, tmp_path: Path
) -> None:
    def refused(*options: object, path: Path = new_toml) -> str:
        status, output = fork(database_url, export, path, *options)
        assert status == 2, output
        assert len(output.strip().splitlines()) == 1, output
        assert database.origin("new") is None
        assert database._rows("SELECT name FROM runs") == [("test",)]
        return output

    four = write_run(tmp_path, "four", "connect_four")
    assert f"has games of tic_tac_toe, and {four} plies".replace("plies", "plays") in refused(
        path=four
    )
    enough = ("--retrain", "--set", "selfplay.max_ahead_positions=0")
    assert "lower it, or give more games" in refused(*enough, "--set", "trainer.min_positions=9999")

    about = export / "export.json"
    text = about.read_text()
    about.write_text(json.dumps(json.loads(text) | {"format": "npz"}))
    assert "has the format npz, and `zerofleet fork` needs Parquet" in refused()
    about.write_text('["run"]')
    assert "lacks run, game or format" in refused()
    about.write_text(text[:20])
    assert "export.json cannot be read" in refused()
    about.unlink()
    assert "has no export.json" in refused()
    about.write_text(text)
    (export / ".incomplete").mkdir()
    assert "is not complete: export the games again" in refused()
    (export / ".incomplete").rmdir()

    whole = tmp_path / "whole"
    shutil.copytree(export, whole)

    def again() -> None:
        shutil.rmtree(export)
        shutil.copytree(whole, export)

    rewritten(export, "searches", lambda rows: rows.drop_columns(["priors", "policy_weights"]))
    assert "lacks the columns priors, policy_weights" in refused()
    again()
    rewritten(export, "games", lambda rows: rows.drop_columns(["result"]))
    assert "lacks the columns result" in refused()
    again()
    rewritten(export, "searches", lambda rows: rows.slice(1))
    assert "searches are not 0 to" in refused()
    again()
    of_searches = [("searches", name) for name in ("action", "priors", "game_uid")]
    of_games = [("games", name) for name in ("result", "length", "kind", "plays_on", "game_uid")]
    for table, name in (*of_searches, *of_games):

        def nulls(rows: pa.Table, name: str = name) -> pa.Table:
            place = rows.schema.names.index(name)
            return rows.set_column(place, name, pa.array([None] * len(rows), rows[name].type))

        rewritten(export, table, nulls)
        assert f"{name} has a null" in refused()
        again()

    def of_matches(rows: pa.Table) -> pa.Table:
        place = rows.schema.names.index("kind")
        return rows.set_column(place, "kind", pa.array(["match"] * len(rows)))

    rewritten(export, "games", of_matches)
    assert "has no games of self-play: there is nothing to learn from" in refused()
    again()

    def no_uids(rows: pa.Table) -> pa.Table:
        return rows.set_column(rows.schema.names.index("game_uid"), "game_uid", rows["reason"])

    rewritten(export, "games", no_uids)
    assert "which is no UUID" in refused()
    again()
    shutil.rmtree(export / "searches")
    assert "has no searches, so there is nothing to learn from" in refused()
    again()
    path = max((export / "searches").iterdir())
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert f"{path} cannot be read" in refused()
    path.write_bytes(content[:4] + bytes(len(content) // 2) + content[4 + len(content) // 2 :])
    assert f"{path} cannot be read" in refused()
    place = len(content) // 2
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    assert f"{path} cannot be read" in refused()
    again()
    for table in ("games", "searches"):
        for part in list((export / table).iterdir()):
            shutil.copy(part, part.with_name(f"copy of {part.name}"))
    assert "twice, and" in refused()
