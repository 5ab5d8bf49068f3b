"""The list of games: filters that are in the address, and a page of games at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from zerofleet.services.dashboard.frame import Frame, Visit, said_heading
from zerofleet.services.dashboard.games_queries import (
    KINDS,
    MOST_LOOKED_AT,
    REASONS,
    RESULTS,
    GameFilter,
    GamePage,
    read_games,
)
from zerofleet.services.dashboard.table import Table, TableColumn
from zerofleet.services.dashboard.toolkit import events, ui

_RESULT_WORDS = {1: "first won", 0: "draw", -1: "second won"}
_COLUMNS = (
    TableColumn("at", "stored, UTC"),
    TableColumn("kind", "kind"),
    TableColumn("players", "players"),
    TableColumn("result", "result"),
    TableColumn("reason", "by"),
    TableColumn("length", "plies", figure=True),
    TableColumn("moves", "moves"),
)


def add_games_page(frame: Frame) -> None:
    """Register it."""

    @frame.page("/games", "Games", *GameFilter().parameters(), "before")
    async def _(visit: Visit) -> None:
        chosen = GameFilter.of(visit.parameters)
        before = visit.parameters.get("before") or None
        page = await read_games(visit.sources, visit.run.name, chosen, before)
        said_heading("Games")
        _filters(visit, chosen)
        _list(visit, chosen, page, first=before is None)


def _filters(visit: Visit, chosen: GameFilter) -> None:
    """What is chosen is in the address: each choice opens another one."""

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

    with ui.element("div").classes("zf-tools"):
        for name, label, known in (
            ("kind", "kind", KINDS),
            ("result", "result", tuple(RESULTS)),
            ("reason", "ended by", REASONS),
        ):
            ui.select(
                {"": "any", **{each: each for each in known}},
                label=label,
                value=getattr(chosen, name) or "",
                on_change=choose(name),
            ).props("dense outlined options-dense").classes("zf-field")
        enter("model", "model", "number")
        enter("least", "plies from", "number")
        enter("most", "plies to", "number")
        enter("day", "day (UTC)", "date")
        if chosen != GameFilter():
            ui.link("all games", visit.link("/games")).classes("zf-link")


def _list(visit: Visit, chosen: GameFilter, page: GamePage, *, first: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "key": game.game_uid,
            "at_link": visit.link(f"/games/{game.game_uid}"),
            "at": f"{game.ingested_at:%d %b %H:%M:%S}",
            "kind": game.kind,
            "players": game.players,
            "result": _RESULT_WORDS[game.result],
            "reason": game.reason,
            "length": game.length,
            "moves": game.moves,
        }
        for game in page.games
    ]
    with ui.element("section").classes("zf-panel zf-wide"):
        if rows:
            Table(_COLUMNS).classes("zf-games").show(rows)
        elif chosen == GameFilter() and first:
            ui.label("Games appear here as soon as the first one is finished.").classes("zf-empty")
        else:
            ui.label(f"None of the {page.looked:,} games that were looked at.").classes("zf-empty")
        with ui.element("div").classes("zf-tools"):
            if not first:
                ui.link("newest", visit.link("/games", **chosen.parameters())).classes("zf-link")
            if page.before is not None:
                ui.link(
                    "older",
                    visit.link("/games", **replace(chosen).parameters(), before=page.before),
                ).classes("zf-link")
            if page.looked >= MOST_LOOKED_AT:
                ui.label(f"Each page looks at {MOST_LOOKED_AT:,} games; the older ones follow.")
