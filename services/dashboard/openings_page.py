"""Openings: which first moves models choose in self-play, and how they fare with them."""

from __future__ import annotations

import asyncio
from functools import partial

from zerofleet.errors import ConfigError
from zerofleet.games import State, format_actions
from zerofleet.services.dashboard.board import Board, BoardMark
from zerofleet.services.dashboard.board_position import GameBoard, board_of, require_known
from zerofleet.services.dashboard.charts import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    RED,
    ChartAxis,
    ChartLine,
    ChartPanel,
    Drawing,
)
from zerofleet.services.dashboard.frame import Frame, NothingThereError, Visit
from zerofleet.services.dashboard.openings_reader import (
    GAMES_OF_MODEL,
    MOST_PLIES,
    NextMove,
    OpeningPosition,
    Openings,
    OpeningsReader,
)
from zerofleet.services.dashboard.page_parameters import asked_actions, asked_number, there_are
from zerofleet.services.dashboard.table import Table, TableColumn
from zerofleet.services.dashboard.toolkit import events, ui

_SECONDS = 30.0
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)
_COLUMNS = (
    TableColumn("move", "Move"),
    TableColumn("games", "Games", figure=True),
    TableColumn("share", "Share", figure=True),
    TableColumn("score", "Score", figure=True),
)


def add_openings_page(frame: Frame) -> None:
    """Register it."""

    @frame.page("/openings", "Openings", "model", "moves")
    async def _(visit: Visit) -> None:
        try:
            require_known(visit.run.game, visit.sources.run.game)
            board = await asyncio.to_thread(board_of, visit.run.game)
        except ConfigError as error:
            raise NothingThereError(str(error)) from error
        actions = await asyncio.to_thread(asked_actions, visit, visit.run.game)
        if len(actions) >= MOST_PLIES:
            raise NothingThereError(f"moves: openings are the first {MOST_PLIES - 1} plies")
        view = OpeningsView(visit, board, actions, asked_number(visit.parameters, "model"))
        await view.open()
        reader = OpeningsReader(visit.sources, visit.run.name)
        visit.watch(visit.shared("openings", reader.read, _SECONDS, keep=True), view.show)


