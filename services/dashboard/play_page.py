"""The Play page: a game against a model, and what it shares with other pages that search."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from zerofleet.client import PlayerDescription, SearchTable
from zerofleet.errors import ZerofleetError
from zerofleet.fleet.report import counted
from zerofleet.games import State, spec
from zerofleet.games.game_board import GameBoard, board_of
from zerofleet.games.notation import numbered_moves
from zerofleet.rpc.codec import BEST
from zerofleet.services.dashboard.board import Board, flip_button
from zerofleet.services.dashboard.candidates import Candidate, CandidateTable, visit_marks
from zerofleet.services.dashboard.frame import (
    Frame,
    Visit,
    asked_actions,
    asked_choice,
    asked_start,
    hidden_heading,
    sentence,
)
from zerofleet.services.dashboard.position_field import CopyFields, PositionField, line_record
from zerofleet.services.dashboard.sources import ShownRun
from zerofleet.services.dashboard.toolkit import events, ui

_EVERY_SECONDS = 0.3  # between two tables of an analysis
_VARIATION_PLIES = 8
_SIDES = ("first", "second", "both")
_SWITCH = {"off": False, "on": True}
_RINGED = "The ringed move is the model's choice."
_RING_WORDS = {
    "gumbel": f"{_RINGED} Its value has the best lower confidence bound. A move with few visits "
    "may show a better value, which is less certain.",
    "puct": f"{_RINGED} It has the most visits. Another move may have a better value.",
}
"""Explanation of a client search's choice by ``search.root``: ``client_search``."""


@dataclass(frozen=True, slots=True)
class PlayedLine:
    """A game up to a position, with the words and the player of each action.

    Rules of OpenSpiel or in Python may be slow, so call ``at`` in a thread. The other methods use
    no rules.
    """

    game: str
    state: State | None = None
    """Position after the actions, never changed; None: the rules were not used yet."""
    actions: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    players: tuple[int, ...] = ()
    to_play: int = 0
    result: int | None = None
    """Result for the first player; None: the game is not over."""
    start: str = ""
    """Start position; empty: the usual one."""
    position: str = ""
    """The position in the game's notation; empty: the game has none."""

    def at(self, actions: Sequence[int]) -> PlayedLine:
        """Return the line of these actions, from the start position.

        If it begins with the actions of this line, the rules are used for the new actions only.

        Raises:
            ValueError: an action that the rules forbid.
        """
        begins = self.state is not None and tuple(actions[: len(self.actions)]) == self.actions
        before = self if begins else PlayedLine(self.game, start=self.start)
        state = before.state.copy() if before.state else State(self.game, [], self.start)
        words, players = list(before.words), list(before.players)
        for action in actions[len(before.actions) :]:
            words.append(state.action_to_san(action))
            players.append(state.to_play)
            state.apply(action)
        return PlayedLine(
            self.game,
            state,
            tuple(actions),
            tuple(words),
            tuple(players),
            state.to_play,
            state.result if state.is_terminal else None,
            self.start,
            state.setup_text() if spec(self.game).sets_up_positions else "",
        )

    @property
    def text(self) -> str:
        """The actions, as the address has them."""
        return " ".join(self.words)


def versions_of(described: PlayerDescription) -> dict[str, str]:
    """Return the models of the inference service with their labels: best, then the newest first."""
    return {BEST: "best", **{str(v): f"model {v}" for v in reversed(described.versions)}}


