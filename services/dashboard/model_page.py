"""One model: what it is, its losses, exams and matches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zerofleet.games.notation import whole_number
from zerofleet.services.dashboard.frame import Frame, NothingThereError, Visit
from zerofleet.services.dashboard.match_words import MATCH_COLUMNS, match_row
from zerofleet.services.dashboard.models_page import (
    elo_words,
    moment,
    page_links,
    rated_every,
    unrated_words,
)
from zerofleet.services.dashboard.models_queries import (
    EXAMS,
    LOSSES,
    MATCHES,
    MODEL,
    PAGE_MATCHES,
    VARIANTS,
)
from zerofleet.services.dashboard.page_parameters import HIGHEST, asked_number
from zerofleet.services.dashboard.table import NONE, Table, TableColumn
from zerofleet.services.dashboard.toolkit import ui

_SECONDS = 10.0
_LOSS_NAMES = (
    ("policy_loss", "policy loss, nats"),
    ("value_loss", "value loss, squared error"),
    ("policy_entropy", "entropy of the network's policy, nats"),
    ("target_entropy", "entropy of the search's policy, nats"),
    ("search_kl", "KL of the search over the network, nats"),
    ("policy_agreement", "network and search agree"),
    ("explained_variance", "explained variance of the value"),
    ("value_bias", "bias of the value"),
)
_LOSS_COLUMNS = (
    TableColumn("name", "measured"),
    TableColumn("train", "trained on", figure=True),
    TableColumn("held_out", "held out", figure=True),
)
_EXAM_COLUMNS = (
    TableColumn("at", "taken, UTC"),
    TableColumn("kind", "exam"),
    TableColumn("errors", "errors", figure=True),
    TableColumn("prior", "prior errors", figure=True),
    TableColumn("value_error", "value error", figure=True),
    TableColumn("simulations", "simulations", figure=True),
)
_VARIANT_COLUMNS = (
    TableColumn("precision", "precision"),
    TableColumn("state", "state"),
    TableColumn("policy_kl", "policy KL, nats", figure=True),
    TableColumn("value_difference", "value difference", figure=True),
    TableColumn("trial", "trial against fp32", figure=True, optional=True),
)


def add_model_page(frame: Frame) -> None:
    """Register it."""

    @frame.page("/models/{version}", "Model", "before", in_menu=False)
    async def _(visit: Visit) -> None:
        version = _version(visit.parameters["version"])
        before = asked_number(visit.parameters, "before") or HIGHEST
        asked = {"run": visit.run.name, "version": version}
        every = rated_every(visit.run)
        ask = visit.sources.rows

        async def read() -> tuple[Sequence[Any], ...]:
            [model] = await ask(MODEL, **asked, every=every) or [None]
            if model is None:
                raise NothingThereError(f"the run '{visit.run.name}' has no model {version}")
            return (
                [model],
                await ask(VARIANTS, **asked),
                await ask(EXAMS, **asked),
                await ask(LOSSES, run=visit.run.name, step=model.step),
                await ask(MATCHES, **asked, before=before),
            )

        found = await read()
        view = ModelView(visit, version, first=before == HIGHEST)
        view.show(found)
        visit.watch(visit.shared(f"model {version} before {before}", read, _SECONDS), view.show)


def _version(text: str) -> int:
    version = whole_number(text, HIGHEST)
    if not version:
        raise NothingThereError(f"'{text[:80]}' is not a version of a model")
    return version


class ModelView:
    """The panels on one page, drawn where it is made.

    Args:
        visit: whose page it is.
        version: of the model.
        first: whether its newest matches are shown.
    """

    def __init__(self, visit: Visit, version: int, *, first: bool) -> None:
        self._visit = visit
        self._version = version
        self._first = first
        with ui.element("section").classes("zf-panel zf-wide"):
            with ui.element("div").classes("zf-panel-head"):
                ui.label(f"Model {version}").classes("zf-title").props(
                    'role="heading" aria-level="1"'
                )
                with ui.element("div").classes("zf-tools"):
                    for words, path, more in (
                        ("its games", "/games", {"model": version}),
                        ("play it", "/play", {"model": version}),
                        ("compare with another model", "/compare", {"models": version}),
                    ):
                        ui.link(words, visit.link(path, **more)).classes("zf-link")
            self._facts = ui.element("dl").classes("zf-facts")
        with ui.element("div").classes("zf-panels"):
            self._losses = _panel(
                "Losses at its step",
                _LOSS_COLUMNS,
                "Appears with the trainer's first measurement.",
            )
            self._exams = _panel(
                "Exams",
                _EXAM_COLUMNS,
                "The evaluator examines promoted models of games whose perfect play is known.",
            )
            self._variants = _panel(
                "Precisions",
                _VARIANT_COLUMNS,
                "It is served in fp32 alone: no other precision was made of it.",
            )
        with ui.element("section").classes("zf-panel zf-wide"):
            ui.label("Matches").classes("zf-title").props('role="heading" aria-level="2"')
            self._matches = Table(
                MATCH_COLUMNS, "They appear when the evaluator lets it play, newest first."
            )
            self._tools = ui.element("div").classes("zf-tools")

    def show(self, found: tuple[Sequence[Any], ...]) -> None:
        """Draw what was read of the model."""
        [model], variants, exams, losses, matches = found
        self._show_facts(model)
        self._losses.show(_loss_rows(losses))
        self._exams.show([self._exam_row(number, row) for number, row in enumerate(exams)])
        self._variants.show([_variant_row(row) for row in variants])
        self._matches.show([match_row(self._visit, row) for row in matches[:PAGE_MATCHES]])
        self._tools.clear()
        with self._tools:
            path = f"/models/{self._version}"
            page_links(self._visit, path, matches, PAGE_MATCHES, "match_id", first=self._first)

    def _show_facts(self, model: Any) -> None:  # noqa: ANN401
        rated = unrated_words(self._visit.run, model)
        if model.elo is not None:
            rated = f"{elo_words(model)}, from {model.rated_games:,} games"
        promoted = "not promoted"
        if model.promoted_at is not None:
            promoted = f"{model.promoted_at:%Y-%m-%d %H:%M:%S} UTC by {model.actor}"
            promoted += ", the best now" if model.is_best else ""
        self._facts.clear()
        with self._facts:
            for name, words in (
                ("step", f"{model.step:,}"),
                ("published", f"{model.published_at:%Y-%m-%d %H:%M:%S} UTC"),
                ("promoted", promoted),
                ("Elo, 95%", rated),
                ("sha256", model.sha256),
                ("file", "may be gone (retention)" if model.removed_at else model.location),
            ):
                with ui.element("div"):
                    with ui.element("dt").classes("zf-name"):
                        ui.label(name)
                    with ui.element("dd").classes("zf-wrap"):
                        ui.label(words)

    def _exam_row(self, number: int, row: Any) -> dict[str, Any]:  # noqa: ANN401
        of = " games" if row.wins is not None else ""
        link = None
        if row.kind in ("lines", "random", "good"):
            link = self._visit.link("/exam", kind=row.kind, model=self._version)
        return {
            "key": number,
            "at": moment(row.at),
            "kind": row.kind,
            "kind_link": link,
            "errors": f"{row.errors:,} of {row.positions:,}{of}, {row.error_percent}%",
            "prior": _percent(row.prior_error_percent),
            "value_error": _figure(row.value_error, 3),
            "simulations": f"{row.num_simulations:,}",
        }


def _panel(title: str, columns: Sequence[TableColumn], empty: str) -> Table:
    with ui.element("section").classes("zf-panel"):
        ui.label(title).classes("zf-title").props('role="heading" aria-level="2"')
        return Table(columns, empty)


def _loss_rows(rows: Sequence[Any]) -> list[dict[str, Any]]:
    measured = {row.split: row for row in rows}
    shown = [
        {
            "key": column,
            "name": words,
            **{
                split: _figure(getattr(measured.get(split), column, None), 3)
                for split in ("train", "held_out")
            },
        }
        for column, words in _LOSS_NAMES
    ]
    return [row for row in shown if (row["train"], row["held_out"]) != (NONE, NONE)]


def _variant_row(row: Any) -> dict[str, Any]:  # noqa: ANN401
    trial = NONE
    if row.games:
        score = 100 * (row.wins + row.draws / 2) / row.games
        trial = f"{row.wins} {row.draws} {row.losses}: {score:.1f}%"
    return {
        "key": row.precision,
        "precision": row.precision,
        "state": "served" if row.accepted else f"refused: {row.reason}",
        "policy_kl": _figure(row.policy_kl, 4),
        "value_difference": _figure(row.value_difference, 4),
        "trial": trial,
    }


def _percent(value: Any) -> str:  # noqa: ANN401  a number of Postgres, or None
    return NONE if value is None else f"{value}%"


def _figure(value: Any, digits: int) -> str:  # noqa: ANN401  a number of Postgres, or None
    return NONE if value is None else f"{float(value):,.{digits}f}"
