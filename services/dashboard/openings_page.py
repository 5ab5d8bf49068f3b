"""Openings: the first moves that models choose in self-play, and their scores.

The page walks a tree that is read once. It does not count moves drawn at random for an opening, or
moves that repeat an earlier game.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from zerofleet.errors import ConfigError
from zerofleet.games import State, format_actions
from zerofleet.games.game_board import GameBoard, board_of
from zerofleet.games.notation import move_numbers
from zerofleet.services.dashboard.board import Board, BoardMark, flip_button, require_known
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
from zerofleet.services.dashboard.frame import (
    Frame,
    NothingThereError,
    Visit,
    asked_actions,
    asked_number,
    page_heading,
    there_are,
)
from zerofleet.services.dashboard.sources import Sources
from zerofleet.services.dashboard.toolkit import Table, TableColumn, events, ui

GAMES_OF_MODEL = 1_000
MOST_MODELS = 12
MOST_PLIES = 30
_REREAD_MODELS = 2  # newest models, which may still play: their games are read each time

# Promoted models spread evenly over the run, and the newest one.
_MODELS = """
SELECT DISTINCT p.version
FROM (SELECT max(seq) AS last FROM promotions WHERE run = :run) AS ends
CROSS JOIN generate_series(0, :most - 1) AS place
JOIN promotions AS p
    ON p.run = :run AND p.seq = last - (place * greatest(last - 1, 0) / greatest(:most - 1, 1))
ORDER BY p.version
"""
# There are at most as many match games among them as self-play games are requested. Games of
# earlier versions have no opening_plies: their searches show it if they are still stored.
_GAMES = """
SELECT game_uid::text AS uid, moves, result, coalesce(
    opening_plies,
    (SELECT min(ply) FROM positions AS p WHERE p.game_uid = g.game_uid AND simulations > 0),
    0
) AS opening_plies
FROM (
    SELECT game_uid, kind, moves, result, opening_plies, start FROM games
    WHERE run = :run AND first_model = :version ORDER BY ingested_at DESC LIMIT 2 * :most
) AS g
WHERE kind = 'selfplay' AND start = '' LIMIT :most
"""

_REFRESH_SECONDS = 30.0
_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)
_COLUMNS = (
    TableColumn("move", "Move"),
    TableColumn("games", "Games", figure=True),
    TableColumn("share", "Share", figure=True),
    TableColumn("score", "Score", figure=True),
)


@dataclass(frozen=True, slots=True)
class OpeningGame:
    """The beginning of a stored game."""

    uid: str
    moves: tuple[str, ...]
    """The first moves, in the game's notation."""
    result: int
    """+1 the first player won, 0 a draw, -1 the second player won."""
    opening_plies: int = 0
    """Plies at its start without a search."""


@dataclass(frozen=True, slots=True)
class ModelGames:
    """The newest games that a model began."""

    version: int
    games: tuple[OpeningGame, ...]


@dataclass(frozen=True, slots=True)
class NextMove:
    """A continuation of games from some position."""

    move: str
    games: int
    score: float
    """Points per game of the player who makes the move, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class OpeningPosition:
    """The continuations of one model's games in a position."""

    version: int
    games: int
    """Number of games that reach it outside of their random opening."""
    in_openings: int
    """Number of further games that reach it inside their random opening."""
    moves: tuple[NextMove, ...]
    """Moves, most frequent first."""
    uid: str | None
    """UID of the newest of the games."""

    def share(self, move: str) -> float | None:
        """Return a move's share of the games; None without games."""
        if not self.games:
            return None
        return sum(each.games for each in self.moves if each.move == move) / self.games


@dataclass(frozen=True, slots=True)
class Openings:
    """The games of some models of a run, oldest first."""

    models: tuple[ModelGames, ...] = ()

    def position(self, line: Sequence[str], to_play: int) -> tuple[OpeningPosition, ...]:
        """Return each model's continuations after these moves.

        Args:
            line: the moves.
            to_play: the player to move after them, 0 for the first; not every game takes turns.
        """
        return tuple(_position(model, tuple(line), to_play) for model in self.models)


