"""The list of games, newest first, in pages, with filters in the address.

Games are read in the order of an index. Each query reads no more than ``MOST_LOOKED_AT`` games and
returns where it stopped, however many are stored. With filters that few games pass, visitors go on
page by page.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from zerofleet.services.dashboard.frame import (
    Frame,
    NothingThereError,
    Visit,
    asked_number,
    first_moves,
    links_around,
    models_words,
    page_heading,
    result_words,
)
from zerofleet.services.dashboard.match_page import MATCH_KINDS, REASONS, player_words
from zerofleet.services.dashboard.sources import Sources
from zerofleet.services.dashboard.toolkit import Table, TableColumn, events, ui

PAGE_GAMES = 50
MOST_LOOKED_AT = 20_000
KINDS = ("selfplay", "given", "match", "gate", "rating", "trial")
RESULTS = {"first": 1, "draw": 0, "second": -1}
_SHOWN_MOVES = 60  # characters

_SCANNED = """
SELECT game_uid, ingested_at, kind, first_model, second_model, result, reason, length
FROM games WHERE {where} ORDER BY ingested_at DESC, game_uid DESC LIMIT :looked
"""
# Details are looked up game by game, so that no plan reads a whole table for them.
_STATEMENT = """
WITH scanned AS MATERIALIZED ({scanned}),
chosen AS (
    SELECT s.*, m.kind AS match_kind, m.player, m.opponent
    FROM scanned AS s
    LEFT JOIN LATERAL (
        SELECT matches.* FROM match_games JOIN matches USING (match_id)
        WHERE match_games.game_uid = s.game_uid LIMIT 1
    ) AS m ON s.kind = 'match'
    WHERE {chosen}
    ORDER BY s.ingested_at DESC, s.game_uid DESC LIMIT :rows
)
SELECT
    (SELECT count(*) FROM scanned) AS looked,
    (SELECT json_build_array(ingested_at, game_uid) FROM scanned
        ORDER BY ingested_at, game_uid LIMIT 1) AS last,
    (SELECT json_agg(row_to_json(t) ORDER BY t.ingested_at DESC, t.game_uid DESC) FROM (
        SELECT c.*, g.moves, g.start
        FROM chosen AS c
        CROSS JOIN LATERAL (
            SELECT left(moves, :characters) AS moves, start
            FROM games WHERE games.game_uid = c.game_uid LIMIT 1
        ) AS g
    ) AS t) AS games
"""

_CHOICES = {
    **MATCH_KINDS,
    "selfplay": "self-play",
    "given": "given game",
    "match": "any match",
    **REASONS,
}
"""Words for the values of the filters; other values are their own words."""
_COLUMNS = (
    TableColumn("at", "Stored, UTC"),
    TableColumn("kind", "Kind"),
    TableColumn("players", "Players"),
    TableColumn("result", "Result"),
    TableColumn("reason", "Ended by"),
    TableColumn("length", "Plies", figure=True),
    TableColumn("moves", "Moves"),
)


@dataclass(frozen=True, slots=True)
class GameFilter:
    """A filter of the list; None: any."""

    kind: str | None = None
    model: int | None = None
    result: str | None = None
    reason: str | None = None
    least: int | None = None  # plies
    most: int | None = None  # plies
    day: date | None = None  # day on which it was stored, UTC

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> GameFilter:
        """Read the filter from a link's parameters.

        Raises:
            NothingThereError: a value is not valid; the message names it and the allowed values.
        """
        return cls(
            kind=_one_of(parameters, "kind", KINDS),
            model=asked_number(parameters, "model"),
            result=_one_of(parameters, "result", tuple(RESULTS)),
            reason=_one_of(parameters, "reason", tuple(REASONS)),
            least=asked_number(parameters, "least"),
            most=asked_number(parameters, "most"),
            day=_day(parameters),
        )

    def parameters(self) -> dict[str, object]:
        """Return the parameters of a link to this list."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, slots=True)
class ListedGame:
    """A game in the list."""

    game_uid: str
    ingested_at: datetime
    kind: str  # "selfplay", or the kind of its match
    players: str
    result: int
    reason: str
    length: int
    moves: str  # the first moves
    start: str  # empty: the usual position


@dataclass(frozen=True, slots=True)
class GamePage:
    """A page of the list, and where the next one begins."""

    games: tuple[ListedGame, ...]
    looked: int  # games read, of which ``games`` passed the filter
    before: str | None  # start of the next page; None: this is the last one


