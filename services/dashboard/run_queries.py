"""The queries of the front page; the cost of each does not grow with the run.

Long series are thinned in Postgres: a fixed number of places is spread evenly over the series, and
the row after each is looked up in the primary key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from sqlalchemy import Row

from zerofleet.database.metrics import TRAINING_WARNINGS, TrainingWarning
from zerofleet.database.origins import ORIGIN, Origin
from zerofleet.fleet.report import POSITION_WORDS
from zerofleet.services.dashboard.sources import GameCount, Sources

MOST_POINTS = 500
BLOCK_GAMES = 100
_BLOCKS_PER_QUERY = 40
_QUERIES_PER_READ = 10
_NO_GAME = "00000000-0000-0000-0000-000000000000"

_METRICS = """
SELECT DISTINCT t.step, t.at, t.samples_per_position, t.distinct_share, t.policy_agreement,
    t.policy_entropy, t.target_entropy, t.search_kl, t.policy_loss, t.value_loss,
    t.explained_variance, t.soft_policy_loss, t.opponent_policy_loss, t.final_planes_loss,
    t.final_score_loss, t.own_losses
FROM (
    SELECT
        (SELECT step FROM train_metrics WHERE run = :run ORDER BY step LIMIT 1) AS first,
        (SELECT step FROM train_metrics WHERE run = :run ORDER BY step DESC LIMIT 1) AS last
) AS ends
CROSS JOIN generate_series(first, last, (last - first) / :most + 1) AS place
CROSS JOIN LATERAL (
    SELECT * FROM train_metrics WHERE run = :run AND split = :split AND step >= place
    ORDER BY step LIMIT 1
) AS t
ORDER BY t.step
"""

_NEWEST = "SELECT step, at FROM train_metrics WHERE run = :run ORDER BY step DESC, at DESC LIMIT 1"

_RATINGS = """
SELECT DISTINCT ON (m.version) m.version, m.created_at AS at, p.at AS promoted_at, m.step,
    r.elo, r.elo_error
FROM (SELECT max(seq) AS last FROM promotions WHERE run = :run) AS ends
CROSS JOIN generate_series(1, last, last / :most + 1) AS place
JOIN promotions AS p ON p.run = :run AND p.seq = place
JOIN models AS m ON m.run = p.run AND m.version = p.version
LEFT JOIN ratings AS r ON r.run = p.run AND r.player = p.version::text
ORDER BY m.version, p.seq
"""

_ANCHORS = """
SELECT player, elo, elo_error FROM ratings
WHERE run = :run AND player IN ('random', 'search')
UNION ALL
SELECT player, elo, elo_error FROM ratings
WHERE run = :run AND player BETWEEN 'gnugo:' AND 'gnugo:~'
UNION ALL
SELECT player, elo, elo_error FROM ratings
WHERE run = :run AND player BETWEEN 'gtp:' AND 'gtp:~'
UNION ALL
SELECT player, elo, elo_error FROM ratings
WHERE run = :run AND player BETWEEN 'python:' AND 'python:~'
UNION ALL
SELECT player, elo, elo_error FROM ratings
WHERE run = :run AND player BETWEEN 'uci:' AND 'uci:~'
"""

_EXAMS = f"""
SELECT e.version, m.created_at AS at, e.kind, e.error_rate,
    e.prior_errors::float8 / e.positions AS prior_error_rate
FROM (SELECT max(version) AS last FROM models WHERE run = :run) AS ends
CROSS JOIN generate_series(1, last, last / :most + 1) AS place
CROSS JOIN LATERAL (
    SELECT version FROM exams WHERE run = :run AND version >= place ORDER BY version LIMIT 1
) AS examined
JOIN LATERAL (
    SELECT DISTINCT ON (kind) * FROM exams WHERE run = :run AND version = examined.version
    ORDER BY kind, exam_id DESC
) AS e ON e.kind IN {tuple(POSITION_WORDS)}
JOIN models AS m ON m.run = :run AND m.version = e.version
ORDER BY e.version
"""

_STAGES = """
SELECT
    t.split, c.stage, sum(c.positions) AS positions,
    (sum(c.predicted * c.positions) / sum(c.positions))::float8 AS predicted,
    (sum(c.actual * c.positions) / sum(c.positions))::float8 AS actual,
    (sum(c.squared_error * c.positions) / sum(c.positions))::float8 AS squared_error
