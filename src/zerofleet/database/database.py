"""The record as each service may use it: one class for each service, and one with everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlalchemy import exc

from zerofleet.config import RunConfig
from zerofleet.database.connection import ConnectionPool, explain
from zerofleet.database.finished_games import FinishedGames
from zerofleet.database.matches import Matches, Ratings
from zerofleet.database.metrics import Exams, Metrics
from zerofleet.database.models import Models, NewModels
from zerofleet.database.origins import GivenGames, Origins
from zerofleet.database.promotions import PromotionChain, Promotions
from zerofleet.database.resign_threshold import Resignations, ResignThreshold
from zerofleet.database.retention import Retentions
from zerofleet.database.stored_restarts import StoredRestarts, WritableRestarts
from zerofleet.database.unfinished_games import GameLeases
from zerofleet.database.window_games import WindowGames
from zerofleet.errors import ConfigError, RunNotRegisteredError

_SUMMARY = """
SELECT
    g.games, g.positions, g.games_last_hour, g.workers_last_hour, g.resigned_games,
    (
        SELECT threshold FROM resign_thresholds WHERE run = :run
        ORDER BY threshold_id DESC LIMIT 1
    ) AS resign_threshold,
    (SELECT count(*) FROM unreadable_games WHERE run = :run) AS rejected_games,
    (SELECT count(*) FROM unfinished_games WHERE run = :run) AS unfinished_games,
    (SELECT count(*) FROM models WHERE run = :run) AS models,
    (SELECT max(version) FROM models WHERE run = :run) AS newest_model,
    h.promotions, h.best_model,
    (
        SELECT string_agg(precision || ': ' || reason, '; ' ORDER BY precision)
        FROM model_variants WHERE run = :run AND version = h.best_model AND NOT accepted
    ) AS refused_variants,
    r.version AS rated_model, r.elo, r.elo_error, e.error_rate,
    t.step, t.policy_loss, t.value_loss,
    o.policy_loss AS held_out_policy_loss, o.value_loss AS held_out_value_loss, t.own_losses
