"""``zerofleet gtp`` as a process between a controller and a server."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from zerofleet_core import State

pytestmark = pytest.mark.slow

GAME = "go(size=5,komi=7.5,suicide=false)"


class Controller:
    """Speaks GTP to a process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    def send(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n".encode())

    async def line(self) -> str:
        assert self._process.stdout is not None
        return (await self._process.stdout.readline()).decode()

    async def response(self) -> str:
        """A whole response without its "=" and its end."""
        lines = [await self.line()]
        assert lines[0].startswith("="), lines
        while (line := await self.line()) != "\n":
            lines.append(line)
        return "".join(lines).removeprefix("=").strip()

    async def ask(self, line: str) -> str:
        self.send(line)
        return await self.response()

    async def end(self) -> tuple[int, str]:
        """End its input; status and standard error, once the process is over."""
        _, errors = await self._process.communicate(b"")
        assert self._process.returncode is not None
        return self._process.returncode, errors.decode()


@contextlib.asynccontextmanager
async def started(address: str, *options: str) -> AsyncIterator[Controller]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "zerofleet.cli", "gtp", "--address", address, *options),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Controller(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def test_a_whole_game(player_server: Any) -> None:
    async with (
        player_server(GAME) as server,
        started(server.address, "--simulations", "6", "--leaves", "2") as controller,
    ):
        assert await controller.ask("boardsize 5") == ""
        assert await controller.ask("clear_board") == ""
        state, colours = State(GAME), "bw"
        while not state.is_terminal:
            vertex = await controller.ask(f"genmove {colours[state.to_play]}")
            state.apply(state.string_to_action(vertex))  # legal, or it raises
        score = await controller.ask("final_score")
        assert score[0] == {1: "B", -1: "W"}[state.result]
        assert str(state) in f" {await controller.ask('showboard')}"
        assert await controller.ask("genmove b") == "pass"
        assert await controller.ask("9 quit") == "9"
        status, errors = await controller.end()
        assert status == 0
        assert "Traceback" not in errors


async def test_an_analysis_streams_and_ends(player_server: Any) -> None:
    async with player_server(GAME) as server, started(server.address) as controller:
        controller.send("3 lz-analyze b 1")
        assert await controller.line() == "=3\n"
        for _ in range(3):
            assert (await controller.line()).startswith("info move ")
        controller.send("4 name")
        while (line := await controller.line()) != "\n":
            assert line.startswith("info move ")
        assert await controller.response() == "4 zerofleet"
        shown = await controller.ask("kata-genmove_analyze b 1")
        assert shown.splitlines()[-1].startswith("play ")
        assert " winrate 0." in shown
        # The end of the input is the end of the engine, in the midst of an analysis too.
        controller.send("lz-analyze 1")
        assert await controller.line() == "=\n"
        status, errors = await controller.end()
        assert status == 0
        assert "Traceback" not in errors


async def test_other_games_are_for_zerofleet_play(player_server: Any) -> None:
    async with player_server("tic_tac_toe") as server, started(server.address) as controller:
        status, errors = await controller.end()
    assert status == 2
    assert "plays 'tic_tac_toe': play it with `zerofleet play`" in errors
