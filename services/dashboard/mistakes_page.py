"""The page of largest mistakes: positions of the newest games with the largest regret."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from zerofleet.database.stored_restarts import RESTART_LIST, restart_list_of
from zerofleet.errors import ConfigError, IllegalActionError
from zerofleet.fleet.report import restarts_text
from zerofleet.games import State, parse_actions
from zerofleet.games.game_board import GameBoard, board_of
from zerofleet.games.notation import player_names
from zerofleet.services.dashboard.board import Board, BoardMark
from zerofleet.services.dashboard.frame import Frame, Visit, page_heading, sentence
from zerofleet.services.dashboard.toolkit import Table, TableColumn, ui

_SECONDS = 60.0
_SHOWN = 25
_NEWEST_GAMES = 1_000  # as in the view largest_mistakes
LARGEST = f"""
SELECT game_uid, ply, model, value, result, regret, moves, start, games
FROM (
    SELECT m.*, g.moves, g.start, count(*) OVER position AS games,
        row_number() OVER (position ORDER BY m.regret DESC, m.game_uid) AS place
    FROM largest_mistakes AS m JOIN games AS g USING (game_uid)
    WHERE m.run = :run
    WINDOW position AS (PARTITION BY g.start, (string_to_array(g.moves, ' '))[1:m.ply])
) AS placed
WHERE place = 1 ORDER BY regret DESC, game_uid LIMIT {_SHOWN}
"""
"""Query for the positions with the largest regret; ``mistakes_of`` takes its rows.

