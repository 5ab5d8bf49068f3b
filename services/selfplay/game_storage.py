"""A worker's games on their way to Postgres: in play, saved while unfinished, and finished.

An engine numbers its games; ``GamesInPlay`` gives each a uid, and an epoch that grows when another
worker adopts it. ``UnfinishedGames`` saves games under a lease, so that another worker can resume
them. ``GameWriter`` spools finished games and sends them in batches until Postgres has answered. A
game leaves the spool only then, so a lost answer means a second delivery, which Postgres recognises
by uid and digest.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from uuid import UUID

import structlog
from zerofleet_core import GameColumns

from zerofleet.database import FinishedGames, GameLeases, Submission, SubmitStatus
from zerofleet.errors import RecordRejectedError, StoreUnavailableError
from zerofleet.records import GameRecord, new_game_uid
from zerofleet.waiting import Backoff, Waits, awaited

_log = structlog.get_logger()

_GIVEN_UP = {
    "lost": "its lease was taken over, or it is over: another worker's record counts",
    "rejected": "its record contradicts itself, and is kept in refused_games",
}
_FULL = (
    "the run has 200,000 unfinished games: look for workers that save games and do not play them "
    "(`SELECT worker, count(*) FROM unfinished_games GROUP BY worker`)"
)
_BATCH_GAMES = 64
_GATHER_SECONDS = 0.1  # a commit costs the same for one game as for many
# While Postgres answers, play waits for it rather than run ahead: what is spooled must be stored
# in the few seconds that a preempted worker has to leave. The rest of the spool is for outages.
_AHEAD_GAMES = 1_024


@dataclass(slots=True)
class _Identity:
    game_uid: UUID
    started_at: datetime
    epoch: int = 0  # grows when another worker adopts the game
    saved_plies: int = 0  # a crash now would lose the plies above these
    ours: bool = True  # False once another worker has adopted the game


class GamesInPlay:
    """Maps an engine's game ids to identities that last as long as the game, wherever it goes on.

    Args:
        game: name of the game.
    """

    def __init__(self, game: str) -> None:
        self._game = game
        self._identities: dict[int, _Identity] = {}
        self.clock_ahead = timedelta(0)
        """How far this machine's clock is ahead of Postgres', by which uids are made."""

    @property
    def adopted(self) -> int:
        """Games from other workers that are not finished yet."""
        return sum(identity.epoch > 0 for identity in self._identities.values())

    @property
    def held(self) -> list[UUID]:
        """Games that are played here and ours."""
        return [identity.game_uid for identity in self._identities.values() if identity.ours]

    def begin(self, game_ids: Iterable[int], now: datetime) -> None:
        """Give uids to games that the engine has begun; to be called before they finish here."""
        for game_id in game_ids:
            self._identities[game_id] = _Identity(new_game_uid(now - self.clock_ahead), now)

    def adopt(self, game_id: int, record: GameRecord, epoch: int) -> None:
        """Take over a game that another worker began, under its own uid and start."""
        self._identities[game_id] = _Identity(
            record.game_uid, record.started_at, epoch, record.length
        )

    def renew(self, game_uid: UUID, epoch: int) -> bool:
        """Take the new epoch of a game that this engine plays already and adopted again."""
        for identity in self._identities.values():
            if identity.game_uid == game_uid and identity.ours:
                identity.epoch = epoch
                return True
        return False

    def knows(self, game: GameColumns) -> bool:
        """Whether the game is not finished yet."""
        return game.game_id in self._identities

    def disown(self, game_id: int, epoch: int) -> bool:
        """Give up a game of this epoch: another worker has it, so its further plies are dropped.

        Returns:
            Whether the game was given up. It was not if it is finished: the database then decides
            whose record counts. It was not either if this worker has adopted it again meanwhile.
        """
        identity = self._identities.get(game_id)
        if identity is None or identity.epoch != epoch:
            return False
        identity.ours = False
        return True

    def unsaved_plies(self, game: GameColumns) -> int:
        """Plies of this game that are nowhere but here; 0 for a game that is not ours."""
        return self._unsaved(game.game_id, game.plies)

    def most_unsaved(self, plies_in_play: Iterable[tuple[int, int]]) -> int:
        """The most unsaved plies of a game, of these ids and plies."""
        return max(itertools.starmap(self._unsaved, plies_in_play), default=0)

    def _unsaved(self, game_id: int, plies: int) -> int:
        identity = self._identities[game_id]
        return plies - identity.saved_plies if identity.ours else 0

    def saved(self, game: GameColumns) -> None:
        """The game up to this state is kept elsewhere too."""
        identity = self._identities.get(game.game_id)
        if identity is not None:  # else it finished meanwhile
            identity.saved_plies = max(identity.saved_plies, game.plies)

    def unfinished(self, game: GameColumns) -> tuple[GameRecord, int]:
        """The record so far, and its epoch."""
        identity = self._identities[game.game_id]
        return self._record(game, identity, None), identity.epoch

    def finish(self, game: GameColumns, now: datetime) -> tuple[GameRecord, int] | None:
        """The final record and its epoch, and forget the game; None if it is not ours.

        The record is made once and kept until it is stored: each delivery is the same bytes.
        """
        identity = self._identities.pop(game.game_id)
        return (self._record(game, identity, now), identity.epoch) if identity.ours else None

    def _record(
        self, game: GameColumns, identity: _Identity, finished_at: datetime | None
    ) -> GameRecord:
        return GameRecord(identity.game_uid, self._game, game, identity.started_at, finished_at)


class UnfinishedGames:
    """Saves, adopts and releases unfinished games for one worker, and extends its leases.

    Args:
        database: Postgres; may be down.
        lease_seconds: after this long without an extension, others may adopt this worker's games.
        waits: told when Postgres is waited for.
    """

    def __init__(
        self, database: GameLeases, run: str, worker: str, lease_seconds: float, waits: Waits
    ) -> None:
        self._database = database
        self._run = run
        self._worker = worker
        self._lease_seconds = lease_seconds
        self._waits = waits
        self.reachable = True
        """Whether Postgres answered the last time."""
        self._is_full = False
        self._adopt_after = 0.0  # monotonic time

    async def save(self, in_play: GamesInPlay, games: Sequence[GameColumns]) -> bool:
        """Save these unfinished games as they stand; return False if Postgres does not answer.

        A game that another worker adopted meanwhile, or whose record is refused, is given up.
        """
        for first in range(0, len(games), _BATCH_GAMES):
            batch = [game for game in games[first : first + _BATCH_GAMES] if in_play.knows(game)]
            records = [in_play.unfinished(game) for game in batch]
            try:
                kept = await asyncio.to_thread(
                    self._database.save_unfinished,
                    self._run,
                    self._worker,
                    records,
                    self._lease_seconds,
                )
            except StoreUnavailableError as error:
                self._lost_sight(error)
                return False
            for game, (record, epoch), status in zip(batch, records, kept, strict=True):
                if status in ("saved", "full"):  # a game that is not saved is played on
                    in_play.saved(game)
                elif in_play.disown(game.game_id, epoch):
                    uid = str(record.game_uid)
                    why = _GIVEN_UP[status]
                    _log.warning("game_given_up", game_uid=uid, epoch=epoch, reason=why)
            self._reached()
            self._tell_of_full_table("full" in kept)
        return True

    def _tell_of_full_table(self, is_full: bool) -> None:
        if is_full and not self._is_full:
            _log.warning("games_not_saved", reason=_FULL)
        self._is_full = is_full

    async def extend(self, game_uids: Sequence[UUID]) -> None:
        """Push this worker's leases of these games into the future."""
        try:
            await asyncio.to_thread(
                self._database.extend_leases,
                self._run,
                self._worker,
                game_uids,
                self._lease_seconds,
            )
        except StoreUnavailableError as error:
            self._lost_sight(error)
        else:
            self._reached()

    async def adopt(self, limit: int) -> list[tuple[GameRecord, int]]:
        """Take over games whose leases have expired, up to ``limit``, with their new epochs.

        The database answers with a few at once, so call again until there are none.
        After an outage of Postgres all leases have expired, even the leases of live workers. Live
        workers first get one lease's time to extend them.
        """
        if limit <= 0 or time.monotonic() < self._adopt_after:
            return []
        try:
            adopted = await asyncio.to_thread(
                self._database.adopt_unfinished,
                self._run,
                self._worker,
                limit,
                self._lease_seconds,
            )
        except StoreUnavailableError as error:
            self._lost_sight(error)
            return []
        if adopted:
            _log.info("games_adopted", games=len(adopted))
        return adopted

    async def reject(self, record: GameRecord, epoch: int, reason: str) -> None:
        """Set aside an adopted game that cannot be resumed.

        While Postgres is down, its lease runs out, and the next worker finds the same fault.
        """
        try:
            await asyncio.to_thread(
                self._database.reject_unfinished,
                self._run,
                self._worker,
                record.game_uid,
                epoch,
                reason,
            )
        except StoreUnavailableError as error:
            self._lost_sight(error)

    async def release(self) -> bool:
        """End this worker's leases now, so that others need not wait; False if Postgres is down."""
        try:
            await asyncio.to_thread(self._database.release_unfinished, self._run, self._worker)
        except StoreUnavailableError as error:
            self._lost_sight(error)
            return False
        return True

    def _reached(self) -> None:
        self.reachable = True
        self._waits.end("saver")

    def _lost_sight(self, error: StoreUnavailableError) -> None:
        self.reachable = False
        self._waits.begin("saver", awaited(error))
        self.hold_back()

    def hold_back(self) -> None:
        """Adopt nothing for one lease's time, because Postgres was down."""
        self._adopt_after = time.monotonic() + self._lease_seconds


