"""Playing against a model, and analysing a position with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Sequence
from typing import Any

from services.dashboard.board import Board
from services.dashboard.board_position import GameBoard, board_of
from services.dashboard.frame import Frame, Visit, asked_actions, said_heading
from services.dashboard.search_table import Candidate, CandidateTable, visit_marks
from services.dashboard.toolkit import events, ui
from zerofleet.client import PlayerDescription, SearchTable
from zerofleet.errors import ZerofleetError
from zerofleet.games import State, format_actions
from zerofleet.rpc.codec import BEST

_EVERY_SECONDS = 0.3  # tables of an analysis
_VARIATION_PLIES = 8
_SIDES = {"first": "first player", "second": "second player", "both": "both (analyse)"}
_LONGEST_LINK = 20_000  # characters of moves


def add_play_page(frame: Frame) -> None:
    """Register it."""

    @frame.page("/play", "Play")
    async def _(visit: Visit) -> None:
        own = visit.sources.run
        said_heading("Play")
        if visit.run.name != own.name:
            ui.label(
                f"The inference service of this page serves the run '{own.name}': models of "
                f"'{visit.run.name}' can be played where its own dashboard runs."
            ).classes("zf-message")
            return
        moves = visit.parameters.get("moves", "")
        actions = await asyncio.to_thread(asked_actions, own.game, moves, _LONGEST_LINK)
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
        self._described = described
        self._actions = actions
        self._search: asyncio.Task[None] | None = None
        self._table_shown: SearchTable | None = None
        self._resigned: int | None = None  # who gave up
        asked = visit.parameters
        versions = {BEST: "best", **{str(v): f"model {v}" for v in reversed(described.versions)}}
        self._version = asked.get("model", BEST) if asked.get("model") in versions else BEST
        self._side = asked.get("side", "first") if asked.get("side") in _SIDES else "first"
        self._simulations = described.num_simulations
        self._hints = self._side == "both"
        self._value_shown = True
        with ui.element("div").classes("zf-tools"):
            ui.select(
                versions, label="model", value=self._version, on_change=self._choose_version
            ).classes("zf-field")
            ui.select(_SIDES, label="you are", value=self._side, on_change=self._choose_side)
            simulations = ui.number(
                "simulations",
                value=self._simulations,
                min=1,
                max=described.max_simulations,
                precision=0,
                on_change=self._choose_simulations,
            )
            simulations.props(f'hint="1 to {described.max_simulations:,}"').classes("zf-field")
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
                self._no_hints = ui.label(
                    "Hints show here what the model thinks of each move: visits of its search, Q "
                    "(the expected result, -1 to 1), the network's prior, and the expected line."
                ).classes("zf-note")
                self._table = CandidateTable(
                    self._hover, "action", "visits", "share", "q", "prior", "line"
                )
                self._line = ui.label().classes("zf-note zf-wrap zf-line-so-far")
        visit.while_here(self._stop, self.start)

    async def open(self) -> None:
        """Start, the position being there at once."""
        self.start()
        await self._board.sought()

    def start(self) -> None:
        """Show the position, and do what is next: answer, analyse, or wait for the visitor."""
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
        self._line.set_text(format_actions(self._game_board.game, self._actions))
        self._status.set_text(self._words(state, mine=mine, over=over))

        def search() -> None:
            if not over and not mine:
                self._search = self._running(self._answer())
            elif not over and self._hints:
                self._search = self._running(self._analyse())

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
            self._actions, simulations=self._simulations, version=self._version
        )
        self._actions.append(table.best_action)
        self._search = None  # it is this task that goes on
        self._moved()
        if self._value_shown and not self._hints:
            self._say_value(table)

    async def _analyse(self) -> None:
        analysis = self._visit.sources.player.analyze(
            self._actions,
            every_seconds=_EVERY_SECONDS,
            simulations=self._simulations,
            version=self._version,
        )
        async with contextlib.aclosing(analysis) as tables:
            async for table in tables:
                candidates = await asyncio.to_thread(self._candidates, table, tuple(self._actions))
                self._draw(table, candidates)

    def _candidates(self, table: SearchTable, actions: Sequence[int]) -> list[Candidate]:
        """With variations in words, for which rules of OpenSpiel or in Python take long."""
        state = State(self._game_board.game, actions)
        words = {child.action: child.action_string for child in table.children}
        return [
            Candidate(
                action=child.action,
                text=words[child.action],
                visits=child.visit_count,
                prior=child.prior,
                q_value=child.q_value if self._value_shown else None,
                line=_variation_words(state, child.principal_variation)
                if child.visit_count
                else "",
            )
            for child in table.children
        ]

    def _draw(self, table: SearchTable, candidates: Sequence[Candidate]) -> None:
        self._table_shown = table
        self._table.show_search(candidates)
        best = table.best_action
        self._board.draw_marks(visit_marks(candidates, values=self._value_shown), best=best)
        if self._value_shown:
            self._say_value(table)

    def _say_value(self, table: SearchTable) -> None:
        value = table.root_value * (1 - 2 * table.to_play)
        self._value.set_text(
            f"{value:+z.3f} for the first player: model {table.version}, "
            f"{table.simulations:,} simulations"
        )

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
        """The position is another one: the address follows, and what is next begins."""
        moves = format_actions(self._game_board.game, self._actions)
        with self._status:
            ui.navigate.history.replace(
                self._visit.link("/play", model=self._version, side=self._side, moves=moves or None)
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
        result = state.result
        if self._resigned is not None:
            result = -1 if self._resigned == 0 else 1
            how = " by resignation"
        else:
            how = ""
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
        self.start()

    def _choose_side(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._side = str(event.value)
        self.start()

    def _choose_simulations(self, event: events.ValueChangeEventArguments[Any]) -> None:
        if event.value is not None and 1 <= event.value <= self._described.max_simulations:
            self._simulations = int(event.value)
            self.start()

    def _choose_hints(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._hints = bool(event.value)
        self.start()

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
