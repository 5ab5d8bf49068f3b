"""The client of the Go Text Protocol: answers, refusals, and programs that go away."""

import asyncio
import sys
from pathlib import Path

import pytest

from zerofleet.gtp.client import EngineGoneError, GtpClient
from zerofleet.gtp.protocol import GtpError

ENGINE = [sys.executable, str(Path(__file__).with_name("outside_program.py")), "plays"]


async def test_commands_are_answered_in_turn() -> None:
    async with GtpClient(ENGINE) as engine:
        assert await engine.send("clear_board") == ""
        assert await engine.send("genmove black") == "a1"
        assert await engine.send("several") == "first\nsecond"
        with pytest.raises(GtpError, match="unknown command"):
            await engine.send("nonsense")
        assert await engine.send("genmove white") == "b1"


async def test_a_program_that_ends_says_so() -> None:
    async with GtpClient(ENGINE) as engine:
        for command in ("dies", "clear_board"):
            with pytest.raises(EngineGoneError, match=f"ended during '{command}'"):
                await engine.send(command)


async def test_a_program_that_does_not_answer_is_given_up() -> None:
    async with GtpClient(ENGINE, timeout=0.2) as engine:
        with pytest.raises(EngineGoneError, match="has not answered 'hangs'"):
            await engine.send("hangs")
    with pytest.raises(EngineGoneError, match="is not running"):
        await engine.send("clear_board")


async def test_a_program_whose_line_has_no_end_is_given_up() -> None:
    async with GtpClient(ENGINE) as engine:
        with pytest.raises(EngineGoneError, match="'chatters'"):
            await engine.send("chatters")


async def test_an_answer_without_end_is_given_up() -> None:
    async with GtpClient(["sh", "-c", "echo =; yes"]) as engine:
        with pytest.raises(EngineGoneError, match="'boardsize 9' with more than 1,000 lines"):
            await engine.send("boardsize 9")


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(EngineGoneError, match="cannot start /nowhere/engine"):
        async with GtpClient(["/nowhere/engine"]):
            pass


async def test_a_program_that_owes_an_answer_is_not_asked_to_leave(tmp_path: Path) -> None:
    """It would read "quit" only after its answer: here, at once, and leave a file."""
    told = tmp_path / "told"
    script = f"read command; read quit; touch {told}"
    async with GtpClient(["sh", "-c", script], timeout=0.1) as engine:
        with pytest.raises(EngineGoneError, match="has not answered 'thinks'"):
            await engine.send("thinks")
    assert not told.exists()


async def test_a_program_within_a_script_ends_with_it() -> None:
    """Left alone it would hold our end of its output open, and whoever ends it would wait."""
    async with asyncio.timeout(120):
        async with GtpClient(["sh", "-c", "sleep 600; true"], timeout=0.1) as engine:
            with pytest.raises(EngineGoneError, match="has not answered"):
                await engine.send("thinks")
