"""Players of a match with processes of their own: GTP engines, UCI engines, Python classes."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Generic, TypeVar

import structlog

from zerofleet.config import EngineName
from zerofleet.engine_process import EngineError, EngineGoneError, EngineProcess, next_line
from zerofleet.games import State
from zerofleet.games.chess import is_chess960
from zerofleet.games.go import EMPTY, GoBoard, GoRules, is_go
from zerofleet.games.notation import GO_COLOURS
from zerofleet.gtp.client import GtpClient
from zerofleet.gtp.protocol import GtpError
from zerofleet.match.play_match import ActionPlayer, GaveUp, Place, together
from zerofleet.printable import printable, shortened
from zerofleet.uci.chess_program import UciClient

_log = structlog.get_logger()

_ANSWER_SECONDS = 120.0

_Process = TypeVar("_Process", bound=EngineProcess)
_Answer = TypeVar("_Answer")


def gnugo_command(level: int, rules: GoRules, *, resigns: bool = True) -> list[str] | None:
    """Return the command of GNU Go for games under our rules; None if it is not installed.

    Our rules count the area, take no stones off the board at the end and forbid every repeated
    position. Therefore GNU Go plays Chinese rules, captures dead stones before it passes, and keeps
    to positional superko. Its seed is fixed, so that the opening decides the game. It may resign a
    game that it considers lost, unless ``resigns`` is false.
    """
    program = shutil.which("gnugo")
    if program is None:
        return None
    suicide = "--allow-all-suicide" if rules.suicide else "--forbid-suicide"
    options = ["--chinese-rules", "--capture-all-dead", "--positional-superko", suicide]
    if not resigns:
        options.append("--never-resign")
    return [program, "--mode", "gtp", "--level", str(level), "--seed", "1", *options]


def gtp_setup(game: str) -> list[str]:
    """Return the commands that begin a game."""
    return go_setup(GoRules.of(game)) if is_go(game) else ["clear_board"]


def go_setup(rules: GoRules) -> list[str]:
    """Return the commands that begin a game of Go."""
    return [f"boardsize {rules.size}", f"komi {rules.komi:g}", "clear_board"]


def set_up_commands(game: str, start: str) -> list[str]:
    """Return the commands that set up a start position of Go, stone by stone.

    Every chain has a liberty in the whole position, and no fewer before it, so that no stone on the
    way is captured.

    Raises:
        GtpError: the game is another one, for which GTP has no such commands.
    """
    if not start:
        return []
    if not is_go(game):
        raise GtpError(f"GTP has no commands for a start position of {game}")
    state = State(game, [], start)
    return [
        f"play {GO_COLOURS[owner]} {state.action_to_string(point)}"
        for point, owner in enumerate(GoBoard(state).stones.tolist())
        if owner != EMPTY
    ]


class GtpPlayer(ActionPlayer):
    """A program that speaks the Go Text Protocol; each game has its own process.

    Our rules decide. A move of the program that they forbid loses its game, and so does the refusal
    of a move that they allow. A program that ends or hangs is started once more for its move.

    Args:
        command: the program and its arguments.
        setup: commands that begin a game.
        programs: ends all processes together.
        thinking: limits how many programs choose an action at once, of this player and others.
        timeout: seconds to wait for an answer.
    """

    def __init__(
        self,
        game: str,
        command: Sequence[str],
        setup: Sequence[str],
        programs: AsyncExitStack,
        thinking: asyncio.Semaphore,
        timeout: float = _ANSWER_SECONDS,
    ) -> None:
        self._game = game
        self._command = command
        self._setup = setup
        self._timeout = timeout
        self._clients: list[GtpClient] = []
        self._games: dict[Place, tuple[GtpClient, list[int]]] = {}
        self._thinking = thinking
        programs.push_async_callback(self._end)

    async def choose(self, place: Place, actions: Sequence[int], start: str = "") -> int | GaveUp:
        """Return the program's move.

        Raises:
            EngineGoneError: it does not start, or twice ended or did not answer.
            GtpError: it refuses the commands that begin a game, or loses before the first action,
                which no record can hold.
        """
        async with self._thinking:
            try:
                return await self._choose(place, actions, start)
            except EngineGoneError as error:
                if place not in self._games:
                    raise
                _log.warning("engine_restarted", reason=str(error))
                client, _ = self._games.pop(place)
                await client.end()
            return await self._choose(place, actions, start)

    async def _choose(self, place: Place, actions: Sequence[int], start: str) -> int | GaveUp:
        client, known = await self._program(place, start)
        state = State(self._game, actions, start)
        refusal = await self._tell(client, known, state, actions)
        if refusal is not None:
            return GaveUp(refusal)
        move = await client.send(f"genmove {GO_COLOURS[state.to_play]}")
        if move.lower() == "resign":
            return self._gave_up(actions)
        action, reason = _legal_action(state, move)
        if action is None:
            return self._gave_up(actions, reason)
        known.append(action)
        return action

    def _gave_up(self, actions: Sequence[int], remark: str | None = None) -> GaveUp:
        if not actions:
            how = remark or "resigned"
            raise GtpError(f"{self._command[0]} lost before the first action: {how}")
        return GaveUp(remark)

    async def _program(self, place: Place, start: str) -> tuple[GtpClient, list[int]]:
        """Return the process of a game, and the actions that it knows."""
        if place not in self._games:
            client = GtpClient(self._command, timeout=self._timeout)
            await client.start()
            self._clients.append(client)
            for command in (*self._setup, *set_up_commands(self._game, start)):
                await client.send(command)
            self._games[place] = client, []
        return self._games[place]

    async def _tell(
        self, client: GtpClient, known: list[int], state: State, actions: Sequence[int]
    ) -> str | None:
        """Play the actions that the program does not know; return the refusal of one, if any."""
        last = len(actions) + state.to_play  # has the parity of the player who moved first
        for ply in range(len(known), len(actions)):
            move = state.action_to_string(actions[ply])
            try:
                await client.send(f"play {GO_COLOURS[(ply + last) % 2]} {move}")
            except GtpError as error:
                return f"forfeit at ply {ply}: refused {move}: {error}"
            known.append(actions[ply])
        return None

    async def _end(self) -> None:
        # together, so that many slow programs take no longer than one
        await together(*(client.end() for client in self._clients))


class _SharedProcesses(ActionPlayer, Generic[_Process]):
    """A player whose answer depends on the position alone, so a few processes play all games.

    A process that ends or hangs is started once more for its move.

    Args:
        programs: ends all processes together.
        thinking: limits how many programs choose an action at once, of this player and others.
    """

    def __init__(self, programs: AsyncExitStack, thinking: asyncio.Semaphore) -> None:
        self._processes: list[_Process] = []
        self._idle: list[_Process] = []
        self._thinking = thinking
        programs.push_async_callback(self._end)

    async def _ask(self, question: Callable[[_Process], Awaitable[_Answer]]) -> _Answer:
        """Ask a process that is idle, or another one if it fails.

        Raises:
            EngineGoneError: it does not start, or twice ended or did not answer.
        """
        async with self._thinking:
            process = self._idle.pop() if self._idle else await self._started()
            try:
                answer = await question(process)
            except EngineGoneError as error:
                _log.warning("engine_restarted", reason=str(error))
                await process.end()
                process = await self._started()
                answer = await question(process)
            self._idle.append(process)
        return answer

    async def _started(self) -> _Process:
        """Start a process that is ready to play."""
        process = self._new_process()
        await process.start()
        self._processes.append(process)
        await self._prepare(process)
        return process

    def _new_process(self) -> _Process:
        raise NotImplementedError

    async def _prepare(self, process: _Process) -> None:
        raise NotImplementedError

    async def _end(self) -> None:
        await together(*(process.end() for process in self._processes))


class UciPlayer(_SharedProcesses[UciClient]):
    """A chess program that speaks the Universal Chess Interface.

    Each move is a search of its own with empty hash tables. Therefore a few processes play all
    games, and the number of games at once does not change the program's strength. Our rules decide:
    a move that they forbid loses its game.

    Args:
        game: chess, with any rules.
        engine: the program, its options and the limits of its searches.
        programs: ends all processes together.
        thinking: limits how many programs choose an action at once, of this player and others.
        timeout: seconds to wait for an answer, in addition to the limits.
    """

    def __init__(
        self,
        game: str,
        engine: EngineName,
        programs: AsyncExitStack,
        thinking: asyncio.Semaphore,
        timeout: float = _ANSWER_SECONDS,
    ) -> None:
        super().__init__(programs, thinking)
        self._game = game
        self._command = engine.arguments
        self._options = list(engine.options)
        if is_chess960(game):
            self._options.append(("UCI_Chess960", "true"))
        self._limits = " ".join(f"{key} {number}" for key, number in engine.limits)
        self._timeout = timeout
        self._move_timeout = timeout + dict(engine.limits).get("movetime", 0) / 1000

    async def choose(self, place: Place, actions: Sequence[int], start: str = "") -> int | GaveUp:
        """Return the program's move.

        Raises:
            EngineGoneError: it does not start, or twice ended or did not answer.
            EngineError: it has no such option, or loses before the first action, which no record
                can hold.
        """
        state = State(self._game, actions, start)
        position = self._position(actions, start)
        move = await self._ask(
            lambda process: process.best_move(position, self._limits, self._move_timeout)
        )
        action, reason = _legal_action(state, move)
        return _answer(self._command[0], action, reason, actions)

    def _position(self, actions: Sequence[int], start: str) -> str:
        """Return the arguments of UCI's ``position``."""
        state = State(self._game, start=start)
        where = f"fen {state.setup_text()}" if start or is_chess960(self._game) else "startpos"
        moves: list[str] = []
        for action in actions:
            moves.append(state.action_to_string(action))
            state.apply(action)
        return f"{where} moves {' '.join(moves)}" if moves else where

    def _new_process(self) -> UciClient:
        return UciClient(self._command, timeout=self._timeout)

    async def _prepare(self, process: UciClient) -> None:
        await process.prepare(self._options)


