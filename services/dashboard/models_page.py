"""The list of models, and the page of one model: its losses, exams and matches.

Each query reads a bounded number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from zerofleet.fleet.report import POSITION_WORDS, rating_text
from zerofleet.games.notation import whole_number
from zerofleet.prediction import FP32
from zerofleet.services.dashboard.frame import (
    HIGHEST,
    Frame,
    NothingThereError,
    Visit,
    asked_number,
    ordinal,
    page_heading,
    page_links,
    rated_every,
    rated_words,
)
from zerofleet.services.dashboard.match_page import (
    MATCH_COLUMNS,
    gate_cells,
    match_row,
    player_words,
)
from zerofleet.services.dashboard.sources import ShownRun
from zerofleet.services.dashboard.toolkit import NONE, Table, TableColumn, ui

PAGE_MODELS = 50
PAGE_MATCHES = 50

_GATE = """
SELECT match_id FROM matches
WHERE run = :run AND player_version = m.version AND kind = 'gate'
ORDER BY match_id DESC LIMIT 1
"""
# Rating games are played by the first promoted model and by every :every-th after it.
_CHAIN = """
chain AS MATERIALIZED (
    SELECT version, row_number() OVER (ORDER BY min(seq)) - 1 AS place
    FROM promotions WHERE run = :run AND :every > 1 GROUP BY version
)
"""
_MODEL_COLUMNS = f"""
SELECT
    m.version, m.sha256, m.step, m.created_at AS published_at, m.removed_at, m.location,
    r.elo, r.low, r.high, r.games AS rated_games,
    p.promoted_at, p.actor, p.is_best, v.variants, h.*,
    coalesce(c.place % :every = 0, :every = 1) AS to_be_rated
FROM shown AS m
LEFT JOIN chain AS c ON c.version = m.version
LEFT JOIN ratings_with_interval AS r ON r.run = :run AND r.player = m.version::text
LEFT JOIN LATERAL (
    SELECT * FROM match_history WHERE match_id = ({_GATE})
) AS h ON true
CROSS JOIN LATERAL (
    SELECT min(at) AS promoted_at, (array_agg(actor ORDER BY seq))[1] AS actor,
        coalesce(max(seq) = (SELECT max(seq) FROM promotions WHERE run = :run), false) AS is_best
    FROM promotions WHERE run = :run AND version = m.version
) AS p
CROSS JOIN LATERAL (
    SELECT array_agg(precision ORDER BY precision) FILTER (WHERE accepted) AS variants
    FROM model_variants WHERE run = :run AND version = m.version
) AS v
ORDER BY m.version DESC
"""
MODELS = f"""
WITH shown AS MATERIALIZED (
    SELECT * FROM models WHERE run = :run AND version < :before
    ORDER BY version DESC LIMIT {PAGE_MODELS + 1}
), {_CHAIN} {_MODEL_COLUMNS}
"""
"""A page of models, newest first, with one more row if there are older ones.

``to_be_rated``: whether a model plays rating games, if it is promoted.
"""

MODEL = f"""
WITH shown AS MATERIALIZED (SELECT * FROM models WHERE run = :run AND version = :version),
{_CHAIN} {_MODEL_COLUMNS}
"""

VARIANTS = """
SELECT precision, accepted, policy_kl, value_difference, reason, games, wins, draws, losses,
    score_percent
FROM variant_history WHERE run = :run AND model = :version ORDER BY precision
"""

EXAMS = """
SELECT kind, num_simulations, positions, errors, error_percent, prior_error_percent, value_error,
    wins, draws, at
FROM exam_results WHERE run = :run AND model = :version ORDER BY at DESC, kind LIMIT 50
"""

LOSSES = """
SELECT t.*
FROM unnest(ARRAY['train', 'held_out']) AS s (split)
CROSS JOIN LATERAL (
    SELECT * FROM train_metrics WHERE run = :run AND split = s.split AND step <= :step
    ORDER BY step DESC LIMIT 1
) AS t
"""
"""The newest measurements up to a model's step, on training and validation games."""

