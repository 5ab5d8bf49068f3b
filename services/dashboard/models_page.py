"""The list of models: what each is, how strong, and what the gate made of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from zerofleet.fleet.report import rating_text
from zerofleet.services.dashboard.frame import Frame, Visit
from zerofleet.services.dashboard.match_words import gate_cells, player_words
from zerofleet.services.dashboard.models_queries import MODELS, PAGE_MODELS
from zerofleet.services.dashboard.page_parameters import HIGHEST, asked_number
from zerofleet.services.dashboard.sources import ShownRun
from zerofleet.services.dashboard.table import NONE, Table, TableColumn
from zerofleet.services.dashboard.toolkit import ui

_SECONDS = 10.0
_COLUMNS = (
    TableColumn("version", "model"),
    TableColumn("published", "published, UTC"),
    TableColumn("step", "step", figure=True),
    TableColumn("elo", "Elo, 95%", figure=True),
    TableColumn("promoted", "promoted, UTC"),
    # Of a run without a gate none of these is shown.
    TableColumn("against", "gate against", optional=True),
    TableColumn("record", "won, drawn, lost", figure=True, optional=True),
    TableColumn("score", "score", figure=True, optional=True),
    TableColumn("pairs", "pairs", optional=True),
    TableColumn("llr", "LLR", optional=True),
    TableColumn("verdict", "verdict", optional=True),
    TableColumn("precisions", "precisions"),
    TableColumn("sha256", "sha256"),
)


def add_models_page(frame: Frame) -> None:
    """Register it."""

    @frame.page("/models", "Models", "before")
    async def _(visit: Visit) -> None:
        before = asked_number(visit.parameters, "before") or HIGHEST

        async def read() -> Sequence[Any]:
            every = rated_every(visit.run)
            return await visit.sources.rows(MODELS, run=visit.run.name, before=before, every=every)

        with ui.element("section").classes("zf-panel zf-wide"):
            with ui.element("div").classes("zf-panel-head"):
                ui.label("Models").classes("zf-title").props('role="heading" aria-level="1"')
                ui.link("Two models on one position", visit.link("/compare")).classes("zf-link")
            ui.label(
                f"Elo is relative to the oldest model that played. {rated_words(visit.run)} "
                "Pairs are those of the gate in which the candidate took 0, ½, 1, 1½ and 2 "
                "points; LLR rejects at its left end and promotes at its right one."
            ).classes("zf-note")
            table = Table(_COLUMNS, "The first model appears when the trainer publishes it.")
            tools = ui.element("div").classes("zf-tools")

        def draw(rows: Sequence[Any]) -> None:
            table.show([_row(visit, row) for row in rows[:PAGE_MODELS]])
            tools.clear()
            with tools:
                page_links(visit, "/models", rows, PAGE_MODELS, "version", first=before == HIGHEST)

        reading = visit.shared(f"models before {before}", read, _SECONDS)
        if reading.value is None:
            draw(await read())
        visit.watch(reading, draw)


def page_links(
    visit: Visit,
    path: str,
    rows: Sequence[Any],
    most: int,
    key: str,
    *,
    first: bool,
    **more: object,
) -> None:
    """Links to the newest page and to the older one.

    Args:
        visit: whose page it is.
        path: of the list.
        rows: as read: one more than ``most`` where there are older ones.
        most: of a page.
        key: the column by which the next page begins.
        first: whether this is the newest page.
        more: of the address.
    """
    if not first:
        ui.link("newest", visit.link(path, **more)).classes("zf-link")
    if len(rows) > most:
        before = getattr(rows[most - 1], key)
        ui.link("older", visit.link(path, **more, before=before)).classes("zf-link")


def elo_words(row: Any) -> str:  # noqa: ANN401  a row with those of ratings_with_interval
    """Return the Elo with half of its 95% interval."""
    if row.elo is None:
        return NONE
    return rating_text(float(row.elo), float(row.high - row.low) / 2)


def rated_every(run: ShownRun) -> int:
    """Return N if every Nth promoted model of a run is rated; 1 if its settings are unknown."""
    return run.config.rating.every if run.config is not None else 1


def rated_words(run: ShownRun) -> str:
    """Return a sentence on which models of a run are rated; empty if all promoted ones are."""
    every = rated_every(run)
    return "" if every == 1 else f"Every {ordinal(every)} promoted model is rated."


def unrated_words(run: ShownRun, row: Any) -> str:  # noqa: ANN401  a row of MODELS
    """Return why a model has no Elo."""
    if row.promoted_at is not None and not row.to_be_rated:
        return f"Not rated: this run rates every {ordinal(rated_every(run))} promoted model"
    if run.config is not None and run.config.rating.games == 0:
        return "Not rated: this run plays no rating games (rating.games = 0)"
    return "Not rated yet"


def ordinal(number: int) -> str:
    """Return the ordinal number, such as ``2nd``, ``5th`` and ``11th``."""
    last = 0 if number % 100 in (11, 12, 13) else number % 10
    return f"{number}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(last, 'th') }"


def moment(at: datetime | None) -> str:
    """A time of the run, UTC."""
    return NONE if at is None else f"{at:%d %b %H:%M}"


def _row(visit: Visit, row: Any) -> dict[str, Any]:  # noqa: ANN401
    gate = row.match_id is not None
    is_left_out = row.promoted_at is not None and not row.to_be_rated
    return {
        "key": row.version,
        "version": f"{row.version} (best)" if row.is_best else str(row.version),
        "version_link": visit.link(f"/models/{row.version}"),
        "published": moment(row.published_at),
        "step": f"{row.step:,}",
        "elo": "not rated" if row.elo is None and is_left_out else elo_words(row),
        "elo_title": unrated_words(visit.run, row) if row.elo is None else None,
        "promoted": moment(row.promoted_at),
        "against": player_words(row.opponent) if gate else NONE,
        "against_link": visit.link("/match", match=row.match_id) if gate else None,
        **gate_cells(row),
        "precisions": ", ".join(["fp32", *(row.variants or ())]),
        "sha256": row.sha256[:12],
        "sha256_title": row.sha256,
    }
