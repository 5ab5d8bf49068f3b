"""The games of a run as files for other programs: ``zerofleet export``."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psycopg2
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from tests.support.random_records import random_record, resigned_record
from zerofleet import games
from zerofleet.cli import app, export_files
from zerofleet.config import RunConfig, run_from_values
from zerofleet.database import Database, Submission, add_to_buffer, exported_games
from zerofleet.database.exported_games import (
    GAME_COLUMNS,
    LIST_COLUMNS,
    PLY_COLUMNS,
    ExportedGames,
    GameChoice,
)
from zerofleet.errors import ConfigError
from zerofleet.learning.window import draw, empty_buffer
from zerofleet.records import GameRecord, is_held_out

GAMES = 12
GAME = "connect_four"


@pytest.fixture
def run() -> RunConfig:
    return run_from_values({"name": "c4", "game": {"name": GAME}})


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(f'name = "c4"\ngame = "{GAME}"\n')
    return path


@pytest.fixture
def records(database_url: str, run: RunConfig) -> list[GameRecord]:
    """Stored games in the order of their uids; the last but one was resigned."""
    kept = [random_record(seed, GAME, model_version=1 + seed % 2) for seed in range(GAMES)]
    kept.append(resigned_record(51, 7, GAME))
    with Database(database_url) as database:
        database.register_run(run)
        for record in kept:
            assert database.submit_game("c4", "w", Submission(record)) == "stored"
        epoch = database.acquire_fence("c4", "trainer")
        for version in (1, 2):
            database.insert_model("c4", version, f"{version:064}", 1, {}, "none", epoch)
    return sorted(kept, key=lambda record: record.game_uid)


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several pages, row groups and files."""
    monkeypatch.setattr(exported_games, "_FIRST_PAGE_GAMES", 2)
    monkeypatch.setattr(exported_games, "PAGE_ENTRIES", 600)
    monkeypatch.setattr(export_files, "_GROUP_BYTES", 10_000)
    monkeypatch.setattr(export_files, "_NPZ_BYTES", 30_000)
    monkeypatch.setattr(export_files, "PART_BYTES", 1_000)


