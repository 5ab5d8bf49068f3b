"""The exam against GNU Go: by a program in its place, and by itself where it is installed."""

import json
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.predictors import HashPredictor
from zerofleet.cli.exam import _examine, _ExamRequest, _InProcess
from zerofleet.config import RunConfig, run_from_values
from zerofleet.database import Database
from zerofleet.errors import ConfigError
from zerofleet.exam.gnu_go import GnuGoGames, play_gnu_go
from zerofleet.gtp.protocol import GtpError
from zerofleet.prediction import Prediction

GAME = "go(size=5,komi=0.5,suicide=true)"
# Without decisive moves, for who leads would answer a pass with one and have won.
RUN = run_from_values(
    {
        "name": "r",
        "game": GAME,
        "search": {"decisive_moves": False},
        "evaluator": {"opening_plies": 2},
    }
)
ANSWERS = """#!{python}
import pathlib, sys
def tell(line):
    with pathlib.Path({told!r}).open("a") as told:
        told.write(line + chr(10))
tell(" ".join(sys.argv[1:]))
for line in sys.stdin:
    print("= {move}" if line.startswith("genmove") else "=", end=chr(10) * 2, flush=True)
tell("ended")
"""


class FillsTwoRows:
    """A predictor that would play the first ten points, in their order, and then pass."""

    version = 2

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        logits = np.zeros((len(observations), 26), np.float16)
        logits[:, :10] = np.arange(200, 100, -10)
        logits[:, 25] = 50
        return Prediction(logits, np.zeros(len(observations), np.float32), 1)


@pytest.fixture
def gnugo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Put a program in its place that answers always the same; where it tells what happens."""
    program, told = tmp_path / "gnugo", tmp_path / "told"

    def answers(move: str) -> Path:
        program.write_text(ANSWERS.format(python=sys.executable, told=str(told), move=move))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path))
        return told

    return answers


async def test_who_always_passes_loses_the_board(
    gnugo: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = gnugo("pass")
    monkeypatch.setattr("zerofleet.exam.gnu_go._PAIRS_AT_ONCE", 1)
    over: list[tuple[int, int]] = []
    ended = await play_gnu_go(
        RUN, FillsTwoRows(), 7, 4, num_simulations=2, report=lambda *games: over.append(games)
    )
    assert over == [(2, 4), (4, 4)]
    assert (ended.level, ended.games, ended.wins, ended.draws) == (7, 4, 4, 0)
    # Ten stones at least against one, by either colour; the whole board where that was captured.
    assert len(ended.margins) == 4
    assert all(margin >= 8 for margin in ended.margins)
    lines = heard.read_text().splitlines()
    assert [line == "ended" for line in lines] == [False, False, True, True] * 2  # a pair at once
    [command] = set(lines) - {"ended"}
    assert "--level 7" in command
    assert "--never-resign" in command


def run_with_two_models(database: Database) -> RunConfig:
    run = RUN.model_copy(update={"name": "go"})
    database.register_run(run)
    epoch = database.acquire_fence("go", "trainer")
    for version in (1, 2):
        database.insert_model("go", version, f"{version:064x}", 9, {}, "where", epoch)
    return run


async def test_the_command_keeps_what_it_prints(
    gnugo: Callable[[str], Path], database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    gnugo("pass")
    run = run_with_two_models(database)
    asked = _ExamRequest(run, 2, positions=1, perfect_play=None, gnugo=4, levels=(1, 10))
    await _examine(asked, cast("_InProcess", FillsTwoRows()), database, as_json=True)
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for level, told, row in zip((1, 10), printed, database.exams("go"), strict=True):
        assert (row.version, row.kind, row.num_simulations) == (2, f"gnugo:{level}", 2)
        assert (row.positions, row.errors, row.error_rate) == (4, 0, 0)
        assert (row.figures.wins, row.figures.draws, row.figures.given_away) == (4, 0, None)
        assert (row.figures.margin or 0) >= 8
        assert (row.figures.even_komi or 0) <= -8
        assert told["wins"] == 4
        for name in ("kind", "errors"):
            assert told[name] == getattr(row, name)
        for name in ("margin", "even_komi"):
            assert told[name] == getattr(row.figures, name)


async def test_the_table_has_error_rates_in_percent(
    gnugo: Callable[[str], Path], database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    gnugo("pass")
    run = run_with_two_models(database)
    asked = _ExamRequest(run, 2, positions=1, perfect_play=None, gnugo=2, levels=(1,))
    await _examine(asked, cast("_InProcess", FillsTwoRows()), database, as_json=False)
    assert capsys.readouterr().out.split()[:6] == ["2", "gnugo:1", "2", "2", "0", "0.00%"]


async def test_who_gives_up_before_the_first_action_is_named(
    gnugo: Callable[[str], Path],
) -> None:
    gnugo("resign")
    values = {"name": "r", "game": GAME, "evaluator": {"opening_plies": 0}}
    with pytest.raises(GtpError, match="gnugo lost before the first action: resigned"):
        await play_gnu_go(run_from_values(values), FillsTwoRows(), 1, 2, 1)


async def test_a_game_that_is_given_up_is_won_and_has_no_margin(
    gnugo: Callable[[str], Path],
) -> None:
    gnugo("resign")
    ended = await play_gnu_go(RUN, FillsTwoRows(), 1, 4, num_simulations=2)
    assert (ended.games, ended.wins, ended.given_up, ended.margins) == (4, 4, 4, ())


def test_the_komi_of_an_even_score_is_what_half_of_the_games_lacked() -> None:
    ended = GnuGoGames(level=1, games=4, wins=1, draws=0, margins=(-30, -10, 4, -20))
    assert ended.mean_margin == -14
    assert ended.even_komi == 15
    assert sum(margin + ended.even_komi > 0 for margin in ended.margins) == 2
    assert GnuGoGames(1, 2, 2, 0, ()).even_komi is None


async def test_without_the_program_or_the_game_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="apt-get install gnugo"):
        await play_gnu_go(RUN, HashPredictor(GAME), 1, 2, 1)
    other = run_from_values({"name": "r", "game": "connect_four"})
    with pytest.raises(ConfigError, match="GNU Go does not play connect_four"):
        await play_gnu_go(other, HashPredictor("connect_four"), 1, 2, 1)


@pytest.mark.skipif(
    shutil.which("gnugo") is None, reason="needs gnugo (Debian: apt-get install gnugo)"
)
async def test_gnu_go_itself_plays_to_the_end() -> None:
    ended = await play_gnu_go(RUN, HashPredictor(GAME), level=1, games=4, num_simulations=2)
    assert len(ended.margins) == 4
    assert ended.wins < 4
