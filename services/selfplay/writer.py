"""Finished games on their way to Postgres: a bounded spool, sent in batches, again and again.

A game leaves the spool when Postgres has answered for it and not before, so a lost answer means a
second delivery, which Postgres recognises by uid and digest.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path
from uuid import UUID

import structlog

from zerofleet.database import Database, Submission, SubmitStatus
from zerofleet.errors import RecordRejectedError, StoreUnavailableError
from zerofleet.waiting import Backoff, Waits, awaited

_log = structlog.get_logger()

_BATCH_GAMES = 64
_GATHER_SECONDS = 0.1  # a commit costs the same for one game as for many
# While Postgres answers, play waits for it rather than run ahead: what is spooled must be stored
# in the few seconds that a preempted worker has to leave. The rest of the spool is for outages.
_AHEAD_GAMES = 1_024


class GameWriter:
    """Submits finished games in the background.

    Args:
        database: asked from a thread.
        run: name of the run.
        worker: name of this worker.
        spool_games: games held at most, while Postgres is away, before play must pause.
        waits: told when Postgres is waited for.
        settled: returns when no save of an unfinished game is under way that began before the call;
            committed after the game is stored, it would leave a row of a finished game.
        audit: told of each game when it comes, and of its answer before it leaves the spool.
    """

    def __init__(
        self,
        database: Database,
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
        """Games that Postgres has not answered for yet."""
        return len(self._spool)

    @property
    def held(self) -> list[UUID]:
        """The same, by uid."""
        return [submission.record.game_uid for submission in self._spool]

    def put(self, submission: Submission) -> None:
        """Take charge of a finished game; never blocks and never refuses."""
        if self._audit is not None:
            self._audit.finished(submission.record.game_uid, submission.record.length)
        self._spool.append(submission)
        self._arrived.set()
        self._look_for_room()

    async def room(self) -> None:
        """Return at once while the spool has room; else when it has some again."""
        await self._room.wait()

    def close(self) -> None:
        """``run`` returns when the spool is empty."""
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
        """The oldest game of the spool is answered for; all but stored was logged where found."""
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
        """Stop play at the limit; let it go on at half of it, so that it stops more seldom."""
        limit = self._limit if self._away else min(self._limit, _AHEAD_GAMES)
        if self._room.is_set() and len(self._spool) >= limit:
            self._room.clear()
            status = "blocked" if self._away else "running"
            self._waits.begin("spool", "Postgres to store games", status)
        elif not self._room.is_set() and len(self._spool) <= limit // 2:
            self._resume()


class AuditFile:
    """What was played and what was answered, in a file beside the database to compare with.

    Lines are ``uid finished LENGTH`` and ``uid ANSWER``; workers may share a file.

    Args:
        path: of the file; lines are appended.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def finished(self, game_uid: UUID, length: int) -> None:
        """Note a finished game, before Postgres knows of it."""
        self._note(f"{game_uid} finished {length}")

    def answered(self, game_uid: UUID, answer: str) -> None:
        """Note what Postgres has answered."""
        self._note(f"{game_uid} {answer}")

    def _note(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())  # unbuffered: kept if we are killed
