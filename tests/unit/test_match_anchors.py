"""Anchors: chance, the bare search, programs from outside, and GNU Go where it is."""

import asyncio
import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest
from zerofleet_core import SearchConfig

from tests.support.predictors import HashPredictor
from zerofleet.config import SearchSection, run_from_values
from zerofleet.database import MatchGame
from zerofleet.engine_process import EngineGoneError
from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.gtp.protocol import GtpError
from zerofleet.match.anchors import RandomPlayer, anchor_player, why_absent
from zerofleet.match.play_match import (
    GaveUp,
    MatchPlayer,
    PairQueue,
    SearchPlayer,
    draw_openings,
    play_match,
)
from zerofleet.match.program_players import GtpPlayer, set_up_commands
from zerofleet.search_configs import match_search

ENGINE = Path(__file__).with_name("outside_program.py")


def search(simulations: int) -> SearchConfig:
    return match_search(SearchSection(root="puct"), simulations)


async def anchor(name: str, game: str, seed: int = 1, *, stack: AsyncExitStack) -> MatchPlayer:
    return anchor_player(name, game, 100, seed, stack, asyncio.Semaphore(2), ())


async def played(
    game: str, players: tuple[MatchPlayer, MatchPlayer], openings: list[list[int]]
) -> dict[tuple[int, int], MatchGame]:
    """Every game of the openings, with both players moving first."""
    kept: dict[tuple[int, int], MatchGame] = {}

    async def keep(games: Sequence[MatchGame]) -> None:
        kept.update({(each.opening, each.color): each for each in games})

    places = [(opening, color) for opening in range(len(openings)) for color in (0, 1)]
    async with asyncio.timeout(120):
        await play_match(game, openings, players, PairQueue(places, 100), keep)
    assert kept.keys() == set(places)
    return kept


def points(games: dict[tuple[int, int], MatchGame]) -> float:
    """Share of points that the first of the players took."""
    results = [(each.record.result or 0) * (1 - 2 * each.color) for each in games.values()]
    return float(np.mean([(1 + result) / 2 for result in results]))


@pytest.mark.parametrize("game", ["connect_four", "tic_tac_toe"])
async def test_the_bare_search_beats_chance(game: str) -> None:
    async with AsyncExitStack() as stack:
        players = (
            await anchor("search", game, stack=stack),
            await anchor("random", game, stack=stack),
        )
        assert points(await played(game, players, draw_openings(game, 1, 5, seed=1))) > 0.7


async def test_equal_seeds_give_equal_games() -> None:
    game = "connect_four"
    openings = draw_openings(game, 2, 2, seed=3)
    model = SearchPlayer(HashPredictor(game), search(16))
    games = [await played(game, (model, RandomPlayer(game, seed)), openings) for seed in (1, 1, 2)]
    moves = [{p: each.record.columns.action.tolist() for p, each in some.items()} for some in games]
    assert moves[0] == moves[1] != moves[2]


async def test_chance_plays_each_legal_action_as_often() -> None:
    """3,000 draws of seven actions: one is drawn 429 times, with a deviation of 19."""
    player = RandomPlayer("connect_four", 5)
    drawn = Counter([await player.choose((opening, 0), [3]) for opening in range(3_000)])
    assert drawn.keys() == set(State("connect_four", [3]).legal_actions())
    assert all(abs(times - 3_000 / 7) < 5 * 19 for times in drawn.values())


@pytest.mark.parametrize("name", ["", "rando", "gnugo", "gnugo:0", "gnugo:11", "gnugo:1x"])
def test_an_unknown_anchor_is_refused_with_those_there_are(name: str) -> None:
    values = {"name": "r", "game": "tic_tac_toe"}
    run_from_values({**values, "rating": {"anchors": ["gnugo:10", "random"]}})
    with pytest.raises(ValueError, match=f"'{name}' is not an anchor: give random, search, gnugo"):
        run_from_values({**values, "rating": {"anchors": [name]}})


