"""Matches in words, and as rows of a table."""

from __future__ import annotations

from typing import Any

from zerofleet.services.dashboard.frame import Visit
from zerofleet.services.dashboard.table import NONE, TableColumn

OUTCOMES = ("0", "½", "1", "1½", "2")

MATCH_COLUMNS = (
    TableColumn("began", "began, UTC"),
    TableColumn("kind", "kind"),
    TableColumn("player", "player"),
    TableColumn("opponent", "opponent"),
    TableColumn("record", "won, drawn, lost", figure=True),
    TableColumn("score", "score", figure=True),
    TableColumn("pairs", "pairs", optional=True),
    TableColumn("llr", "LLR", optional=True),
    TableColumn("verdict", "verdict"),
)


def match_row(visit: Visit, row: Any) -> dict[str, Any]:  # noqa: ANN401  a row of match_history
    """A row of ``match_history`` as one of a table with ``MATCH_COLUMNS``."""
    return {
        "key": row.match_id,
        "began": f"{row.created_at:%d %b %H:%M}",
        "began_link": visit.link("/match", match=row.match_id),
        "kind": row.kind,
        **_player(visit, "player", row.player),
        **_player(visit, "opponent", row.opponent),
        **gate_cells(row),
    }


def gate_cells(row: Any) -> dict[str, Any]:  # noqa: ANN401
    """How a match of ``match_history`` went, as cells; all columns may be None: no match."""
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
        "record": f"{row.wins} {row.draws} {row.losses}" if row.games else NONE,
        "score": NONE if score is None else f"{score:.1f}%",
        "verdict": verdict_words(row),
        **counts_cell(row.pentanomial),
        **llr_cell(row.llr, row.llr_bound),
    }


def verdict_words(row: Any) -> str:  # noqa: ANN401
    """What became of a match of ``match_history``."""
    if row.kind != "gate":
        return f"{row.games or 'none'} of {row.most_games} games"
    if row.verdict is None:
        return f"undecided: {row.games} of {row.most_games} games"
    return f"{row.verdict} by {row.decided_by}" if row.decided_by else str(row.verdict)


def counts_cell(pentanomial: list[int] | None) -> dict[str, Any]:
    """A pentanomial as a cell of the column ``pairs``."""
    words = [
        f"{count} of {points}" for count, points in zip(pentanomial or (), OUTCOMES, strict=False)
    ]
    return {
        "pairs": NONE,
        "pairs_counts": list(pentanomial) if pentanomial and sum(pentanomial) else None,
        "pairs_title": f"pairs by points: {', '.join(words)}",
    }


def llr_cell(llr: Any, bound: Any) -> dict[str, Any]:  # noqa: ANN401  numbers of Postgres
    """A log-likelihood ratio between its bounds as a cell of the column ``llr``."""
    if llr is None or not bound:
        return {"llr": NONE, "llr_share": None, "llr_title": ""}
    return {
        "llr": f"{llr:+.2f}",
        "llr_share": max(-1.0, min(1.0, float(llr) / float(bound))),
        "llr_title": f"{llr:+.2f}: rejects at {-bound:.2f}, promotes at {bound:.2f}",
    }


def player_words(name: str) -> str:
    """A player of a match, for people."""
    return f"model {name}" if name[:1].isdigit() else name


def _player(visit: Visit, column: str, name: str) -> dict[str, Any]:
    version = name.partition("/")[0]
    link = visit.link(f"/models/{version}") if version.isdecimal() else None
    return {column: player_words(name), f"{column}_link": link}