MATCHES = f"""
SELECT h.* FROM (
    (SELECT match_id FROM matches WHERE run = :run AND player_version = :version
        AND match_id < :before ORDER BY match_id DESC LIMIT {PAGE_MATCHES + 1})
    UNION
    (SELECT match_id FROM matches WHERE run = :run AND opponent_version = :version
        AND match_id < :before ORDER BY match_id DESC LIMIT {PAGE_MATCHES + 1})
    ORDER BY match_id DESC LIMIT {PAGE_MATCHES + 1}
) AS m
JOIN match_history AS h USING (match_id)
ORDER BY h.match_id DESC
"""
"""A page of a model's matches, newest first, with one more row if there are older ones."""

_SECONDS = 10.0
_COLUMNS = (
    TableColumn("version", "Model"),
    TableColumn("published", "Published, UTC"),
    TableColumn("step", "Step", figure=True),
    TableColumn("elo", "Elo ± 95%", figure=True),
    TableColumn("promoted", "Promoted, UTC"),
    # A run without promotion matches shows none of these.
    TableColumn("against", "Opponent", optional=True),
    TableColumn("record", "Won / drawn / lost", figure=True, optional=True),
    TableColumn("score", "Score", figure=True, optional=True),
    TableColumn("pairs", "Pairs", optional=True),
    TableColumn("llr", "LLR", optional=True),
    TableColumn("verdict", "Verdict", optional=True),
    TableColumn("precisions", "Precisions"),
    TableColumn("sha256", "SHA-256"),
)

_LOSS_NAMES = (
    ("policy_loss", "Policy loss, nats"),
    ("value_loss", "Value loss, squared error"),
    ("policy_entropy", "Policy entropy of the network, nats"),
    ("target_entropy", "Policy entropy of the search, nats"),
    ("search_kl", "KL divergence of search and network, nats"),
    ("policy_agreement", "Policy agreement, share of positions"),
    ("explained_variance", "Explained variance of the value"),
    ("value_bias", "Bias of the value"),
)
_LOSS_COLUMNS = (
    TableColumn("name", "Measurement"),
    TableColumn("train", "Training", figure=True),
    TableColumn("held_out", "Validation", figure=True),
)
_EXAM_COLUMNS = (
    TableColumn("at", "Taken, UTC"),
    TableColumn("kind", "Exam"),
    TableColumn("errors", "Errors", figure=True),
    TableColumn("prior", "Network-only errors", figure=True),
    TableColumn("value_error", "Value error", figure=True),
    TableColumn("simulations", "Simulations", figure=True),
)
_VARIANT_COLUMNS = (
    TableColumn("precision", "Precision"),
    TableColumn("state", "Status"),
    TableColumn("policy_kl", "Policy KL, nats", figure=True),
    TableColumn("value_difference", "Value difference", figure=True),
    TableColumn("trial", "Test match against fp32", figure=True, optional=True),
)


def add_models_page(frame: Frame) -> None:
    """Register the page."""

    @frame.page("/models", "Models", "before")
    async def _(visit: Visit) -> None:
        before = asked_number(visit.parameters, "before") or HIGHEST

        async def read() -> Sequence[Any]:
            every = rated_every(visit.run)
            return await visit.sources.rows(MODELS, run=visit.run.name, before=before, every=every)

        with ui.element("section").classes("zf-panel zf-wide"):
            with ui.element("div").classes("zf-panel-head"):
                page_heading("Models")
                ui.link("Compare two models", visit.link("/compare")).classes("zf-link")
            ui.label(
                f"Elo is relative to the oldest model that played. {rated_words(visit.run)} "
                "Pairs of promotion matches are counted by the model's points: 0, ½, 1, 1½ and 2. "
                "LLR is the log-likelihood ratio: it rejects at its left end and promotes at its "
                "right end."
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


def elo_words(row: Any) -> str:  # noqa: ANN401  a row with those of ratings_with_interval
    """Return the Elo with half of its 95% interval."""
    if row.elo is None:
        return NONE
    return rating_text(float(row.elo), float(row.high - row.low) / 2)


def unrated_words(run: ShownRun, row: Any) -> str:  # noqa: ANN401  a row of MODELS
    """Return why a model has no Elo."""
    if row.promoted_at is not None and not row.to_be_rated:
        return f"Not rated: this run rates every {ordinal(rated_every(run))} promoted model"
    if run.config is not None and run.config.rating.games == 0:
        return "Not rated: this run plays no rating games (rating.games = 0)"
    return "Not rated yet"


def moment(at: datetime | None) -> str:
    """Return a time of the run, UTC."""
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
        "precisions": ", ".join([FP32, *(row.variants or ())]),
        "sha256": row.sha256[:12],
        "sha256_title": row.sha256,
    }


