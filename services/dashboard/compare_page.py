"""Two models side by side on one position."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from zerofleet.client import PlayerDescription, SearchTable
from zerofleet.errors import ZerofleetError
from zerofleet.games import State, format_actions
from zerofleet.rpc.codec import BEST
from zerofleet.services.dashboard.board import Board
from zerofleet.services.dashboard.board_position import GameBoard, board_of
from zerofleet.services.dashboard.frame import (
    Frame,
    NothingThereError,
    Visit,
    asked_actions,
    said_heading,
    there_are,
)
from zerofleet.services.dashboard.search_table import (
    Candidate,
    CandidateTable,
    SimulationsField,
    versions_of,
    visit_marks,
)
from zerofleet.services.dashboard.toolkit import events, ui


def add_compare_page(frame: Frame) -> None:
    """Register it."""

    @frame.page("/compare", "Two models", "models", "simulations", "moves", in_menu=False)
    async def _(visit: Visit) -> None:
        own = visit.sources.run
        said_heading("Two models on one position")
        if visit.run.name != own.name:
            ui.label(
                f"The inference service of this page serves the run '{own.name}': models of "
                f"'{visit.run.name}' can be compared where its own dashboard runs."
            ).classes("zf-message")
            return
        actions = await asyncio.to_thread(asked_actions, visit, own.game)
        board = await asyncio.to_thread(board_of, own.game)
        with visit.sources.asking("Inference"):
            described = await visit.sources.player.describe()
        await CompareView(visit, board, described, actions).open()


class ComparedModel:
    """One of the two: its choice, its board and its search.

    Args:
        versions: that may be chosen, with their words.
        version: that is chosen.
        game_board: of the game.
        view: the page.
    """

    def __init__(
        self, versions: dict[str, str], version: str, game_board: GameBoard, view: CompareView
    ) -> None:
        self.version = version
        self._view = view
        with ui.element("section").classes("zf-panel zf-side"):
            ui.select(versions, label="model", value=version, on_change=self._choose).props(
                "dense outlined options-dense"
            )
            self._value = ui.label("").classes("zf-figure").props('role="status"')
            self._board = Board(game_board, on_play=view.play)
            self._table = CandidateTable(None, "action", "visits", "share", "value", "prior")

    def show(self, actions: list[int], words: str, then: Callable[[], None]) -> None:
        """Show a position that was not searched yet; ``then`` is called when it is there."""
        self._board.seek(actions, then=then)
        self._table.show_search(())
        self._value.set_text(words)

    def stop_waiting(self) -> bool:
        """See ``Board``."""
        return self._board.stop_waiting()

    async def sought(self) -> None:
        """Wait until the position is there."""
        await self._board.sought()

    def draw(self, table: SearchTable) -> None:
        """Draw what its search found."""
        side = 1 - 2 * table.to_play
        candidates = [
            Candidate(
                child.action,
                child.action_string,
                child.visit_count,
                child.prior,
                None if child.q_value is None else side * child.q_value,
            )
            for child in table.ranked
        ]
        self._table.show_search(candidates)
        self._board.draw_marks(visit_marks(candidates), best=table.best_action)
        self._value.set_text(
            f"{table.best_action_string}, value {table.root_value * side:+z.3f} for the first "
            f"player after {table.simulations:,} simulations, {table.network_value * side:+z.3f} "
            "before"
        )

    def say(self, words: str) -> None:
        """In place of what was found."""
        self._value.set_text(words)

    def _choose(self, event: events.ValueChangeEventArguments[str]) -> None:
        self.version = str(event.value)
        self._view.moved()


class CompareView:
    """Both models on one page.

    Args:
        visit: whose page it is.
        game_board: of the run's game.
        described: what the inference service has.
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
        self._searches: dict[ComparedModel, asyncio.Task[None]] = {}
        self._stopped: list[ComparedModel] = []
        versions = versions_of(described)
        self._tools(described)
        with ui.element("div").classes("zf-pair"):
            self._models = [
                ComparedModel(versions, version, game_board, self)
                for version in _asked_versions(visit, described, versions)
            ]
        visit.while_here(self._stop, self._resume)

    async def open(self) -> None:
        """Ask, the position being there at once."""
        self.ask()
        for model in self._models:
            await model.sought()

    def ask(self) -> None:
        """Show the position, and have both search it."""
        self._stop()
        self._line.set_text(format_actions(self._game_board.game, self._actions) or "the start")
        self._ask(self._models)

    def _ask(self, models: Sequence[ComparedModel]) -> None:
        over = State(self._game_board.game, self._actions).is_terminal
        for model in models:
            words = "the game is over" if over else "searches"
            model.show(self._actions, words, partial(self._begin, model, over=over))

    def _resume(self) -> None:
        self._ask(self._stopped)

    def play(self, action: int) -> None:
        """Go on to the position after an action."""
        self._actions.append(action)
        self.moved()

    def moved(self) -> None:
        """What is asked is another thing: the address follows."""
        moves = format_actions(self._game_board.game, self._actions)
        models = ",".join(model.version for model in self._models)
        with self._line:
            ui.navigate.history.replace(
                self._visit.link(
                    "/compare",
                    models=models,
                    simulations=self._simulations.in_address,
                    moves=moves or None,
                )
            )
        self.ask()

    def _tools(self, described: PlayerDescription) -> None:
        with ui.element("div").classes("zf-tools"):
            self._simulations = SimulationsField(self._visit, described, self.moved, "dense")
            for words, done in (("Back", self._back), ("Start", self._start)):
                button = ui.button(words, on_click=done)
                button.props('outline dense no-caps padding="2px 10px"')
            self._line = ui.label().classes("zf-wrap")
            ui.label(
                "Click a move to continue. To start from a stored position, open its game. "
                "Values are for the first player: +1 is a win, -1 a loss."
            ).classes("zf-note")

    def _begin(self, model: ComparedModel, *, over: bool) -> None:
        if not over:
            self._searches[model] = asyncio.create_task(self._search(model))

    async def _search(self, model: ComparedModel) -> None:
        try:
            with self._visit.sources.asking("Inference"):
                table = await self._visit.sources.player.search(
                    self._actions,
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
        """End the searches; whether there were any, or some were about to begin."""
        self._stopped = []
        for model in self._models:
            search = self._searches.pop(model, None)
            searched = search is not None and search.cancel()
            if model.stop_waiting() or searched:
                self._stopped.append(model)
        return bool(self._stopped)


def _asked_versions(
    visit: Visit, described: PlayerDescription, versions: Mapping[str, str]
) -> list[str]:
    """The two that the address names; else the best, and the one before."""
    asked = [each for each in visit.parameters.get("models", "").split(",") if each]
    for each in asked:
        if each not in versions:
            raise NothingThereError(
                f"the inference service has no model '{each[:20]}' now. {there_are(versions)}"
            )
    if len(asked) > 2:
        visit.note(f"models has {len(asked)} models. The first two are compared.")
    older = [str(v) for v in reversed(described.versions) if v != described.best]
    return [*asked, *([] if BEST in asked else [BEST]), *older, BEST][:2]