class _PythonProcess(EngineProcess):
    """A process that runs ``zerofleet.own_player.serve``."""

    async def answer(self, question: str) -> dict[str, Any]:
        """Return the answer to a question.

        Raises:
            EngineError: the class does not import, cannot be made, or raised an exception.
            EngineGoneError: the process has ended, or does not answer in time.
        """
        async with self.answer_to(question) as stream:
            answer = json.loads(await next_line(stream))
        if "error" in answer:
            raise EngineError(printable(f"{self.name}: {answer['error']}"))
        return answer


class PythonPlayer(_SharedProcesses[_PythonProcess]):
    """A class derived from ``zerofleet.own_player.OwnPlayer``, in processes of its own.

    They see none of our settings, and may hang or end without harm. Our rules decide: an action
    that they forbid loses its game.

    Args:
        name: ``python:MODULE:CLASS``.
        programs: ends all processes together.
        thinking: limits how many programs choose an action at once, of this player and others.
        timeout: seconds to wait for an answer.
    """

    def __init__(
        self,
        game: str,
        name: str,
        programs: AsyncExitStack,
        thinking: asyncio.Semaphore,
        timeout: float = _ANSWER_SECONDS,
    ) -> None:
        super().__init__(programs, thinking)
        self._game = game
        self._name = name
        self._timeout = timeout

    async def choose(self, place: Place, actions: Sequence[int], start: str = "") -> int | GaveUp:
        """Return the player's action.

        Raises:
            EngineGoneError: its process does not start, or twice ended or did not answer.
            EngineError: there is no such class, it raised an exception, or it loses before the
                first action, which no record can hold.
        """
        question = f"choose {json.dumps([start, list(actions)])}"
        answer = await self._ask(lambda process: process.answer(question))
        action, reason = None, ""
        if "action" not in answer:
            reason = f"choose() returned {answer['wrong']}, not an action: return a whole number"
        elif answer["action"] not in State(self._game, actions, start).legal_actions():
            reason = f"choose() returned {answer['action']}, which is illegal here"
        else:
            action = int(answer["action"])
        return _answer(self._name, action, f"forfeit at ply {len(actions)}: {reason}", actions)

    def _new_process(self) -> _PythonProcess:
        # -P: as in a service, the working directory is searched last.
        serve = "import sys; from zerofleet.own_player import serve; serve(*sys.argv[1:])"
        command = [sys.executable, "-P", "-c", serve, self._name, self._game]
        return _PythonProcess(command, timeout=self._timeout, name=self._name)

    async def _prepare(self, process: _PythonProcess) -> None:
        await process.answer("make")


def _answer(
    name: str, action: int | None, reason: str | None, actions: Sequence[int]
) -> int | GaveUp:
    """Return the action, or the forfeit of the game without one."""
    if action is not None:
        return action
    if not actions:
        raise EngineError(f"{name} lost before the first action: {reason}")
    return GaveUp(reason)


def _legal_action(state: State, move: str) -> tuple[int | None, str | None]:
    """Return the action of a program's move; or None, and why it forfeits the game."""
    words = printable(shortened(move))
    try:
        action = state.string_to_action(move)
    except ValueError:
        return None, f"forfeit at ply {state.ply}: '{words}' is not a move"
    try:
        state.copy().apply(action)
    except ValueError:
        return None, f"forfeit at ply {state.ply}: '{words}' is not a legal move"
    return action, None
