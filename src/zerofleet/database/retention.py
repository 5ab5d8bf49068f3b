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
_STATE_NEEDS = f"""
INSERT INTO position_needs (run, since, epoch)
SELECT :run, CASE
    WHEN :forgets AND w.games = :window_games
        THEN least(w.since, r.since) - CAST(:margin AS interval)
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
) AS r
ON CONFLICT (run) DO UPDATE SET since = excluded.since, epoch = excluded.epoch, at = now()
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
    (
        SELECT (SELECT sum(bytes) FROM filled) * 86400
            / greatest(60, extract(epoch FROM now() - began))
        FROM oldest
    )::bigint AS bytes_per_day,
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
    bytes_per_day: int | None  # at the rate since then
    models: int  # of the run, those whose files are kept


class Retentions(ConnectionPool):
    """The trainer's side of ``[retention]``; see ``database/functions/retention.sql``."""

    def make_partitions(self, hours: int, ahead: timedelta) -> int:
        """Make the partitions of searches that are missing, from now until ``ahead`` of now.

        Args:
            hours: that each new one is for.
            ahead: how far; those made before, of whatever size, count.

        Returns:
            How many were made. Fewer than needed when another session reads at the moment.
        """
        [row] = self._rows(
            "SELECT make_partitions(:hours, now() + CAST(:ahead AS interval)) AS made",
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
    ) -> None:
        """State from when on this run needs its searches; they go when no run needs them.

        Args:
            run: name of the run.
            window_games: the newest so many games of self-play are needed ...
            played_on_games: ... and the newest so many that played on ...
            margin: ... and what began and was stored so long before the first of these; None:
                everything.
            epoch: the trainer's fence epoch.

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
        )

    def drop_partition(self) -> PartitionDrop | None:
        """Drop the oldest partition of searches if no run needs it; None where there is none.

        It gives up within half a second where another session goes on reading: try again later.
        """
        rows = self._rows("SELECT partition, outcome FROM drop_partition()")
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
