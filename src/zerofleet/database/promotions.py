"""The chain of promotions: the newest one names the best model."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from psycopg2 import errorcodes
from sqlalchemy import exc, text

from zerofleet.database.connection import ConnectionPool, explain
from zerofleet.database.matches import write_verdict
from zerofleet.errors import ModelNotFoundError, StaleEpochError
from zerofleet.verdict import MatchStatistics

_FROM = "FROM promotions JOIN models USING (run, version) WHERE run = :run ORDER BY seq DESC"
_SELECT = f"SELECT seq, version, sha256 {_FROM}"
_HISTORY = f"SELECT seq, version, sha256, match_id, actor, at {_FROM}"


@dataclass(frozen=True, slots=True)
class Promotion:
    """One promotion in the chain: its place, and the model that it made the best.

    Postgres' row and Redis' pointer mean the same promotion if they are equal.
    """

    seq: int
    version: int
    sha256: str


@dataclass(frozen=True, slots=True)
class PromotionRow:
    """A promotion and its cause."""

    promotion: Promotion
    match_id: int | None  # the match that it won; None if there was none
    actor: str  # who promoted
    at: datetime


class PromotionChain(ConnectionPool):
    """Reading the chain."""

    def promotion_head(self, run: str) -> Promotion | None:
        """Return the newest promotion, which names the best model; None before the first."""
        rows = self._rows(f"{_SELECT} LIMIT 1", run=run)
        return Promotion(*rows[0]) if rows else None

    def promotions(self, run: str) -> list[Promotion]:
        """Return the whole chain, newest first."""
        return [Promotion(*row) for row in self._rows(_SELECT, run=run)]

    def promotion_history(self, run: str) -> list[PromotionRow]:
        """Return the whole chain, newest first, with who promoted, why and when."""
        rows = self._rows(_HISTORY, run=run)
        return [
            PromotionRow(
                Promotion(row.seq, row.version, row.sha256), row.match_id, row.actor, row.at
            )
            for row in rows
        ]


class Promotions(PromotionChain):
    """Adding to the chain."""

    def promote(
        self,
        run: str,
        version: int,
        match_id: int | None,
        actor: str,
        expected_seq: int,
        *,
        epoch: int,
        statistics: MatchStatistics | None = None,
    ) -> Promotion:
        """Make a model the best, and in the same transaction decide its match as ``promoted``.

        Args:
            match_id: the match that it won; None if there was none.
            actor: who promotes.
            expected_seq: ``seq`` of the newest promotion on which the decision is based; 0 without
                any.
            epoch: the evaluator's fence epoch.
            statistics: statistics of that match, for its row.

        Raises:
            StaleEpochError: the chain has grown in the meantime, or another evaluator has taken
                over.
            ModelNotFoundError: there is no such model.
            IncompatibleModelError: its files were deleted.
        """
        try:
            with self._transaction() as connection:
                connection.execute(
                    text(
                        "INSERT INTO promotions "
                        "(run, seq, prev_seq, version, match_id, actor, epoch) VALUES "
                        "(:run, :seq, nullif(:prev_seq, 0), :version, :match_id, :actor, :epoch)"
                    ),
                    {
                        "run": run,
                        "seq": expected_seq + 1,
                        "prev_seq": expected_seq,
                        "version": version,
                        "match_id": match_id,
                        "actor": actor,
                        "epoch": epoch,
                    },
                )
                if match_id is not None:
                    write_verdict(
                        connection, match_id, "promoted", statistics or MatchStatistics(), epoch
                    )
                row = connection.execute(text(f"{_SELECT} LIMIT 1"), {"run": run}).one()
                return Promotion(*row)
        except exc.IntegrityError as error:
            code = getattr(error.orig, "pgcode", None)
            if code == errorcodes.FOREIGN_KEY_VIOLATION and "(run, version)" in str(error.orig):
                raise ModelNotFoundError(f"the run {run} has no model {version}") from error
            raise StaleEpochError(
                f"model {version} of the run {run} was not promoted, because the chain does not "
                f"end at {expected_seq}: {explain(error.orig or error)}"
            ) from error

    def evaluator_epoch(self, run: str) -> int:
        """Return the epoch that a promotion must carry now; 0 while no evaluator has begun.

        A rollback promotes with it without taking the fence, so a running evaluator stays the
        evaluator. If two promotions build on the same one, the second is refused.
        """
        rows = self._rows(
            "SELECT epoch FROM fences WHERE run = :run AND role = 'evaluator'", run=run
        )
        return rows[0].epoch if rows else 0