class SimulationsField:
    """Field for the simulations of each search, with a message if a number is not allowed.

    Args:
        visit: its address may have ``simulations``.
        described: description of the inference service, with the limits.
        changed: called when the number has changed.
        props: further properties of the field.
    """

    def __init__(
        self,
        visit: Visit,
        described: PlayerDescription,
        changed: Callable[[], None],
        props: str = "",
    ) -> None:
        self.value = _asked_simulations(visit, described)
        self._described = described
        self._changed = changed
        most = described.max_simulations
        field = ui.number(
            "Simulations", value=self.value, min=1, max=most, precision=0, on_change=self._choose
        )
        field.props(f'{props} hint="1 to {most:,}"').classes("zf-field")
        self._message = ui.label("").classes("zf-trouble").props('role="alert"')

    @property
    def in_address(self) -> int | None:
        """Return the number for the address; None: the default, which the address leaves out."""
        return None if self.value == self._described.num_simulations else self.value

    def _choose(self, event: events.ValueChangeEventArguments[float | None]) -> None:
        if event.value is None:
            return
        used, words = _allowed_simulations(event.value, self._described)
        if used != self.value or words:  # otherwise the field shows the number that is used
            self.value = used
            self._message.set_text(words)
            self._changed()


def _asked_simulations(visit: Visit, described: PlayerDescription) -> int:
    """Return the ``simulations`` of each search, within the limits of the inference service."""
    value = visit.parameters.get("simulations", "")
    if not value:
        return described.num_simulations
    if value.isascii() and value.isdecimal():
        used, words = _allowed_simulations(float(value[:12]), described)
    else:
        used = described.num_simulations
        words = f"simulations={value[:80]} is not a whole number. {used:,} is used instead."
    if words:
        visit.note(words)
    return used


def _allowed_simulations(given: float, described: PlayerDescription) -> tuple[int, str]:
    """Return the nearest allowed number, and a message if it is not the requested one."""
    most = described.max_simulations
    used = int(max(1, min(given, most)))
    if used == given:
        return used, ""
    return (
        used,
        f"{given:,.12g} simulations are not allowed. Give 1 to {most:,}; {used:,} is used instead.",
    )


class SearchView(Protocol):
    """A page that searches a position."""

    async def open(self) -> None:
        """Start, and wait until the position is shown."""
        ...


async def open_view(
    visit: Visit,
    view: Callable[[Visit, GameBoard, PlayerDescription, list[int]], SearchView],
    done_to_models: str,
) -> None:
    """Open a view of the run that this page serves; say so if the visit is to another run.

    Args:
        done_to_models: a participle for the message, such as ``"played"``.
    """
    own = visit.sources.run
    if visit.run.name != own.name:
        ui.label(
            f"The inference service of this page serves the run '{own.name}': models of "
            f"'{visit.run.name}' can be {done_to_models} where its own dashboard runs."
        ).classes("zf-message")
        return
    start = await asyncio.to_thread(asked_start, visit, own.game)
    actions = await asyncio.to_thread(asked_actions, visit, own.game, start)
    board = await asyncio.to_thread(lambda: board_of(own.game).starting_at(start))
    with visit.sources.asking("Inference"):
        described = await visit.sources.player.describe()
    await view(visit, board, described, actions).open()


def add_play_page(frame: Frame) -> None:
    """Register the page."""

    @frame.page("/play", "Play", "model", "side", "simulations", "hints", "start", "moves")
    async def _(visit: Visit) -> None:
        hidden_heading("Play")
        await open_view(visit, PlayView, "played")


