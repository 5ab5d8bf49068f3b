"""Make a database like one of a run that lasted a month, in minutes, for the dashboard's pages.

A few played games are copied to all days. Only the newest days have searches, as with
``[retention]``. Models, matches, ratings, exams and losses are invented.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg2
import psycopg2.extensions

from bench.copied_games import PLAYED, Copying, copy_day
from bench.games_played import RUN, played_games, run_of
from bench.store_worker import submit
from bench.stores import postgres_of
from bench.workloads import Workload
from zerofleet.database import SelfplayDatabase
from zerofleet.local.postgres import EmbeddedPostgres

_PLAYED_GAMES = 256
_MATCH_GAMES = 40
_STEPS = 100  # SGD steps between two measurements of the loss
_MEASUREMENTS = 5000  # measurements of the loss over the whole run


@dataclass(frozen=True, slots=True)
class FilledRun:
    """Sizes of the run.

    Args:
        games: approximate number of games of self-play.
        positions: approximate number of positions whose searches are kept. The days that have
            searches are whole days, at least one.
        days: days before today over which everything is spread.
        models: number of published models; every second one was promoted.
    """

    games: int
    positions: int
    days: int = 30
    models: int = 200


# Models, matches and everything that belongs to them are spread evenly over the days.
_MODELS = """
INSERT INTO models (run, version, sha256, step, metrics, location, epoch, created_at)
SELECT %(run)s, v, encode(sha256(v::text::bytea), 'hex'), v * 1000, '{}', 'none', %(epoch)s, at
FROM generate_series(1, %(models)s) AS v
CROSS JOIN LATERAL (
    SELECT %(since)s::timestamptz + (v - 1) * %(days)s * interval '1 day' / %(models)s AS at
) AS t;
INSERT INTO model_variants (
    run, version, precision, sha256, location, policy_kl, value_difference, accepted, reason,
    epoch, created_at
)
SELECT run, version, 'int8', encode(sha256(('int8' || version)::bytea), 'hex'), 'none', 0.002,
    0.008, true, '', epoch, created_at
FROM models WHERE run = %(run)s;
INSERT INTO train_metrics (
    run, step, split, policy_loss, value_loss, total_loss, positions, target_entropy,
    policy_entropy, policy_agreement, learning_rate, samples, window_positions, window_games,
    samples_per_position, search_kl, explained_variance, value_bias, distinct_share, age_games,
    gradient_norm, window_limit, policy_gap, value_gap, overfit, calibration, epoch, at
)
SELECT %(run)s, %(step)s * n, split, 1 + exp(-n / 900.0) + 0.02 * random() + held,
    0.4 + 0.5 * exp(-n / 900.0) + held, 2.2, 4096, 0.9, 1.1, 0.6 + 0.2 * (1 - exp(-n / 900.0)),
    0.01, n * 51200, 400000, 20000, 8, 0.1, 0.5, 0.01, 0.9, 9000, 1.5, 500000, 0.02, 0.01, false,
    '[{"stage": 1, "positions": 9, "predicted": 0.1, "actual": 0.2, "squared_error": 0.9},
      {"stage": 4, "positions": 9, "predicted": 0.3, "actual": 0.3, "squared_error": 0.1}]',
    %(epoch)s, %(since)s::timestamptz + n * %(days)s * interval '1 day' / %(measurements)s
FROM generate_series(1, %(measurements)s) AS n,
    (VALUES ('train', 0.0), ('held_out', 0.02)) AS s (split, held);
