"""A GTP engine that plays the moves of a player."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass

from zerofleet import __version__
from zerofleet.client import AsyncPlayer
from zerofleet.engine_lines import EngineOptions, complain, read_stdin, write
from zerofleet.errors import ConfigError, ZerofleetError
from zerofleet.games.go import is_go
from zerofleet.gtp.board_commands import (
    GOGUI_COMMANDS,
    BoardCommands,
    parse_symmetries,
    raw_nn_text,
    transformed,
    transformed_start,
)
from zerofleet.gtp.protocol import (
    Command,
    GtpError,
    as_player,
    failure,
    parse_decimal,
    parse_line,
    parse_number,
    parse_player,
    success,
)
from zerofleet.rpc.codec import BEST
from zerofleet.rpc.player_service import PlayerDescription, SearchChild, SearchOptions, SearchTable
from zerofleet.rpc.tls import ClientCredentials

_MAX_VISITS = "maxVisits"
_ADVANTAGE = "playoutDoublingAdvantage"
_GENMOVE = ("genmove", "reg_genmove")
_RAW_NN = "kata-raw-nn"
_SIGN_OF_LIFE_SECONDS = 1.0
# Lizzie takes the first word for a version of Leela Zero and warns below 0.15. We speak the
# lz-analyze and lz-genmove_analyze of this version.
_DIALECT_VERSION = "0.17"

_DEFAULT_CENTISECONDS = 100
_IGNORED = ("ownership", "ownershipStdev", "movesOwnership", "movesOwnershipStdev", "pvVisits")
_Z = 1.96  # for a two-sided confidence of 95%

_GREETING_SECONDS = 5.0  # a board shows nothing while it waits for its engine


@dataclass(frozen=True, slots=True)
class AnalysisOptions:
    """A controller's options for an analysis."""

    player: int | None = None  # to move; None: the one whose turn it is
    seconds: float = _DEFAULT_CENTISECONDS / 100  # between two lines
    min_moves: int = 0  # shown even without visits
    max_moves: int | None = None
    root_info: bool = False


def parse_options(arguments: Sequence[str]) -> AnalysisOptions:
    """Read ``[colour] [centiseconds] [key value] ...``.

    Raises:
        GtpError: an unknown key; keys for values that the network does not predict (ownership) are
            known and change nothing.
    """
    words = list(arguments)
    player = as_player(words[0]) if words else None
    if player is not None:
        words.pop(0)
    values = {"interval": str(_DEFAULT_CENTISECONDS)}
    if words and words[0].isdecimal():
        values["interval"] = words.pop(0)
    for key, value in zip(words[::2], [*words[1::2], ""], strict=False):
        if key not in (*_IGNORED, "interval", "minmoves", "maxmoves", "rootInfo"):
            raise GtpError(
                f"option '{key}' is not supported: use interval, minmoves, maxmoves or rootInfo"
            )
        values[key] = value
    return AnalysisOptions(
        player=player,
        seconds=max(1, parse_number(values["interval"], "interval")) / 100,
        min_moves=parse_number(values.get("minmoves", "0"), "minmoves"),
        max_moves=parse_number(values["maxmoves"], "maxmoves") if "maxmoves" in values else None,
        root_info=values.get("rootInfo", "false").lower() == "true",
    )


@dataclass(frozen=True, slots=True)
class Dialect:
    """The format of numbers in [0, 1], and whether there is ``rootInfo``."""

    number: Callable[[float], str]
    has_root_info: bool


def _per_ten_thousand(number: float) -> str:
    return str(round(10_000 * number))


def _fraction(number: float) -> str:
    return f"{number:.6f}"


LZ = Dialect(_per_ten_thousand, has_root_info=False)
KATA = Dialect(_fraction, has_root_info=True)


def analysis_line(
    table: SearchTable, options: AnalysisOptions, dialect: Dialect, vertex: Callable[[int], str]
) -> str:
    """Return one line with the moves, best first.

    Args:
        table: table of a search, finished or not.
        options: selects the moves.
        dialect: ``LZ`` or ``KATA``.
        vertex: returns an action in GTP's notation.
    """
    number = dialect.number
    infos: list[str] = []
    for order, child in enumerate(_chosen(table, options)):
        rate = (1 + _value(child, table)) / 2
        line = " ".join(map(vertex, child.principal_variation))
        infos.append(
            f"info move {vertex(child.action)} visits {child.visit_count} "
            f"winrate {number(rate)} prior {number(child.prior)} "
            f"lcb {number(lower_bound(rate, child.visit_count))} order {order} pv {line}"
        )
    if options.root_info and dialect.has_root_info:
        rate = number((1 + table.root_value) / 2)
        infos.append(f"rootInfo visits {table.simulations} winrate {rate}")
    return " ".join(infos)


def lower_bound(rate: float, visits: int) -> float:
    """Return the lower end of a win rate's 95% interval (Wilson, JASA 22, 1927).

    Each visit counts as a game won or lost, which is the most that visits can vary.
    """
    if visits < 1:
        return 0.0
    z2 = _Z * _Z / visits
    spread = _Z * math.sqrt(max(0.0, rate * (1 - rate)) / visits + z2 / (4 * visits))
    return max(0.0, (rate + z2 / 2 - spread) / (1 + z2))


