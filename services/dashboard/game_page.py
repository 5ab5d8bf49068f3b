"""One stored game: its positions, the searches that chose each action, and the value's curve."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import UUID

from services.dashboard.board import Board
from services.dashboard.board_position import GameBoard, board_of, require_known
from services.dashboard.charts import BLUE, RED, ChartAxis, ChartLine, Drawing
from services.dashboard.frame import Frame, NothingThereError, Visit
from services.dashboard.match_words import player_words
from services.dashboard.search_table import (
    Candidate,
    CandidateTable,
    prior_marks,
    ranked,
    visit_marks,
)
from services.dashboard.toolkit import events, ui
from zerofleet.database.played_games import GAME, PLIES, PlayedGame, PlayedPly, played_game_of
from zerofleet.database.sgf_of_game import actions_of, sgf_of_game
from zerofleet.errors import ConfigError, RecordRejectedError
from zerofleet.games import State
from zerofleet.games.notation import whole_number
from zerofleet.games.sgf import require_sgf

_BLUNDER = 0.4  # of value, that the player to move lost by an action
_KINDS = {"selfplay": "self-play"}
_REASONS = {"rules": "the rules", "resign": "resignation"}
_RESULTS = {1: "the first player won", 0: "a draw", -1: "the second player won"}
_SEARCHES_GONE = "The searches of this game are not kept any more: it can be walked."
_NONE_SEARCHED = "No action of this game was chosen by a search."
_MATCH = """
SELECT m.kind, m.player, m.opponent, mg.color
FROM match_games AS mg JOIN matches AS m USING (match_id) WHERE mg.game_uid = :game_uid
"""


@dataclass(frozen=True, slots=True)
class WalkedGame:
    """A stored game, replayed under the rules."""

    played: PlayedGame
    actions: tuple[int, ...]
    words: tuple[str, ...]  # the actions in the game's notation
    to_play: tuple[int, ...]  # of each ply
    names: tuple[str, str]  # of the first and the second player
    kind: str

    def values(self) -> list[float | None]:
        """The searched value of each ply for the first player; None where nothing was searched."""
        return [
            ply.root_value * (1 - 2 * player) if ply.simulations else None
            for ply, player in zip(self.played.plies, self.to_play, strict=False)
        ]

    def blunders(self) -> list[int]:
        """The plies whose action lost much of the value of the player who moved.

        What an action is worth is what the next search said, or the result where the rules ended
        the game.
        """
        values: list[float | None] = self.values()
        if self.played.reason == "rules":
            values.append(float(self.played.result))
        found: list[int] = []
        for ply, player in enumerate(self.to_play[: max(len(values) - 1, 0)]):
            before, after = values[ply], values[ply + 1]
            if before is not None and after is not None:
                lost = (before - after) * (1 - 2 * player)
                if lost >= _BLUNDER:
                    found.append(ply)
        return found


def add_game_page(frame: Frame) -> None:
    """Register it."""

    @frame.page("/games/{uid}", "Game", in_menu=False)
    async def _(visit: Visit) -> None:
        walked = await read_game(visit)
        board = await asyncio.to_thread(board_of, walked.played.game)
        await GameView(visit, walked, board).open(_asked_ply(visit, len(walked.actions)))


async def read_game(visit: Visit) -> WalkedGame:
    """The game that the address names.

    Raises:
        NothingThereError: the run has no such game, or it cannot be shown; the message says why.
        StoreUnavailableError: Postgres is away.
    """
    asked = visit.parameters["uid"]
    try:
        uid = str(UUID(asked))
    except ValueError as error:
        raise NothingThereError(f"'{asked[:80]}' is no game's uid") from error
    rows = await visit.sources.rows(GAME, run=visit.run.name, game_uid=uid)
    if not rows:
        raise NothingThereError(f"the run '{visit.run.name}' has no finished game {uid}")
    plies = await visit.sources.rows(PLIES, game_uid=uid)
    match = await visit.sources.rows(_MATCH, game_uid=uid)
    try:
        require_known(rows[0].game, visit.sources.run.game)
        played = played_game_of(rows[0], plies)
        return await asyncio.to_thread(_walked, played, match)
    except (ConfigError, RecordRejectedError, ValueError) as error:
        raise NothingThereError(f"game {uid} cannot be shown: {error}") from error


def _walked(played: PlayedGame, match: Sequence[Any]) -> WalkedGame:
    actions = actions_of(played)
    state = State(played.game)
    words: list[str] = []
    to_play: list[int] = []
    for action in actions:
        words.append(state.action_to_string(action))
        to_play.append(state.to_play)
        state.apply(action)
    kind = played.kind
    first, second = played.first_model, played.second_model
    names = (f"model {first}", f"model {first if second is None else second}")
    for row in match:
        kind = row.kind
        player, opponent = player_words(row.player), player_words(row.opponent)
        names = (player, opponent) if row.color == 0 else (opponent, player)
    return WalkedGame(played, tuple(actions), tuple(words), tuple(to_play), names, kind)


def _asked_ply(visit: Visit, length: int) -> int:
    asked = visit.parameters.get("ply", "0")
    ply = whole_number(asked, length)
    if ply is None:
        raise NothingThereError(f"ply={asked[:20]}: this game has plies 0 to {length}")
    return ply


class GameView:
    """The viewer on one page.

    Args:
        visit: whose page it is.
        walked: the game.
        game_board: of its game.
    """

    def __init__(self, visit: Visit, walked: WalkedGame, game_board: GameBoard) -> None:
        self._visit = visit
        self._walked = walked
        self._game_board = game_board
        self._ply = -1
        self._shown = "visits"
        self._values = walked.values()
        self._blunders = walked.blunders()
        with ui.element("div").classes("zf-play"):
            with ui.element("section").classes("zf-panel"):
                self._head()
                self._board = Board(game_board, on_hover=self._hover)
                self._controls()
            with ui.element("section").classes("zf-panel zf-side"):
                self._searched = ui.label().classes("zf-note")
                self._table = CandidateTable(self._hover, "action", "visits", "share", "prior")
                self._moves()
        self._curve()
        ui.keyboard(on_key=self._key, ignore=["input", "select", "textarea"])

    async def open(self, ply: int) -> None:
        """Show the position before that ply at once."""
        self.seek(ply)
        await self._board.sought()

    def seek(self, ply: int) -> None:
        """Show the position before that ply; the address follows."""
        ply = max(0, min(ply, len(self._walked.actions)))
        if ply == self._ply:
            return
        first_time, self._ply = self._ply < 0, ply
        actions = self._walked.actions[:ply]
        self._board.seek(actions, playable=False, then=self._draw_search)
        self._say()
        if self._chart is not None:
            self._chart.options["series"][0]["markLine"] = _here(ply)
            self._chart.update()
        self._slider.set_value(ply)
        if not first_time:
            link = self._visit.link(f"/games/{self._walked.played.game_uid}", ply=ply)
            ui.navigate.history.replace(link)

    def _go(self, by: int, to: int | None) -> None:
        self.seek(self._ply + by if to is None else to)

    def _head(self) -> None:
        played, names = self._walked.played, self._walked.names
        with ui.element("div").classes("zf-panel-head"):
            against = "itself" if names[0] == names[1] else names[1]
            title = ui.label(_sentence(f"{names[0]} against {against}")).classes("zf-title")
            title.props('role="heading" aria-level="1"')
            ui.label(
                f"{_KINDS.get(self._walked.kind, self._walked.kind)}: {_RESULTS[played.result]} "
                f"by {_REASONS.get(played.reason, played.reason)}, "
                f"{len(self._walked.actions)} plies, {played.finished_at:%Y-%m-%d %H:%M} UTC"
            ).classes("zf-note")

    def _controls(self) -> None:
        last = len(self._walked.actions)
        with ui.element("div").classes("zf-tools"):
            for icon, words, by, to in (
                ("first_page", "To the start", 0, 0),
                ("chevron_left", "Back (left arrow)", -1, None),
                ("chevron_right", "On (right arrow)", 1, None),
                ("last_page", "To the end", 0, last),
            ):
                button = ui.button(icon=icon, on_click=partial(self._go, by, to))
                button.props(f'flat dense aria-label="{words}"')
            self._where = ui.label()
            self._slider = ui.slider(
                min=0, max=max(last, 1), on_change=lambda event: self.seek(int(event.value or 0))
            ).classes("zf-slider")
            self._slider.props('dense aria-label="ply"')
        with ui.element("div").classes("zf-tools"):
            shown = {"visits": "visits", "prior": "prior", "none": "no marks"}
            ui.toggle(shown, value="visits", on_change=self._choose_shown).props(
                'dense no-caps unelevated padding="2px 10px" aria-label="heat map"'
            )
            ui.button("Two models here", on_click=self._compare).props(
                'outline dense no-caps padding="2px 10px"'
            )
            ui.button("Go on from here", on_click=self._go_on).props(
                'outline dense no-caps padding="2px 10px"'
            )
            try:
                require_sgf(self._walked.played.game)
            except ConfigError:
                return
            ui.button("SGF", on_click=self._download).props(
                'outline dense no-caps padding="2px 10px"'
            )

    def _moves(self) -> None:
        """The actions, each a link to its position; blunders are marked."""
        with ui.element("div").classes("zf-moves"):
            for ply, word in enumerate(self._walked.words):
                mark = " ?" if ply in self._blunders else ""
                button = ui.button(f"{ply + 1} {word}{mark}", on_click=partial(self.seek, ply + 1))
                button.props("flat dense no-caps")

    def _curve(self) -> None:
        self._chart: ui.echart | None = None
        known = [(ply, value) for ply, value in enumerate(self._values) if value is not None]
        with ui.element("section").classes("zf-panel zf-wide"):
            title = ui.label("Value for the first player, after search").classes("zf-title")
            title.props('role="heading" aria-level="2"')
            if not known:
                ui.label(_NONE_SEARCHED if self._walked.played.plies else _SEARCHES_GONE)
                return
            drawing = Drawing(
                lines=[
                    ChartLine("value", [(float(p), v) for p, v in known], BLUE, dots=True),
                    ChartLine(
                        "blunders",
                        [(float(p), self._values[p] or 0.0) for p in self._blunders],
                        RED,
                        dots=True,
                    ),
                ],
                x=ChartAxis(name="ply", least=0, most=float(len(self._walked.actions)), whole=True),
                y=ChartAxis(least=-1, most=1),
            )
            options = drawing.options()
            options["series"][1] |= {"lineStyle": {"opacity": 0}, "symbolSize": 10}
            self._chart = ui.echart(
                options, renderer="svg", on_point_click=lambda event: self._clicked(event.value)
            ).classes("zf-chart")
            ui.label(
                f"A blunder lost {_BLUNDER:g} of value or more. A point opens its position."
            ).classes("zf-note")

    def _clicked(self, value: Any) -> None:  # noqa: ANN401  ECharts gives the point
        if isinstance(value, list) and value and isinstance(value[0], int | float):
            self.seek(int(value[0]))

    def _say(self) -> None:
        last = len(self._walked.actions)
        moved = f", {self._walked.words[self._ply - 1]} was played" if self._ply else ""
        self._where.set_text(f"{self._ply} of {last}{moved}")
        ply = self._searched_ply()
        if ply is None:
            if self._ply == last:
                words = f"The end: {_RESULTS[self._walked.played.result]}."
            elif not self._walked.played.plies:
                words = _SEARCHES_GONE
            elif self._walked.played.kind == "selfplay":
                words = f"{self._walked.words[self._ply]} was drawn at random, without a search."
            else:
                words = "No search is stored of this position."
            self._searched.set_text(words)
            return
        side = "first" if self._walked.to_play[self._ply] == 0 else "second"
        self._searched.set_text(
            f"Model {ply.model_version} for the {side} player: value {ply.root_value:+z.3f} after "
            f"{ply.simulations:,} simulations, {ply.network_value:+z.3f} before. Played: "
            f"{self._walked.words[self._ply]}."
        )

    def _searched_ply(self) -> PlayedPly | None:
        plies = self._walked.played.plies
        if self._ply >= len(plies) or not plies[self._ply].simulations:
            return None
        return plies[self._ply]

    def _draw_search(self) -> None:
        ply = self._searched_ply()
        candidates: list[Candidate] = []
        if ply is not None:
            words = {each.action: each.text for each in self._board.position.actions}
            candidates = [
                Candidate(action, words.get(action, str(action)), visits, prior)
                for action, visits, prior in zip(
                    ply.legal_actions, ply.visit_counts, ply.priors, strict=False
                )
            ]
        self._table.show_search(candidates)
        self._table.set_visibility(bool(candidates))
        marks = {"visits": visit_marks, "prior": prior_marks}.get(self._shown)
        best = ranked(candidates)[0].action if candidates and self._shown == "visits" else None
        self._board.draw_marks(marks(candidates) if marks else (), heat=True, best=best)

    async def _hover(self, action: int | None) -> None:
        actions = self._walked.actions
        line: Sequence[int] = () if action is None else (action,)
        if action is not None and self._ply < len(actions) and action == actions[self._ply]:
            line = actions[self._ply : self._ply + 8]  # how the game went on
        await self._board.draw_variation(actions[: self._ply], line)

    def _choose_shown(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._shown = str(event.value)
        self._draw_search()

    def _key(self, event: events.KeyEventArguments) -> None:
        if not event.action.keydown:
            return
        for pressed, target in (
            (event.key.arrow_left, self._ply - 1),
            (event.key.arrow_right, self._ply + 1),
            (event.key.home, 0),
            (event.key.end, len(self._walked.actions)),
        ):
            if pressed:
                self.seek(target)

    def _compare(self) -> None:
        moves = " ".join(self._walked.words[: self._ply])
        ui.navigate.to(self._visit.link("/compare", moves=moves or None))

    def _go_on(self) -> None:
        moves = " ".join(self._walked.words[: self._ply])
        ui.navigate.to(self._visit.link("/play", moves=moves or None))

    def _download(self) -> None:
        played = self._walked.played
        text = sgf_of_game(self._visit.run.name, played)
        ui.download.content(text, f"{played.game_uid}.sgf", "application/x-go-sgf")


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _here(ply: int) -> dict[str, Any]:
    """A line of the curve at the ply that is shown."""
    return {
        "symbol": "none",
        "silent": True,
        "animation": False,
        "label": {"show": False},
        "data": [{"xAxis": ply}],
    }
