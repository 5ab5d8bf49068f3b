"""The matches page: the evaluator's current match, all matches of the run, and their words.

Each query reads a bounded number of rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from zerofleet.database import MatchRow
from zerofleet.database.matches import MATCH, PAIRS, match_of, pair_of
from zerofleet.errors import ConfigError, IllegalActionError
from zerofleet.fleet.figures import EvaluatorFigures
from zerofleet.games import parse_actions
from zerofleet.games.game_board import GameBoard, board_of
from zerofleet.services.dashboard.board import Board, require_known
from zerofleet.services.dashboard.charts import BLUE, ChartAxis, ChartLine, ChartPanel, Drawing
from zerofleet.services.dashboard.frame import (
    HIGHEST,
    Frame,
    NothingThereError,
    Visit,
    asked_number,
    first_moves,
    page_heading,
    page_links,
    sentence,
)
from zerofleet.services.dashboard.sources import Sources
from zerofleet.services.dashboard.toolkit import NONE, Table, TableColumn, ui
from zerofleet.verdict import Pair, judge, llr_bound, llr_walk

OUTCOMES = ("0", "½", "1", "1½", "2")

MATCH_COLUMNS = (
    TableColumn("began", "Began, UTC"),
    TableColumn("kind", "Kind"),
    TableColumn("player", "Player"),
    TableColumn("opponent", "Opponent"),
    TableColumn("simulations", "Simulations", figure=True),
    TableColumn("record", "Won / drawn / lost", figure=True),
    TableColumn("score", "Score", figure=True),
    TableColumn("pairs", "Pairs", optional=True),
    TableColumn("llr", "LLR", optional=True),
    TableColumn("verdict", "Verdict"),
)

KINDS = ("gate", "rating", "trial")
MATCH_KINDS = {"gate": "promotion match", "rating": "rating games", "trial": "test match"}
"""Words for the kinds of matches."""
REASONS = {"rules": "the rules", "resign": "resignation", "adjudicated": "the file's result"}
"""Words for the reasons why games end."""
PAGE_MATCHES = 30
_SHOWN_GAMES = 30
_SHOWN_MOVES = 80  # characters

# The gate's match precedes the others; next is the match with the newest game, and then the newest
# match, which has no games yet.
PRESENT = """
SELECT coalesce(
    (SELECT max(match_id) FROM matches WHERE run = :run AND kind = 'gate' AND verdict IS NULL),
    (SELECT mg.match_id FROM (
        SELECT game_uid FROM games WHERE run = :run AND kind = 'match'
        ORDER BY ingested_at DESC LIMIT 1
    ) AS newest JOIN match_games AS mg USING (game_uid)),
    (SELECT max(newest.match_id) FROM unnest(CAST(:kinds AS text[])) AS k (kind)
     CROSS JOIN LATERAL (
        SELECT match_id FROM matches WHERE run = :run AND kind = k.kind
        ORDER BY match_id DESC LIMIT 1
    ) AS newest)
) AS match_id
"""
HISTORY = "SELECT * FROM match_history WHERE run = :run AND match_id = :match_id"
GAMES = f"""
SELECT mg.opening, mg.color, mg.score, mg.remark, mg.at, mg.game_uid, g.length, g.reason,
    left(g.moves, {_SHOWN_MOVES}) AS moves, g.start