async def read_games(
    sources: Sources, run: str, chosen: GameFilter, before: str | None
) -> GamePage:
    """Return the games of a run that pass a filter, newest first.

    Args:
        before: ``before`` of the previous page; None: the first page.

    Raises:
        NothingThereError: ``before`` is not from a page.
        StoreUnavailableError: Postgres is down.
    """
    statement, given = statement_of(chosen, before)
    row = (await sources.rows(statement, run=run, **given))[0]
    found = [_listed(values) for values in row.games or ()]
    before_next: str | None = None
    if len(found) > PAGE_GAMES:
        found = found[:PAGE_GAMES]
        before_next = _key(found[-1].ingested_at, found[-1].game_uid)
    elif row.looked >= MOST_LOOKED_AT:
        before_next = _key(datetime.fromisoformat(row.last[0]), row.last[1])
    return GamePage(tuple(found), row.looked, before_next)


def statement_of(chosen: GameFilter, before: str | None) -> tuple[str, dict[str, object]]:
    """Return the query of a page and its parameters, without the run.

    Raises:
        NothingThereError: ``before`` is not from a page.
    """
    conditions, given = _conditions(chosen)
    given |= {
        # Without such conditions, the index alone chooses the games.
        "looked": MOST_LOOKED_AT if conditions else PAGE_GAMES + 1,
        "rows": PAGE_GAMES + 1,
        "characters": _SHOWN_MOVES,
    }
    scanned, parameters = _scan(chosen, before)
    passing = " AND ".join(conditions) or "true"
    return _STATEMENT.format(scanned=scanned, chosen=passing), given | parameters


def _scan(chosen: GameFilter, before: str | None) -> tuple[str, dict[str, object]]:
    """Return the part of the query that an index answers in order, and its parameters.

    It applies the kind, the day and the model of a filter.

    Raises:
        NothingThereError: ``before`` is not from a page.
    """
    given: dict[str, object] = {}
    where = ["run = :run"]
    if chosen.kind is not None:
        stored_kind = chosen.kind if chosen.kind in ("selfplay", "given") else "match"
        where.append(f"kind = '{stored_kind}'")
    if chosen.day is not None:
        where.append("ingested_at >= :day AND ingested_at < :next_day")
        start = datetime(chosen.day.year, chosen.day.month, chosen.day.day, tzinfo=UTC)
        given |= {"day": start, "next_day": start + timedelta(days=1)}
    if before is not None:
        where.append("(ingested_at, game_uid) < (:before, CAST(:before_uid AS uuid))")
        given["before"], given["before_uid"] = _read_key(before)
    if chosen.model is None:
        return _SCANNED.format(where=" AND ".join(where)), given
    given["model"] = chosen.model
    # One index for each side.
    first = _SCANNED.format(where=" AND ".join([*where, "first_model = :model"]))
    second = _SCANNED.format(
        where=" AND ".join([*where, "second_model = :model", "second_model <> first_model"])
    )
    union = (
        f"SELECT * FROM (({first}) UNION ALL ({second})) AS both_sides "
        "ORDER BY ingested_at DESC, game_uid DESC LIMIT :looked"
    )
    return union, given


def _conditions(chosen: GameFilter) -> tuple[list[str], dict[str, object]]:
    """Return the conditions of a filter on the games that were read, and their parameters."""
    conditions: list[str] = []
    given: dict[str, object] = {}
    if chosen.kind in ("gate", "rating", "trial"):
        conditions.append("m.kind = :match_kind")
        given["match_kind"] = chosen.kind
    if chosen.result is not None:
        conditions.append("s.result = :result")
        given["result"] = RESULTS[chosen.result]
    for name, value, condition in (
        ("reason", chosen.reason, "s.reason = :reason"),
        ("least", chosen.least, "s.length >= :least"),
        ("most", chosen.most, "s.length <= :most"),
    ):
        if value is not None:
            conditions.append(condition)
            given[name] = value
    return conditions, given


def _listed(values: dict[str, Any]) -> ListedGame:
    if values["match_kind"] is not None:
        players = f"{player_words(values['player'])} and {player_words(values['opponent'])}"
    elif values["kind"] == "given":
        players = "no model of this run"
    else:
        players = models_words((values["first_model"], values["second_model"]))
    return ListedGame(
        game_uid=values["game_uid"],
        ingested_at=datetime.fromisoformat(values["ingested_at"]),
        kind=values["match_kind"] or values["kind"],
        players=players,
        result=values["result"],
        reason=values["reason"],
        length=values["length"],
        moves=values["moves"],
        start=values["start"],
    )


def _key(at: datetime, game_uid: str) -> str:
    return f"{at.astimezone(UTC):%Y%m%dT%H%M%S.%f}-{UUID(game_uid).hex}"


