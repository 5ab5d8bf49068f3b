"""A run in a notebook: ``zerofleet.open``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

import zerofleet
from tests.support.random_records import random_record
from zerofleet.config import run_from_values
from zerofleet.database import Database, Submission
from zerofleet.errors import ConfigError, IllegalActionError, InvalidRequestError
from zerofleet.games import State, names
from zerofleet.local.data_folder import DataFolder
from zerofleet.local.stores import joined
from zerofleet.local.trained_models import trained_models
from zerofleet.opened_run import BoardPicture


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DataFolder]:
    """A stopped run of tic-tac-toe with one model and three games."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        folder = trained_models()["tictactoe"].data_folder()
        run = folder.read_run()
        with (
            joined(folder, "test") as running,
            Database(running.database_urls["worker"]) as database,
        ):
            for seed in (1, 2, 3):
                database.submit_game(run.name, "w", Submission(random_record(seed)))
        yield folder


def test_a_stopped_run_is_read_played_and_stopped_again(folder: DataFolder) -> None:
    with zerofleet.open(folder.root) as run:
        assert repr(run) == f"<run tictactoe of tic_tac_toe in {folder.root}>"
        played = run.games()
        assert len(played) == 3
        assert str(played.finished_at.dtype).startswith("datetime64")
        assert run.games(limit=1).game_uid.tolist() == played.game_uid.tolist()[-1:]
        searches = run.searches()
        assert len(searches) == played.length.sum()
        record = random_record(2)
        mine = searches[searches.game_uid == str(record.game_uid)]
        assert mine.action.tolist() == record.columns.action.tolist()
        assert (
            mine.visit_counts.iloc[0]
            == record.columns.visit_counts[: len(mine.visit_counts.iloc[0])]
        ).all()
        assert run.models().version.tolist() == [1]
        assert run.curves().losses.empty
        count = run.sql("SELECT count(*) AS games FROM games WHERE run = :run").games.tolist()
        assert count == [3]
        with pytest.raises(InvalidRequestError, match="queries only read: "):
            run.sql("DELETE FROM games")
        with pytest.raises(InvalidRequestError, match='column "nothing" does not exist'):
            run.sql("SELECT nothing")
        action = run.play("b2 a2", simulations=50, seed=1)
        assert (action.run, action.version) == ("tictactoe", 1)
        analysis = run.analyze([4, 3], simulations=50, seed=1)
        assert analysis.search is not None
        assert analysis.search.best_action_string == action.action_string
        assert "circle" in analysis._repr_svg_()
        with zerofleet.open(folder.root) as another:  # at the same time
            assert len(another.games()) == 3
    assert not folder.is_held()
    run.close()
    with pytest.raises(ConfigError, match="the run tictactoe is closed: open it again"):
        run.games()


def test_a_folder_whose_stores_run(folder: DataFolder) -> None:
    with joined(folder, "test") as running, zerofleet.open(str(folder.root)) as run:
        assert len(run.games()) == 3
        run.close()
        with Database(running.database_urls["console"]) as database:
            assert database.count_games("tictactoe") == 3


def test_a_database(role_url: Callable[[str], str], database_url: str, tmp_path: Path) -> None:
    with Database(database_url) as database:
        for name in ("one", "two"):
            database.register_run(run_from_values({"name": name, "game": {"name": "connect_four"}}))
        database.submit_game("two", "w", Submission(random_record(5, "connect_four")))
    url = role_url("console")
    with pytest.raises(ConfigError, match=r"has several runs: name one of 'one', 'two'"):
        zerofleet.open(url)
    with pytest.raises(ConfigError, match=r"has no run 'three'\. Its runs: 'one', 'two'"):
        zerofleet.open(url, run="three")
    with zerofleet.open(url, run="two") as run:
        assert len(run.games()) == 1
        moves = run.games().moves[0]
        assert str(run.board(moves)).count("x") == (len(moves.split()) + 1) // 2
        with pytest.raises(ConfigError, match="a database has no inference service"):
            run.play("4")
        with pytest.raises(ConfigError, match="has no model 7"):
            run.searches(model=7)
    with (
        zerofleet.open(url, run="one") as run,
        pytest.raises(ConfigError, match="no finished game"),
    ):
        run.games()


def test_what_cannot_be_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="is not a data folder"):
        zerofleet.open(tmp_path)
    with pytest.raises(ConfigError, match="there is no run and no trained model 'nothing'"):
        zerofleet.open("nothing")
    with pytest.raises(ConfigError, match="are for the address of a database"):
        zerofleet.open(tmp_path, run="x")


def test_without_pandas_one_line_names_the_extra(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zerofleet.open(folder.root) as run:
        monkeypatch.setitem(sys.modules, "pandas", None)
        with pytest.raises(ConfigError, match=r"pip install 'zerofleet\[data\]'"):
            run.games()


@pytest.mark.parametrize("game", [*names(), "go(size=9)", "openspiel:hex(board_size=5)"])
def test_every_board_is_a_picture(game: str) -> None:
    first = State(game).legal_actions()[0]
    picture = ElementTree.fromstring(BoardPicture(game, (first,))._repr_svg_())
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"


def test_a_board_of_a_line(database: Database, role_url: Callable[[str], str]) -> None:
    with zerofleet.open(role_url("console")) as run:
        assert run.board([4, 0]) == run.board("b2 a1") == BoardPicture("tic_tac_toe", (4, 0))
        with pytest.raises(IllegalActionError, match="ply 1: 'b2'"):
            run.board("b2 b2")
