"""What a person gets for a mistake: one line that names it, exit status 2, and no traceback."""

import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from zerofleet.cli import main
from zerofleet.config import load_run
from zerofleet.local.data_folder import DataFolder

RUNS = Path(__file__).parents[2] / "runs"
TICTACTOE = str(RUNS / "tictactoe.toml")
RUN = '[game]\nname = "tic_tac_toe"\n'

Zerofleet = Callable[..., tuple[int, str]]


@pytest.fixture
def zerofleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Zerofleet:
    """Run a command in an empty folder; its exit status and what it wrote to stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "environ", os.environ.copy())

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["zerofleet", *arguments])
        with pytest.raises(SystemExit) as leaving:
            main()
        assert isinstance(leaving.value.code, int)
        return leaving.value.code, capsys.readouterr().err

    return run


def complaint(answer: tuple[int, str]) -> str:
    status, errors = answer
    assert status == 2
    assert errors.startswith("zerofleet: ")
    assert errors.count("\n") == 1
    return errors


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read the run file run.toml: No such file"),
        ("name = ", "run.toml is not a TOML file"),
        (RUN, "the key 'name' is missing"),
        ('name = "a"\n[gmae]\nname = "x"', "unknown key 'gmae': did you mean 'game'?"),
        (f'name = "a"\n{RUN}[search]\nnum_simulation = 5', "'search.num_simulations'"),
        (f'name = "a"\n{RUN}[search]\nnum_simulations = 0', "greater than or equal to 1"),
        ('name = "a"\n[game]\nname = "tic_tac_to"', "tic_tac_toe"),
        (f'name = "a"\npreset = ["fast"]\n{RUN}', "run.toml: preset = ['fast']: Input should be"),
        (f'name = "a"\npreset = {{a = 1}}\n{RUN}', "'fast', 'agz' or 'plain'"),
        (f'name = "a"\npreset = "quick"\n{RUN}', "preset = 'quick': Input should be 'fast'"),
        (
            f'name = "a"\n{RUN}[evaluator]\nsprt_elo = [5, 0]',
            "evaluator: sprt_elo = [5.0, 0.0]",
        ),
    ],
)
def test_run_files(zerofleet: Zerofleet, content: str | None, words: str) -> None:
    if content is not None:
        Path("run.toml").write_text(content)
    assert words in complaint(zerofleet("up", "run.toml"))
    assert not Path("zerofleet-data").exists()


def test_a_run_file_with_a_name_like_it(zerofleet: Zerofleet) -> None:
    asked = str(RUNS / "connect4.toml")
    assert f"did you mean {RUNS / 'connect_four.toml'}?" in complaint(zerofleet("up", asked))


def test_the_name_of_no_run_file(zerofleet: Zerofleet) -> None:
    said = complaint(zerofleet("up", "conect_four"))
    assert "zerofleet comes with chess, connect_four" in said
    assert not Path("zerofleet-data").exists()


def test_a_run_file_that_zerofleet_comes_with_needs_no_path(zerofleet: Zerofleet) -> None:
    assert "runs/chess.toml states no goal" in complaint(
        zerofleet("up", "chess", "--until", "goal")
    )
    Path("chess").write_text("name = 1\ngame = 'tic_tac_toe'")  # one's own comes first
    assert "runs/chess.toml" not in complaint(zerofleet("up", "chess", "--until", "goal"))


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("search", "give KEY=VALUE"),
        ("serach.c_puct=2", "did you mean 'search'?"),
        ("search.cpuct=2", "did you mean 'search.c_puct'?"),
        ("search.c_puct=-1", "greater than 0"),
        ("rating.anchors=random", '\'random\': give JSON, such as ["random", "search"]'),
        ("evaluator.sprt_elo=0,5", "'0,5': give JSON, such as [0.0, 35.0]"),
        ("search=abc", "ZEROFLEET_SEARCH__KEY=VALUE"),
        ("rating.opponents=[1, 0.5]", "rating.opponents.1 = 0.5"),
        ("preset=quick", "'fast', 'agz' or 'plain'"),
    ],
)
def test_settings(zerofleet: Zerofleet, setting: str, words: str) -> None:
    answer = complaint(zerofleet("up", TICTACTOE, "--set", setting))
    assert words in answer
    if "=" in setting and "did you mean 'search'" not in words:
        assert f"ZEROFLEET_{setting.partition('=')[0].replace('.', '__').upper()} (" in answer
        assert "tictactoe.toml" not in answer


def test_a_mistake_in_the_file_is_the_files(zerofleet: Zerofleet) -> None:
    Path("run.toml").write_text(f'name = "a"\n{RUN}[search]\nc_puct = -1')
    os.environ["ZEROFLEET_SEARCH"] = '{"num_simulations": 5}'
    assert "run.toml: search.c_puct = -1" in complaint(zerofleet("up", "run.toml"))


def test_sgf_options(zerofleet: Zerofleet) -> None:
    status, errors = zerofleet("sgf", TICTACTOE, "--last", "9" * 20)
    assert status == 2
    assert "Invalid value for '--last'" in errors.splitlines()[-1]


def test_a_goal_must_be_stated(zerofleet: Zerofleet) -> None:
    Path("run.toml").write_text(f'name = "a"\n{RUN}')
    assert "states no goal" in complaint(zerofleet("up", "run.toml", "--until", "goal"))


def test_a_port_in_use(zerofleet: Zerofleet) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        words = complaint(zerofleet("up", TICTACTOE, "--port", str(port)))
    assert f"port {port} cannot be used: Address already in use" in words


def test_stores_that_do_not_answer(zerofleet: Zerofleet) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    options = ("--redis-url", "redis://127.0.0.1:1/0")
    words = complaint(zerofleet("up", TICTACTOE, "--database-url", nowhere, *options))
    assert "Postgres at 127.0.0.1:1 does not answer" in words
    words = complaint(zerofleet("up", TICTACTOE, "--data", "d", "--database-url", "x", *options))
    assert "not one of Postgres" in words
    assert "does not answer" in complaint(zerofleet("migrate", "--database-url", nowhere))


def test_a_record_that_is_elsewhere(zerofleet: Zerofleet) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:{}/none"
    options = ("--redis-url", "redis://127.0.0.1:1/0", "--database-url")
    words = complaint(zerofleet("up", TICTACTOE, *options, nowhere.format(1)))
    assert "does not answer" in words
    stores = Path("zerofleet-data/tictactoe/stores.json")
    assert not stores.exists()  # an address that never answered is not the record's

    stores.write_text(json.dumps({"database_url": nowhere.format(1), "redis_url": None}))
    assert "does not answer" in complaint(zerofleet("up", TICTACTOE))
    words = complaint(zerofleet("up", TICTACTOE, *options, nowhere.format(2)))
    assert "this run's record is at another address" in words


@pytest.mark.parametrize(
    ("game", "options", "words"),
    [
        ("go", (), "perfect play of go is not known: there is no exam, but games against GNU Go"),
        ("breakthrough", (), "perfect play of breakthrough is not known: there is no exam\n"),
        ("go", ("--gnugo-level", "3"), "--gnugo-level 3 says nothing of how many games: add --gnu"),
    ],
)
def test_an_exam_that_there_is_not(
    zerofleet: Zerofleet, tmp_path: Path, game: str, options: tuple[str, ...], words: str
) -> None:
    (tmp_path / "run.toml").write_text(f'name = "a"\ngame = "{game}"\n')
    folder = DataFolder.for_run(tmp_path / "data", load_run(tmp_path / "run.toml"))
    folder.run_file.write_bytes((tmp_path / "run.toml").read_bytes())
    assert words in complaint(zerofleet("exam", "--data", "data", *options))


@pytest.mark.parametrize("command", ["status", "sql", "play", "exam"])
def test_there_must_be_a_data_folder(zerofleet: Zerofleet, command: str) -> None:
    assert "no data folder under zerofleet-data/" in complaint(zerofleet(command))
    assert "is not a data folder" in complaint(zerofleet(command, "--data", "nothing"))


def test_data_folders_of_others(zerofleet: Zerofleet) -> None:
    marker = Path("data/zerofleet.json")
    marker.parent.mkdir()
    marker.write_text('{"format": 1, "run": "other", "game": "connect_four"}')
    words = complaint(zerofleet("up", TICTACTOE, "--data", "data"))
    assert "belongs to the run 'other' of connect_four, not to 'tictactoe'" in words
    marker.write_text('{"format": 9, "run": "tictactoe", "game": "tic_tac_toe"}')
    assert "newer zerofleet" in complaint(zerofleet("up", TICTACTOE, "--data", "data"))
    assert "newer zerofleet" in complaint(zerofleet("status", "--data", "data"))


def test_a_folder_in_use(zerofleet: Zerofleet) -> None:
    folder = DataFolder.for_run(Path("data"), load_run(Path(TICTACTOE)))
    with folder.hold("up"):
        words = complaint(zerofleet("up", TICTACTOE, "--data", "data"))
    assert f"in use by `zerofleet up` (process {os.getpid()})" in words


@pytest.mark.parametrize("command", ["play", "gtp"])
def test_an_address_without_a_port(zerofleet: Zerofleet, command: str) -> None:
    words = complaint(zerofleet(command, "--address", "127.0.0.1"))
    assert "--address 127.0.0.1: give HOST:PORT" in words


def test_play_over_an_address_needs_a_game(zerofleet: Zerofleet) -> None:
    both = zerofleet("play", "--address", "127.0.0.1:1", "--data", "zerofleet-data/a")
    assert "are two services: give one" in complaint(both)
    assert "give --game" in complaint(zerofleet("play", "--address", "127.0.0.1:1"))
    words = complaint(zerofleet("play", "--address", "127.0.0.1:1", "--game", "chess"))
    assert "chess" in words
    words = complaint(zerofleet("play", "--address", "127.0.0.1:1", "--game", "tic_tac_toe"))
    assert "127.0.0.1:1" in words


@pytest.mark.parametrize("arguments", [("fly",), ("up",), ("up", TICTACTOE, "--until", "noon")])
def test_usage(zerofleet: Zerofleet, arguments: tuple[str, ...]) -> None:
    status, errors = zerofleet(*arguments)
    assert status == 2
    assert "Error: " in errors.splitlines()[-1]


def test_a_class_that_is_no_game_is_noticed_before_anything_starts(zerofleet: Zerofleet) -> None:
    Path("shares_its_board.py").write_text(
        "from examples.domineering import Domineering\n"
        "class Shares(Domineering):\n"
        "    def copy(self):\n"
        "        twin = super().copy()\n"
        "        twin.covered = self.covered\n"
        "        return twin\n"
    )
    Path("run.toml").write_text('name = "mine"\ngame = "python:shares_its_board:Shares"\n')
    words = complaint(zerofleet("up", "run.toml"))
    assert "on a copy changed it: copy() must copy each array and list too" in words
    assert "docs/your-own-game.md says what each method does" in words
    assert not Path("zerofleet-data").exists()
