"""Export stored games of chess from the database as PGN."""

from __future__ import annotations

import io
from pathlib import Path

import chess.pgn
import pytest
from typer.testing import CliRunner

from tests.support.random_records import changed, random_record, resigned_record
from zerofleet.cli import app
from zerofleet.config import run_from_values
from zerofleet.database import Database, MatchGame, Submission
from zerofleet.database.played_games import record_format
from zerofleet.errors import ConfigError
from zerofleet.games.chess import centipawns
from zerofleet.games.pgn_text import read_pgn
from zerofleet.records import GameRecord

GAME = "chess(max_length=40)"


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(f'name = "small"\ngame = "{GAME}"\n')
    return path


@pytest.fixture
def records(database_url: str) -> list[GameRecord]:
    """Two stored games; the second one was resigned."""
    stored = [random_record(1, GAME, model_version=3), resigned_record(3, 7, GAME)]
    with Database(database_url) as database:
        database.register_run(run_from_values({"name": "small", "game": {"name": GAME}}))
        for record in stored:
            assert database.submit_game("small", "w", Submission(record)) == "stored"
    return stored


def wrote(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["pgn", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_games_as_python_chess_reads_them(
    database_url: str, run_file: Path, records: list[GameRecord]
) -> None:
    text = wrote(run_file, "--last", 2, "--database-url", database_url)
    resigned, whole = read_pgn(text, GAME)
    assert list(whole.actions) == records[0].columns.action.tolist()
    assert list(resigned.actions) == records[1].columns.action.tolist()
    assert resigned.result == records[1].result
    assert resigned.tags["Termination"] == whole.tags["Termination"] == "normal"

    source = io.StringIO(text)
    assert chess.pgn.read_game(source) is not None
    game = chess.pgn.read_game(source)
    assert game is not None
    assert not game.errors
    assert game.headers["White"] == game.headers["Black"] == "small 3"
    assert game.headers["GameId"] == str(records[0].game_uid)
    # A move's evaluation is the value of the position after it, from White's side.
    evaluated = [node.eval() for node in game.mainline()]
    values = records[0].columns.root_value[1:4] * (-1, 1, -1)
    assert [each.white().score() for each in evaluated[:3] if each] == [
        centipawns(value) for value in values
    ]
    assert evaluated[-1] is None


def test_files_and_other_games(
    database_url: str, run_file: Path, records: list[GameRecord], tmp_path: Path
) -> None:
    folder = tmp_path / "games"
    assert wrote(run_file, "--last", 2, "--folder", folder, "--database-url", database_url) == ""
    names = {f"{record.game_uid}.pgn" for record in records}
    assert {path.name for path in folder.iterdir()} == names
    run_file.write_text('name = "small"\ngame = "othello"\n')
    options = [str(run_file), "--last", "1", "--database-url", database_url]
    refused = CliRunner().invoke(app, ["pgn", *options]).exception
    assert isinstance(refused, ConfigError)
    assert str(refused) == "PGN is for chess, not for 'othello'"


def test_each_game_has_its_format() -> None:
    found = {game: record_format(game) for game in ("go(size=5)", "othello", GAME, "connect_four")}
    assert {game: each and each.suffix for game, each in found.items()} == {
        "go(size=5)": "sgf",
        "othello": "sgf",
        GAME: "pgn",
        "connect_four": None,
    }


@pytest.mark.parametrize(
    ("color", "forfeit"), [(0, None), (1, None), (1, "forfeit at ply 7: 'e9' is not a move")]
)
def test_a_game_of_a_match_has_its_players_and_its_end(
    database_url: str, run_file: Path, records: list[GameRecord], color: int, forfeit: str | None
) -> None:
    record = random_record(9, GAME, model_version=3)
    if forfeit is not None:
        record = resigned_record(9, 7, GAME)
    versions = record.columns.model_version.copy()
    versions[1 - color :: 2] = 0  # the engine moves on these plies
    record = changed(record, model_version=versions)
    engine = "uci:stockfish?UCI_LimitStrength=true&UCI_Elo=1350"
    with Database(database_url) as database:
        trainer = database.acquire_fence("small", "trainer")
        database.insert_model("small", 3, f"{3:064x}", 3, {}, "m", trainer)
        epoch = database.acquire_fence("small", "evaluator")
        match = database.open_match(
            "small", "trial", "3", engine, games=2, num_simulations=10, seed=1, epoch=epoch
        )
        games = [MatchGame(0, color, record, forfeit)]
        database.record_match_games("small", "e", match.match_id, games, epoch=epoch)
    [game] = read_pgn(wrote(run_file, "--last", 1, "--database-url", database_url), GAME)
    players = game.tags["White"], game.tags["Black"]
    assert players == (("small 3", engine) if color == 0 else (engine, "small 3"))
    assert game.tags["Termination"] == ("normal" if forfeit is None else "rules infraction")