FROM (
    SELECT split, calibration FROM train_metrics WHERE run = :run ORDER BY step DESC LIMIT 40
) AS t
CROSS JOIN LATERAL jsonb_to_recordset(t.calibration) AS c (
    stage integer, positions integer, predicted numeric, actual numeric, squared_error numeric
)
WHERE c.positions > 0
GROUP BY t.split, c.stage
ORDER BY t.split, c.stage
"""

_RESIGNATIONS = """
SELECT DISTINCT t.threshold_id, t.at, t.threshold, t.games, t.would_resign, t.wrong,
    t.false_positive_share
FROM (
    SELECT
        (SELECT threshold_id FROM resign_thresholds WHERE run = :run
         ORDER BY threshold_id LIMIT 1) AS first,
        (SELECT threshold_id FROM resign_thresholds WHERE run = :run
         ORDER BY threshold_id DESC LIMIT 1) AS last
) AS ends
CROSS JOIN generate_series(first, last, (last - first) / :most + 1) AS place
CROSS JOIN LATERAL (
    SELECT * FROM resign_thresholds WHERE run = :run AND threshold_id >= place
    ORDER BY threshold_id LIMIT 1
) AS t
ORDER BY t.threshold_id
"""

# Below the horizon no open transaction can still store a game, so the order is final.
_BLOCKS = """
SELECT
    count(*) AS games, count(DISTINCT moves) AS distinct_games, max(ingested_at) AS at,
    count(*) FILTER (WHERE result = 1) AS first_wins, count(*) FILTER (WHERE result = 0) AS draws,
    count(*) FILTER (WHERE reason = 'resign') AS resigned, avg(length)::float8 AS length,
    percentile_disc(0.1) WITHIN GROUP (ORDER BY length) AS short,
    percentile_disc(0.9) WITHIN GROUP (ORDER BY length) AS long,
    max(tx)::text AS tx, (array_agg(game_uid::text ORDER BY tx DESC, game_uid DESC))[1] AS uid
FROM (
    SELECT *, (row_number() OVER (ORDER BY tx, game_uid) - 1) / :block AS number FROM (
        SELECT tx, game_uid, moves, result, reason, length, ingested_at FROM games
        WHERE run = :run AND kind = 'selfplay' AND tx >= CAST(:tx AS xid8)
            AND (tx, game_uid) > (CAST(:tx AS xid8), CAST(:uid AS uuid))
            AND tx < pg_snapshot_xmin(pg_current_snapshot())
        ORDER BY tx, game_uid LIMIT :most
    ) AS settled
) AS numbered
GROUP BY number HAVING count(*) = :block
ORDER BY number
"""


@dataclass(frozen=True, slots=True)
class GameBlock:
    """Figures of successive games of self-play, in the order in which they were stored."""

    games: int
    at: datetime
    """When the last game of the block was stored."""
    distinct_share: float
    """Share of distinct games in each 100 successive ones."""
    first_wins: int
    draws: int
    resigned: int
    length: float
    """Mean length, plies."""
    short: float
    """10th percentile of the length, plies."""
    long: float
    """90th percentile of the length, plies."""

    def joined(self, other: GameBlock) -> GameBlock:
        """Join this block and the next one."""
        games = self.games + other.games

        def mean(one: float, two: float) -> float:
            return (one * self.games + two * other.games) / games

        return GameBlock(
            games,
            other.at,
            mean(self.distinct_share, other.distinct_share),
            self.first_wins + other.first_wins,
            self.draws + other.draws,
            self.resigned + other.resigned,
            mean(self.length, other.length),
            mean(self.short, other.short),
            mean(self.long, other.long),
        )


@dataclass(slots=True)
class GameBlocks:
    """The self-play games of a run in blocks of 100, each read once.

    In long runs blocks are joined, so that there are at most ``MOST_POINTS``.
    """

    blocks: list[GameBlock] = field(default_factory=list[GameBlock])
    is_complete: bool = False
    """Whether only games of a block that is not full yet are missing; False while history loads."""
    _tx: str = "0"
    _uid: str = _NO_GAME

    async def read_new(self, sources: Sources, run: str) -> None:
        """Read the blocks completed since the last call, a bounded number of them.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        self.is_complete = False
        for _ in range(_QUERIES_PER_READ):
            rows = await sources.rows(
                _BLOCKS,
                run=run,
                tx=self._tx,
                uid=self._uid,
                block=BLOCK_GAMES,
                most=_BLOCKS_PER_QUERY * BLOCK_GAMES,
            )
            for row in rows:
                self.blocks.append(_block(row))
                self._tx, self._uid = row.tx, row.uid
            if len(rows) < _BLOCKS_PER_QUERY:
                self.is_complete = True
                break
        while len(self.blocks) > MOST_POINTS:
            self.blocks = _halved(self.blocks)


