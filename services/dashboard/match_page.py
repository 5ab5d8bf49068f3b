"""The evaluator's match as it goes, and all matches of the run."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from zerofleet.errors import ConfigError, IllegalActionError
from zerofleet.fleet.figures import EvaluatorFigures
from zerofleet.games import parse_actions
from zerofleet.match.verdict import judge, llr_bound, llr_walk
from zerofleet.services.dashboard.board import Board
from zerofleet.services.dashboard.board_position import GameBoard, board_of, require_known
from zerofleet.services.dashboard.charts import BLUE, ChartAxis, ChartLine, ChartPanel, Drawing
from zerofleet.services.dashboard.frame import Frame, NothingThereError, Visit
from zerofleet.services.dashboard.match_queries import (
    KINDS,
    MATCHES,
    PAGE_MATCHES,
    ShownMatch,
    read_evaluators,
    read_match,
)
from zerofleet.services.dashboard.match_words import (
    MATCH_COLUMNS,
    OUTCOMES,
    match_row,
    player_words,
    verdict_words,
)
from zerofleet.services.dashboard.models_page import page_links
from zerofleet.services.dashboard.page_parameters import HIGHEST, asked_number
from zerofleet.services.dashboard.table import Table, TableColumn
from zerofleet.services.dashboard.toolkit import ui

_SECONDS = 3.0
_LIST_SECONDS = 10.0
_GAME_COLUMNS = (
    TableColumn("at", "stored, UTC"),
    TableColumn("opening", "opening", figure=True),
    TableColumn("first", "began"),
    TableColumn("score", "points of the player", figure=True),
    TableColumn("reason", "by"),
    TableColumn("length", "plies", figure=True),
    TableColumn("moves", "moves"),
)
_POINTS = {1.0: "1", 0.5: "½", 0.0: "0"}


def add_match_page(frame: Frame) -> None:
    """Register it."""

    @frame.page("/match", "Match", "match", "kind", "before")
    async def _(visit: Visit) -> None:
        asked = asked_number(visit.parameters, "match") or None
        before = asked_number(visit.parameters, "before") or HIGHEST
        kind = visit.parameters.get("kind", "")
        if kind and kind not in KINDS:
            raise NothingThereError(f"kind={kind[:80]}: give one of {', '.join(KINDS)}")

        try:
            require_known(visit.run.game, visit.sources.run.game)
            game_board = await asyncio.to_thread(board_of, visit.run.game)
        except ConfigError as error:
            raise NothingThereError(str(error)) from error

        async def read() -> ShownMatch | None:
            return await read_match(visit.sources, visit.run.name, asked)

        async def read_list() -> Sequence[Any]:
            kinds = [kind] if kind else list(KINDS)
            return await visit.sources.rows(MATCHES, run=visit.run.name, kinds=kinds, before=before)

        async def read_said() -> list[EvaluatorFigures]:
            return await read_evaluators(visit.sources, visit.run.name)

        found = await read()
        view = MatchView(visit, game_board, newest=asked is None)
        view.show(found)
        MatchList(visit, kind, first=before == 2**31 - 1).follow(
            f"matches {kind} before {before}", read_list
        )
        visit.watch(visit.shared(f"match {asked}", read, _SECONDS), view.show)
        visit.watch(visit.shared("evaluator", read_said, _SECONDS), view.say)


class InPlayBoards:
    """A few games that the evaluator plays now, drawn where it is made.

    Args:
        game_board: of the run's game.
    """

    def __init__(self, game_board: GameBoard) -> None:
        self._game_board = game_board
        self._moves: tuple[str, ...] | None = None
        with ui.element("section").classes("zf-panel"):
            ui.label("In play now").classes("zf-title").props('role="heading" aria-level="2"')
            self._empty = ui.label("Games appear while the evaluator plays.").classes("zf-empty")
            self._place = ui.element("div").classes("zf-boards")
        self._boards: list[Board] = []

    def show(self, moves: tuple[str, ...]) -> None:
        """Show games as far as they have come."""
        if moves == self._moves:
            return
        self._moves = moves
        self._empty.set_visibility(not moves)
        with self._place:
            while len(self._boards) < len(moves):
                self._boards.append(Board(self._game_board))
        for number, board in enumerate(self._boards):
            board.set_visibility(number < len(moves))
        for board, line in zip(self._boards, moves, strict=False):
            with contextlib.suppress(IllegalActionError):  # of an evaluator with another run file
                board.seek(parse_actions(self._game_board.game, line), playable=False)


class MatchView:
    """One match on one page.

    Args:
        visit: whose page it is.
        game_board: of the run's game.
        newest: whether it follows the present match; else it is a given one.
    """

    def __init__(self, visit: Visit, game_board: GameBoard, *, newest: bool) -> None:
        self._visit = visit
        with ui.element("section").classes("zf-panel zf-wide"):
            with ui.element("div").classes("zf-panel-head"):
                self._title = ui.label("Match").classes("zf-title")
                self._title.props('role="heading" aria-level="1"')
                if not newest:
                    ui.link("the present match", visit.link("/match")).classes("zf-link")
            self._said = ui.label("").classes("zf-note").props('role="status"')
            self._facts = ui.element("dl").classes("zf-facts")
        with ui.element("div").classes("zf-panels"):
            self._walk = ChartPanel(
                "Log-likelihood ratio",
                "Appears when the match's first opening was played with both colours.",
                note="After each pair of games; the match ends at either dashed line.",
            )
            self._score = ChartPanel(
                "Score",
                "Appears with the first complete pair.",
                note="Mean points per game of the first-named player, by pairs that are complete.",
            )
            self._outcomes = ChartPanel(
                "Pairs by points",
                "Appears when the match's first opening was played with both colours.",
                note="What the first-named player took from both games of an opening.",
            )
            self._in_play = InPlayBoards(game_board)
        with ui.element("section").classes("zf-panel zf-wide"):
            ui.label("Its newest games").classes("zf-title").props('role="heading" aria-level="2"')
            self._games = Table(_GAME_COLUMNS, "They appear as soon as they are over.")

    def show(self, found: ShownMatch | None) -> None:
        """Draw a match as it stands; None: there is none."""
        if found is None:
            self._title.set_text("No match yet")
            return
        match = found.match
        players = f"{player_words(match.player)} against {player_words(match.opponent)}"
        self._title.set_text(f"{_purpose(match.kind)}: {players}")
        self._show_facts(found)
        self._draw(found)
        self._games.show([self._game_row(found, game) for game in found.games])

    def say(self, said: Sequence[EvaluatorFigures]) -> None:
        """What the evaluator does now, by its heartbeat."""
        self._said.set_text(_doing(said[0]) if said else "No evaluator is sending heartbeats.")
        self._in_play.show(said[0].games_in_play if said else ())

    def _draw(self, found: ShownMatch) -> None:
        """The curves and the pairs."""
        match = found.match
        points = accumulate(pair.points / 2 for pair in found.pairs)
        means = [total / number for number, total in enumerate(points, 1)]
        self._score.show(
            Drawing(
                [ChartLine("score", _from_one(means), BLUE, dots=len(means) < 2)],
                ChartAxis(name="pairs", least=0, most=float(match.games // 2), whole=True),
                ChartAxis(least=0, most=1),
                {"even": 0.5} if match.rule is None else {"threshold": match.rule.threshold},
            )
        )
        counts = [float(count) for count in _outcomes(found)]
        columns = list(enumerate(counts)) if sum(counts) else []
        self._outcomes.show(
            Drawing(
                [ChartLine("pairs", columns, BLUE, columns=True)],
                ChartAxis("category", "points", categories=OUTCOMES),
                ChartAxis(least=0, whole=True),
            )
        )
        is_sequential = match.rule is not None and match.rule.sprt_error is not None
        self._walk.element.set_visibility(is_sequential)
        if match.rule is not None and match.rule.sprt_error is not None:
            bound = llr_bound(match.rule.sprt_error)
            end = float(math.ceil(bound) + 1)
            ratios = llr_walk(match, found.pairs).tolist()
            self._walk.show(
                Drawing(
                    [ChartLine("LLR", _from_one(ratios), BLUE, dots=len(ratios) < 2)],
                    ChartAxis(name="pairs", least=0, whole=True),
                    ChartAxis(least=-end, most=end),
                    {"promotes": bound, "rejects": -bound},
                )
            )

    def _show_facts(self, found: ShownMatch) -> None:
        match, history = found.match, found.history
        facts = [
            ("state", verdict_words(history)),
        ]
        if history.games:
            record = f"{history.wins} {history.draws} {history.losses}"
            facts.append(("won, drawn, lost", record))
        if match.rule is not None:
            grounds = judge(match, found.pairs).grounds
            score = "none yet" if grounds.score is None else f"{100 * grounds.score:.1f}%"
            counted = "none yet, it counts from the first opening on"
            if grounds.games_counted or grounds.duplicates:
                counted = f"{grounds.games_counted} games, {grounds.duplicates} duplicates left out"
            facts += [
                ("score over counted games", score),
                ("counted", counted),
                ("promoted above", f"{100 * match.rule.threshold:.1f}%"),
            ]
            if match.rule.sprt_elo is not None and match.rule.sprt_error is not None:
                low, high = match.rule.sprt_elo
                llr = "none yet" if grounds.llr is None else f"{grounds.llr:+.2f}"
                bound = llr_bound(match.rule.sprt_error)
                facts += [
                    ("LLR", f"{llr}, bounds ±{bound:.2f}"),
                    ("sequential test", f"{low:+g} against {high:+g} Elo"),
                ]
        elif history.games:
            score = (history.wins + history.draws / 2) / history.games
            facts.append(("score", f"{100 * score:.1f}%"))
        facts += [
            ("simulations a move", f"{match.num_simulations:,}"),
            ("began", f"{match.created_at:%Y-%m-%d %H:%M:%S} UTC"),
        ]
        if match.left_out:
            facts.append(("left out", match.left_out))
        self._facts.clear()
        with self._facts:
            for name, words in facts:
                with ui.element("div"):
                    with ui.element("dt").classes("zf-name"):
                        ui.label(name)
                    with ui.element("dd").classes("zf-wrap"):
                        ui.label(words)

    def _game_row(self, found: ShownMatch, game: Any) -> dict[str, Any]:  # noqa: ANN401
        first = found.match.player if game.color == 0 else found.match.opponent
        return {
            "key": str(game.game_uid),
            "at": f"{game.at:%d %b %H:%M:%S}",
            "at_link": self._visit.link(f"/games/{game.game_uid}"),
            "opening": game.opening + 1,
            "first": player_words(first),
            "score": _POINTS[game.score],
            "reason": game.remark or game.reason,
            "length": game.length,
            "moves": game.moves,
        }


class MatchList:
    """The run's matches on one page, newest first.

    Args:
        visit: whose page it is.
        kind: that is chosen; empty: all.
        first: whether the newest are shown.
    """

    def __init__(self, visit: Visit, kind: str, *, first: bool) -> None:
        self._visit = visit
        self._kind = kind
        self._first = first
        with ui.element("section").classes("zf-panel zf-wide"):
            with ui.element("div").classes("zf-panel-head"):
                ui.label("Matches").classes("zf-title").props('role="heading" aria-level="2"')
                with ui.element("div").classes("zf-tools"):
                    for words, value in (("all", None), *((each, each) for each in KINDS)):
                        link = ui.link(words, visit.link("/match", kind=value)).classes("zf-link")
                        if (value or "") == kind:
                            link.props('aria-current="page"')
            self._table = Table(
                MATCH_COLUMNS,
                "The evaluator's first match appears with the second model; where the run has no "
                "gate, with the first games of a rating.",
            )
            self._tools = ui.element("div").classes("zf-tools")

    def follow(self, name: str, read: Any) -> None:  # noqa: ANN401  an async function
        """Show the list, and show it again when it changes."""
        self._visit.watch(self._visit.shared(name, read, _LIST_SECONDS), self.show)

    def show(self, rows: Sequence[Any]) -> None:
        """Draw a page of matches."""
        self._table.show([match_row(self._visit, row) for row in rows[:PAGE_MATCHES]])
        self._tools.clear()
        with self._tools:
            page_links(
                self._visit,
                "/match",
                rows,
                PAGE_MATCHES,
                "match_id",
                first=self._first,
                kind=self._kind or None,
            )


def _purpose(kind: str) -> str:
    return {"gate": "Gate", "rating": "Rating", "trial": "Trial"}[kind]


def _doing(said: EvaluatorFigures) -> str:
    """What the evaluator does now."""
    if said.match_in_play:
        return (
            f"The gate plays model {said.candidate} now: {said.match_games:,} of at most "
            f"{said.match_most_games:,} games are stored."
        )
    if said.trial_in_play:
        return f"A trial is in play: {said.trial_games:,} of {said.trial_most_games:,} games."
    if said.rating_in_play:
        return (
            f"Model {said.rating_player} is being rated: {said.rating_player_games:,} of "
            f"{said.rating_player_most_games:,} games against all its opponents."
        )
    return "The evaluator plays no match now."


def _outcomes(found: ShownMatch) -> Sequence[int]:
    """Pairs by points: those that count for a verdict, of other matches all."""
    if found.match.rule is not None:
        return judge(found.match, found.pairs).grounds.pentanomial or ()
    counts = [0] * len(OUTCOMES)
    for pair in found.pairs:
        counts[round(2 * pair.points)] += 1
    return counts


def _from_one(values: Sequence[float]) -> list[tuple[float, float]]:
    return [(float(number), value) for number, value in enumerate(values, 1)]
