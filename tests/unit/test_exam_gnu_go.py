"""The exam against GNU Go: by a program in its place, and by itself where it is installed."""

import shutil
import stat
import sys
from pathlib import Path

import pytest

from zerofleet.config import run_from_values
from zerofleet.errors import ConfigError
from zerofleet.exam.gnu_go import GnuGoGames, play_gnu_go
from zerofleet.testing import HashPredictor

GAME = "go(size=5,komi=0.5,suicide=true)"
RUN = run_from_values({"name": "r", "game": GAME, "evaluator": {"opening_plies": 2}})
PASSES = """#!{python}
import pathlib, sys
pathlib.Path({told!r}).open("a").write(" ".join(sys.argv[1:]) + chr(10))
for line in sys.stdin:
    print("= pass" if line.startswith("genmove") else "=", end=chr(10) * 2, flush=True)
"""


async def test_who_always_passes_loses_the_board(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network's side fills the board, so its margin is what the openings leave it."""
    program, told = tmp_path / "gnugo", tmp_path / "told"
    program.write_text(PASSES.format(python=sys.executable, told=str(told)))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = await play_gnu_go(RUN, HashPredictor(GAME), level=7, games=4, num_simulations=2)
    assert (ended.level, ended.games, len(ended.margins)) == (7, 4, 4)
    assert all(-25 <= margin <= 25 for margin in ended.margins)
    # Komi is half a point, so whoever has more area has won.
    assert ended.wins == sum(margin > 0 for margin in ended.margins)
    [command] = set(told.read_text().splitlines())
    assert "--level 7" in command
    assert "--never-resign" in command


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


@pytest.mark.skipif(shutil.which("gnugo") is None, reason="gnugo is not installed")
async def test_gnu_go_itself_plays_to_the_end() -> None:
    ended = await play_gnu_go(RUN, HashPredictor(GAME), level=1, games=4, num_simulations=2)
    assert len(ended.margins) == 4
    assert ended.wins < 4