class OpeningsView:
    """The tree on one page.

    Args:
        visit: whose page it is.
        game_board: of the run's game.
        actions: the position that is shown.
        model: whose games the board shows; None: the newest model that has games.
    """

    def __init__(
        self, visit: Visit, game_board: GameBoard, actions: list[int], model: int | None
    ) -> None:
        self._visit = visit
        self._game_board = game_board
        self._actions = actions
        self._model = model
        self._openings = Openings()
        self._shown: OpeningPosition | None = None  # of the chosen model
        with ui.element("div").classes("zf-play"):
            with ui.element("section").classes("zf-panel"):
                with ui.element("div").classes("zf-panel-head"):
                    ui.label("Openings").classes("zf-title").props('role="heading" aria-level="1"')
                    self._choice = ui.select({}, label="Model", on_change=self._choose)
                    self._choice.props("dense outlined options-dense").classes("zf-field")
                self._board = Board(game_board, on_play=self._play)
                with ui.element("div").classes("zf-tools"):
                    for words, done in (("Back", self._back), ("Start", self._start)):
                        ui.button(words, on_click=done).props(
                            'outline dense no-caps padding="2px 10px"'
                        )
                    self._line = ui.element("div").classes("zf-tools")
            with ui.element("section").classes("zf-panel zf-side"):
                self._reached = ui.label("").classes("zf-figure").props('role="status"')
                self._table = Table(
                    _COLUMNS, "No game of this model chose a move in this position yet."
                )
                self._example = ui.link("Newest game with this position").classes("zf-link")
                self._example.set_visibility(False)
                ui.label(
                    f"The newest {GAMES_OF_MODEL:,} self-play games of each model. Moves that were "
                    "drawn at random for the opening of a game, or repeat an earlier game, are not "
                    "counted. The score is that of the player who makes the move."
                ).classes("zf-note")
        with ui.element("div").classes("zf-panels"):
            self._shares = ChartPanel(
                "Share of each move",
                "No promoted model has played self-play games yet.",
                note="Promoted models, spread evenly over the run, in this position.",
            )
            self._scores = ChartPanel(
                "Score of each move",
                "No promoted model has played self-play games yet.",
                note="Points per game of the player who makes the move.",
            )

    async def open(self) -> None:
        """Show the position, before what is known of it."""
        self._seek()
        await self._board.sought()

    def show(self, openings: Openings) -> None:
        """Draw the tree as it is now."""
        self._openings = openings
        versions = {model.version: f"model {model.version}" for model in reversed(openings.models)}
        if versions and self._choice.options != versions:
            chosen = self._choice.value if self._choice.value in versions else None
            newest = next(
                (model.version for model in reversed(openings.models) if model.games),
                next(iter(versions)),
            )
            self._choice.set_options(versions)
            if self._model not in (None, *versions):
                self._visit.note(
                    f"model={self._model} is not shown on this page, which has promoted models "
                    f"spread evenly over the run. Model {newest} is shown instead. "
                    f"{there_are(versions)}"
                )
                self._model = None
            self._choice.set_value(chosen or self._model or newest)
        self._draw()

    def _seek(self) -> None:
        """Another position: its line, and the board, whose marks come when it is there."""
        self._draw_line()
        self._board.seek(self._actions, then=self._draw_marks)

    def _draw(self) -> None:
        """What the games do in the position; whoever is about to move there is not disturbed."""
        line = format_actions(self._game_board.game, self._actions).split()
        to_play = State(self._game_board.game, self._actions).to_play
        by_model = self._openings.position(line, to_play)
        shown = next((each for each in by_model if each.version == self._choice.value), None)
        self._shown = shown
        if not self._board.is_seeking:
            self._draw_marks()
        if shown is None:
            self._reached.set_text("No model has been promoted yet.")
            return
        total = next(len(m.games) for m in self._openings.models if m.version == shown.version)
        reached = f"{shown.games:,} of {total:,} games of model {shown.version} reach this position"
        if shown.in_openings:
            reached += f". {shown.in_openings:,} more reach it in a random opening"
        self._reached.set_text(reached)
        self._table.show([self._row(shown, each, line) for each in shown.moves[:20]])
        self._example.set_visibility(shown.uid is not None)
        self._example.props["href"] = self._visit.link(f"/games/{shown.uid}", ply=len(line))
        self._draw_curves(by_model)

    def _draw_marks(self) -> None:
        shown = self._shown
        if shown is None:
            return
        words = {action.text: action.action for action in self._board.position.actions}
        most = max((each.games for each in shown.moves), default=1)
        self._board.draw_marks(
            [
                BoardMark(words[each.move], each.games / most, _label(each.games / shown.games))
                for each in shown.moves
                if each.move in words
            ],
            heat=True,
        )

    def _draw_line(self) -> None:
        """The moves so far, each a way back to its position."""
        self._line.clear()
        state = State(self._game_board.game)
        with self._line:
            for ply, action in enumerate(self._actions):
                words = f"{ply + 1} {state.action_to_string(action)}"
                state.apply(action)
                button = ui.button(words, on_click=partial(self._cut, ply + 1))
                button.props("flat dense no-caps")

    def _draw_curves(self, by_model: tuple[OpeningPosition, ...]) -> None:
        """Shares and scores of the moves that are most frequent over all models."""
        total: dict[str, float] = {}
        for each in by_model:
            for move in each.moves:
                total[move.move] = total.get(move.move, 0.0) + move.games / each.games
        ranked = sorted(total, key=lambda move: -total[move])[: len(_COLOURS)]
        names = [str(each.version) for each in by_model]
        axis = ChartAxis("category", "model", categories=names)
        shares: list[ChartLine] = []
        scores: list[ChartLine] = []
        for move, colour in zip(ranked, _COLOURS, strict=False):
            share = [(float(x), each.share(move)) for x, each in enumerate(by_model)]
            shares.append(
                ChartLine(
                    move,
                    [(x, 100 * value) for x, value in share if value is not None],
                    colour,
                    dots=True,
                )
            )
            scores.append(
                ChartLine(
                    move,
                    [
                        (float(x), next_move.score)
                        for x, each in enumerate(by_model)
                        for next_move in each.moves
                        if next_move.move == move
                    ],
                    colour,
                    dots=True,
                )
            )
        self._shares.show(Drawing(shares, axis, ChartAxis(name="%", least=0, most=100)))
        self._scores.show(Drawing(scores, axis, ChartAxis(least=0, most=1)))

    def _row(self, shown: OpeningPosition, each: NextMove, line: list[str]) -> dict[str, object]:
        return {
            "key": each.move,
            "move": each.move,
            "move_link": self._link([*line, each.move]),
            "games": f"{each.games:,}",
            "share": f"{100 * each.games / shown.games:.1f}%",
            "score": f"{100 * each.score:.1f}%",
        }

    def _link(self, line: list[str]) -> str:
        return self._visit.link("/openings", model=self._choice.value, moves=" ".join(line) or None)

    def _choose(self, event: events.ValueChangeEventArguments[int]) -> None:
        del event  # the element has it
        self._draw()

    def _play(self, action: int) -> None:
        if len(self._actions) < MOST_PLIES - 1:
            self._go([*self._actions, action])

    def _back(self) -> None:
        self._cut(max(0, len(self._actions) - 1))

    def _start(self) -> None:
        self._cut(0)

    def _cut(self, plies: int) -> None:
        self._go(self._actions[:plies])

    def _go(self, actions: list[int]) -> None:
        """Show another position; the address follows."""
        self._actions = actions
        with self._reached:
            line = format_actions(self._game_board.game, actions).split()
            ui.navigate.history.replace(self._link(line))
        self._seek()
        self._draw()


def _label(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else ""
