"""Retention of a run's data: partitions of its searches, and the files of its models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from zerofleet.database.connection import ConnectionPool

# The time from which some games are needed: when the first of them was stored, or when it began if
# it began in a partition. A game that was adopted late is in the partition of the day in its uid.
_FIRST = """
count(*) AS games,
least(
    min(ingested_at),
    -- In the order of uuid; the database's own collation may put letters before digits.
    game_began(CAST(min(game_uid::text COLLATE "C") FILTER (
        WHERE game_uid >= first_game_uid((SELECT min(p.since) FROM position_partitions AS p))
    ) AS uuid))
) AS since
"""

# The trainer's window, which is read again after a restart, and the games that v_resign is computed
# from. If there are fewer games than the window holds, all are needed. At the disk limit these
# games stay: the games in the trainer's window, games that it has not read yet, and the games that
# v_resign is computed from.
_STATE_NEEDS = f"""
INSERT INTO position_needs (run, since, limit_since, epoch)
SELECT :run, CASE
    WHEN :forgets AND w.games = :window_games
        THEN least(w.since, r.since) - CAST(:margin AS interval)
    ELSE '-infinity'
END, CASE
    WHEN CAST(:held_games AS integer) IS NULL THEN NULL
    WHEN :forgets AND l.games >= :held_games THEN least(l.since, r.since)
    ELSE '-infinity'
END, :epoch
FROM (
    SELECT {_FIRST} FROM (
        SELECT game_uid, ingested_at FROM games WHERE run = :run AND kind <> 'match'
        ORDER BY tx DESC LIMIT :window_games
    ) AS newest
) AS w CROSS JOIN (
    SELECT {_FIRST} FROM (
        SELECT game_uid, ingested_at FROM games WHERE run = :run AND kind = 'selfplay' AND plays_on
        ORDER BY ingested_at DESC LIMIT :played_on_games
    ) AS played_on
) AS r CROSS JOIN (
    SELECT {_FIRST} FROM (
        SELECT game_uid, ingested_at FROM games
        WHERE run = :run AND kind <> 'match' AND tx >= (
            SELECT tx FROM games
            WHERE run = :run AND kind <> 'match' AND tx <= CAST(CAST(:read_tx AS text) AS xid8)
            ORDER BY games.tx DESC OFFSET greatest(CAST(:held_games AS integer), 1) - 1 LIMIT 1
        )
    ) AS held
) AS l
ON CONFLICT (run) DO UPDATE SET
    since = excluded.since, limit_since = excluded.limit_since, epoch = excluded.epoch, at = now()
"""

_WARN_OF_LIMIT = """
UPDATE position_needs SET
    limit_warning = :warning,
    limit_warned_at = CASE
        WHEN :warning IS NULL THEN NULL
        WHEN limit_warning IS NULL THEN now()
        ELSE limit_warned_at
    END,
    epoch = :epoch
WHERE run = :run AND (limit_warning IS NOT NULL OR :warning IS NOT NULL)
"""

_DATABASE_USE = """
SELECT
    pg_database_size(current_database()) AS bytes,
    (
        SELECT coalesce(sum(pg_total_relation_size(to_regclass(partition::text))), 0)
        FROM position_partitions WHERE since <= now() AND until > positions_needed(true)
    )::bigint AS needed_bytes,
    searches_per_day() AS searches_per_day
"""

_KEPT = """
WITH filled AS MATERIALIZED (
    SELECT * FROM positions_on_disk
    WHERE since <= now() AND pg_relation_size(to_regclass(partition::text)) > 0
), oldest AS (
    SELECT game_began(game_uid) AS began FROM games
    WHERE game_uid >= (SELECT first_game_uid(min(since)) FROM filled)
    ORDER BY game_uid LIMIT 1
)
SELECT
    (SELECT coalesce(sum(bytes), 0) FROM positions_on_disk)::bigint AS bytes,
    (SELECT began FROM oldest) AS since,
    searches_per_day() AS bytes_per_day,
    pg_total_relation_size('games') AS game_bytes,
    pg_database_size(current_database()) AS database_bytes,
    (SELECT count(*) FROM models WHERE run = :run AND removed_at IS NULL) AS models