class PlayView:
    """A game of a visitor against a model, on one page.

    Args:
        actions: the position that the game begins with.
    """

    def __init__(
        self,
        visit: Visit,
        game_board: GameBoard,
        described: PlayerDescription,
        actions: list[int],
    ) -> None:
        self._visit = visit
        self._game_board = game_board
        self._actions = actions
        self._line = PlayedLine(game_board.game, start=game_board.start_text)
        self._names = game_board.names
        self._has_moved = False  # since the address was set
        self._replaying: asyncio.Task[None] | None = None
        self._search: asyncio.Task[None] | None = None
        self._described = described
        self._table_shown: SearchTable | None = None
        self._resigned: int | None = None  # the player who resigned
        versions = versions_of(described)
        self._version = asked_choice(visit, "model", versions, BEST)
        self._side = asked_choice(visit, "side", _SIDES, "first")
        self._hints = _SWITCH[asked_choice(visit, "hints", _SWITCH, "off")]
        self._value_shown = True
        with ui.element("div").classes("zf-tools"):
            ui.select(
                versions, label="Model", value=self._version, on_change=self._choose_version
            ).classes("zf-field")
            sides = dict(zip(_SIDES, (*game_board.names, "both sides"), strict=True))
            ui.select(
                sides, label="You play", value=self._side, on_change=self._choose_side
            ).classes("zf-field")
            self._simulations = SimulationsField(visit, described, self._moved)
            ui.switch("Hints", value=self._hints, on_change=self._choose_hints)
            ui.switch("Value", value=True, on_change=self._choose_value)
        with ui.element("div").classes("zf-play"):
            with ui.element("section").classes("zf-panel"):
                self._status = ui.label().classes("zf-title").props('role="status"')
                self._board = Board(
                    game_board, on_play=self._play, on_hover=self._hover, flips=True
                )
                self._turn_board()
                self._buttons()
            with ui.element("section").classes("zf-panel zf-side"):
                self._value = ui.label().classes("zf-figure")
                self._trouble = ui.label().classes("zf-trouble").props('role="alert"')
                self._again = ui.button("Try again", on_click=lambda: self.start())
                self._again.props('outline dense no-caps padding="2px 10px"').set_visibility(False)
                self._expected = ui.label("").classes("zf-note")
                ui.label(perspective(self._names)).classes("zf-note")
                self._no_hints = ui.label(
                    "Hints show here what the model thinks of each move: visits of its search, the "
                    "value (the expected result), the network's prior, and the expected line."
                ).classes("zf-note")
                self._ring = ui.label(ring_words(visit.run)).classes("zf-note")
                columns = ("action", "visits", "share", "value", "prior", "line")
                self._table = CandidateTable(self._hover, *columns, values_for=self._names[0])
                self._shown_line = ui.label().classes("zf-note zf-wrap zf-line-so-far")
                self._copies = CopyFields(game_board.game)
        self._setup: PositionField | None = None
        if spec(game_board.game).sets_up_positions:
            self._setup = PositionField(game_board.game, self._go_to)
        visit.while_here(self._stop, self.start)

    def _go_to(self, start: str) -> None:
        """Begin a game at another start position."""
        ui.navigate.to(self._address(start))

    async def open(self) -> None:
        """Start, and wait until the position is shown."""
        self.start()
        if self._replaying is not None:
            await self._replaying
        await self._board.sought()

    def start(self, answer: SearchTable | None = None) -> None:
        """Show the position, then answer, analyse or wait for the visitor.

        The end of a game cannot be searched, so hints are then for the position before the last
        move.

        Args:
            answer: the search for the model's last move, whose value is shown; None: the model did
                not move.
        """
        self._stop()
        self._board.lock()
        self._table_shown = None
        self._replaying = asyncio.create_task(self._show(answer))

    async def _show(self, answer: SearchTable | None) -> None:
        """Show the position after the rules have processed it."""
        line = await self._replayed()
        record = await asyncio.to_thread(self._record, line)
        if self._has_moved:
            self._has_moved = False
            self._set_address()
        ended = line.result is not None
        over = ended or self._resigned is not None
        mine = self._is_visitors(line.to_play)
        self._table.show_search(())
        self._table.set_visibility(self._hints)
        self._ring.set_visibility(self._hints)
        self._no_hints.set_visibility(not self._hints)
        self._complain("")
        self._value.set_text("")
        self._expected.set_text("")
        if over:
            self._say_result(line)
        self._shown_line.set_text(numbered_moves(line.game, line.words, line.start))
        if self._setup is not None:
            self._setup.show(line.position)
        self._copies.show(line.position, record)
        self._status.set_text(self._words(line, mine=mine, over=over))
        if answer is not None and self._value_shown and not self._hints:
            self._say_value(answer, ended=ended)

        def search() -> None:
            if not over and not mine:
                self._search = self._running(self._answer())
            elif self._hints:
                self._search = self._running(self._analyse(ended=ended))

        self._board.seek(self._actions, playable=mine and not over, then=search)

    def _record(self, line: PlayedLine) -> str:
        """Return the game so far as PGN or SGF, if it has one."""
        best = self._described.best if self._version == BEST else self._version
        model = f"{self._visit.run.name} {best}"
        players = {"first": ("Visitor", model), "second": (model, "Visitor"), "both": ("", "")}
        return line_record(
            line.game,
            line.actions,
            line.start,
            players[self._side],
            resigned=self._resigned is not None and self._resigned == line.to_play,
        )

    async def _replayed(self) -> PlayedLine:
        """Return the line of the actions so far; a thread applies the rules to new ones."""
        actions = tuple(self._actions)
        if self._line.state is None or self._line.actions != actions:
            self._line = await asyncio.to_thread(self._line.at, actions)
        return self._line

    def _is_visitors(self, player: int) -> bool:
        """Whether the visitor plays the actions of a player."""
        return self._side == "both" or player == _SIDES.index(self._side)

    def _buttons(self) -> None:
        with ui.element("div").classes("zf-tools"):
            for words, done in (
                ("Undo", self._undo),
                ("Resign", self._resign),
                ("New game", self._new),
            ):
                ui.button(words, on_click=done).props('outline dense no-caps padding="2px 10px"')
            flip_button()
            ui.label("Arrow keys move over the board, Enter plays.").classes("zf-note")

    def _running(self, search: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def run() -> None:
            try:
                with self._visit.sources.asking("Inference"):
                    await search
            except ZerofleetError as error:
                self._complain(str(error))

        return asyncio.create_task(run())

    async def _answer(self) -> None:
        table = await self._visit.sources.player.search(
            self._actions,
            start=self._line.start,
            simulations=self._simulations.value,
            version=self._version,
        )
        self._actions.append(table.best_action)
        self._search = None  # it is this task that continues
        self._moved(table)

    async def _analyse(self, *, ended: bool) -> None:
        actions = tuple(self._actions[:-1] if ended else self._actions)
        analysis = self._visit.sources.player.analyze(
            actions,
            start=self._line.start,
            every_seconds=_EVERY_SECONDS,
            simulations=self._simulations.value,
            version=self._version,
        )
        async with contextlib.aclosing(analysis) as tables:
            async for table in tables:
                candidates = await asyncio.to_thread(self._candidates, table, actions)
                self._draw(table, candidates, ended=ended)

    def _candidates(self, table: SearchTable, actions: Sequence[int]) -> list[Candidate]:
        """Return candidates with their lines as text. Slow for OpenSpiel and Python games."""
        state = State(self._game_board.game, actions, self._line.start)
        sign = 1 - 2 * table.to_play
        shown = self._value_shown
        return [
            Candidate(
                action=child.action,
                text=state.action_to_san(child.action),
                visits=child.visit_count,
                prior=child.prior,
                value=sign * child.q_value if shown and child.q_value is not None else None,
                line=_variation_words(state, child.principal_variation)
                if child.visit_count
                else "",
            )
            for child in table.ranked
        ]

    def _draw(self, table: SearchTable, candidates: Sequence[Candidate], *, ended: bool) -> None:
        self._table_shown = None if ended else table
        self._table.show_search(candidates)
        if not ended:
            marks = visit_marks(candidates, values=self._value_shown)
            self._board.draw_marks(marks, best=table.best_action)
        if self._value_shown:
            self._say_value(table, ended=ended)
        elif ended:
            self._expected.set_text("Before the last move:")

    def _say_value(self, table: SearchTable, *, ended: bool) -> None:
        """Show the value of a search, below the result at the end of a game."""
        value = table.root_value * (1 - 2 * table.to_play)
        by = f"model {table.version}, {counted(table.simulations, 'simulation')}"
        if ended or self._resigned is not None:
            before = "the last move" if ended else "the resignation"
            self._expected.set_text(f"Before {before}: {value:+z.3f} by {by}")
        else:
            self._value.set_text(f"Value for {self._names[0]}: {value:+z.3f} by {by}")

    def _say_result(self, line: PlayedLine) -> None:
        """Show the result as the value of a finished game."""
        if self._value_shown:
            self._value.set_text(f"Value for {self._names[0]}: {self._result(line):+d} (result)")

    def _result(self, line: PlayedLine) -> int:
        if self._resigned is not None:
            return -1 if self._resigned == 0 else 1
        return line.result or 0

    async def _hover(self, action: int | None) -> None:
        line: tuple[int, ...] = ()
        if action is not None and self._table_shown is not None:
            for child in self._table_shown.children:
                if child.action == action and child.visit_count:
                    line = child.principal_variation[:_VARIATION_PLIES]
        await self._board.draw_variation(self._actions, line)

    def _play(self, action: int) -> None:
        self._actions.append(action)
        self._moved()

    def _moved(self, answer: SearchTable | None = None) -> None:
        """Take the next step, and put the position and all choices into the address."""
        self._has_moved = True
        self.start(answer)

    def _set_address(self) -> None:
        with self._status:
            ui.navigate.history.replace(self._address(self._line.start, self._line.text))

    def _address(self, start: str, moves: str = "") -> str:
        """Return the address of a game from a start position, with all choices."""
        return self._visit.link(
            "/play",
            model=self._version,
            side=self._side,
            simulations=self._simulations.in_address,
            hints="on" if self._hints else None,
            start=start or None,
            moves=moves or None,
        )

    async def _undo(self) -> None:
        """Go back to the visitor's last decision, if there was one."""
        self._stop()
        self._board.lock()
        self._resigned = None
        players = (await self._replayed()).players
        mine = [ply for ply, player in enumerate(players) if self._is_visitors(player)]
        if mine:
            del self._actions[mine[-1] :]
        self._moved()

    async def _resign(self) -> None:
        line = await self._replayed()
        if line.result is None:
            self._resigned = line.to_play if self._side == "both" else _SIDES.index(self._side)
            self.start()

    def _new(self) -> None:
        if self._line.start:
            self._go_to("")
            return
        self._resigned = None
        self._actions.clear()
        self._moved()

    def _words(self, line: PlayedLine, *, mine: bool, over: bool) -> str:
        result = self._result(line)
        how = "" if self._resigned is None else " by resignation"
        if over and result == 0:
            return "A draw."
        if over:
            winner = 0 if result > 0 else 1
            if self._side == "both":
                return f"{sentence(self._names[winner])} won{how}."
            return f"You won{how}." if self._is_visitors(winner) else f"The model won{how}."
        if not mine:
            return "The model is searching."
        to_play = sentence(self._names[line.to_play])
        return f"{to_play} is to play." if self._side == "both" else "Your move."

    def _complain(self, words: str) -> None:
        self._trouble.set_text(words)
        self._again.set_visibility(bool(words))

    def _stop(self) -> bool:
        """End the search; return whether one was running or about to begin."""
        stopped = self._board.stop_waiting()
        if self._replaying is not None:
            stopped = self._replaying.cancel() or stopped
        if self._search is not None:
            stopped = self._search.cancel() or stopped
            self._search = None
        return stopped

    def _choose_version(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._version = str(event.value)
        self._moved()

    def _choose_side(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._side = str(event.value)
        self._turn_board()
        self._moved()

    def _turn_board(self) -> None:
        self._board.turn(1 if self._side == "second" else 0)

    def _choose_hints(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._hints = bool(event.value)
        self._moved()

    def _choose_value(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._value_shown = bool(event.value)
        self.start()


def _variation_words(start: State, line: Sequence[int]) -> str:
    state = start.copy()
    words: list[str] = []
    for action in line[:_VARIATION_PLIES]:
        words.append(state.action_to_san(action))
        state.apply(action)
    return " ".join(words)


def ring_words(run: ShownRun) -> str:
    """Return sentences for a page that rings the best action of a search."""
    return _RINGED if run.config is None else _RING_WORDS[run.config.search.root]


def perspective(names: tuple[str, str]) -> str:
    """Return a sentence on whose values a page shows."""
    return f"Values are for {names[0]}: +1 is a win, -1 a loss."