def exported(*arguments: object) -> str:
    """Run the command; return what it said."""
    result = CliRunner().invoke(app, ["export", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    return result.stderr


def refused(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["export", *map(str, arguments)])
    assert isinstance(result.exception, ConfigError), result.output
    return str(result.exception)


def stored(database_url: str, query: str) -> list[dict[str, Any]]:
    with closing(psycopg2.connect(database_url)) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        names = [each.name for each in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def stored_games(database_url: str) -> list[dict[str, Any]]:
    rows = stored(
        database_url,
        f"SELECT {', '.join(GAME_COLUMNS)}, 'c4' AS run, '{GAME}' AS game FROM games "
        "ORDER BY game_uid",
    )
    return [row | {"game_uid": str(row["game_uid"])} for row in rows]


def stored_searches(database_url: str) -> list[dict[str, Any]]:
    names = [*PLY_COLUMNS, *(name for name in LIST_COLUMNS if name != "policy_weights")]
    exact = {"priors": "::float8[]"} | {
        name: "::float8" for name in names if name.endswith("_value")
    }  # as numbers of Python, whose text in Postgres would be shorter
    columns = ", ".join(f"{name}{exact.get(name, '')} AS {name}" for name in names)
    return stored(
        database_url,
        f"SELECT game_uid::text, ply, {columns}, "
        "coalesce(policy_weights, visit_counts) AS policy_weights "
        "FROM positions ORDER BY game_uid, ply",
    )


def csv_rows(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.mark.usefixtures("records", "small_pages")
def test_parquet_holds_every_row(database_url: str, run_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "parquet"
    said = exported(run_file, "--folder", folder, "--database-url", database_url)
    searches = stored_searches(database_url)
    assert f"{GAMES + 1} games, {len(searches)} searches in {folder}" in said
    assert len(list((folder / "searches").glob("part-*.parquet"))) > 1
    games_read = pq.read_table(folder / "games").to_pylist()
    assert games_read == [
        {name: row[name] for name in games_read[0]} for row in stored_games(database_url)
    ]
    assert pq.read_table(folder / "searches").to_pylist() == searches
    about = json.loads((folder / "export.json").read_text())
    assert (about["run"], about["game"], about["games"]) == ("c4", GAME, GAMES + 1)
    assert sorted(path.name for path in folder.iterdir()) == ["export.json", "games", "searches"]


@pytest.mark.usefixtures("records", "small_pages")
def test_npz_holds_every_row(database_url: str, run_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "npz"
    folder.mkdir()  # an empty one is fine
    exported(
        run_file, "--format", "npz", "--folder", folder, "--database-url", database_url, "--planes"
    )
    games_read: list[dict[str, Any]] = []
    searches: list[dict[str, Any]] = []
    paths = sorted(folder.glob("part-*.npz"))
    assert len(paths) > 1
    for path in paths:
        arrays = np.load(path)
        columns = {name: arrays[f"games.{name}"] for name in GAME_COLUMNS}
        for row in range(len(columns["game_uid"])):
            values = {name: column[row] for name, column in columns.items()}
            games_read.append(values)
        offsets = arrays["searches.offsets"]
        for row, game in enumerate(arrays["searches.game_number"]):
            part = slice(offsets[row], offsets[row + 1])
            searches.append(
                {"game_uid": columns["game_uid"][game].decode(), "ply": arrays["searches.ply"][row]}
                | {name: arrays[f"searches.{name}"][row] for name in PLY_COLUMNS}
                | {name: arrays[f"searches.{name}"][part].tolist() for name in LIST_COLUMNS}
            )
        assert len(arrays["positions.game_number"]) == len(arrays["positions.observation"])
        uids = columns["game_uid"][arrays["positions.game_number"]]
        full = {
            (row["game_uid"], row["ply"])
            for row in stored_searches(database_url)
            if row["full_search"]
        }
        found = zip(uids, arrays["positions.ply"].tolist(), strict=True)
        assert {(uid.decode(), ply) for uid, ply in found} <= full
    assert searches == stored_searches(database_url)
    for read, row in zip(games_read, stored_games(database_url), strict=True):
        assert read["moves"].decode() == row["moves"]
        assert read["result"] == row["result"]
        assert read["ingested_at"].item() == row["ingested_at"].replace(tzinfo=None)
        assert np.isnan(read["resign_threshold"]) == (row["resign_threshold"] is None)


@pytest.mark.usefixtures("records", "small_pages")
def test_csv_holds_every_row(database_url: str, run_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "csv"
    said = exported(run_file, "--format", "csv", "--folder", folder, "--database-url", database_url)
    searches = stored_searches(database_url)
    assert f"{GAMES + 1} games, {len(searches)} searches in {folder}" in said

    def rows(name: str) -> list[dict[str, str]]:
        paths = sorted((folder / name).glob("part-*.csv"))
        assert len(paths) > 1
        return [row for path in paths for row in csv_rows(path)]

    assert [row["moves"] for row in rows("games")] == [
        row["moves"] for row in stored_games(database_url)
    ]
    for read, row in zip(rows("searches"), searches, strict=True):
        assert (read["game_uid"], int(read["ply"])) == (row["game_uid"], row["ply"])
        assert np.float32(read["root_value"]) == np.float32(row["root_value"])
        for name in LIST_COLUMNS:
            assert json.loads(read[name]) == pytest.approx(row[name], rel=1e-7)


def test_matches_have_no_training_positions(
    database_url: str, run: RunConfig, run_file: Path, tmp_path: Path
) -> None:
    with Database(database_url) as database:
        database.register_run(run)
        database.submit_game("c4", "w", Submission(random_record(1, GAME), kind="match"))
    for file_format in ("parquet", "npz"):
        folder = tmp_path / file_format
        arguments = ["--planes", "--format", file_format, "--folder", folder]
        said = exported(run_file, *arguments, "--database-url", database_url)
        assert "1 game, " in said
        assert " 0 training positions" in said
    table = pq.read_table(tmp_path / "parquet" / "positions")
    assert table.num_rows == 0
    assert {"game_uid", "ply", "held_out", "observation"} < set(table.column_names)
    with np.load(tmp_path / "npz" / "part-00000.npz") as arrays:
        assert len(arrays["positions.observation"]) == 0


def test_positions_are_what_the_trainer_samples(
    database_url: str, run_file: Path, records: list[GameRecord], tmp_path: Path
) -> None:
    run_file.write_text(
        f'name = "c4"\ngame = "{GAME}"\n'
        "[trainer]\nvalue_lambda = 0.75\nopponent_policy_weight = 0.15\nheld_out_share = 0.3\n"
    )
    from zerofleet.config import load_run

    run = load_run(run_file)
    folder = tmp_path / "planes"
    exported(run_file, "--planes", "--folder", folder, "--database-url", database_url)
    table = pq.read_table(folder / "positions").to_pylist()
    scalars = ["root_value", "search_surprise", "plies_to_end"]
    buffer = empty_buffer(run, 10_000, [*run.trainer.drawn_targets, *scalars])
    uids: list[str] = []
    with Database(database_url) as database:
        for game in database.read_games("c4", 0, 1000, ("root_value", "priors")).games:
            uids += [str(game.game_uid)] if add_to_buffer(buffer, game) else []
    assert len(table) == buffer.positions
    by_ply = {(row["game_uid"], row["ply"]): row for row in table}
    seed, size = 5, 2000  # draws with replacement: nearly every position
    observations, policy, value, ply, _, number, _ = buffer.sample_with_plies(
        size, seed, symmetry=False
    )
    *_, auxiliary = draw(buffer, size, seed, symmetry=False)
    seen = set()
    for row in range(size):
        key = (uids[number[row]], int(ply[row]))
        seen.add(key)
        read = by_ply[key]
        assert read["observation"] == observations[row].tobytes()
        assert np.float32(read["policy_target"]).tobytes() == policy[row].tobytes()
        assert np.float32(read["value_target"]) == value[row]
        numbers = [*read["opponent_policy"], *(read[name] for name in scalars)]
        np.testing.assert_array_equal(np.float32(numbers), auxiliary[row])
    assert len(seen) > 0.9 * len(table)
    held_out = {str(record.game_uid): is_held_out(record.game_uid, 0.3) for record in records}
    assert {row["game_uid"]: row["held_out"] for row in table}.items() <= held_out.items()
    spec = games.spec(GAME)
    about = json.loads((folder / "export.json").read_text())
    assert about["observation_shape"] == list(spec.observation_shape)
    assert about["auxiliary"] == {"opponent_policy": spec.num_actions} | dict.fromkeys(scalars, 1)


@pytest.mark.parametrize("file_format", ["parquet", "npz", "csv"])
def test_the_games_can_be_chosen(
    database_url: str,
    run_file: Path,
    records: list[GameRecord],
    tmp_path: Path,
    file_format: str,
) -> None:
    def uids(name: str, *options: object) -> list[str]:
        folder = tmp_path / name
        options = ("--format", file_format, "--folder", folder, *options)
        exported(run_file, "--database-url", database_url, *options)
        if file_format == "parquet":
            return pq.read_table(folder / "games")["game_uid"].to_pylist()
        if file_format == "npz":
            [path] = folder.glob("*.npz")
            return [uid.decode() for uid in np.load(path)["games.game_uid"]]
        [path] = (folder / "games").glob("*.csv")
        return [row["game_uid"] for row in csv_rows(path)]

    all_uids = [str(record.game_uid) for record in records]
    assert uids("limit", "--limit", 3) == all_uids[-3:]
    assert uids("most", "--limit", 99) == all_uids
    of_two = [str(record.game_uid) for record in records if record.columns.model_version[0] == 2]
    assert uids("model", "--model", 2) == of_two
    assert uids("both", "--model", 2, "--limit", 2) == of_two[-2:]


def test_games_stored_since_a_time(
    database_url: str, run_file: Path, records: list[GameRecord], tmp_path: Path
) -> None:
    with closing(psycopg2.connect(database_url)) as owner, owner, owner.cursor() as cursor:
        cursor.execute(
            "UPDATE games SET ingested_at = ingested_at - interval '2 days' WHERE game_uid <> %s",
            (str(records[4].game_uid),),
        )
        cursor.execute("SELECT max(ingested_at) FROM games")
        [(newest,)] = cursor.fetchall()
    since = (newest - timedelta(days=1)).isoformat()
    exported(
        run_file, "--since", since, "--folder", tmp_path / "new", "--database-url", database_url
    )
    read = pq.read_table(tmp_path / "new" / "games")["game_uid"].to_pylist()
    assert read == [str(records[4].game_uid)]
    day = (newest + timedelta(days=2)).date().isoformat()
    said = refused(run_file, "--since", day, "--database-url", database_url)
    assert said.startswith(f"the run 'c4' has no finished game stored since {day}T00:00:00+00:00")


def test_searches_that_were_deleted_and_games_that_cannot_be_read(
    database_url: str, run_file: Path, records: list[GameRecord], tmp_path: Path
) -> None:
    bad, gone = (str(records[place].game_uid) for place in (3, 6))
    with closing(psycopg2.connect(database_url)) as owner, owner, owner.cursor() as cursor:
        cursor.execute("DELETE FROM positions WHERE game_uid = %s", (gone,))
        cursor.execute(
            "UPDATE positions SET visit_counts = visit_counts[2:] WHERE game_uid = %s AND ply = 0",
            (bad,),
        )
    folder = tmp_path / "parquet"
    said = exported(run_file, "--folder", folder, "--database-url", database_url)
    assert f"game {bad} is skipped, it cannot be read: visit_counts does not fit" in said
    uids = pq.read_table(folder / "games")["game_uid"].to_pylist()
    assert uids == [str(each.game_uid) for each in records if str(each.game_uid) != bad]
    searched = pq.read_table(folder / "searches")["game_uid"].to_pylist()
    assert set(uids) - set(searched) == {gone}


@pytest.mark.parametrize(("game", "file_format"), [("othello", "sgf"), ("chess", "pgn")])
def test_records_of_games(database_url: str, tmp_path: Path, game: str, file_format: str) -> None:
    run_file = tmp_path / "run.toml"
    run_file.write_text(f'name = "r"\ngame = "{game}"\n')
    kept = sorted(
        (random_record(seed, game) for seed in (1, 2, 3)), key=lambda record: record.game_uid
    )
    with Database(database_url) as database:
        database.register_run(run_from_values({"name": "r", "game": {"name": game}}))
        for record in kept:
            database.submit_game("r", "w", Submission(record))
    folder = tmp_path / "records"
    said = exported(
        run_file, "--format", file_format, "--folder", folder, "--database-url", database_url
    )
    assert said.startswith("3 games, ")
    text = (folder / f"part-00000.{file_format}").read_text()
    lines = [
        CliRunner()
        .invoke(app, [file_format, str(run_file), str(r.game_uid), "--database-url", database_url])
        .stdout.rstrip("\n")
        for r in kept
    ]
    assert text == "\n\n".join(lines) + "\n\n"


def test_what_is_refused(
    database_url: str, run_file: Path, records: list[GameRecord], tmp_path: Path
) -> None:
    here = ("--database-url", database_url)
    full = tmp_path / "full"
    full.mkdir()
    (full / "file").touch()
    assert refused(run_file, "--folder", full, *here) == (
        f"--folder {full} is not empty: give a new or empty folder"
    )
    killed = tmp_path / "killed"
    (killed / ".incomplete").mkdir(parents=True)
    assert "holds an export that is in progress or was killed" in refused(
        run_file, "--folder", killed, *here
    )
    assert "cannot write to --folder" in refused(run_file, "--folder", full / "file" / "x", *here)
    target = ("--folder", tmp_path / "new")
    assert refused(run_file, "--model", 9, *target, *here) == (
        "the run 'c4' has no model 9: its models are 1 to 2"
    )
    assert "--since soon: give a date" in refused(run_file, "--since", "soon", *target, *here)
    assert "--planes needs --format parquet or npz, not csv" in refused(
        run_file, "--planes", "--format", "csv", *target, *here
    )
    assert "SGF is for go and othello" in refused(run_file, "--format", "sgf", *target, *here)
    other = tmp_path / "other.toml"
    other.write_text(f'name = "other"\ngame = "{GAME}"\n')
    assert "it has no run 'other'. Its runs: 'c4'" in refused(other, *target, *here)
    with Database(database_url) as database:
        database.register_run(run_from_values({"name": "other", "game": {"name": GAME}}))
    assert refused(other, *target, *here) == "the run 'other' has no finished game yet"
    unknown = CliRunner().invoke(app, ["export", str(run_file), "--format", "xls"])
    assert unknown.exit_code == 2
    assert not (tmp_path / "new").exists()


def test_without_pyarrow_one_line_names_the_extra(
    run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = refused(run_file, "--folder", tmp_path / "new", "--database-url", "postgresql://nowhere")
    assert said == "this needs pyarrow, which is not installed: pip install 'zerofleet[data]'"


@pytest.mark.parametrize("file_format", ["parquet", "npz", "csv"])
@pytest.mark.usefixtures("records")
def test_a_full_disk_leaves_nothing(
    database_url: str, run_file: Path, tmp_path: Path, file_format: str
) -> None:
    """The kernel refuses files beyond a size, as a full disk does."""
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
        "from zerofleet.cli import main; main()"
    )
    folder = tmp_path / "new"
    arguments = ["export", str(run_file), "--format", file_format, "--folder", str(folder)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--database-url", database_url],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"zerofleet: cannot write to --folder {folder}: File too large. Nothing was written: "
        "make room, or give another folder\n"
    )
    assert not folder.exists()


@pytest.mark.usefixtures("records", "small_pages")
def test_an_interrupted_export_leaves_nothing(
    database_url: str, run: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = ExportedGames.pages

    def interrupted(*arguments: Any) -> Iterator[Any]:
        page = next(pages(*arguments))
        yield page
        raise KeyboardInterrupt

    monkeypatch.setattr(ExportedGames, "pages", interrupted)
    empty = tmp_path / "empty"
    empty.mkdir()
    with ExportedGames(database_url) as database:
        for folder in (tmp_path / "new", empty):
            for file_format in ("parquet", "npz", "csv"):
                with pytest.raises(KeyboardInterrupt):
                    export_files.export_games(database, run, folder, file_format, GameChoice())
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["empty"]
    assert list(empty.iterdir()) == []