FROM match_games AS mg JOIN games AS g USING (game_uid)
WHERE mg.match_id = :match_id ORDER BY mg.at DESC, mg.opening DESC, mg.color LIMIT {_SHOWN_GAMES}
"""
MATCHES = f"""
SELECT h.* FROM (
    SELECT newest.match_id FROM unnest(CAST(:kinds AS text[])) AS k (kind)
    CROSS JOIN LATERAL (
        SELECT match_id FROM matches
        WHERE run = :run AND kind = k.kind AND match_id < :before
        ORDER BY match_id DESC LIMIT {PAGE_MATCHES + 1}
    ) AS newest
    ORDER BY newest.match_id DESC LIMIT {PAGE_MATCHES + 1}
) AS m
JOIN match_history AS h USING (match_id)
ORDER BY h.match_id DESC
"""
"""A page of matches, newest first, with one more where there are older ones."""

_SECONDS = 3.0
_LIST_SECONDS = 10.0
_GAME_COLUMNS = (
    TableColumn("at", "Stored, UTC"),
    TableColumn("opening", "Opening", figure=True),
    TableColumn("first", "First player"),
    TableColumn("score", "Points of the player", figure=True),
    TableColumn("reason", "Ended by"),
    TableColumn("length", "Plies", figure=True),
    TableColumn("moves", "Moves"),
)
_POINTS = {1.0: "1", 0.5: "½", 0.0: "0"}


def match_row(visit: Visit, row: Any) -> dict[str, Any]:  # noqa: ANN401  a row of match_history
    """Return a row of ``match_history`` as a row of a table with ``MATCH_COLUMNS``."""
    return {
        "key": row.match_id,
        "began": f"{row.created_at:%d %b %H:%M}",
        "began_link": visit.link("/match", match=row.match_id),
        "kind": MATCH_KINDS[row.kind],
        **_player(visit, "player", row.player),
        **_player(visit, "opponent", row.opponent),
        # Rating games follow the run file, so their number may have changed.
        "simulations": NONE if row.kind == "rating" else f"{row.num_simulations:,}",
        **gate_cells(row),
    }


def gate_cells(row: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the result of a match of ``match_history`` as cells; columns are None without one."""
    if row.match_id is None:
        return {
            "record": NONE,
            "score": NONE,
            "verdict": NONE,
            **counts_cell(None),
            **llr_cell(None, None),
        }
    score = row.score_percent
    if score is None and row.games:
        score = 100 * (row.wins + row.draws / 2) / row.games
    return {
        "record": f"{row.wins} / {row.draws} / {row.losses}" if row.games else NONE,
        "score": NONE if score is None else f"{score:.1f}%",
        "verdict": verdict_words(row),
        **counts_cell(row.pentanomial),
        **llr_cell(row.llr, row.llr_bound),
    }


def verdict_words(row: Any) -> str:  # noqa: ANN401
    """Return the verdict on a match of ``match_history`` in words."""
    if row.kind != "gate":
        return f"{row.games or 'none'} of {row.most_games} games"
    if row.verdict is None:
        return f"In progress ({row.games} of {row.most_games} games)"
    return f"{row.verdict} by {row.decided_by}" if row.decided_by else str(row.verdict)


def counts_cell(pentanomial: list[int] | None) -> dict[str, Any]:
    """Return a pentanomial as a cell of the column ``pairs``."""
    words = [
        f"{count} of {points}" for count, points in zip(pentanomial or (), OUTCOMES, strict=False)
    ]
    return {
        "pairs": NONE,
        "pairs_counts": list(pentanomial) if pentanomial and sum(pentanomial) else None,
        "pairs_title": f"Pairs by points: {', '.join(words)}",
    }


def llr_cell(llr: Any, bound: Any) -> dict[str, Any]:  # noqa: ANN401  numbers of Postgres
    """Return a log-likelihood ratio between its bounds as a cell of the column ``llr``."""
    if llr is None or not bound:
        return {"llr": NONE, "llr_share": None, "llr_title": ""}
    return {
        "llr": f"{llr:+.2f}",
        "llr_share": max(-1.0, min(1.0, float(llr) / float(bound))),
        "llr_title": f"{llr:+.2f}: rejects at {-bound:.2f}, promotes at {bound:.2f}",
    }


def player_words(name: str) -> str:
    """Return the name of a player of a match for people."""
    return f"model {name}" if name[:1].isdigit() else name


def _player(visit: Visit, column: str, name: str) -> dict[str, Any]:
    version = name.partition("/")[0]
    link = visit.link(f"/models/{version}") if version.isdecimal() else None
    return {column: player_words(name), f"{column}_link": link}


@dataclass(frozen=True, slots=True)
class ShownMatch:
    """A match and its games so far."""

    match: MatchRow
    history: Any
    """Its row of ``match_history``."""
    pairs: tuple[Pair, ...]
    games: Sequence[Any]
    """The newest games."""


async def read_match(sources: Sources, run: str, match_id: int | None) -> ShownMatch | None:
    """Return a match of a run.

    Args:
        match_id: the match; None: the current one.

    Returns:
        None: there was no match yet.

    Raises:
        NothingThereError: the run has no such match.
        StoreUnavailableError: Postgres is down.
    """
    requested = match_id
    if match_id is None:
        [present] = await sources.rows(PRESENT, run=run, kinds=list(KINDS))
        match_id = present.match_id
        if match_id is None:
            return None
    history = await sources.rows(HISTORY, run=run, match_id=match_id)
    if not history:
        raise NothingThereError(f"the run '{run}' has no match {requested}")
    [row] = await sources.rows(MATCH, match_id=match_id)
    return ShownMatch(
        match_of(row),
        history[0],
        tuple(map(pair_of, await sources.rows(PAIRS, match_id=match_id))),
        await sources.rows(GAMES, match_id=match_id),
    )