INSERT INTO resign_thresholds (
    run, at, threshold, games, would_resign, wrong, false_positive_share, min_games,
    window_games, highest
)
SELECT run, created_at, -0.9 + 0.001 * (version %% 50), 2000, 1500, 40, 0.05, 100, 20000, -0.5
FROM models WHERE run = %(run)s ORDER BY version;
"""
_MATCHES = """
INSERT INTO matches (
    run, kind, player, opponent, games, num_simulations, seed, epoch, created_at, threshold, test,
    sprt_elo0, sprt_elo1, sprt_error, verdict, decided_by, decided_at, llr, games_counted,
    duplicates, pentanomial
)
SELECT run, 'gate', version, version - 1 - version %% 2, %(match_games)s, 100, version, %(epoch)s,
    created_at, 0.5, 'sprt', 0, 20, 0.05,
    CASE version %% 2 WHEN 1 THEN 'promoted' ELSE 'rejected' END, 'sprt', created_at,
    CASE version %% 2 WHEN 1 THEN 3 ELSE -3 END, %(match_games)s, 0, '{2, 4, 7, 4, 3}'
FROM models WHERE run = %(run)s AND version > 1 ORDER BY version;
INSERT INTO matches (run, kind, player, opponent, games, num_simulations, seed, epoch, created_at)
SELECT run, 'rating', version, opponent, %(match_games)s, 100, version, %(epoch)s, created_at
FROM models, (VALUES ('random'), ('search')) AS a (opponent)
WHERE run = %(run)s AND version %% 2 = 1 ORDER BY version;
CREATE TEMPORARY TABLE copies AS
SELECT m.match_id, m.player_version, m.opponent_version, number / 2 AS opening,
    number %% 2 AS color, m.created_at AS at, g.game_uid AS source,
    overlay(gen_random_uuid()::text
        PLACING left(first_game_uid(m.created_at)::text, 13) FROM 1)::uuid AS uid
FROM matches AS m
JOIN (
    SELECT game_uid, row_number() OVER () - 1 AS number FROM games WHERE worker = %(played)s
) AS g ON number < %(match_games)s
WHERE m.run = %(run)s;
INSERT INTO games (
    game_uid, run, kind, first_model, second_model, result, reason, length, worker, started_at,
    finished_at, moves, content_sha256, plays_on, began_at, ingested_at
)
SELECT c.uid, g.run, 'match',
    coalesce(CASE color WHEN 0 THEN player_version ELSE opponent_version END, 0),
    coalesce(CASE color WHEN 0 THEN opponent_version ELSE player_version END, 0),
    g.result, g.reason, g.length, 'evaluator', c.at, c.at, g.moves, g.content_sha256, false, c.at,
    c.at
FROM copies AS c JOIN games AS g ON g.game_uid = c.source;
INSERT INTO match_games (match_id, opening, color, game_uid, score, at)
SELECT c.match_id, opening, color, c.uid, (1 + g.result * (1 - 2 * color)) / 2.0, c.at
FROM copies AS c JOIN games AS g ON g.game_uid = c.source;
DROP TABLE copies;
UPDATE matches AS m SET score = s.score
FROM (SELECT match_id, avg(score) AS score FROM match_games GROUP BY match_id) AS s
WHERE s.match_id = m.match_id AND m.kind = 'gate';
INSERT INTO promotions (run, seq, prev_seq, version, match_id, actor, epoch, at)
SELECT m.run, (m.version + 1) / 2, nullif((m.version - 1) / 2, 0), m.version, x.match_id,
    'evaluator', %(epoch)s, m.created_at
FROM models AS m
LEFT JOIN matches AS x ON x.run = m.run AND x.kind = 'gate' AND x.player_version = m.version
WHERE m.run = %(run)s AND m.version %% 2 = 1 ORDER BY m.version;
INSERT INTO ratings (run, player, elo, elo_error, games, at)
SELECT run, version::text, 1500 * (1 - exp(-version / 60.0)), 15, 400, created_at
FROM models WHERE run = %(run)s AND version %% 2 = 1
UNION ALL SELECT %(run)s, 'random', -400, 30, 4000, now()
UNION ALL SELECT %(run)s, 'search', 300, 20, 4000, now();
INSERT INTO exams (
    run, version, kind, num_simulations, positions, errors, prior_errors, value_error, at
)
SELECT run, version, kind, 100, 1000, 10 + 400 * exp(-version / 60.0),
    20 + 500 * exp(-version / 60.0), 0.1 + 0.5 * exp(-version / 60.0), created_at
