"""What the page of matches asks Postgres; each question looks at a bounded number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zerofleet.database import MatchRow, Pair
from zerofleet.database.matches import MATCH, PAIRS, match_of, pair_of
from zerofleet.figures import EvaluatorFigures
from zerofleet.services.dashboard.frame import NothingThereError
from zerofleet.services.dashboard.sources import Sources

KINDS = ("gate", "rating", "trial")
PAGE_MATCHES = 30
_SHOWN_GAMES = 30
_SHOWN_MOVES = 80  # characters

# The gate's match goes before what the evaluator plays meanwhile; then the one that has the newest
# game; then the newest one, which has none yet.
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
    left(g.moves, {_SHOWN_MOVES}) AS moves
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


@dataclass(frozen=True, slots=True)
class ShownMatch:
    """A match as it stands."""

    match: MatchRow
    history: Any
    """Its row of ``match_history``."""
    pairs: tuple[Pair, ...]
    games: Sequence[Any]
    """The newest ones."""


async def read_match(sources: Sources, run: str, match_id: int | None) -> ShownMatch | None:
    """A match of a run.

    Args:
        sources: to ask.
        run: whose match.
        match_id: which one; None: the present one.

    Returns:
        None: there was no match yet.

    Raises:
        NothingThereError: the run has no such match.
        StoreUnavailableError: Postgres is away.
    """
    asked = match_id
    if match_id is None:
        [present] = await sources.rows(PRESENT, run=run, kinds=list(KINDS))
        match_id = present.match_id
        if match_id is None:
            return None
    history = await sources.rows(HISTORY, run=run, match_id=match_id)
    if not history:
        raise NothingThereError(f"the run '{run}' has no match {asked}")
    [row] = await sources.rows(MATCH, match_id=match_id)
    return ShownMatch(
        match_of(row),
        history[0],
        tuple(map(pair_of, await sources.rows(PAIRS, match_id=match_id))),
        await sources.rows(GAMES, match_id=match_id),
    )


async def read_evaluators(sources: Sources, run: str) -> list[EvaluatorFigures]:
    """What the run's evaluator says, and one that it took over from; empty: neither responds.

    Raises:
        StoreUnavailableError: Redis is away.
    """
    said = [heartbeat.figures for heartbeat in await sources.heartbeats(run)]
    return [figures for figures in said if isinstance(figures, EvaluatorFigures)]
