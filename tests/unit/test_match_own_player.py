"""A user's own class as a player of matches: its calls, and the effect of its errors."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from examples.greedy import Greedy
from tests.unit.test_match_anchors import played, points
from zerofleet.config import EngineName, check_anchor, run_from_values
from zerofleet.engine_process import EngineError, EngineGoneError
from zerofleet.errors import ConfigError
from zerofleet.games import State
from zerofleet.match.anchors import RandomPlayer, anchor_player, why_absent
from zerofleet.match.play_match import GaveUp, draw_openings
from zerofleet.match.program_players import PythonPlayer
from zerofleet.own_player import load_own_player

GAME = "tic_tac_toe"
BOXES = "python:examples.dots_and_boxes:DotsAndBoxes"
MODULE = "python:tests.unit.own_players"


def player(stack: AsyncExitStack, kind: str, timeout: float = 60.0) -> PythonPlayer:
    return PythonPlayer(GAME, f"{MODULE}:{kind}", stack, asyncio.Semaphore(2), timeout)


def test_a_name_is_the_class() -> None:
    name = "python:my.players:Greedy"
    found = EngineName.of(name)
    assert found == EngineName("python", name)
    run_from_values({"name": "r", "game": GAME, "rating": {"anchors": [name]}})
    for wrong in ("python:", "python:mine", "python:a b:C", "python:a:C;x", "python:a/b:C"):
        with pytest.raises(ValueError, match=r"is not an anchor: give .* or python:MODULE:CLASS"):
            check_anchor(wrong)


async def test_a_name_is_no_permission() -> None:
    name = f"{MODULE}:First"
    assert "may not start" in (why_absent(name, GAME, ()) or "")
    assert "may not start" in (why_absent(name, GAME, {f"{MODULE}:Hangs", "tests"}) or "")
    assert why_absent(name, GAME, {name}) is None
    async with AsyncExitStack() as stack:
        with pytest.raises(ConfigError, match="add it to ZEROFLEET_ENGINES"):
            anchor_player(name, GAME, 1, 1, stack, asyncio.Semaphore(1), ())


async def test_a_class_plays_whole_games() -> None:
    """Output of the class is harmless."""
    async with AsyncExitStack() as stack:
        outside = anchor_player(
            f"{MODULE}:First", GAME, 1, 1, stack, asyncio.Semaphore(2), {f"{MODULE}:First"}
        )
        games = await played(GAME, (RandomPlayer(GAME, 1), outside), draw_openings(GAME, 2, 3, 1))
    assert [game.remark for game in games.values()] == [None] * 6
    assert {game.record.reason for game in games.values()} == {"rules"}


async def test_the_greedy_example_beats_chance() -> None:
    async with AsyncExitStack() as stack:
        outside = anchor_player(
            "python:examples.greedy:Greedy", BOXES, 1, 1, stack, asyncio.Semaphore(2), None
        )
        openings = draw_openings(BOXES, 4, 8, 1)
        assert points(await played(BOXES, (outside, RandomPlayer(BOXES, 1)), openings)) > 0.8


def test_the_greedy_example_completes_a_box() -> None:
    state = State(BOXES, [0, 3, 4])  # three edges of the first box
    action = Greedy(BOXES).choose(state, [0, 3, 4])
    state.apply(action)
    assert state.to_play == 1


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("Illegal", "choose() returned 0, which is illegal here"),
        ("Nothing", "choose() returned None, not an action: return a whole number"),
        (
            "Huge",
            "choose() returned an object of the class int, not an action: return a whole number",
        ),
        (
            "Silent",
            "choose() returned an object of the class Unprintable, not an action: return a whole "
            "number",
        ),
    ],
)
async def test_a_wrong_answer_loses_the_game_alone(kind: str, reason: str) -> None:
    async with AsyncExitStack() as stack:
        outside = player(stack, kind)
        assert await outside.choose((0, 1), [4, 0]) == GaveUp(f"forfeit at ply 2: {reason}")
        with pytest.raises(EngineError, match=f"{kind} lost before the first action: forfeit at"):
            await outside.choose((0, 1), [])
        games = await played(GAME, (RandomPlayer(GAME, 1), outside), [[4]])
    assert {game.record.reason for game in games.values()} == {"resign"}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("Raises", r"choose\(state, \[4\]\) raised KeyError: 'lost\\nkey' \(tests/unit/own_play"),
        ("Unmade", r"__init__\(game\) raised FileNotFoundError: weights.bin \(tests/unit/own_"),
        ("Short", r"choose\(state, \[4\]\) raised TypeError: .* takes 2 positional arguments"),
        ("Abstract", r"raised TypeError: Can't instantiate abstract class Abstract"),
        ("NoPlayer", "derive the class from zerofleet.own_player.OwnPlayer"),
        ("Frist", "has no class Frist; did you mean 'First'?"),
    ],
)
async def test_a_fault_of_the_class_ends_the_match_with_its_reason(kind: str, reason: str) -> None:
    async with AsyncExitStack() as stack:
        with pytest.raises(EngineError, match=reason) as caught:
            await player(stack, kind).choose((0, 0), [4])
    assert str(caught.value).isprintable()


async def test_a_module_that_is_not_there() -> None:
    async with AsyncExitStack() as stack:
        outside = PythonPlayer(GAME, "python:nowhere:Player", stack, asyncio.Semaphore(1))
        with pytest.raises(EngineError, match="no module nowhere is installed or lies in"):
            await outside.choose((0, 0), [4])


async def test_a_player_that_ends_is_started_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The player does not see our settings, which may contain passwords."""
    monkeypatch.setenv("ENDED", str(tmp_path / "ended"))
    monkeypatch.setenv("ZEROFLEET_DATABASE_URL", "postgresql://secret@host/name")
    async with AsyncExitStack() as stack:
        assert await player(stack, "EndsOnce").choose((0, 0), [4]) == 0
        with pytest.raises(EngineGoneError, match=r":Ends ended during 'choose \[\"\", \[4\]\]'"):
            await player(stack, "Ends").choose((0, 0), [4])


async def test_a_player_that_hangs_is_killed() -> None:
    async with AsyncExitStack() as stack:
        outside = player(stack, "Hangs", timeout=5.0)
        with pytest.raises(EngineGoneError, match=r":Hangs has not answered .* in 5 s"):
            await outside.choose((0, 0), [4])


def test_a_player_can_be_made_here() -> None:
    assert load_own_player("python:examples.greedy:Greedy", BOXES).game == BOXES