@dataclass(frozen=True, slots=True)
class RunCurves:
    """All data of the front page."""

    trained: Sequence[Row[tuple[object, ...]]] = ()
    held_out: Sequence[Row[tuple[object, ...]]] = ()
    ratings: Sequence[Row[tuple[object, ...]]] = ()
    anchors: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """Elo of each anchor, and its standard error."""
    warnings: Sequence[TrainingWarning] = ()
    origin: str | None = None
    """Games that the run learns from and did not play; None: there are none."""
    exams: Sequence[Row[tuple[object, ...]]] = ()
    stages: Sequence[Row[tuple[object, ...]]] = ()
    resignations: Sequence[Row[tuple[object, ...]]] = ()
    blocks: Sequence[GameBlock] = ()
    games_stored: int | None = None
    """Stored self-play games, while ``blocks`` hold fewer: a long run is read step by step."""
    more_are_stored: bool = False
    """Whether ``games_stored`` is incomplete, because a long run is counted step by step."""

    def is_loading(self) -> bool:
        """Return whether older games are still being read."""
        return self.games_stored is not None


@dataclass(slots=True)
class CurveReader:
    """Reads the curves of one run."""

    sources: Sources
    run: str
    _blocks: GameBlocks = field(default_factory=GameBlocks)
    _count: GameCount = field(default_factory=GameCount)
    _measured: RunCurves = field(default_factory=RunCurves)
    _newest: Sequence[Row[tuple[object, ...]]] = ()

    async def read(self) -> RunCurves:
        """Return the current curves.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        rows, run = self.sources.rows, self.run
        await self._blocks.read_new(self.sources, run)
        await self._read_measurements()
        anchors = await rows(_ANCHORS, run=run)
        stored = None if self._blocks.is_complete else await self._count.read(self.sources, run)
        return replace(
            self._measured,
            ratings=await rows(_RATINGS, run=run, most=MOST_POINTS),
            anchors={row.player: (row.elo, row.elo_error) for row in anchors},
            warnings=[TrainingWarning(*row) for row in await rows(TRAINING_WARNINGS, run=run)],
            origin=next((str(Origin(*row)) for row in await rows(ORIGIN, run=run)), None),
            exams=await rows(_EXAMS, run=run, most=MOST_POINTS),
            resignations=await rows(_RESIGNATIONS, run=run, most=MOST_POINTS),
            blocks=tuple(self._blocks.blocks),
            games_stored=stored,
            more_are_stored=stored is not None and not self._count.is_whole,
        )

    async def _read_measurements(self) -> None:
        """Read the trainer's measurements, the largest part, only if there is a new one."""
        rows, run = self.sources.rows, self.run
        newest = await rows(_NEWEST, run=run)
        if newest == self._newest:
            return
        self._measured = RunCurves(
            trained=await rows(_METRICS, run=run, split="train", most=MOST_POINTS),
            held_out=await rows(_METRICS, run=run, split="held_out", most=MOST_POINTS),
            stages=await rows(_STAGES, run=run),
        )
        self._newest = newest


def _block(row: Row[tuple[object, ...]]) -> GameBlock:
    return GameBlock(
        row.games,
        row.at,
        row.distinct_games / row.games,
        row.first_wins,
        row.draws,
        row.resigned,
        row.length,
        row.short,
        row.long,
    )


def _halved(blocks: Sequence[GameBlock]) -> list[GameBlock]:
    """Join blocks in pairs; a last one without a partner stays."""
    pairs = [one.joined(two) for one, two in zip(blocks[::2], blocks[1::2], strict=False)]
    return pairs + list(blocks[len(blocks) - len(blocks) % 2 :])