"""


@dataclass(frozen=True, slots=True)
class PartitionDrop:
    """Result of dropping a partition of the table of positions."""

    partition: str
    outcome: str  # "dropped", or why not now

    @property
    def is_done(self) -> bool:
        """Whether it is gone."""
        return self.outcome == "dropped"


@dataclass(frozen=True, slots=True)
class RemovableModel:
    """A model that was given up."""

    version: int
    # hashes of its file and its variants', except files that another model shares
    sha256s: Sequence[str]


@dataclass(frozen=True, slots=True)
class Kept:
    """Data that is kept on disk; searches include all runs of the database."""

    bytes: int  # bytes of searches, including indexes
    since: datetime | None  # when the oldest game with stored searches began; None: there is none
    bytes_per_day: int | None  # searches, at the rate of the last hour of play
    game_bytes: int  # the table of games, including indexes
    database_bytes: int  # the whole database
    models: int  # models of the run with files


@dataclass(frozen=True, slots=True)
class DatabaseUse:
    """Disk usage of the database."""

    bytes: int
    needed_bytes: int  # searches that training needs, in whole partitions
    searches_per_day: int | None  # bytes, at the rate of the last hour of play


class Retentions(ConnectionPool):
    """The trainer's side of ``[retention]``; see ``database/functions/retention.sql``."""

    def make_partitions(self, hours: int | None = None, ahead: timedelta | None = None) -> int:
        """Make the missing partitions of searches from now on.

        Args:
            hours: length of each new partition; None: as in ``[retention]`` of the runs, or shorter
                under a disk limit.
            ahead: time to cover from now on; None: long enough for a trainer that calls this every
                ten minutes.

        Returns:
            The number made. It is smaller than needed while another session reads.
        """
        [row] = self._rows(
            "SELECT make_partitions(CAST(:hours AS integer), now() + CAST(:ahead AS interval)) "
            "AS made",
            hours=hours,
            ahead=ahead,
        )
        return row.made

    def state_needs(
        self,
        run: str,
        *,
        window_games: int,
        played_on_games: int,
        margin: timedelta | None,
        epoch: int,
        held_games: int | None = None,
        read_tx: int = 0,
    ) -> None:
        """State from when on this run needs its searches; they are dropped when no run needs them.

        Args:
            window_games: the newest games of self-play that are needed ...
            played_on_games: ... and the newest games that played on ...
            margin: ... and games that began and were stored this long before the first of these;
                None: everything.
            epoch: the trainer's fence epoch.
            held_games: number of games in the trainer's window, which needs no others at the disk
                limit; None: the run has no limit.
            read_tx: the window holds games up to this transaction.

        Raises:
            StaleEpochError: another trainer has taken over.
        """
        self._run(
            _STATE_NEEDS,
            run=run,
            forgets=margin is not None,
            window_games=window_games,
            played_on_games=played_on_games,
            margin=margin or timedelta(0),
            epoch=epoch,
            held_games=held_games,
            read_tx=read_tx,
        )

    def warn_of_limit(self, run: str, warning: str | None, epoch: int) -> None:
        """Record why the run exceeds its disk limit; None: it does not.

        Raises:
            StaleEpochError: another trainer has taken over.
        """
        self._run(_WARN_OF_LIMIT, run=run, warning=warning, epoch=epoch)

    def database_use(self) -> DatabaseUse:
        """Return the disk usage of the whole database."""
        [row] = self._rows(_DATABASE_USE)
        return DatabaseUse(*row)

    def drop_partition(self, *, at_limit: bool = False) -> PartitionDrop | None:
        """Drop the oldest partition of searches if no run needs it; return None if there is none.

        It gives up within half a second if another session keeps reading: try again later.

        Args:
            at_limit: the disk limit is reached, so searches that training does not need may go.
        """
        rows = self._rows(
            "SELECT partition, outcome FROM drop_partition(:at_limit)", at_limit=at_limit
        )
        return PartitionDrop(*rows[0]) if rows else None

    def delete_old_positions(self, games: int) -> int:
        """Delete searches outside partitions that no run needs; return the number of games."""
        [row] = self._rows("SELECT delete_old_positions(:games) AS games", games=games)
        return row.games

    def give_up_models(
        self, run: str, *, newest: int, every: int, grace: timedelta, epoch: int
    ) -> list[int]:
        """Mark models whose files are no longer kept.

        Args:
            newest: number of newest models that are kept, in addition to all promoted ones and the
                ones in a match.
            every: versions divisible by this are kept as well; 0: none.
            grace: how long the files stay. They are kept after all if a match or a promotion of
                that time needs them.
            epoch: the trainer's fence epoch.

        Returns:
            The versions that were given up now.

        Raises:
            StaleEpochError: another trainer has taken over.
        """
        [row] = self._rows(
            "SELECT give_up_models(:run, :newest, :every, CAST(:grace AS interval), :epoch) "
            "AS versions",
            run=run,
            newest=newest,
            every=every,
            grace=grace,
            epoch=epoch,
        )
        return row.versions

    def removable_files(self, run: str) -> list[RemovableModel]:
        """Return given-up models whose grace time is over, with the files to remove."""
        rows = self._rows("SELECT version, sha256s FROM removable_files(:run)", run=run)
        return [RemovableModel(*row) for row in rows]

    def kept(self, run: str) -> Kept:
        """Return what is kept, for people."""
        [row] = self._rows(_KEPT, run=run)
        return Kept(*row)
