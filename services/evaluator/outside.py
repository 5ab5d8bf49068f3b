"""A program from outside as a player, over the Go Text Protocol: GNU Go, where it is installed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from contextlib import AsyncExitStack

from services.evaluator.board import Answer, Board, GaveUp
from services.evaluator.record import Ply
from services.evaluator.roster import Place
from services.evaluator.together import together
from zerofleet.games.go_rules import GoRules
from zerofleet.gtp.client import GtpClient
from zerofleet.gtp.protocol import GtpError

_COLOURS = ("black", "white")  # black moves first


def gnugo_command(level: int, rules: GoRules) -> list[str] | None:
    """How GNU Go is started for games under our rules; None where it is not installed.

    Ours count the area, take no stones off the board at the end and forbid every position that was
    there before: so it plays Chinese rules, captures what is dead before it passes, and keeps to
    positional superko. Its seed is fixed, so that the opening decides the game.
    """
    program = shutil.which("gnugo")
    if program is None:
        return None
    suicide = "--allow-all-suicide" if rules.suicide else "--forbid-suicide"
    options = ["--chinese-rules", "--capture-all-dead", "--positional-superko", suicide]
    return [program, "--mode", "gtp", "--level", str(level), "--seed", "1", *options]


def go_setup(rules: GoRules) -> list[str]:
    """The commands that begin a game of Go."""
    return [f"boardsize {rules.size}", f"komi {rules.komi:g}", "clear_board"]


class OutsidePlayer:
    """Asks one process for each game.

    Our rules decide. A move of the program that they forbid loses its game, and so does refusing a
    move that they allow.

    Args:
        command: the program and its arguments.
        setup: commands that begin a game.
        processes: the programs end with it, all together.
        thinking: how many programs may choose a move at once, of this player and others.
    """

    def __init__(
        self,
        command: Sequence[str],
        setup: Sequence[str],
        processes: AsyncExitStack,
        thinking: asyncio.Semaphore,
    ) -> None:
        self._command = command
        self._setup = setup
        self._clients: list[GtpClient] = []
        self._games: dict[Place, tuple[GtpClient, list[int]]] = {}
        self._thinking = thinking
        processes.push_async_callback(self._end)

    async def choose(self, boards: Sequence[Board]) -> list[Answer]:
        """The program's move on each board.

        Raises:
            EngineGoneError: it does not start, ended, or does not answer.
            GtpError: it refuses what begins a game, or loses it before the first action: no
                record can hold that.
        """
        return await together(*(self._choose(board) for board in boards))

    async def _choose(self, board: Board) -> Answer:
        async with self._thinking:
            client, told = await self._game(board.place)
            refusal = await self._tell(client, told, board)
            if refusal is not None:
                return GaveUp(refusal)
            colour = _COLOURS[board.state.to_play]
            move = await client.send(f"genmove {colour}")
        if move.lower() == "resign":
            return self._gave_up(board)
        try:
            action = board.state.string_to_action(move)
            board.state.copy().apply(action)
        except ValueError as error:
            reason = f"forfeit at ply {board.state.ply}: {move} is illegal here: {error}"
            return self._gave_up(board, reason)
        told.append(action)
        return Ply(action, None)

    def _gave_up(self, board: Board, remark: str | None = None) -> GaveUp:
        if not board.plies:
            how = remark or "resigned"
            raise GtpError(f"{self._command[0]} lost before the first action: {how}")
        return GaveUp(remark)

    async def _game(self, place: Place) -> tuple[GtpClient, list[int]]:
        """The process of a game, and what it was told of it."""
        if place not in self._games:
            client = GtpClient(self._command)
            await client.start()
            self._clients.append(client)
            for command in self._setup:
                await client.send(command)
            self._games[place] = client, []
        return self._games[place]

    async def _end(self) -> None:
        # Together, so that many stubborn programs take no longer than one.
        await together(*(client.end() for client in self._clients))

    async def _tell(self, client: GtpClient, told: list[int], board: Board) -> str | None:
        """Play what the program does not know yet; why it refuses, if it does."""
        for ply in range(len(told), len(board.plies)):
            action = board.plies[ply].action
            move = board.state.action_to_string(action)
            try:
                await client.send(f"play {_COLOURS[ply % 2]} {move}")
            except GtpError as error:
                return f"forfeit at ply {ply}: refused {move}: {error}"
            told.append(action)
        return None