class GameWriter:
    """Submits finished games in the background.

    Args:
        database: Postgres; may be down.
        spool_games: games that the spool holds before play pauses, while Postgres is down.
        waits: told when Postgres is waited for.
        settled: returns when every save of an unfinished game that began before the call has
            ended. A save committed after the game is stored would leave a row of a finished game.
        audit: receives each game when it comes, and its answer before it leaves the spool.
    """

    def __init__(
        self,
        database: FinishedGames,
        run: str,
        worker: str,
        spool_games: int,
        waits: Waits,
        settled: Callable[[], Awaitable[object]],
        audit: AuditFile | None = None,
    ) -> None:
        self._database = database
        self._run = run
        self._worker = worker
        self._limit = spool_games
        self._waits = waits
        self._settled = settled
        self._audit = audit
        self._away = False
        self._spool: deque[Submission] = deque()
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closing = False
        self.answers: Counter[SubmitStatus] = Counter()

    @property
    def spooled(self) -> int:
        """Number of games that Postgres has not answered for yet."""
        return len(self._spool)

    @property
    def held(self) -> list[UUID]:
        """Uids of the spooled games."""
        return [submission.record.game_uid for submission in self._spool]

    def put(self, submission: Submission) -> None:
        """Take charge of a finished game; never blocks and never refuses."""
        if self._audit is not None:
            self._audit.finished(submission.record.game_uid, submission.record.length)
        self._spool.append(submission)
        self._arrived.set()
        self._look_for_room()

    async def room(self) -> None:
        """Return when the spool has room, which is normally at once."""
        await self._room.wait()

    def close(self) -> None:
        """Let ``run`` return as soon as the spool is empty."""
        self._closing = True
        self._arrived.set()

    async def run(self) -> None:
        """Submit games until closed and empty."""
        backoff = Backoff()
        while True:
            await self._arrived.wait()
            if not self._closing:
                await asyncio.sleep(_GATHER_SECONDS)
            while self._spool:
                batch = list(islice(self._spool, _BATCH_GAMES))
                await self._settled()
                try:
                    await self._submit(batch)
                except StoreUnavailableError as error:
                    self._lost_postgres()
                    self._waits.begin("writer", awaited(error), reason=str(error))
                    await backoff.sleep()
                else:
                    self._away = False
                    self._waits.end("writer")
                    backoff.reset()
            if self._closing:
                return
            self._arrived.clear()

    async def _submit(self, batch: list[Submission]) -> None:
        answers: list[SubmitStatus]
        try:
            answers = await asyncio.to_thread(
                self._database.submit_games, self._run, self._worker, batch
            )
        except RecordRejectedError as error:
            if len(batch) > 1:  # find the one that is refused; the others can be stored
                for submission in batch:
                    await self._submit([submission])
                return
            _log.error("game_rejected", game_uid=str(batch[0].record.game_uid), reason=str(error))
            answers = ["rejected"]
        for answer in answers:
            self._settle(answer)

    def _settle(self, answer: SubmitStatus) -> None:
        """Drop the oldest spooled game and count its answer.

        Answers other than "stored" are already logged.
        """
        if self._audit is not None:
            self._audit.answered(self._spool[0].record.game_uid, answer)
        self._spool.popleft()
        self.answers[answer] += 1
        self._look_for_room()

    def _lost_postgres(self) -> None:
        """Use the whole spool from now on: play that paused at the smaller limit resumes."""
        if not self._away:
            self._away = True
            if len(self._spool) < self._limit:
                self._resume()
        self._look_for_room()

    def _resume(self) -> None:
        self._room.set()
        self._waits.end("spool")

    def _look_for_room(self) -> None:
        """Pause play at the limit, and resume it at half of the limit, so that it pauses less."""
        limit = self._limit if self._away else min(self._limit, _AHEAD_GAMES)
        if self._room.is_set() and len(self._spool) >= limit:
            self._room.clear()
            status = "blocked" if self._away else "running"
            self._waits.begin("spool", "Postgres to store games", status)
        elif not self._room.is_set() and len(self._spool) <= limit // 2:
            self._resume()


class AuditFile:
    """File of finished games and answers, to compare the database with.

    Lines are ``uid finished LENGTH`` and ``uid ANSWER``. They are appended; workers may share a
    file.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def finished(self, game_uid: UUID, length: int) -> None:
        """Write down a finished game, before Postgres knows of it."""
        self._note(f"{game_uid} finished {length}")

    def answered(self, game_uid: UUID, answer: str) -> None:
        """Write down Postgres' answer."""
        self._note(f"{game_uid} {answer}")

    def _note(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())  # unbuffered: kept if we are killed