def _position(model: ModelGames, line: tuple[str, ...], to_play: int) -> OpeningPosition:
    ply = len(line)
    found = [game for game in model.games if game.moves[:ply] == line]
    reached = [game for game in found if game.opening_plies <= ply]
    side = 1 - 2 * to_play
    games: Counter[str] = Counter()
    points: Counter[str] = Counter()
    for game in reached:
        if len(game.moves) > ply:
            games[game.moves[ply]] += 1
            points[game.moves[ply]] += 1 + side * game.result  # twice the points
    moves = tuple(
        NextMove(move, count, points[move] / (2 * count))
        for move, count in sorted(games.items(), key=lambda each: (-each[1], each[0]))
    )
    uid = reached[0].uid if reached else None
    return OpeningPosition(model.version, len(reached), len(found) - len(reached), moves, uid)


@dataclass(slots=True)
class OpeningsReader:
    """Reads the openings of one run; games of older models are read once."""

    sources: Sources
    run: str
    _known: dict[int, ModelGames] = field(default_factory=dict[int, ModelGames])

    async def read(self) -> Openings:
        """Return the current openings.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        rows = await self.sources.rows(_MODELS, run=self.run, most=MOST_MODELS)
        versions = [row.version for row in rows]
        for version in versions:
            if version not in self._known or version in versions[-_REREAD_MODELS:]:
                self._known[version] = await self._games(version)
        self._known = {version: self._known[version] for version in versions}
        return Openings(tuple(self._known.values()))

    async def _games(self, version: int) -> ModelGames:
        rows = await self.sources.rows(_GAMES, run=self.run, version=version, most=GAMES_OF_MODEL)
        games = tuple(
            OpeningGame(
                row.uid,
                tuple(row.moves.split(" ", MOST_PLIES)[:MOST_PLIES]),
                row.result,
                row.opening_plies,
            )
            for row in rows
        )
        return ModelGames(version, games)


def add_openings_page(frame: Frame) -> None:
    """Register the page."""

    @frame.page("/openings", "Openings", "model", "moves")
    async def _(visit: Visit) -> None:
        try:
            require_known(visit.run.game, visit.sources.run.game)
            board = await asyncio.to_thread(board_of, visit.run.game)
        except ConfigError as error:
            raise NothingThereError(str(error)) from error
        actions = await asyncio.to_thread(asked_actions, visit, visit.run.game)
        if len(actions) >= MOST_PLIES:
            raise NothingThereError(
                f"moves: the address names {len(actions)} moves, and this page shows the first "
                f"{MOST_PLIES - 1} of a game: remove some"
            )
        view = OpeningsView(visit, board, actions, asked_number(visit.parameters, "model"))
        await view.open()
        reader = OpeningsReader(visit.sources, visit.run.name)
        visit.watch(visit.shared("openings", reader.read, _REFRESH_SECONDS, keep=True), view.show)


class OpeningsView:
    """The tree on one page.

    Args:
        actions: actions to the position that is shown.
        model: the model whose games the board shows; None: the newest one that has games.
    """

    def __init__(
        self, visit: Visit, game_board: GameBoard, actions: list[int], model: int | None
    ) -> None:
        self._visit = visit
        self._game_board = game_board
        self._actions = actions
        self._model = model
        self._openings = Openings()
        self._shown: OpeningPosition | None = None  # position of the chosen model
        with ui.element("div").classes("zf-play"):
            with ui.element("section").classes("zf-panel"):
                with ui.element("div").classes("zf-panel-head"):
                    page_heading("Openings")
                    self._choice = ui.select({}, label="Model", on_change=self._choose)
                    self._choice.props("dense outlined options-dense").classes("zf-field")
                self._board = Board(game_board, on_play=self._play, flips=True)
                with ui.element("div").classes("zf-tools"):
                    for words, done in (("Back", self._back), ("Start", self._start)):
                        ui.button(words, on_click=done).props(
                            'outline dense no-caps padding="2px 10px"'
                        )
                    flip_button()
                    self._line = ui.element("div").classes("zf-tools")
            with ui.element("section").classes("zf-panel zf-side"):
                self._reached = ui.label("").classes("zf-figure").props('role="status"')
                self._table = Table(
                    _COLUMNS, "No game of this model chose a move in this position yet."
                )
                self._example = ui.link("Newest game with this position").classes("zf-link")
                self._example.set_visibility(False)
                ui.label(
                    f"The newest {GAMES_OF_MODEL:,} self-play games of each model. Moves drawn at "
                    "random for an opening, and moves that repeat an earlier game, do not count. "
                    "The score belongs to the player who makes the move."
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
                note="For the player who makes the move: a win counts 100%, a draw 50%.",
            )

    async def open(self) -> None:
        """Show the position, before its games are known."""
        self._seek()
        await self._board.sought()

    def show(self, openings: Openings) -> None:
        """Draw the current tree."""
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
        """Show the line and the board of a position; marks are drawn when the board is ready."""
        self._draw_line()
        self._board.seek(self._actions, then=self._draw_marks)

    def _draw(self) -> None:
        """Draw the continuations of the position; marks only if the board is ready."""
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
        model = f"model {shown.version}"
        reached = f"{shown.games:,} of {total:,} games of {model} reach this position."
        if shown.in_openings:
            reached += f" {shown.in_openings:,} more reach it in a random opening."
        self._reached.set_text(reached)
        self._table.show([self._row(shown, each, line) for each in shown.moves[:20]])
        self._example.set_visibility(shown.uid is not None)
        self._example.props["href"] = self._visit.link(f"/games/{shown.uid}", ply=len(line))
        self._draw_charts(by_model)

    def _draw_marks(self) -> None:
        shown = self._shown
        if shown is None:
            return
        words = {action.text: action.action for action in self._board.position.actions}
        most = max((each.games for each in shown.moves), default=1)
        self._board.draw_marks(
            [
                BoardMark(
                    words[each.move], each.games / most, _share_text(each.games / shown.games)
                )
                for each in shown.moves
                if each.move in words
            ],
            heat=True,
        )

    def _draw_line(self) -> None:
        """Draw the moves so far, each a button that goes back to its position."""
        self._line.clear()
        state = State(self._game_board.game)
        with self._line:
            numbers = move_numbers(self._game_board.game)
            for ply, (action, number) in enumerate(zip(self._actions, numbers, strict=False)):
                words = f"{number} {state.action_to_san(action)}"
                state.apply(action)
                button = ui.button(words, on_click=partial(self._cut_to, ply + 1))
                button.props("flat dense no-caps")

    def _draw_charts(self, by_model: tuple[OpeningPosition, ...]) -> None:
        """Draw shares and scores of the moves that are most frequent over all models."""
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
                        (float(x), 100 * next_move.score)
                        for x, each in enumerate(by_model)
                        for next_move in each.moves
                        if next_move.move == move
                    ],
                    colour,
                    dots=True,
                )
            )
        self._shares.show(Drawing(shares, axis, ChartAxis(name="% of games", least=0, most=100)))
        self._scores.show(Drawing(scores, axis, ChartAxis(name="score, %", least=0, most=100)))

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
            self._go_to([*self._actions, action])

    def _back(self) -> None:
        self._cut_to(max(0, len(self._actions) - 1))

    def _start(self) -> None:
        self._cut_to(0)

    def _cut_to(self, plies: int) -> None:
        self._go_to(self._actions[:plies])

    def _go_to(self, actions: list[int]) -> None:
        """Show another position, and update the address."""
        self._actions = actions
        with self._reached:
            line = format_actions(self._game_board.game, actions).split()
            ui.navigate.history.replace(self._link(line))
        self._seek()
        self._draw()


def _share_text(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else ""