def _chosen(table: SearchTable, options: AnalysisOptions) -> list[SearchChild]:
    """Return the children to show, best first."""
    visited = sum(child.visit_count > 0 for child in table.children)
    shown = max(visited, options.min_moves, 1)
    return table.ranked[: shown if options.max_moves is None else min(shown, options.max_moves)]


def _value(child: SearchChild, table: SearchTable) -> float:
    """Return the expected value of an action; for an unvisited one, of the position."""
    value = table.network_value if child.q_value is None else child.q_value
    return min(1.0, max(-1.0, value))


_ANALYZE = {"lz-analyze": LZ, "kata-analyze": KATA}
_GENMOVE_ANALYZE = {"lz-genmove_analyze": LZ, "kata-genmove_analyze": KATA}


class Engine:
    """Answers one controller.

    Args:
        player: player that searches.
        description: description of the player; its game is Go.
        options: options of the searches.
        say: writes text to the controller, at once.
        complain: shows a line to the user that does not fit the protocol.

    Raises:
        ConfigError: the player plays another game.
    """

    def __init__(
        self,
        player: AsyncPlayer,
        description: PlayerDescription,
        options: EngineOptions,
        say: Callable[[str], None],
        complain: Callable[[str], None],
    ) -> None:
        self._player = player
        self._description = description
        self._requested_version = options.version
        self._search = options.search
        self._say = say
        self._complain = complain
        self._board = BoardCommands(description.game, complain)
        self._analysis: tuple[asyncio.Task[None], _Response] | None = None
        self._simple: dict[str, Callable[..., str]] = {
            "protocol_version": lambda: "2",
            "name": lambda: "zerofleet",
            "version": self._version,
            "known_command": self._known_command,
            "list_commands": lambda: "\n".join(self.commands),
            "quit": lambda: "",
            "kata-get-param": self._get_parameter,
            "kata-set-param": self._set_parameter,
            "gogui-analyze_commands": lambda: "\n".join(GOGUI_COMMANDS),
            **self._board.handlers,
        }

    @property
    def commands(self) -> list[str]:
        """All commands, in alphabetical order."""
        return sorted([*self._simple, *_GENMOVE, *_ANALYZE, *_GENMOVE_ANALYZE, _RAW_NN])

    async def run(self, lines: asyncio.Queue[str | None]) -> None:
        """Answer line after line, until ``quit`` or the end (None)."""
        try:
            while (line := await lines.get()) is not None:
                # Any line ends an analysis, an empty one too.
                await self._end_analysis()
                command = parse_line(line)
                if command is None:
                    continue
                await self._answer(command)
                if command.name == "quit":
                    return
        finally:
            await self._end_analysis()

    async def _answer(self, command: Command) -> None:
        try:
            if command.name in _ANALYZE:
                self._begin_analysis(command)
            elif command.name in _GENMOVE_ANALYZE:
                await self._genmove_analyze(command)
            elif command.name == _RAW_NN:
                self._say(success(command, await self._raw_nn(command)))
            elif command.name in _GENMOVE:
                self._say(success(command, await self._genmove(command)))
            else:
                self._say(success(command, self._simple_answer(command)))
        except ZerofleetError as error:
            self._say(failure(command, str(error)))

    def _simple_answer(self, command: Command) -> str:
        handler = self._simple.get(command.name)
        if handler is None:
            raise GtpError("unknown command")
        try:
            inspect.signature(handler).bind(*command.arguments)
        except TypeError as error:
            raise GtpError(f"{command.name}: {error}") from error
        return handler(*command.arguments)

    def _known_command(self, name: str) -> str:
        return "true" if name in self.commands else "false"

    def _version(self) -> str:
        run, best = self._description.run, self._description.best
        version = best if self._requested_version == BEST else self._requested_version
        return f"{_DIALECT_VERSION} zerofleet {__version__}, run {run}, model {version}"

    def _get_parameter(self, name: str) -> str:
        """Return a KataGo parameter that exists here: the simulations of a move."""
        if name == _ADVANTAGE:
            return "0"
        if name != _MAX_VISITS:
            raise GtpError(f"unknown parameter '{name}': there are {_MAX_VISITS} and {_ADVANTAGE}")
        return str(self._search.get("simulations") or self._description.num_simulations)

    def _set_parameter(self, name: str, value: str) -> str:
        self._get_parameter(name)
        if name == _ADVANTAGE:
            if parse_decimal(value.removeprefix("-"), name):
                raise GtpError(f"{name} is {value}: only 0 is supported")
            return ""
        simulations, most = parse_number(value, name), self._description.max_simulations
        if not 1 <= simulations <= most:
            raise GtpError(f"{name} is {value}: give 1 to {most}")
        self._search = self._search | SearchOptions(simulations=simulations)
        return ""

    async def _raw_nn(self, command: Command) -> str:
        """Return the network's prediction without a search, under one or all symmetries."""
        position, game = self._board.position, self._description.game
        actions = position.asked_as(None)
        size = self._description.observation_shape[1]
        texts: list[str] = []
        for symmetry in parse_symmetries(command.arguments):
            seen = [transformed(action, symmetry, size) for action in actions]
            prediction = await self._player.predict(
                seen,
                game=game,
                start=transformed_start(game, position.start, symmetry),
                version=self._requested_version,
            )
            texts.append(raw_nn_text(prediction, symmetry, size))
        return "\n".join(texts)

    async def _genmove(self, command: Command) -> str:
        if len(command.arguments) != 1:
            raise GtpError(f"{command.name}: give a colour")
        player = parse_player(command.arguments[0])
        return await self._move(player, play=command.name == "genmove")

    async def _genmove_analyze(self, command: Command) -> None:
        """Like ``genmove``, with lines during the search; commands in the meantime wait."""
        options = parse_options(command.arguments)
        dialect = _GENMOVE_ANALYZE[command.name]
        self._say(f"={command.number}\n")
        player = self._board.position.state.to_play if options.player is None else options.player
        try:
            move = await self._move(player, play=True, shown=_Shown(options, dialect))
        except ZerofleetError as error:
            # The response has begun, so it can no longer be an error.
            self._complain(f"no move: {error}")
            self._say("\n")
            return
        self._say(f"play {move}\n\n")

    async def _move(self, player: int, *, play: bool, shown: _Shown | None = None) -> str:
        """Return the vertex that the player chooses; after the end of the game, a pass."""
        position = self._board.position
        if position.state.is_terminal:
            move = "pass"
        else:
            seconds = _SIGN_OF_LIFE_SECONDS if shown is None else shown.options.seconds
            tables = self._tables(player, self._search, seconds)
            move = ""
            async with contextlib.aclosing(tables):
                async for table in tables:
                    move = table.best_action_string
                    if shown is not None:
                        self._show(table, shown)
        if play:
            position.play(player, move)
        return move

    def _begin_analysis(self, command: Command) -> None:
        """Search until the next line comes."""
        shown = _Shown(parse_options(command.arguments), _ANALYZE[command.name])
        options = self._search | SearchOptions(
            simulations=self._description.max_analysis_simulations
        )
        # Errors in the position are reported before the search begins.
        tables = self._tables(shown.options.player, options, shown.options.seconds)
        response = _Response(command)
        task = asyncio.create_task(self._analyze(response, tables, shown))
        self._analysis = (task, response)

    async def _analyze(
        self, response: _Response, tables: AsyncGenerator[SearchTable], shown: _Shown
    ) -> None:
        try:
            async with contextlib.aclosing(tables):
                async for table in tables:
                    if not response.begun:
                        self._say(f"={response.command.number}\n")
                        response.begun = True
                    self._show(table, shown)
        except ZerofleetError as error:
            if response.begun:
                self._complain(f"the analysis broke off: {error}")
            else:
                self._say(failure(response.command, str(error)))
                response.ended = True

    async def _end_analysis(self) -> None:
        """End the response of an analysis, complete or not."""
        if self._analysis is None:
            return
        task, response = self._analysis
        self._analysis = None
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        if not response.ended:
            self._say("\n" if response.begun else success(response.command))

    def _tables(
        self, player: int | None, options: SearchOptions, seconds: float
    ) -> AsyncGenerator[SearchTable]:
        return self._player.analyze(
            self._board.position.asked_as(player),
            game=self._description.game,
            start=self._board.position.start,
            version=self._requested_version,
            every_seconds=seconds,
            **options,
        )

    def _show(self, table: SearchTable, shown: _Shown) -> None:
        vertex = self._board.position.state.action_to_string
        self._say(analysis_line(table, shown.options, shown.dialect, vertex) + "\n")


@dataclass(frozen=True, slots=True)
class _Shown:
    """Selection and format of the lines of an analysis."""

    options: AnalysisOptions
    dialect: Dialect


@dataclass(slots=True)
class _Response:
    """Progress of the response of an analysis."""

    command: Command
    begun: bool = False
    ended: bool = False


async def serve_gtp(address: str, options: EngineOptions, credentials: ClientCredentials) -> None:
    """Answer a controller until it sends ``quit`` or disconnects.

    Raises:
        ConfigError: the server plays another game than Go, or the connection would be plaintext.
        ZerofleetError: the server does not answer.
    """
    async with AsyncPlayer(address, timeout=_GREETING_SECONDS, **credentials) as greeter:
        description = await greeter.describe()
    async with AsyncPlayer(address, **credentials) as player:
        if not is_go(description.game):
            raise ConfigError(
                f"GTP is for Go, and {address} plays '{description.game}': "
                "play it with `zerofleet play`"
            )
        engine = Engine(player, description, options, write, complain)
        # A controller that has disconnected reads no further answers.
        with contextlib.suppress(BrokenPipeError):
            await engine.run(read_stdin())
