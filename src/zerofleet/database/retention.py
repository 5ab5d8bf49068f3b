"""What of a run is kept: partitions of its searches, and the files of its models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from zerofleet.database.connection import ConnectionPool

# From when on some games are needed: since the first of them was stored, or began if it began in a
# partition. One that was adopted late lies in the partition of the day that its uid names.
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

# The trainer's window, read again after a restart, and the games that v_resign is computed from.
# Fewer games than the window holds: all are needed.
# At the disk limit these games stay: those in the trainer's window, those that it has not read yet
# and those that v_resign is computed from.
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
        SELECT game_uid, ingested_at FROM games WHERE run = :run AND kind = 'selfplay'
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
        WHERE run = :run AND kind = 'selfplay' AND tx >= (
            SELECT tx FROM games
            WHERE run = :run AND kind = 'selfplay' AND tx <= CAST(CAST(:read_tx AS text) AS xid8)
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
    """What came of dropping a partition of the table of positions."""

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
    sha256s: Sequence[str]  # its file's and its variants', but those that another model has too


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept on disk; searches are those of all runs of the database."""

    bytes: int  # of searches, indexes included
    since: datetime | None  # when the oldest game with kept searches began; None: there is none
    bytes_per_day: int | None  # of searches, at the rate of the last hour of play
    game_bytes: int  # of the table of games, indexes included
    database_bytes: int  # of the whole database
    models: int  # of the run, those whose files are kept


@dataclass(frozen=True, slots=True)
class DatabaseUse:
    """Disk usage of the database."""

    bytes: int
    needed_bytes: int  # of searches that training needs, in whole partitions
    searches_per_day: int | None  # bytes, at the rate of the last hour of play


class Retentions(ConnectionPool):
    """The trainer's side of ``[retention]``; see ``database/functions/retention.sql``."""

    def make_partitions(self, hours: int | None = None, ahead: timedelta | None = None) -> int:
        """Make the partitions of searches that are missing from now on.

        Args:
            hours: length of each new partition; None: as in ``[retention]`` of the runs, or shorter
                under a disk limit.
            ahead: time from now until which there should be partitions; None: long enough for a
                trainer that calls this every ten minutes.

        Returns:
            How many were made. Fewer than needed when another session reads at the moment.
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
        """State from when on this run needs its searches; they go when no run needs them.

        Args:
            run: name of the run.
            window_games: the newest so many games of self-play are needed ...
            played_on_games: ... and the newest so many that played on ...
            margin: ... and what began and was stored so long before the first of these; None:
                everything.
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
        """Drop the oldest partition of searches if no run needs it; None where there is none.

        It gives up within half a second where another session goes on reading: try again later.

        Args:
            at_limit: the disk limit is reached, so searches that training does not need may go.
        """
        rows = self._rows(
            "SELECT partition, outcome FROM drop_partition(:at_limit)", at_limit=at_limit
        )
        return PartitionDrop(*rows[0]) if rows else None

    def delete_old_positions(self, games: int) -> int:
        """Delete what no run needs of games that fell in no partition; how many games it was."""
        [row] = self._rows("SELECT delete_old_positions(:games) AS games", games=games)
        return row.games

    def give_up_models(
        self, run: str, *, newest: int, every: int, grace: timedelta, epoch: int
    ) -> list[int]:
        """Note which models' files are not kept any more.

        Args:
            run: name of the run.
            newest: so many of the newest are kept, as all promoted ones and those in a match.
            every: versions that this divides are kept as well; 0: none for that.
            grace: so long the files stay, and are kept after all where a match or a promotion of
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
        """Models that were given up and whose grace is over, with the files to remove."""
        rows = self._rows("SELECT version, sha256s FROM removable_files(:run)", run=run)
        return [RemovableModel(*row) for row in rows]

    def kept(self, run: str) -> Kept:
        """What is kept, for people."""
        [row] = self._rows(_KEPT, run=run)
        return Kept(*row)