async def read_evaluators(sources: Sources, run: str) -> list[EvaluatorFigures]:
    """Return figures of the run's evaluator, and of its predecessor; empty: neither responds.

    Raises:
        StoreUnavailableError: Redis is down.
    """
    beats = await sources.heartbeats(run)
    return [beat.figures for beat in beats if isinstance(beat.figures, EvaluatorFigures)]


def add_match_page(frame: Frame) -> None:
    """Register the page."""

    @frame.page("/match", "Match", "match", "kind", "before")
    async def _(visit: Visit) -> None:
        requested = asked_number(visit.parameters, "match") or None
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
            return await read_match(visit.sources, visit.run.name, requested)

        async def read_list() -> Sequence[Any]:
            kinds = [kind] if kind else list(KINDS)
            return await visit.sources.rows(MATCHES, run=visit.run.name, kinds=kinds, before=before)

        async def read_reported() -> list[EvaluatorFigures]:
            return await read_evaluators(visit.sources, visit.run.name)

        found = await read()
        view = MatchView(visit, game_board, newest=requested is None)
        view.show(found)
        MatchList(visit, kind, first=before == HIGHEST).follow(
            f"matches {kind} before {before}", read_list
        )
        visit.watch(visit.shared(f"match {requested}", read, _SECONDS), view.show)
        visit.watch(visit.shared("evaluator", read_reported, _SECONDS), view.say)


class InPlayBoards:
    """A few games that the evaluator is playing, drawn where it is made."""

    def __init__(self, game_board: GameBoard) -> None:
        self._game_board = game_board
        self._moves: tuple[str, ...] | None = None
        with ui.element("section").classes("zf-panel"):
            ui.label("In play now").classes("zf-title").props('role="heading" aria-level="2"')
            self._empty = ui.label("Games appear while the evaluator plays.").classes("zf-empty")
            self._place = ui.element("div").classes("zf-boards")
        self._boards: list[Board] = []

    def show(self, moves: tuple[str, ...]) -> None:
        """Show the games so far."""
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
            start, _, played = line.rpartition(";")  # see the evaluator's heartbeat
            # An evaluator may have another run file.
            with contextlib.suppress(ConfigError, IllegalActionError):
                actions = parse_actions(self._game_board.game, played, start)
                board.seek(actions, start=start, playable=False)