def test_anchors_that_cannot_play_say_why(monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_absent("random", "tic_tac_toe", ()) is None
    assert why_absent("gnugo:1", "tic_tac_toe", ()) == "GNU Go does not play tic_tac_toe"
    monkeypatch.setenv("PATH", "")
    assert "not on PATH: install GNU Go" in (why_absent("gnugo:1", "go(size=9)", ()) or "")


async def test_an_anchor_that_cannot_play_is_refused() -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(ConfigError, match="GNU Go does not play tic_tac_toe"):
            await anchor("gnugo:1", "tic_tac_toe", stack=stack)


def program(habit: str, programs: AsyncExitStack, thinking: asyncio.Semaphore) -> GtpPlayer:
    command = [sys.executable, str(ENGINE), habit]
    return GtpPlayer("tic_tac_toe", command, ["clear_board"], programs, thinking)


async def test_programs_of_all_players_share_the_turns_to_think() -> None:
    class Turns(asyncio.Semaphore):
        taken = 0

        def release(self) -> None:
            self.taken += 1
            super().release()

    turns = Turns(1)
    async with AsyncExitStack() as programs:
        players = [program("plays", programs, turns) for _ in range(2)]
        answers = await asyncio.gather(
            *(player.choose((opening, 0), []) for player in players for opening in range(2))
        )
    assert answers == [0, 0, 0, 0]
    assert turns.taken == 4


@pytest.mark.parametrize(
    ("habit", "remark"),
    [
        ("plays", None),
        ("resigns", None),
        ("cheats", "forfeit at ply 1: 'a1' is not a legal move"),
        ("refuses", "forfeit at ply 0: refused a1: illegal move"),
    ],
)
async def test_a_program_from_outside(habit: str, remark: str | None) -> None:
    """The opening is the corner a1; the other player is chance."""
    async with AsyncExitStack() as programs:
        outside = program(habit, programs, asyncio.Semaphore(2))
        games = await played("tic_tac_toe", (RandomPlayer("tic_tac_toe", 1), outside), [[0]])
    for (_, color), game in games.items():
        if habit == "plays":
            assert (game.record.reason, game.remark) == ("rules", None)
            continue
        assert game.record.reason == "resign"
        assert game.record.result == (1 if color == 0 else -1)
        if remark is None:
            assert game.remark is None
        elif color == 0:  # the program answers the opening
            assert game.remark is not None
            assert game.remark.startswith(remark)


async def test_a_program_that_ends_is_started_once_more_for_its_move(tmp_path: Path) -> None:
    """It is told the game so far."""
    command = [sys.executable, str(ENGINE), "dies once", str(tmp_path / "died")]
    async with AsyncExitStack() as programs:
        outside = GtpPlayer("tic_tac_toe", command, ["clear_board"], programs, asyncio.Semaphore(1))
        games = await played("tic_tac_toe", (RandomPlayer("tic_tac_toe", 1), outside), [[4, 0]])
    assert [game.remark for game in games.values()] == [None] * 2
    assert (tmp_path / "died").exists()


async def test_a_program_that_ends_again_ends_the_match(tmp_path: Path) -> None:
    script = f"echo >> {tmp_path}/began; read line; printf '=\\n\\n'; read line"
    async with AsyncExitStack() as programs:
        outside = GtpPlayer(
            "tic_tac_toe", ["sh", "-c", script], ["clear_board"], programs, asyncio.Semaphore(1)
        )
        with pytest.raises(EngineGoneError, match="sh ended during 'genmove black'"):
            await outside.choose((0, 0), [])
    assert len((tmp_path / "began").read_text()) == 2


async def test_gtp_sets_up_positions_of_go_only() -> None:
    async with AsyncExitStack() as programs:
        with pytest.raises(GtpError, match="GTP has no commands for a start position of tic_"):
            await program("plays", programs, asyncio.Semaphore(1)).choose((0, 0), [], "x2/3/3 o")


@pytest.mark.parametrize("habit", ["resigns", "babbles"])
async def test_no_game_without_an_action_is_given_up(habit: str) -> None:
    """There is no record of it, so such a program plays nothing."""
    async with AsyncExitStack() as programs:
        outside = program(habit, programs, asyncio.Semaphore(2))
        with pytest.raises(GtpError, match="before the first action"):
            await outside.choose((0, 1), [])


def left(folder: Path) -> int:
    """How many programs have taken their leave."""
    return len(list(folder.glob("*.gone")))


async def test_programs_are_ended_together(tmp_path: Path) -> None:
    """Each takes its leave only when the other was told to as well."""
    script = (
        'i=0; while [ $i -lt 3 ]; do read line; printf "=\\n\\n"; i=$((i+1)); done; '
        f"read quit; touch {tmp_path}/$$.told; "
        f'while [ "$(ls {tmp_path} | grep -c told)" -lt 2 ]; do sleep 0.01; done; '
        f"touch {tmp_path}/$$.gone"
    )
    async with AsyncExitStack() as processes:
        outside = GtpPlayer(
            "tic_tac_toe", ["sh", "-c", script], ["clear_board"], processes, asyncio.Semaphore(2)
        )
        answers = await asyncio.gather(*(outside.choose((i, 0), [4]) for i in range(2)))
        assert all(isinstance(answer, GaveUp) for answer in answers)
    assert left(tmp_path) == 2


def test_a_start_position_is_set_up_stone_by_stone() -> None:
    assert set_up_commands("go(size=5)", "") == []
    assert set_up_commands("go(size=5)", "X4/1O3/5/5/5 O") == ["play black A5", "play white B4"]


async def test_a_program_is_told_the_start_position(tmp_path: Path) -> None:
    """Stones first, then the moves with the colours that they have there."""
    heard = tmp_path / "heard"
    script = f'while read line; do echo "$line" >> {heard}; printf "= A1\\n\\n"; done'
    async with AsyncExitStack() as processes:
        outside = GtpPlayer(
            "go(size=5)", ["sh", "-c", script], ["clear_board"], processes, asyncio.Semaphore(1)
        )
        assert await outside.choose((0, 0), [12], "X4/1O3/5/5/5 O") == 20
    commands = heard.read_text().splitlines()[:5]
    assert commands == [
        "clear_board", "play black A5", "play white B4", "play white C3", "genmove black"
    ]  # fmt: skip


@pytest.mark.skipif(
    shutil.which("gnugo") is None, reason="needs gnugo (Debian: apt-get install gnugo)"
)
async def test_gnu_go_plays_whole_games_by_our_rules() -> None:
    game = "go(size=5,komi=0.5,suicide=true)"
    async with AsyncExitStack() as stack:
        players = (RandomPlayer(game, 5), await anchor("gnugo:1", game, stack=stack))
        games = await played(game, players, draw_openings(game, 2, 2, seed=1))
    assert points(games) < 0.5
    assert [each.remark for each in games.values()] == [None] * 4