FROM models, (VALUES ('random'), ('good')) AS k (kind)
WHERE run = %(run)s AND version %% 2 = 1 ORDER BY version;
"""


@contextmanager
def filled(
    folder: Path, workload: Workload, sizes: FilledRun, settings: Mapping[str, str] | None = None
) -> Generator[EmbeddedPostgres]:
    """Run the Postgres of a folder, and fill it if it was never filled completely.

    Args:
        folder: folder of the database; created if it is missing. The file ``filled`` marks that it
            is full, so later calls ignore ``workload`` and ``sizes``.
        workload: game and network of the run.
        sizes: how much to fill in.
        settings: settings of the Postgres server, such as ``log_min_duration_statement``.

    Yields:
        The running server.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)  # the server's user must be able to enter it
    done = folder / "filled"
    if not done.exists():
        with postgres_of(run_of(workload), folder) as postgres:
            counts = fill(postgres, workload, sizes)
        done.write_text(f"{counts}\n")
    with EmbeddedPostgres(folder / "postgres", dict(settings or {})) as postgres:
        yield postgres


def fill(postgres: EmbeddedPostgres, workload: Workload, sizes: FilledRun) -> dict[str, object]:
    """Fill the tables of the run ``RUN``, which must be registered.

    Args:
        postgres: the running server.
        workload: game of the run.
        sizes: how much to fill in.

    Returns:
        Number of ``games`` and ``positions`` in the database, and its size in ``megabytes``.

    Raises:
        psycopg2.Error: a statement failed.
        SystemExit: Postgres refuses the played games.
    """
    records = played_games(workload, min(_PLAYED_GAMES, sizes.games), seed=5)
    with SelfplayDatabase(postgres.url("worker")) as database:
        submit(database, PLAYED, records)
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    since = today - timedelta(days=sizes.days)
    parameters = {
        "run": RUN,
        "played": PLAYED,
        "since": since,
        "days": sizes.days,
        "models": sizes.models,
        "match_games": _MATCH_GAMES,
        "step": _STEPS,
        "measurements": _MEASUREMENTS,
    }
    with closing(psycopg2.connect(postgres.url("owner"))) as connection:
        connection.autocommit = True
        cursor = connection.cursor()
        cursor.execute("SET synchronous_commit = off")
        _execute_as(cursor, "trainer", _MODELS, parameters)
        _execute_as(cursor, "evaluator", _MATCHES, parameters)
        copies = max(1, round(sizes.games / sizes.days / len(records)))
        plies = copies * sum(record.length for record in records)
        searched_days = max(1, round(sizes.positions / plies))
        for number in range(sizes.days):
            first, last = (
                1 + 2 * (sizes.models * n // sizes.days // 2) for n in (number, number + 1)
            )
            searches = number >= sizes.days - searched_days
            copying = Copying(copies, (first, last), searches=searches)
            copy_day(cursor, since + timedelta(days=number), copying)
        cursor.execute("VACUUM ANALYZE")
        cursor.execute(
            "SELECT (SELECT count(*) FROM games), (SELECT count(*) FROM positions), "
            "pg_database_size(current_database()) / 1e6"
        )
        [(games, positions, megabytes)] = cursor.fetchall()
    return {"games": games, "positions": positions, "megabytes": float(megabytes)}


def _execute_as(
    cursor: psycopg2.extensions.cursor, role: str, statements: str, parameters: Mapping[str, object]
) -> None:
    """Execute statements as the leader of a role, with a new epoch."""
    cursor.execute("SELECT acquire_fence(%s, %s)", (RUN, role))
    [(epoch,)] = cursor.fetchall()
    cursor.execute(statements, {**parameters, "epoch": epoch})
