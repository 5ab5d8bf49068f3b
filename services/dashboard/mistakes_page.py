"""The page of largest mistakes: positions of the newest games with the largest regret."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from zerofleet.errors import ConfigError, IllegalActionError
from zerofleet.games import State, parse_actions
from zerofleet.games.game_board import GameBoard, board_of
from zerofleet.games.notation import player_names
from zerofleet.services.dashboard.board import Board, BoardMark
from zerofleet.services.dashboard.frame import Frame, Visit
from zerofleet.services.dashboard.toolkit import Table, TableColumn, ui

_SECONDS = 60.0
_SHOWN = 25
_NEWEST_GAMES = 1_000  # as in the view largest_mistakes
_LARGEST = f"""
SELECT m.game_uid, m.ply, m.model, m.value, m.result, m.regret, g.moves, g.start
FROM (
    SELECT * FROM largest_mistakes WHERE run = :run ORDER BY regret DESC, game_uid LIMIT {_SHOWN}
) AS m
JOIN games AS g USING (game_uid)
ORDER BY m.regret DESC, m.game_uid
"""
_COLUMNS = (
    TableColumn("number", "Mistake"),
    TableColumn("ply", "Ply", figure=True),
    TableColumn("player", "To move"),
    TableColumn("played", "Played"),
    TableColumn("model", "Model", figure=True),
    TableColumn("value", "Expected", figure=True),
    TableColumn("result", "Result", figure=True),
    TableColumn("regret", "Regret", figure=True),
)
_RESULTS = {1: "won", 0: "draw", -1: "lost"}


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


def add_mistakes_page(frame: Frame) -> None:
    """Register the page."""

    @frame.page("/mistakes", "Largest mistakes", in_menu=False)
    async def _(visit: Visit) -> None:
        board = await asyncio.to_thread(board_of, visit.run.game)

        async def read() -> tuple[Mistake, ...]:
            rows = await visit.sources.rows(_LARGEST, run=visit.run.name)
            return await asyncio.to_thread(mistakes_of, visit.run.game, rows)

        view = MistakesView(visit, board)
        visit.watch(visit.shared("mistakes", read, _SECONDS), view.show)


def mistakes_of(game: str, rows: Iterable[Any]) -> tuple[Mistake, ...]:
    """Return the mistakes in rows of ``_LARGEST``.

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
    )


class MistakesView:
    """The table of largest mistakes, and a board with the one under the pointer or the focus."""

    def __init__(self, visit: Visit, game_board: GameBoard) -> None:
        self._visit = visit
        self._mistakes: tuple[Mistake, ...] = ()
        self._number = 1
        with ui.element("div").classes("zf-play"):
            with ui.element("section").classes("zf-panel"):
                with ui.element("div").classes("zf-panel-head"):
                    heading = ui.label("Largest mistakes").classes("zf-title")
                    heading.props('role="heading" aria-level="1"')
                self._board = Board(game_board)
                self._where = ui.label("").classes("zf-figure").props('role="status"')
                self._links = ui.element("div").classes("zf-tools")
            with ui.element("section").classes("zf-panel zf-side"):
                ui.label(
                    f"Positions with the largest regret in the newest {_NEWEST_GAMES:,} games of "
                    "self-play, at most one from each game. Regret is the mean squared difference "
                    "of value and result from this position to the end of the game, from 0 to 4."
                ).classes("zf-note")
                self._table = Table(
                    _COLUMNS, "Mistakes appear here after the first games.", on_aim=self._aim
                )

    def show(self, mistakes: tuple[Mistake, ...]) -> None:
        """Draw the mistakes, the largest regret first."""
        self._mistakes = mistakes
        self._table.show([self._row(number, each) for number, each in enumerate(mistakes, 1)])
        self._draw()

    def _row(self, number: int, mistake: Mistake) -> dict[str, Any]:
        return {
            "key": number,
            "number": str(number),
            "number_link": self._game_link(mistake),
            "number_title": "Open the game at this ply",
            "ply": mistake.ply,
            "player": mistake.player.removeprefix("the "),
            "played": mistake.move,
            "model": mistake.model,
            "value": f"{mistake.value:+.2f}",
            "result": _RESULTS[mistake.result],
            "regret": f"{mistake.regret:.2f}",
        }

    def _aim(self, key: object) -> None:
        """Show the row with an untrusted key; None leaves the board as it is."""
        if isinstance(key, int) and 1 <= key <= len(self._mistakes) and key != self._number:
            self._number = key
            self._draw()

    def _draw(self) -> None:
        self._links.clear()
        if not self._mistakes:
            self._board.seek((), start="")
            self._where.set_text("")
            return
        self._number = min(self._number, len(self._mistakes))
        mistake = self._mistakes[self._number - 1]
        mark = BoardMark(mistake.action, 0.35, "played")
        self._board.seek(
            mistake.actions, start=mistake.start, then=lambda: self._board.draw_marks([mark])
        )
        self._where.set_text(
            f"Mistake {self._number} of {len(self._mistakes)}, {mistake.player} to move. Model "
            f"{mistake.model} played {mistake.move} and expected {mistake.value:+.2f}. "
            f"Result for {mistake.player}: {_RESULTS[mistake.result]}."
        )
        with self._links:
            ui.link("Game", self._game_link(mistake)).classes("zf-link")
            at = {"start": mistake.start or None, "moves": mistake.moves or None}
            ui.link("Analyse", self._visit.link("/play", **at, side="both", hints="on")).classes(
                "zf-link"
            )

    def _game_link(self, mistake: Mistake) -> str:
        return self._visit.link(f"/games/{mistake.game_uid}", ply=mistake.ply)