A position that several games reached is one row, with the game of the largest regret.
"""
_COLUMNS = (
    TableColumn("number", "Mistake"),
    TableColumn("player", "Player to move"),
    TableColumn("value", "Expected for player", figure=True),
    TableColumn("result", "Result for player", figure=True),
    TableColumn("regret", "Regret", figure=True),
    TableColumn("played", "Played"),
    TableColumn("games", "Games", figure=True),
    TableColumn("model", "Model", figure=True),
)
_RESULTS = {1: "won", 0: "draw", -1: "lost"}
_BOARD = "zf-mistake"
_EMPTY = "Mistakes appear here after the first games."


@dataclass(frozen=True, slots=True)
class Mistake:
    """A position whose values, from there to the end of the game, differed from the result."""

    game_uid: str
    ply: int
    model: int
    value: float
    """Value after the search, for the player to move."""
    result: int
    """Result of the game for the player to move: 1, 0 or -1."""
    regret: float
    """Mean squared difference of value and result from this ply to the end, 0 to 4."""
    moves: str
    """Moves from the start to the position."""
    actions: tuple[int, ...]
    """The same moves as actions."""
    start: str
    player: str
    """Name of the player to move."""
    action: int
    """The action played in the position."""
    move: str
    """The same action in the notation of the game, such as SAN in chess."""
    games: int
    """Games whose largest regret is in this position."""

    @property
    def words(self) -> str:
        """Return what was expected and what happened, in sentences."""
        ends = "It was a draw."
        if self.result:
            ends = sentence(f"{self.player} {_RESULTS[self.result]}.")
        expected = f"{signed(self.value)} for {self.player}"
        return f"Model {self.model} played {self.move} and expected {expected}. {ends}"


def add_mistakes_page(frame: Frame) -> None:
    """Register the page."""

    @frame.page("/mistakes", "Largest mistakes", "game", under="/games")
    async def _(visit: Visit) -> None:
        board = await asyncio.to_thread(board_of, visit.run.game)

        async def read() -> tuple[tuple[Mistake, ...], str]:
            rows = await visit.sources.rows(LARGEST, run=visit.run.name)
            restarts = await _read_restarts(visit)
            return await asyncio.to_thread(mistakes_of, visit.run.game, rows), restarts

        view = MistakesView(visit, board)
        visit.watch(visit.shared("mistakes", read, _SECONDS), lambda value: view.show(*value))


async def _read_restarts(visit: Visit) -> str:
    """Return a sentence on the positions at which games begin; empty if none does."""
    config = visit.run.config
    if config is None or not config.selfplay.restart_share:
        return ""
    restarts = restart_list_of(await visit.sources.rows(RESTART_LIST, run=visit.run.name))
    if restarts.regret is None:
        return "The trainer has not yet chosen positions at which new games begin."
    return f"{config.selfplay.restart_share:.0%} of new games begin at {restarts_text(restarts)}."


def mistakes_of(game: str, rows: Iterable[Any]) -> tuple[Mistake, ...]:
    """Return the mistakes in rows of ``LARGEST``.

    Games with an illegal move are left out. The trainer rejects them, but they stay in the
    database.
    """
    found: list[Mistake] = []
    for row in rows:
        with contextlib.suppress(ConfigError, IllegalActionError):
            found.append(_mistake_of(game, row))
    return tuple(found)


def _mistake_of(game: str, row: Any) -> Mistake:  # noqa: ANN401
    start = row.start or ""
    actions = parse_actions(game, row.moves, start)
    if row.ply >= len(actions):
        raise IllegalActionError(f"a search at ply {row.ply} of {len(actions)} moves")
    state = State(game, actions[: row.ply], start)
    return Mistake(
        game_uid=str(row.game_uid),
        ply=row.ply,
        model=row.model,
        value=float(row.value),
        result=row.result,
        regret=float(row.regret),
        moves=" ".join(row.moves.split()[: row.ply]),
        actions=tuple(actions[: row.ply]),
        start=start,
        player=player_names(game)[state.to_play],
        action=actions[row.ply],
        move=state.action_to_san(actions[row.ply]),
        games=row.games,
    )


def signed(value: float) -> str:
    """Return a value with its sign and two decimal places; 0 has no sign."""
    text = f"{value:+z.2f}"
    return "0.00" if text == "+0.00" else text


class MistakesView:
    """The table of largest mistakes, and a board with the one under the pointer or the focus."""

    def __init__(self, visit: Visit, game_board: GameBoard) -> None:
        self._visit = visit
        self._mistakes: tuple[Mistake, ...] = ()
        self._chosen = visit.parameters.get("game", "")
        self._is_first = True
        with ui.element("div").classes("zf-play"):
            with ui.element("section").classes("zf-panel") as self._panel:
                with ui.element("div").classes("zf-panel-head"):
                    page_heading("Largest mistakes")
                self._empty = ui.label(_EMPTY).classes("zf-empty")
                with ui.element("div").classes(_BOARD) as self._place:
                    self._board = Board(game_board)
                    self._where = ui.label("").classes("zf-figure").props('role="status"')
                    self._links = ui.element("div").classes("zf-tools")
            with ui.element("section").classes("zf-panel zf-side") as self._side:
                ui.label(
                    f"Positions with the largest regret in the newest {_NEWEST_GAMES:,} games of "
                    "self-play, at most one from each game. Regret is the mean squared difference "
                    "of value and result from this position to the end of the game, from 0 to 4."
                ).classes("zf-note")
                ui.label(
                    "A later move may have lost the game: open the game to follow its value."
                ).classes("zf-note")
                self._restarts = ui.label("").classes("zf-note")
                self._table = Table(_COLUMNS, on_aim=self._aim, shown=f".{_BOARD}")
                self._table.classes("zf-mistakes")
        for each in (self._empty, self._place, self._side):
            each.set_visibility(False)

    def show(self, mistakes: tuple[Mistake, ...], restarts: str) -> None:
        """Draw the mistakes, the largest regret first.

        Args:
            mistakes: the mistakes of ``mistakes_of``.
            restarts: a sentence on the positions at which games begin; may be empty.
        """
        self._mistakes = mistakes
        self._empty.set_visibility(not mistakes)
        self._place.set_visibility(bool(mistakes))
        self._side.set_visibility(bool(mistakes))
        self._panel.classes(**{"remove" if mistakes else "add": "zf-wide"})
        self._restarts.set_text(restarts)
        self._restarts.set_visibility(bool(restarts))
        self._table.show([self._row(number, each) for number, each in enumerate(mistakes, 1)])
        if not mistakes:
            return
        if self._is_first and self._chosen and self._place_of(self._chosen) is None:
            self._visit.note(
                f"game={self._chosen[:40]} is not among the largest mistakes. "
                "The first one is shown instead."
            )
        self._is_first = False
        self._draw()

    def _row(self, number: int, mistake: Mistake) -> dict[str, Any]:
        return {
            "key": mistake.game_uid,
            "address": self._visit.link("/mistakes", game=mistake.game_uid),
            "number": str(number),
            "number_link": self._game_link(mistake),
            "number_title": "Open the game at this ply",
            "player": mistake.player.removeprefix("the "),
            "value": signed(mistake.value),
            "result": _RESULTS[mistake.result],
            "regret": f"{mistake.regret:.2f}",
            "played": mistake.move,
            "games": f"{mistake.games:,}",
            "model": mistake.model,
        }

    def _place_of(self, game_uid: str) -> int | None:
        """Return the place of a game's mistake, from 0; None: it is not on the page."""
        games = [each.game_uid for each in self._mistakes]
        return games.index(game_uid) if game_uid in games else None

    def _aim(self, key: object) -> None:
        """Show the row with an untrusted key; None leaves the board as it is."""
        if isinstance(key, str) and key != self._chosen and self._place_of(key) is not None:
            self._chosen = key
            self._draw()

    def _draw(self) -> None:
        place = self._place_of(self._chosen) or 0
        mistake = self._mistakes[place]
        self._chosen = mistake.game_uid
        mark = BoardMark(mistake.action, 0.35, "played")
        self._board.seek(
            mistake.actions, start=mistake.start, then=lambda: self._board.draw_marks([mark])
        )
        also = f" {mistake.games:,} games have their largest regret here."
        self._where.set_text(
            f"Mistake {place + 1} of {len(self._mistakes)}, ply {mistake.ply}, "
            f"{mistake.player} to move. {mistake.words}{also if mistake.games > 1 else ''}"
        )
        self._links.clear()
        with self._links:
            ui.link("Open the game", self._game_link(mistake)).classes("zf-link")
            at = {"start": mistake.start or None, "moves": mistake.moves or None}
            ui.link("Analyse", self._visit.link("/play", **at, side="both", hints="on")).classes(
                "zf-link"
            )

    def _game_link(self, mistake: Mistake) -> str:
        return self._visit.link(f"/games/{mistake.game_uid}", ply=mistake.ply)