class MatchView:
    """One match on one page.

    Args:
        newest: whether it follows the current match; otherwise the match is fixed.
    """

    def __init__(self, visit: Visit, game_board: GameBoard, *, newest: bool) -> None:
        self._visit = visit
        with ui.element("section").classes("zf-panel zf-wide"):
            with ui.element("div").classes("zf-panel-head"):
                self._title = page_heading("Match")
                if not newest:
                    ui.link("Current match", visit.link("/match")).classes("zf-link")
            self._status = ui.label("").classes("zf-note").props('role="status"')
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
                note="Of the player named first, in complete pairs: a win counts 100%, a draw 50%.",
            )
            self._outcomes = ChartPanel(
                "Pairs by points",
                "Appears when the match's first opening was played with both colours.",
                note="Points of the player named first in both games of an opening.",
            )
            self._in_play = InPlayBoards(game_board)
        with ui.element("section").classes("zf-panel zf-wide"):
            ui.label("Newest games").classes("zf-title").props('role="heading" aria-level="2"')
            name = sentence(game_board.names[0].removeprefix("the "))
            columns = [
                replace(column, label=name) if column.name == "first" else column
                for column in _GAME_COLUMNS
            ]
            self._games = Table(columns, "Games appear as soon as they are over.")

    def show(self, found: ShownMatch | None) -> None:
        """Draw the current state of a match; None: there is none."""
        if found is None:
            self._title.set_text("No match yet")
            return
        match = found.match
        players = f"{player_words(match.player)} against {player_words(match.opponent)}"
        self._title.set_text(f"{_purpose(match.kind)}: {players}")
        self._show_facts(found)
        self._draw(found)
        self._games.show([self._game_row(found, game) for game in found.games])

    def say(self, evaluators: Sequence[EvaluatorFigures]) -> None:
        """Show what the evaluator is doing, from its heartbeat."""
        self._status.set_text(
            _doing(evaluators[0]) if evaluators else "No evaluator is sending heartbeats."
        )
        self._in_play.show(evaluators[0].games_in_play if evaluators else ())

    def _draw(self, found: ShownMatch) -> None:
        """Draw the curves and the pairs."""
        match = found.match
        points = accumulate(pair.points / 2 for pair in found.pairs)
        means = [100 * total / number for number, total in enumerate(points, 1)]
        self._score.show(
            Drawing(
                [ChartLine("score", _from_one(means), BLUE, dots=len(means) < 2)],
                ChartAxis(name="pairs", least=0, most=float(match.games // 2), whole=True),
                ChartAxis(name="score, %", least=0, most=100),
                {"even": 50}
                if match.rule is None
                else {"promoted above": 100 * match.rule.threshold},
            )
        )
        counts = [float(count) for count in _outcomes(found)]
        columns = list(enumerate(counts)) if sum(counts) else []
        self._outcomes.show(
            Drawing(
                [ChartLine("pairs", columns, BLUE, columns=True)],
                ChartAxis("category", "points", categories=OUTCOMES),
                ChartAxis(name="pairs", least=0, whole=True),
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
                    ChartAxis(name="LLR", least=-end, most=end),
                    {"promotes": bound, "rejects": -bound},
                )
            )

    def _show_facts(self, found: ShownMatch) -> None:
        match, history = found.match, found.history
        facts = [
            ("Status", verdict_words(history)),
        ]
        if history.games:
            record = f"{history.wins} / {history.draws} / {history.losses}"
            facts.append(("Won / drawn / lost", record))
        if match.rule is not None:
            statistics = judge(match, found.pairs).statistics
            score = (
                "no counted game yet"
                if statistics.score is None
                else f"{100 * statistics.score:.1f}%"
            )
            counted = "no pair is complete yet"
            if statistics.games_counted or statistics.duplicates:
                counted = (
                    f"{statistics.games_counted} games, without {statistics.duplicates} duplicates"
                )
            facts += [
                ("Score of counted games", score),
                ("Counted", counted),
                ("Promoted above", f"{100 * match.rule.threshold:.1f}%"),
            ]
            if match.rule.sprt_elo is not None and match.rule.sprt_error is not None:
                low, high = match.rule.sprt_elo
                llr = (
                    "no pair is complete yet"
                    if statistics.llr is None
                    else f"{statistics.llr:+.2f}"
                )
                bound = llr_bound(match.rule.sprt_error)
                facts += [
                    ("LLR", f"{llr}, bounds ±{bound:.2f}"),
                    ("Sequential test (SPRT)", f"{low:+g} against {high:+g} Elo"),
                ]
        elif history.games:
            score = (history.wins + history.draws / 2) / history.games
            facts.append(("Score", f"{100 * score:.1f}%"))
        facts += [
            ("Simulations per move", f"{match.num_simulations:,}"),
            ("Began", f"{match.created_at:%Y-%m-%d %H:%M:%S} UTC"),
        ]
        if match.left_out:
            facts.append(("Could not be played", match.left_out))
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
            "reason": game.remark or REASONS.get(game.reason, game.reason),
            "length": game.length,
            "moves": first_moves(self._visit.run.game, game.moves, _SHOWN_MOVES, game.start),
        }


class MatchList:
    """The run's matches on one page, newest first.

    Args:
        kind: the chosen kind; empty: all.
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
                    for value, words in {None: "all", **MATCH_KINDS}.items():
                        link = ui.link(words, visit.link("/match", kind=value)).classes("zf-link")
                        if (value or "") == kind:
                            link.props('aria-current="page"')
            self._table = Table(
                MATCH_COLUMNS,
                "The first match appears with the second model. In a run without promotion "
                "matches it appears with the first rating games.",
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
    return MATCH_KINDS[kind].capitalize()


def _doing(figures: EvaluatorFigures) -> str:
    """Return what the evaluator is doing."""
    if figures.match_in_play:
        return (
            f"Model {figures.candidate} is being evaluated: {figures.match_games:,} of at most "
            f"{figures.match_most_games:,} games are stored."
        )
    if figures.trial_in_play:
        return (
            f"A test match is in progress: {figures.trial_games:,} of "
            f"{figures.trial_most_games:,} games."
        )
    if figures.rating_in_play:
        return (
            f"Model {figures.rating_player} is being rated: {figures.rating_player_games:,} of "
            f"{figures.rating_player_most_games:,} games against all its opponents."
        )
    return "No match is in progress."


def _outcomes(found: ShownMatch) -> Sequence[int]:
    """Return pairs by points: only the ones that count for a verdict; in other matches all."""
    if found.match.rule is not None:
        return judge(found.match, found.pairs).statistics.pentanomial or ()
    counts = [0] * len(OUTCOMES)
    for pair in found.pairs:
        counts[round(2 * pair.points)] += 1
    return counts


def _from_one(values: Sequence[float]) -> list[tuple[float, float]]:
    return [(float(number), value) for number, value in enumerate(values, 1)]
