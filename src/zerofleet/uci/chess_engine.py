"""A UCI engine that plays the moves of a player."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass

from zerofleet_core import State

from zerofleet import __version__
from zerofleet.client import AsyncPlayer
from zerofleet.engine_lines import EngineOptions, read_stdin, write
from zerofleet.errors import ConfigError, ZerofleetError
from zerofleet.games.chess import CLAIMABLE_ENDINGS, is_chess, is_chess960
from zerofleet.games.notation import whole_number
from zerofleet.printable import printable
from zerofleet.rpc.codec import BEST
from zerofleet.rpc.player_service import PlayerDescription, SearchChild, SearchOptions, SearchTable
from zerofleet.rpc.tls import ClientCredentials
from zerofleet.uci.commands import (
    InfoStyle,
    SearchLimits,
    UciError,
    UciPosition,
    info_lines,
    parse_go,
    parse_option,
    parse_position,
)

_QUIT = "quit"
_NO_MOVE = "bestmove (none)"
_HALF_MOVES = 4  # field of a FEN: plies without a capture or a pawn's move
_DRAW_HALF_MOVES = 100  # either player may claim a draw
_MOST_HALF_MOVES = 9_999
_TABLE_SECONDS = 0.04
"""Seconds between two tables of a search: `stop` is answered with the latest one."""
_INFO_SECONDS = 0.5
"""Seconds between two groups of info lines."""
_GREETING_SECONDS = 5.0
_MOST_LINES = 500


@dataclass(slots=True)
class ControllerOptions:
    """Values of the options that a controller may set."""

    lines: int = 1
    overhead: float = 0.1  # seconds
    chess960: bool = False
    shows_chances: bool = False  # win, draw and loss


class ChessEngine:
    """Answers the lines of a controller.

    Args:
        player: plays and analyses; connected.
        description: of its server.
        options: what the command line chooses.
        say: writes lines to the controller.
    """

    def __init__(
        self,
        player: AsyncPlayer,
        description: PlayerDescription,
        options: EngineOptions,
        say: Callable[[str], None],
    ) -> None:
        self._player = player
        self._description = description
        self._version = options.version
        self._options = options.search
        self._say = say
        self._settings = ControllerOptions(chess960=is_chess960(description.game))
        self._start = ""  # FEN; empty: the usual start
        self._actions: list[int] = []
        self._state = State(description.game)
        self._refusal = ""  # why the last position was refused
        self._search: _RunningSearch | None = None
        self._commands: dict[str, Callable[[Sequence[str]], Awaitable[None]]] = {
            "uci": self._uci,
            "isready": self._isready,
            "setoption": self._setoption,
            "ucinewgame": self._ignored,
            "position": self._set_position,
            "go": self._go,
            "stop": self._stop,
            "ponderhit": self._ponderhit,
            "debug": self._ignored,
            "register": self._ignored,
        }

    async def run(self, lines: asyncio.Queue[str | None]) -> None:
        """Answer line after line, until ``quit`` or the end (None)."""
        # An unexpected error in a search ends the engine too.
        async with asyncio.TaskGroup() as self._searches:
            await self._run(lines)

    async def _run(self, lines: asyncio.Queue[str | None]) -> None:
        try:
            while (line := await lines.get()) is not None:
                words = line.split()
                # UCI asks engines to skip unknown words before a command.
                while words and words[0] not in (*self._commands, _QUIT):
                    words.pop(0)
                if not words:
                    continue
                if words[0] == _QUIT:
                    return
                try:
                    await self._commands[words[0]](words[1:])
                except ZerofleetError as error:
                    self.complain(error)
        finally:
            await self._drop_search()

    async def _uci(self, _: Sequence[str]) -> None:
        run, best = self._description.run, self._description.best
        version = best if self._version == BEST else self._version
        chess960 = "true" if self._settings.chess960 else "false"
        self._say(
            f"id name zerofleet {__version__}, run {run}, model {version}\n"
            "id author the zerofleet project\n"
            f"option name MultiPV type spin default 1 min 1 max {_MOST_LINES}\n"
            "option name Move Overhead type spin default 100 min 0 max 10000\n"
            f"option name UCI_Chess960 type check default {chess960}\n"
            "option name UCI_ShowWDL type check default false\n"
            "option name UCI_AnalyseMode type check default false\n"
            "option name Ponder type check default false\n"
            "uciok\n"
        )

    async def _isready(self, _: Sequence[str]) -> None:
        self._say("readyok\n")

    async def _setoption(self, words: Sequence[str]) -> None:
        name, value = parse_option(words)
        if name == "multipv":
            self._settings.lines = _spin("MultiPV", value, 1, _MOST_LINES)
        elif name == "move overhead":
            self._settings.overhead = _spin("Move Overhead", value, 0, 10_000) / 1000
        elif name == "uci_showwdl":
            self._settings.shows_chances = value.lower() == "true"
        elif name == "uci_chess960":
            wanted = value.lower() == "true"
            if wanted != self._settings.chess960:
                kind = "Chess960" if self._settings.chess960 else "standard chess"
                raise UciError(f"UCI_Chess960 = {value}: the model plays {kind} only")
        elif name not in ("uci_analysemode", "ponder"):
            raise UciError(f"unknown option '{name[:40]}': `uci` lists the options")

    async def _set_position(self, words: Sequence[str]) -> None:
        await self._drop_search()
        try:
            start, actions, state = _replayed(self._description.game, parse_position(words))
        except (ZerofleetError, ValueError) as error:
            # A move for the old position would be wrong, so `go` answers none until a valid one.
            self._refusal = str(error)
            raise UciError(str(error)) from error
        self._start, self._actions, self._state, self._refusal = start, actions, state, ""

    async def _go(self, words: Sequence[str]) -> None:
        await self._drop_search()
        limits, errors = parse_go(words)
        for error in errors:
            self.complain(error)
        if self._refusal:
            self._say(f"info string no search: {self._refusal}\n")
        elif self._state.is_terminal:
            self._say(f"info depth 0 score {_end_score(self._state)}\n")
        most = self._description.max_analysis_simulations
        if limits.nodes is not None and limits.nodes > most:
            self.say(f"info string go nodes {limits.nodes}: the server searches at most {most}\n")
        self._search = _RunningSearch(self, limits, self._searches)

    async def _stop(self, _: Sequence[str]) -> None:
        if self._search is not None:
            await self._search.stop()

    async def _ponderhit(self, _: Sequence[str]) -> None:
        if self._search is not None:
            self._search.ponderhit()

    async def _ignored(self, _: Sequence[str]) -> None:
        """Accept a command that needs no answer here, such as ``ucinewgame``."""

    async def _drop_search(self) -> None:
        """End the search, if one is running, and send its ``bestmove``."""
        await self._stop(())
        self._search = None

    def simulations(self, limits: SearchLimits) -> int:
        """Return the most simulations of a search with these limits."""
        most = self._description.max_analysis_simulations
        usual = self._options.get("simulations") or self._description.num_simulations
        is_open = limits.is_open(self._state.to_play)
        return max(1, min(limits.nodes or (most if is_open else usual), most))

    def tables(self, limits: SearchLimits) -> AsyncGenerator[SearchTable]:
        """Start a search of the position."""
        search = SearchOptions(
            simulations=self.simulations(limits), actions=self._root_actions(limits)
        )
        return self._player.analyze(
            self._actions,
            start=self._start,
            game=self._description.game,
            version=self._version,
            every_seconds=_TABLE_SECONDS,
            **(self._options | search),
        )

    def _root_actions(self, limits: SearchLimits) -> list[int]:
        """Return the actions of ``searchmoves``; skip illegal ones with a complaint."""
        actions: list[int] = []
        for name in limits.search_moves:
            try:
                actions.append(_apply(self._state.copy(), name))
            except UciError as error:
                self.complain(error)
        return actions

    @property
    def style(self) -> InfoStyle:
        """Selection and format of the lines about a search."""
        return InfoStyle(
            self._settings.lines, self._settings.shows_chances, self._names, self._mate_in
        )

    def complain(self, error: ZerofleetError) -> None:
        """Tell the controller why something has no effect."""
        self._say(f"info string {printable(' '.join(str(error).split()))}\n")

    def say(self, text: str) -> None:
        """Write lines to the controller."""
        self._say(text)

    @property
    def has_moves(self) -> bool:
        """Whether there is a position to search."""
        return not self._refusal and not self._state.is_terminal

    @property
    def to_play(self) -> int:
        """The player to move: 0 for White."""
        return self._state.to_play

    @property
    def overhead(self) -> float:
        """Seconds between the engine's answer and the controller's clock."""
        return self._settings.overhead

    def _names(self, actions: Sequence[int]) -> list[str]:
        """Return the moves of a line of play from the present position."""
        state = self._state.copy()
        names: list[str] = []
        for action in actions:
            names.append(state.action_to_string(action))
            state.apply(action)
        return names

    def _mate_in(self, child: SearchChild) -> int | None:
        """Return the moves until a proven mate, negative if the player to move loses, or None."""
        if child.q_value is None or abs(child.q_value) != 1.0:
            return None
        state = self._state.copy()
        for action in child.principal_variation:
            state.apply(action)
        if not state.is_terminal or state.result == 0:
            return None
        moves = (len(child.principal_variation) + 1) // 2
        return moves if child.q_value > 0 else -moves


class _RunningSearch:
    """The search of one ``go``, until its ``bestmove``.

    Args:
        engine: has the position.
        limits: say when the search ends.
        tasks: the group in which the search runs.
    """

    def __init__(self, engine: ChessEngine, limits: SearchLimits, tasks: asyncio.TaskGroup) -> None:
        self._engine = engine
        self._limits = limits
        self._style = engine.style
        self._began = time.monotonic()
        self._deadline = self._deadline_from(self._began)
        self._latest: SearchTable | None = None
        self._shown: SearchTable | None = None
        self._shown_at = self._began
        self._changed = asyncio.Event()  # stop or ponderhit
        self._stopped = False
        self._task = tasks.create_task(self._run())

    async def stop(self) -> None:
        """End the search and wait for its ``bestmove``."""
        self._stopped = True
        self._changed.set()
        await self._task

    def ponderhit(self) -> None:
        """Start the clock: the opponent has played the expected move."""
        self._limits = self._limits.without_ponder()
        self._deadline = self._deadline_from(time.monotonic())
        self._changed.set()

    def _deadline_from(self, now: float) -> float | None:
        if self._limits.is_infinite or self._limits.is_ponder:
            return None
        seconds = self._limits.seconds(self._engine.to_play, self._engine.overhead)
        return None if seconds is None else now + seconds

    async def _run(self) -> None:
        reader = asyncio.create_task(self._read())
        try:
            while not self._is_over(reader):
                left = None if self._deadline is None else self._deadline - time.monotonic()
                # Without a table there is no move yet, even after `stop` or at the end of the time.
                if self._stopped or (left is not None and left <= 0):
                    left = _TABLE_SECONDS
                change = asyncio.create_task(self._changed.wait())
                waited = {change} if reader.done() else {change, reader}
                await asyncio.wait(waited, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                self._changed.clear()
        finally:
            reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reader
        self._finish()

    def _is_over(self, reader: asyncio.Task[None]) -> bool:
        if self._latest is None and not reader.done():
            return False
        if self._stopped:
            return True
        if self._limits.is_infinite or self._limits.is_ponder:
            return False  # even if there is nothing left to search
        late = self._deadline is not None and time.monotonic() >= self._deadline
        return late or reader.done()

    async def _read(self) -> None:
        """Keep the latest table and show progress."""
        if not self._engine.has_moves:
            return
        try:
            async with contextlib.aclosing(self._engine.tables(self._limits)) as tables:
                async for table in tables:
                    self._latest = table
                    now = time.monotonic()
                    if now - self._shown_at >= _INFO_SECONDS:
                        self._show(table, now)
                    if self._reaches_depth(table):
                        return
            self._explain_end()
        except ZerofleetError as error:
            self._engine.complain(error)

    def _explain_end(self) -> None:
        """Report why a search ended early, if nobody stopped it."""
        table, limit = self._latest, self._engine.simulations(self._limits)
        if table is None or self._style.mate_in(table.ranked[0]) is not None:
            return
        if table.simulations < limit:
            reason = "the result is proven, or the server has no memory for a larger tree"
        elif self._limits.nodes is None and self._limits.is_open(self._engine.to_play):
            reason = "the server's limit"
        else:
            return
        self._engine.say(f"info string the search ended at {table.simulations} nodes: {reason}\n")

    def _reaches_depth(self, table: SearchTable) -> bool:
        best = table.ranked[0]
        if self._limits.depth and len(best.principal_variation) >= self._limits.depth:
            return True
        mate = self._style.mate_in(best) if self._limits.mate else None
        return mate is not None and self._limits.mate is not None and 0 < mate <= self._limits.mate

    def _show(self, table: SearchTable, now: float) -> None:
        self._shown, self._shown_at = table, now
        lines = info_lines(table, now - self._began, self._style)
        self._engine.say("".join(f"{line}\n" for line in lines))

    def _finish(self) -> None:
        if self._latest is None:
            self._engine.say(f"{_NO_MOVE}\n")
            return
        if self._shown is not self._latest:
            self._show(self._latest, time.monotonic())
        line = self._style.name_line(self._latest.ranked[0].principal_variation)
        ponder = f" ponder {line[1]}" if len(line) > 1 else ""
        self._engine.say(f"bestmove {line[0]}{ponder}\n")


def _replayed(game: str, position: UciPosition) -> tuple[str, list[int], State]:
    """Return the start position and the actions for the server, and the position.

    In chess programs a game continues until a player claims the draw. Our rules end it without a
    claim. So the position becomes a new start position, with the half-move clock at 0 and no
    earlier moves.
    """
    start, actions = _with_open_clock(position.fen), list[int]()
    state = State(game, start=start)
    for name in (*position.moves, None):
        if state.ending in CLAIMABLE_ENDINGS:
            start, actions = _with_clock_at_zero(state.setup_text()), []
            state = State(game, start=start)
        if name is not None:
            actions.append(_apply(state, name))
    return start, actions, state


def _with_open_clock(fen: str) -> str:
    """Return a FEN; a half-move clock above 100 becomes 0, because nobody claimed the draw."""
    fields = fen.split()
    clock = whole_number(fields[_HALF_MOVES], _MOST_HALF_MOVES) if len(fields) == 6 else None
    return fen if clock is None or clock <= _DRAW_HALF_MOVES else _with_clock_at_zero(fen)


def _with_clock_at_zero(fen: str) -> str:
    fields = fen.split()
    fields[_HALF_MOVES] = "0"
    return " ".join(fields)


def _apply(state: State, name: str) -> int:
    """Play a move of the controller and return its action."""
    try:
        action = state.string_to_action(name)
        state.apply(action)
    except ValueError as error:
        raise UciError(f"'{name[:20]}' is not a legal move after {state.ply} plies") from error
    return action


def _spin(name: str, text: str, least: int, most: int) -> int:
    """Return the value of an option that is a whole number."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
    if not least <= number <= most:
        raise UciError(f"{name} is '{text[:40]}': give {least} to {most}")
    return number


def _end_score(state: State) -> str:
    """Return the score of a finished game, for the player to move."""
    return "mate 0" if state.result else "cp 0"


async def serve_uci(address: str, options: EngineOptions, credentials: ClientCredentials) -> None:
    """Answer a chess program until it sends ``quit`` or disconnects.

    Raises:
        ConfigError: the server plays another game, or the connection would be plaintext.
        ZerofleetError: the server does not answer.
    """
    async with AsyncPlayer(address, timeout=_GREETING_SECONDS, **credentials) as greeter:
        description = await greeter.describe()
    if not is_chess(description.game):
        raise ConfigError(
            f"UCI is for chess, and {address} plays '{description.game}': "
            "play it with `zerofleet play`"
        )
    async with AsyncPlayer(address, **credentials) as player:
        engine = ChessEngine(player, description, options, write)
        # A controller that has disconnected reads no further answers.
        with contextlib.suppress(BrokenPipeError):
            await engine.run(read_stdin())