def add_model_page(frame: Frame) -> None:
    """Register the page."""

    @frame.page("/models/{version}", "Model", "before", under="/models")
    async def _(visit: Visit) -> None:
        version = _version(visit.parameters["version"])
        before = asked_number(visit.parameters, "before") or HIGHEST
        key = {"run": visit.run.name, "version": version}
        every = rated_every(visit.run)
        ask = visit.sources.rows

        async def read() -> tuple[Sequence[Any], ...]:
            [model] = await ask(MODEL, **key, every=every) or [None]
            if model is None:
                raise NothingThereError(f"the run '{visit.run.name}' has no model {version}")
            return (
                [model],
                await ask(VARIANTS, **key),
                await ask(EXAMS, **key),
                await ask(LOSSES, run=visit.run.name, step=model.step),
                await ask(MATCHES, **key, before=before),
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
        first: whether its newest matches are shown.
    """

    def __init__(self, visit: Visit, version: int, *, first: bool) -> None:
        self._visit = visit
        self._version = version
        self._first = first
        with ui.element("section").classes("zf-panel zf-wide"):
            with ui.element("div").classes("zf-panel-head"):
                page_heading(f"Model {version}")
                with ui.element("div").classes("zf-tools"):
                    for words, path, more in (
                        ("Games", "/games", {"model": version}),
                        ("Play", "/play", {"model": version}),
                        ("Compare with another model", "/compare", {"models": version}),
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
                "Only fp32 is served: the model has no other precision.",
            )
        with ui.element("section").classes("zf-panel zf-wide"):
            ui.label("Matches").classes("zf-title").props('role="heading" aria-level="2"')
            self._matches = Table(
                MATCH_COLUMNS, "Matches appear when the evaluator plays them, newest first."
            )
            self._tools = ui.element("div").classes("zf-tools")

    def show(self, found: tuple[Sequence[Any], ...]) -> None:
        """Draw the data that was read about the model."""
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
            promoted += ", the current best" if model.is_best else ""
        self._facts.clear()
        with self._facts:
            for name, words in (
                ("Step", f"{model.step:,}"),
                ("Published", f"{model.published_at:%Y-%m-%d %H:%M:%S} UTC"),
                ("Promoted", promoted),
                ("Elo ± 95%", rated),
                ("SHA-256", model.sha256),
                (
                    "File",
                    "may be deleted (retention)" if model.removed_at else model.location,
                ),
            ):
                with ui.element("div"):
                    with ui.element("dt").classes("zf-name"):
                        ui.label(name)
                    with ui.element("dd").classes("zf-wrap"):
                        ui.label(words)

    def _exam_row(self, number: int, row: Any) -> dict[str, Any]:  # noqa: ANN401
        of = " games" if row.wins is not None else ""
        link = None
        if row.kind in POSITION_WORDS:
            link = self._visit.link("/exam", kind=row.kind, model=self._version)
        return {
            "key": number,
            "at": moment(row.at),
            "kind": POSITION_WORDS.get(row.kind, row.kind),
            "kind_link": link,
            "errors": f"{row.error_percent}% ({row.errors:,} of {row.positions:,}{of})",
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
        trial = f"{row.wins} / {row.draws} / {row.losses}: {score:.1f}%"
    return {
        "key": row.precision,
        "precision": row.precision,
        "state": "Served" if row.accepted else f"Rejected: {row.reason}",
        "policy_kl": _figure(row.policy_kl, 4),
        "value_difference": _figure(row.value_difference, 4),
        "trial": trial,
    }


def _percent(value: Any) -> str:  # noqa: ANN401  a number of Postgres, or None
    return NONE if value is None else f"{value}%"


def _figure(value: Any, digits: int) -> str:  # noqa: ANN401  a number of Postgres, or None
    return NONE if value is None else f"{float(value):,.{digits}f}"