FROM (
    SELECT
        count(*) AS games, coalesce(sum(length), 0) AS positions,
        count(*) FILTER (WHERE ingested_at > now() - interval '1 hour') AS games_last_hour,
        count(DISTINCT worker) FILTER (WHERE ingested_at > now() - interval '1 hour')
            AS workers_last_hour,
        count(*) FILTER (WHERE reason = 'resign') AS resigned_games
    FROM games WHERE run = :run AND kind = 'selfplay'
) AS g
CROSS JOIN (
    SELECT
        coalesce(max(seq), 0) AS promotions,
        (array_agg(version ORDER BY seq DESC))[1] AS best_model
    FROM promotions WHERE run = :run
) AS h
LEFT JOIN LATERAL (
    SELECT version, elo, elo_error FROM ratings JOIN promotions USING (run, version)
    WHERE run = :run ORDER BY seq DESC LIMIT 1
) AS r ON true
LEFT JOIN LATERAL (
    SELECT error_rate FROM exams
    WHERE run = :run AND version = h.best_model AND kind IN ('lines', 'random', 'endgames')
    ORDER BY exam_id DESC LIMIT 1
) AS e ON true
LEFT JOIN LATERAL (
    SELECT * FROM train_metrics WHERE run = :run AND split = 'train' ORDER BY step DESC LIMIT 1
) AS t ON true
LEFT JOIN LATERAL (
    SELECT * FROM train_metrics WHERE run = :run AND split = 'held_out' ORDER BY step DESC LIMIT 1
) AS o ON true
"""
FencedRole = Literal["trainer", "evaluator"]


@dataclass(frozen=True, slots=True)
class Summary:
    """A run in figures; None where nothing was recorded yet."""

    games: int  # self-play games
    positions: int
    games_last_hour: int
    workers_last_hour: int
    resigned_games: int  # self-play games
    resign_threshold: float | None  # v_resign; also None while no player resigns
    rejected_games: int
    unfinished_games: int
    models: int
    newest_model: int | None
    promotions: int
    best_model: int | None
    refused_variants: str | None  # refused variants of the best model, and why
    rated_model: int | None  # the newest promoted model with a rating
    elo: float | None  # rating of that model
    elo_error: float | None
    error_rate: float | None  # in the best model's last exam
    step: int | None  # step of the last measurement
    policy_loss: float | None
    value_loss: float | None
    held_out_policy_loss: float | None
    held_out_value_loss: float | None
    own_losses: object  # losses of your own network by name, or None


class Runs(ConnectionPool):
    """The registered runs."""

    def require_run(self, run: RunConfig) -> None:
        """Check that the run is registered, for a service that may not do that itself.

        Raises:
            RunNotRegisteredError: it is not yet.
            ConfigError: there is a run of this name that plays another game.
        """
        rows = self._rows("SELECT game FROM runs WHERE name = :name", name=run.name)
        if not rows:
            raise RunNotRegisteredError(
                f"the run '{run.name}' is not registered in Postgres at {self._place} yet: its "
                "trainer, its evaluator or `zerofleet up` does that when it starts"
            )
        _require_same_game(run, rows[0].game)


class Leadership(Runs):
    """Registering a run, and becoming its one trainer or its one evaluator."""

    def register_run(self, run: RunConfig) -> None:
        """Make the run's row, or update its configuration; safe to repeat.

        Raises:
            ConfigError: there is a run of this name that plays another game, or the database
                refuses a value of the run.
        """
        try:
            [row] = self._rows(
                "SELECT register_run(:name, :game, CAST(:config AS jsonb)) AS game",
                name=run.name,
                game=run.game.name,
                config=run.model_dump_json(),
            )
        except exc.DataError as error:
            raise ConfigError(explain(error.orig or error)) from error
        _require_same_game(run, row.game)

    def acquire_fence(self, run: str, role: FencedRole, *, above: int = 0) -> int:
        """Become the one trainer, or the one evaluator, whose writes are accepted.

        Args:
            above: the newest epoch known from elsewhere, such as from checkpoints. Postgres may
                have been restored from an older dump.

        Returns:
            The epoch that every write must carry. Writes of predecessors are refused from now on
                with ``StaleEpochError``.

        Raises:
            ConfigError: no start of a service has such an epoch.
        """
        try:
            [row] = self._rows(
                "SELECT acquire_fence(:run, :role, :above) AS epoch",
                run=run,
                role=role,
                above=above,
            )
        except exc.DataError as error:
            raise ConfigError(explain(error.orig or error)) from error
        return row.epoch


class Summaries(ConnectionPool):
    """The overview of a run."""

    def summary(self, run: str) -> Summary:
        """Where a run stands."""
        [row] = self._rows(_SUMMARY, run=run)
        return Summary(*row)


class SelfplayDatabase(
    FinishedGames, GameLeases, ResignThreshold, StoredRestarts, PromotionChain, Runs
):
    """The record as self-play may use it; see ``Database``."""


class InferenceDatabase(Models, PromotionChain):
    """The record as inference may use it; see ``Database``."""


class TrainerDatabase(
    WindowGames,
    Resignations,
    WritableRestarts,
    NewModels,
    Retentions,
    Metrics,
    Origins,
    Leadership,
):
    """The record as the trainer may use it; see ``Database``."""


class EvaluatorDatabase(Matches, Ratings, Exams, Models, Promotions, Leadership):
    """The record as an evaluator may use it; see ``Database``."""


class Database(
    GivenGames, SelfplayDatabase, InferenceDatabase, TrainerDatabase, EvaluatorDatabase, Summaries
):
    """The whole record of every run, over a few connections; a context manager.

    Methods block: call them from a thread where an event loop runs. They raise
    ``StoreUnavailableError`` when Postgres does not answer, within about half a minute even when
    it is frozen. Each may then be called again with the same arguments.
    """


def _require_same_game(run: RunConfig, stored: str) -> None:
    if stored != run.game.name:
        raise ConfigError(
            f"the run '{run.name}' in this database plays {stored}, not {run.game.name}: "
            "give this run another name"
        )
