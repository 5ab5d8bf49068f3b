"""Playing against a model, and analysing a position with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from typing import Any

from zerofleet.client import PlayerDescription, SearchTable
from zerofleet.errors import ZerofleetError
from zerofleet.games import State, format_actions
from zerofleet.rpc.codec import BEST
from zerofleet.services.dashboard.board import Board
from zerofleet.services.dashboard.board_position import GameBoard, board_of
from zerofleet.services.dashboard.frame import (
    Frame,
    Visit,
    asked_actions,
    asked_choice,
    said_heading,
)
from zerofleet.services.dashboard.search_table import (
    Candidate,
    CandidateTable,
    SimulationsField,
    versions_of,
    visit_marks,
)
from zerofleet.services.dashboard.toolkit import events, ui

_EVERY_SECONDS = 0.3  # tables of an analysis
_VARIATION_PLIES = 8
_SIDES = {"first": "first player", "second": "second player", "both": "both sides"}
_SWITCH = {"off": False, "on": True}
_PERSPECTIVE = "Values are for the first player: +1 is a win, -1 a loss."


def add_play_page(frame: Frame) -> None:
    """Register it."""

    @frame.page("/play", "Play", "model", "side", "simulations", "hints", "moves")
    async def _(visit: Visit) -> None:
        own = visit.sources.run
        said_heading("Play")
        if visit.run.name != own.name:
            ui.label(
                f"The inference service of this page serves the run '{own.name}': models of "
                f"'{visit.run.name}' can be played where its own dashboard runs."
            ).classes("zf-message")
            return
        actions = await asyncio.to_thread(asked_actions, visit, own.game)
        board = await asyncio.to_thread(board_of, own.game)
        with visit.sources.asking("Inference"):
            described = await visit.sources.player.describe()
        await PlayView(visit, board, described, actions).open()


class PlayView:
    """A game of a visitor against a model, on one page.

    Args:
        visit: whose page it is.
        game_board: of the run's game.
        described: what the inference service has.
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
        self._search: asyncio.Task[None] | None = None
        self._table_shown: SearchTable | None = None
        self._resigned: int | None = None  # who gave up
        versions = versions_of(described)
        self._version = asked_choice(visit, "model", versions, BEST)
        self._side = asked_choice(visit, "side", _SIDES, "first")
        self._hints = _SWITCH[asked_choice(visit, "hints", _SWITCH, "off")]
        self._value_shown = True
        with ui.element("div").classes("zf-tools"):
            ui.select(
                versions, label="model", value=self._version, on_change=self._choose_version
            ).classes("zf-field")
            ui.select(_SIDES, label="you are", value=self._side, on_change=self._choose_side)
            self._simulations = SimulationsField(visit, described, self._moved)
            ui.switch("hints", value=self._hints, on_change=self._choose_hints)
            ui.switch("value", value=True, on_change=self._choose_value)
        with ui.element("div").classes("zf-play"):
            with ui.element("section").classes("zf-panel"):
                self._status = ui.label().classes("zf-title").props('role="status"')
                self._board = Board(game_board, on_play=self._play, on_hover=self._hover)
                self._buttons()
            with ui.element("section").classes("zf-panel zf-side"):
                self._value = ui.label().classes("zf-figure")
                self._trouble = ui.label().classes("zf-trouble").props('role="alert"')
                self._again = ui.button("Try again", on_click=self.start)
                self._again.props('outline dense no-caps padding="2px 10px"').set_visibility(False)
                self._expected = ui.label("").classes("zf-note")
                ui.label(_PERSPECTIVE).classes("zf-note")
                self._no_hints = ui.label(
                    "Hints show here what the model thinks of each move: visits of its search, the "
                    "value (the expected result), the network's prior, and the expected line."
                ).classes("zf-note")
                self._table = CandidateTable(
                    self._hover, "action", "visits", "share", "value", "prior", "line"
                )
                self._line = ui.label().classes("zf-note zf-wrap zf-line-so-far")
        visit.while_here(self._stop, self.start)

    async def open(self) -> None:
        """Start, the position being there at once."""
        self.start()
        await self._board.sought()

    def start(self) -> None:
        """Show the position, then answer, analyse or wait for the visitor.

        The end of a game cannot be searched: hints are then for the position before the last move.
        """
        self._stop()
        state = State(self._game_board.game, self._actions)
        over = state.is_terminal or self._resigned is not None
        mine = self._side == "both" or state.to_play == ("first", "second").index(self._side)
        self._table_shown = None
        self._table.show_search(())
        self._table.set_visibility(self._hints)
        self._no_hints.set_visibility(not self._hints)
        self._complain("")
        self._value.set_text("")
        self._expected.set_text("")
        if over:
            self._say_result(state)
        self._line.set_text(format_actions(self._game_board.game, self._actions))
        self._status.set_text(self._words(state, mine=mine, over=over))

        def search() -> None:
            if not over and not mine:
                self._search = self._running(self._answer())
            elif self._hints:
                self._search = self._running(self._analyse(ended=state.is_terminal))

        self._board.seek(self._actions, playable=mine and not over, then=search)

    def _buttons(self) -> None:
        with ui.element("div").classes("zf-tools"):
            for words, done in (
                ("Undo", self._undo),
                ("Resign", self._resign),
                ("New game", self._new),
            ):
                ui.button(words, on_click=done).props('outline dense no-caps padding="2px 10px"')
            ui.label("Arrow keys move over the board, Enter plays.").classes("zf-note")

    def _running(self, search: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        async def told() -> None:
            try:
                with self._visit.sources.asking("Inference"):
                    await search
            except ZerofleetError as error:
                self._complain(str(error))

        return asyncio.create_task(told())

    async def _answer(self) -> None:
        table = await self._visit.sources.player.search(
            self._actions, simulations=self._simulations.value, version=self._version
        )
        self._actions.append(table.best_action)
        self._search = None  # it is this task that goes on
        self._moved()
        if self._value_shown and not self._hints:
            ended = State(self._game_board.game, self._actions).is_terminal
            self._say_value(table, ended=ended)

    async def _analyse(self, *, ended: bool) -> None:
        actions = tuple(self._actions[:-1] if ended else self._actions)
        analysis = self._visit.sources.player.analyze(
            actions,
            every_seconds=_EVERY_SECONDS,
            simulations=self._simulations.value,
            version=self._version,
        )
        async with contextlib.aclosing(analysis) as tables:
            async for table in tables:
                candidates = await asyncio.to_thread(self._candidates, table, actions)
                self._draw(table, candidates, ended=ended)

    def _candidates(self, table: SearchTable, actions: Sequence[int]) -> list[Candidate]:
        """With variations in words, for which rules of OpenSpiel or in Python take long."""
        state = State(self._game_board.game, actions)
        sign = 1 - 2 * table.to_play
        shown = self._value_shown
        return [
            Candidate(
                action=child.action,
                text=child.action_string,
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
        by = f"model {table.version}, {table.simulations:,} simulations"
        if ended or self._resigned is not None:
            before = "the last move" if ended else "the resignation"
            self._expected.set_text(f"Before {before}: {value:+z.3f} by {by}")
        else:
            self._value.set_text(f"Value for the first player: {value:+z.3f} by {by}")

    def _say_result(self, state: State) -> None:
        """Show the result as the value of a finished game."""
        if self._value_shown:
            self._value.set_text(f"Value for the first player: {self._result(state):+d} (result)")

    def _result(self, state: State) -> int:
        if self._resigned is not None:
            return -1 if self._resigned == 0 else 1
        return state.result

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

    def _moved(self) -> None:
        """Put the position and all choices into the address, then take the next step."""
        moves = format_actions(self._game_board.game, self._actions)
        with self._status:
            ui.navigate.history.replace(
                self._visit.link(
                    "/play",
                    model=self._version,
                    side=self._side,
                    simulations=self._simulations.in_address,
                    hints="on" if self._hints else None,
                    moves=moves or None,
                )
            )
        self.start()

    def _undo(self) -> None:
        """Back to the visitor's last decision, if there was one."""
        self._resigned = None
        state = State(self._game_board.game)
        mine: list[int] = []
        for ply, action in enumerate(self._actions):
            if self._side == "both" or state.to_play == ("first", "second").index(self._side):
                mine.append(ply)
            state.apply(action)
        if mine:
            del self._actions[mine[-1] :]
        self._moved()

    def _resign(self) -> None:
        state = State(self._game_board.game, self._actions)
        if not state.is_terminal:
            self._resigned = (
                state.to_play if self._side == "both" else ("first", "second").index(self._side)
            )
            self.start()

    def _new(self) -> None:
        self._resigned = None
        self._actions.clear()
        self._moved()

    def _words(self, state: State, *, mine: bool, over: bool) -> str:
        result = self._result(state)
        how = "" if self._resigned is None else " by resignation"
        if over and result == 0:
            return "A draw."
        if over:
            winner = "first" if result > 0 else "second"
            if self._side == "both":
                return f"The {winner} player won{how}."
            return f"You won{how}." if winner == self._side else f"The model won{how}."
        if not mine:
            return "The model searches."
        to_play = ("first", "second")[state.to_play]
        return f"The {to_play} player is to play." if self._side == "both" else "Your action."

    def _complain(self, words: str) -> None:
        self._trouble.set_text(words)
        self._again.set_visibility(bool(words))

    def _stop(self) -> bool:
        """End the search; whether there was one, or one was about to begin."""
        stopped = self._board.stop_waiting()
        if self._search is not None:
            stopped = self._search.cancel() or stopped
            self._search = None
        return stopped

    def _choose_version(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._version = str(event.value)
        self._moved()

    def _choose_side(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._side = str(event.value)
        self._moved()

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
        words.append(state.action_to_string(action))
        state.apply(action)
    return " ".join(words)