def _read_key(text: str) -> tuple[datetime, str]:
    at, _, uid = text.partition("-")
    try:
        return datetime.strptime(at, "%Y%m%dT%H%M%S.%f").replace(tzinfo=UTC), str(UUID(uid))
    except ValueError as error:
        raise NothingThereError(f"before={text[:80]} is not a page of games") from error


def _one_of(parameters: Mapping[str, str], name: str, known: tuple[str, ...]) -> str | None:
    value = parameters.get(name) or None
    if value is not None and value not in known:
        raise NothingThereError(f"{name}={value[:80]}: give one of {', '.join(known)}")
    return value


def _day(parameters: Mapping[str, str]) -> date | None:
    value = parameters.get("day") or None
    if value is None:
        return None
    with contextlib.suppress(ValueError):
        day = date.fromisoformat(value)
        if day < date.max:  # its games are those before the next day
            return day
    raise NothingThereError(f"day={value[:80]}: give a day as 2026-01-31")


def add_games_page(frame: Frame) -> None:
    """Register the page."""

    @frame.page("/games", "Games", *GameFilter().parameters(), "before")
    async def _(visit: Visit) -> None:
        chosen = GameFilter.of(visit.parameters)
        before = visit.parameters.get("before") or None
        page = await read_games(visit.sources, visit.run.name, chosen, before)
        with ui.element("div").classes("zf-panel-head"):
            page_heading("Games")
            ui.link("Largest mistakes", visit.link("/mistakes")).classes("zf-link")
        _filters(visit, chosen)
        _list(visit, chosen, page, first=before is None)


def _filters(visit: Visit, chosen: GameFilter) -> None:
    """Draw the filters: the choice is in the address, and each change opens another one."""

    def choose(name: str) -> Callable[[events.ValueChangeEventArguments[Any]], None]:
        def go(event: events.ValueChangeEventArguments[Any]) -> None:
            ui.navigate.to(
                visit.link("/games", **{**chosen.parameters(), name: event.value or None})
            )

        return go

    def enter(name: str, label: str, kind: str) -> None:
        value = getattr(chosen, name)
        field = ui.input(label, value="" if value is None else str(value))
        field.props(f'dense outlined type="{kind}" {"stack-label" if kind == "date" else ""}')
        field.classes("zf-field")

        def go() -> None:
            ui.navigate.to(
                visit.link("/games", **{**chosen.parameters(), name: field.value or None})
            )

        field.on("keydown.enter", go)
        field.on("change", go)

    names = visit.player_names
    words = _CHOICES | {name: result_words(result, names) for name, result in RESULTS.items()}
    with ui.element("div").classes("zf-tools"):
        for name, label, known in (
            ("kind", "Kind", KINDS),
            ("result", "Result", tuple(RESULTS)),
            ("reason", "Ended by", tuple(REASONS)),
        ):
            ui.select(
                {"": "any", **{each: words.get(each, each) for each in known}},
                label=label,
                value=getattr(chosen, name) or "",
                on_change=choose(name),
            ).props("dense outlined options-dense").classes("zf-field")
        enter("model", "Model", "number")
        enter("least", "Plies from", "number")
        enter("most", "Plies to", "number")
        enter("day", "Day, UTC", "date")
        if chosen != GameFilter():
            ui.link("All games", visit.link("/games")).classes("zf-link")


def _list(visit: Visit, chosen: GameFilter, page: GamePage, *, first: bool) -> None:
    names = visit.player_names
    rows: list[dict[str, Any]] = [
        {
            "key": game.game_uid,
            "at_link": visit.link(f"/games/{game.game_uid}"),
            "at": f"{game.ingested_at:%d %b %H:%M:%S}",
            "kind": _CHOICES.get(game.kind, game.kind),
            "players": game.players,
            "result": result_words(game.result, names),
            "reason": _CHOICES.get(game.reason, game.reason),
            "length": game.length,
            "moves": first_moves(visit.run.game, game.moves, _SHOWN_MOVES, game.start),
        }
        for game in page.games
    ]
    with ui.element("section").classes("zf-panel zf-wide"):
        if rows:
            Table(_COLUMNS).classes("zf-games").show(rows)
        elif chosen == GameFilter() and first:
            ui.label("Games appear here as soon as the first one is finished.").classes("zf-empty")
        else:
            ui.label(f"None of the {page.looked:,} games checked matches.").classes("zf-empty")
        with ui.element("div").classes("zf-tools"):
            links_around(visit, "/games", page.before, first=first, **chosen.parameters())
            if page.looked >= MOST_LOOKED_AT:
                ui.label(f"Each page checks {MOST_LOOKED_AT:,} games; older ones follow.")
