"""Two models on one position."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from zerofleet.client import PlayerDescription, SearchTable
from zerofleet.errors import ZerofleetError
from zerofleet.fleet.report import counted
from zerofleet.games.game_board import GameBoard
from zerofleet.games.notation import numbered_moves
from zerofleet.rpc.codec import BEST
from zerofleet.services.dashboard.board import Board, flip_button
from zerofleet.services.dashboard.candidates import Candidate, CandidateTable, visit_marks
from zerofleet.services.dashboard.frame import (
    Frame,
    NothingThereError,
    Visit,
    hidden_heading,
    there_are,
)
from zerofleet.services.dashboard.play_page import (
    PlayedLine,
    SimulationsField,
    open_view,
    perspective,
    ring_words,
    versions_of,
)
from zerofleet.services.dashboard.position_field import CopyFields, line_record
from zerofleet.services.dashboard.toolkit import events, ui


def add_compare_page(frame: Frame) -> None:
    """Register the page."""

    @frame.page(
        "/compare", "Two models", "models", "simulations", "start", "moves", under="/models"
    )
    async def _(visit: Visit) -> None:
        hidden_heading("Two models on one position")
        await open_view(visit, CompareView, "compared")


class ComparedModel:
    """One of the two models: its choice, its board and its search.

    Args:
        versions: available versions with their labels.
    """

    def __init__(
        self, versions: dict[str, str], version: str, game_board: GameBoard, view: CompareView
    ) -> None:
        self.version = version
        self._view = view
        self._first = game_board.names[0]
        with ui.element("section").classes("zf-panel zf-side"):
            ui.select(versions, label="Model", value=version, on_change=self._choose).props(
                "dense outlined options-dense"
            )
            self._value = ui.label("").classes("zf-figure").props('role="status"')
            self._board = Board(game_board, on_play=view.play, flips=True)
            self._table = CandidateTable(
                None, "action", "visits", "share", "value", "prior", values_for=self._first
            )

    def show(self, actions: list[int], words: str, then: Callable[[], None]) -> None:
        """Show a new position without a search; ``then`` is called when it is shown."""
        self._board.seek(actions, then=then)
        self._table.show_search(())
        self._value.set_text(words)

    def stop_waiting(self) -> bool:
        """See ``Board``."""
        return self._board.stop_waiting()

    def lock(self) -> None:
        """See ``Board``."""
        self._board.lock()

    async def sought(self) -> None:
        """Wait until the position is shown."""
        await self._board.sought()

    def draw(self, table: SearchTable) -> None:
        """Draw the result of its search."""
        side = 1 - 2 * table.to_play
        words = {action.action: action.text for action in self._board.position.actions}
        candidates = [
            Candidate(
                child.action,
                words.get(child.action, child.action_string),
                child.visit_count,
                child.prior,
                None if child.q_value is None else side * child.q_value,
            )
            for child in table.ranked
        ]
        self._table.show_search(candidates)
        self._board.draw_marks(visit_marks(candidates), best=table.best_action)
        self._value.set_text(
            f"Best move: {words.get(table.best_action, table.best_action_string)}. "
            f"Value for {self._first}: {table.root_value * side:+z.3f} "
            f"after {counted(table.simulations, 'simulation')}, "
            f"{table.network_value * side:+z.3f} before."
        )

    def say(self, words: str) -> None:
        """Show a text instead of the result."""
        self._value.set_text(words)

    def _choose(self, event: events.ValueChangeEventArguments[str]) -> None:
        self.version = str(event.value)
        self._view.moved()


class CompareView:
    """Both models on one page.

    Args:
        actions: the position.
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
        self._has_moved = False  # since the address was set
        self._replaying: asyncio.Task[None] | None = None
        self._searches: dict[ComparedModel, asyncio.Task[None]] = {}
        self._stopped: list[ComparedModel] = []
        versions = versions_of(described)
        self._tools(described)
        with ui.element("div").classes("zf-pair"):
            self._models = [
                ComparedModel(versions, version, game_board, self)
                for version in _asked_versions(visit, described, versions)
            ]
        with ui.element("section").classes("zf-panel"):
            self._copies = CopyFields(game_board.game)
        visit.while_here(self._stop, self._resume)

    async def open(self) -> None:
        """Start the searches, and wait until the position is shown."""
        self.ask()
        if self._replaying is not None:
            await self._replaying
        for model in self._models:
            await model.sought()

    def ask(self) -> None:
        """Show the position, and search it with both models."""
        self._stop()
        self._begin(self._models)

    def _begin(self, models: Sequence[ComparedModel]) -> None:
        for model in models:
            model.lock()
        self._replaying = asyncio.create_task(self._replay(models))

    async def _replay(self, models: Sequence[ComparedModel]) -> None:
        self._line = await asyncio.to_thread(self._line.at, tuple(self._actions))
        line = self._line
        self._shown_line.set_text(
            numbered_moves(line.game, line.words, line.start) or "Start position"
        )
        record = await asyncio.to_thread(
            line_record, line.game, line.actions, line.start, ("", ""), resigned=False
        )
        self._copies.show(line.position, record)
        if self._has_moved:
            self._has_moved = False
            self._set_address()
        over = self._line.result is not None
        for model in models:
            words = "The game is over." if over else "Searching ..."
            model.show(self._actions, words, partial(self._begin_search, model, over=over))

    def _resume(self) -> None:
        self._begin(self._stopped)

    def play(self, action: int) -> None:
        """Continue with the position after an action."""
        self._actions.append(action)
        self.moved()

    def moved(self) -> None:
        """Search a new position, and update the address."""
        self._has_moved = True
        self.ask()

    def _set_address(self) -> None:
        with self._shown_line:
            ui.navigate.history.replace(
                self._visit.link(
                    "/compare",
                    models=",".join(model.version for model in self._models),
                    simulations=self._simulations.in_address,
                    start=self._line.start or None,
                    moves=self._line.text or None,
                )
            )

    def _tools(self, described: PlayerDescription) -> None:
        with ui.element("div").classes("zf-tools"):
            self._simulations = SimulationsField(self._visit, described, self.moved, "dense")
            for words, done in (("Back", self._back), ("Start", self._start)):
                button = ui.button(words, on_click=done)
                button.props('outline dense no-caps padding="2px 10px"')
            flip_button()
            self._shown_line = ui.label().classes("zf-wrap")
            ui.label(
                "Click a move to continue. To start from a stored position, open its game. "
                f"{perspective(self._game_board.names)} {ring_words(self._visit.run)}"
            ).classes("zf-note")

    def _begin_search(self, model: ComparedModel, *, over: bool) -> None:
        if not over:
            self._searches[model] = asyncio.create_task(self._search(model))

    async def _search(self, model: ComparedModel) -> None:
        try:
            with self._visit.sources.asking("Inference"):
                table = await self._visit.sources.player.search(
                    self._actions,
                    start=self._line.start,
                    simulations=self._simulations.value,
                    seed=1,
                    version=model.version,
                )
            model.draw(table)
        except ZerofleetError as error:
            model.say(str(error))

    def _back(self) -> None:
        with contextlib.suppress(IndexError):
            self._actions.pop()
        self.moved()

    def _start(self) -> None:
        self._actions.clear()
        self.moved()

    def _stop(self) -> bool:
        """End the searches; return whether any was running or about to begin."""
        begins = self._replaying is not None and self._replaying.cancel()
        self._stopped = list(self._models) if begins else []
        for model in self._models:
            search = self._searches.pop(model, None)
            searched = search is not None and search.cancel()
            if (model.stop_waiting() or searched) and model not in self._stopped:
                self._stopped.append(model)
        return bool(self._stopped)


def _asked_versions(
    visit: Visit, described: PlayerDescription, versions: Mapping[str, str]
) -> list[str]:
    """Return the two versions of the address; otherwise the best, and the one before."""
    requested = [each for each in visit.parameters.get("models", "").split(",") if each]
    for each in requested:
        if each not in versions:
            raise NothingThereError(
                f"the inference service has no model '{each[:20]}' now. {there_are(versions)}"
            )
    if len(requested) > 2:
        visit.note(f"models has {len(requested)} models. The first two are compared.")
    older = [str(v) for v in reversed(described.versions) if v != described.best]
    return [*requested, *([] if BEST in requested else [BEST]), *older, BEST][:2]
