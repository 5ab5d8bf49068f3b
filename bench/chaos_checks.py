"""Checks after each fault: settling, lost games, the pointer to the best model, and epochs.

The workers of a fleet share an audit file, here called the ledger. A worker notes each finished
game before it submits it to Postgres. It notes Postgres' answer before it drops the game. The
checks compare these notes with the database.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg2

from bench.chaos_fleet import COMPUTING, NAME, SERVICES, WORKERS, ChaosFleet, lower_priority
from tests.support.databases import GAMES_STORED_TWICE
from zerofleet.best_pointer import BestPointer
from zerofleet.database import Promotion
from zerofleet.errors import ZerofleetError
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.games import spec
from zerofleet.models.folder import ModelFolder
from zerofleet.models.session import ModelSession

_MORE_GAMES = 10  # games that must be stored before a fleet counts as settled
_SELFPLAY = "SELECT game_uid::text FROM games WHERE kind = 'selfplay'"


@dataclass
class Ledger:
    """The workers' notes so far, read from a file that grows."""

    path: Path
    stored: Counter[str] = field(default_factory=Counter[str])
    """Number of answers ``stored`` by uid: Postgres has stored the game as a new one."""
    finished: set[str] = field(default_factory=set[str])
    """Uids of finished games."""
    answered: set[str] = field(default_factory=set[str])
    """Uids of games for which Postgres has given any answer."""
    _offset: int = 0

    def read(self) -> None:
        """Read the new lines. An incomplete last line is left for the next call."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            lines, newline, _ = file.read().rpartition(b"\n")
        self._offset += len(lines) + len(newline)
        for line in lines.decode().splitlines():
            uid, event, *_ = line.split()
            if event == "finished":
                self.finished.add(uid)
                continue
            self.answered.add(uid)
            if event == "stored":
                self.stored[uid] += 1

    def has_answered(self, uids: set[str]) -> bool:
        """Read the new lines, and return whether Postgres has answered for all of these games."""
        self.read()
        return uids <= self.answered

    def reset(self, stored: set[str]) -> None:
        """Replace all notes, because a dump of Postgres was restored.

        Args:
            stored: uids of all games in the restored database.
        """
        self.stored = Counter(stored)
        self.finished, self.answered = set(stored), set(stored)


@dataclass
class Findings:
    """Findings of one check. Counts are games that no earlier check of the fleet has counted."""

    stored: int = 0
    """All stored games of self-play."""
    missing: int = 0
    """Games that Postgres acknowledged but does not have."""
    twice: int = 0
    """Games that Postgres acknowledged as new more than once, or that it has under two uids."""
    gone: int = 0
    """Finished games without an answer that are neither stored nor saved as unfinished."""
    broken: list[str] = field(default_factory=list[str])
    """A message for each broken promise."""


class Watch:
    """Checks one fleet after each fault, and remembers what it has already reported."""

    def __init__(self, fleet: ChaosFleet) -> None:
        self._fleet = fleet
        self.ledger = Ledger(fleet.ledger)
        self._seq = 0
        self._epochs: dict[str, int] = {}
        self._stored_twice = 0
        self._missing: set[str] = set()

    def reset(self) -> None:
        """Forget everything, because a dump of Postgres was restored.

        The dump has older promotions and epochs. Its games replace the ledger's notes.

        Raises:
            psycopg2.Error: Postgres does not answer.
        """
        stored = {uid for (uid,) in self._fleet.query(_SELFPLAY)}
        self.ledger.read()  # after the query: notes made in between are discarded, too
        self.ledger.reset(stored)
        self._seq, self._epochs, self._stored_twice, self._missing = 0, {}, 0, set()

    def settle(self, seconds: float) -> tuple[float, str]:
        """Wait until the fleet works again.

        A fleet has settled when all of this is true:

        - all services run and send heartbeats, and the trainer makes steps;
        - ten more games are stored;
        - the pointer is at the last promotion;
        - games that had finished before are stored or saved as unfinished.

        Args:
            seconds: timeout.

        Returns:
            The seconds that it took, and the condition that was false at the timeout; empty if the
            fleet has settled.
        """
        start = time.monotonic()
        self.ledger.read()
        games = self.ledger.stored.total()
        unanswered = self.ledger.finished - self.ledger.answered
        steps: dict[str, int] = {}
        problem = "nothing was checked"
        while (took := time.monotonic() - start) < seconds:
            problem = self._problem(games, unanswered, steps)
            if not problem:
                return took, ""
            time.sleep(0.25)
        return took, problem

    def _problem(self, games: int, unanswered: set[str], steps: dict[str, int]) -> str:
        """Return the first condition of a settled fleet that is false; empty if all are true.

        Args:
            games: number of stored games at the start.
            unanswered: uids of finished games without an answer at the start.
            steps: first known progress by trainer process; filled by this method.
        """
        fleet = self._fleet
        if fleet.has_ended:
            return "`up` has ended"
        running = {process: name for name in SERVICES for process in fleet.processes(name)}
        if len(running) < len(SERVICES) - 1 + WORKERS:
            return f"only these run: {', '.join(sorted(running.values()))}"
        lower_priority(process for process, name in running.items() if name in COMPUTING)
        self.ledger.read()
        more = self.ledger.stored.total() - games
        if more < _MORE_GAMES:
            return f"{more} of {_MORE_GAMES} new games are stored"
        try:
            beats = self._heartbeats()
            beat_pids = {int(beat.worker.rpartition("-")[2]) for beat in beats}
            if silent := [name for each, name in running.items() if each.pid not in beat_pids]:
                return f"{silent[0]} sends no heartbeats"
            if not _has_stepped(beats, steps):
                return "the trainer makes no steps"
            head = fleet.query("SELECT max(seq) FROM promotions WHERE run = %s", NAME)[0][0]
            pointer = self._pointer()
            if pointer is None or pointer.seq != head:
                return f"the pointer is not at promotion {head}"
            lost = self._unaccounted(unanswered - self.ledger.answered)
        except (psycopg2.Error, ZerofleetError, KeyError) as error:
            return f"{type(error).__name__}: {error}"
        return f"{len(lost)} finished games are neither stored nor unfinished" if lost else ""

    def _heartbeats(self) -> list[Heartbeat]:
        with contextlib.closing(Heartbeats(self._fleet.urls()["redis"], NAME)) as heartbeats:
            return heartbeats.read()

    def _pointer(self) -> Promotion | None:
        with contextlib.closing(BestPointer(self._fleet.urls()["redis"], NAME)) as pointer:
            return pointer.get()

    def _unaccounted(self, uids: set[str]) -> set[str]:
        """Return which of these games Postgres has neither as stored nor as unfinished."""
        known = self._fleet.query(
            "SELECT game_uid::text FROM games WHERE game_uid = ANY(%s::uuid[]) UNION "
            "SELECT game_uid::text FROM unfinished_games WHERE game_uid = ANY(%s::uuid[])",
            list(uids),
            list(uids),
        )
        return uids - {uid for (uid,) in known}

    def check(self) -> Findings:
        """Compare the ledger with Postgres, and check epochs and the pointer, while the fleet runs.

        Raises:
            psycopg2.Error, KeyError, ZerofleetError: a store does not answer.
        """
        self.ledger.read()  # before the query, because games are stored all the time
        found = Findings()
        stored = {uid for (uid,) in self._fleet.query(_SELFPLAY)}
        found.stored = len(stored)
        missing = self.ledger.stored.keys() - stored
        found.missing = len(missing - self._missing)
        self._missing |= missing
        stored_twice = sum(count > 1 for count in self.ledger.stored.values())
        found.twice = stored_twice - self._stored_twice
        self._stored_twice = stored_twice
        for count, problem in (
            (found.missing, "acknowledged games are not stored"),
            (found.twice, "games were acknowledged as new twice"),
        ):
            if count:
                found.broken.append(f"{count} {problem}")
        found.broken += self._epoch_problems() + self._pointer_problems()
        return found

    def _epoch_problems(self) -> list[str]:
        """Return a message for each epoch that is lower than in the last check."""
        rows = self._fleet.query(
            "SELECT role, epoch FROM fences UNION ALL "
            "SELECT game_uid::text, epoch FROM unfinished_games"
        )
        epochs = dict(rows)
        fallen = [key for key, epoch in epochs.items() if epoch < self._epochs.get(key, 0)]
        self._epochs = epochs
        return [f"the epoch of {key} fell" for key in fallen]

    def _pointer_problems(self) -> list[str]:
        """Return a message if the pointer moved back, and for each best model that does not load.

        The models are the one of the pointer in Redis and the one of the last promotion.
        """
        rows = self._fleet.query(
            "SELECT p.seq, m.sha256 FROM promotions p JOIN models m USING (run, version) "
            "WHERE run = %s ORDER BY seq DESC LIMIT 1",
            NAME,
        )
        sha256s, problems = {sha256 for _, sha256 in rows}, []
        best = self._pointer()
        if best is not None:
            sha256s.add(best.sha256)
            if best.seq < self._seq:
                problems.append(f"the pointer moved back from {self._seq} to {best.seq}")
            self._seq = max(self._seq, best.seq)
        folder = ModelFolder(self._fleet.data / "models", NAME)
        for sha256 in sha256s:
            try:
                ModelSession(folder.read_verified(sha256), spec(NAME))
            except Exception as error:  # any error is a finding
                problems.append(f"the model {sha256} does not load: {error}")
        return problems

    def check_at_the_end(self) -> Findings:
        """Do all checks when the services have stopped and only the stores run.

        In addition to ``check``, each finished game must be stored or saved as unfinished, no game
        may be stored under two uids, and each stored game must replay.

        Raises:
            psycopg2.Error, KeyError, ZerofleetError: a store does not answer.
        """
        found = self.check()
        unanswered = self.ledger.finished - self.ledger.answered
        found.gone = len(self._unaccounted(unanswered))
        twice = len(self._fleet.query(GAMES_STORED_TWICE))
        found.twice += twice
        [(unreadable,)] = self._fleet.query("SELECT count(*) FROM unreadable_games")
        for count, problem in (
            (found.gone, "finished games are neither stored nor unfinished"),
            (twice, "games are stored under two uids"),
            (unreadable, "stored games do not replay"),
        ):
            if count:
                found.broken.append(f"{count} {problem}")
        return found


def _has_stepped(beats: Sequence[Heartbeat], steps: dict[str, int]) -> bool:
    """Return whether a trainer has made steps since its first heartbeat here.

    Args:
        beats: current heartbeats of all services.
        steps: progress at the first heartbeat by trainer process. New trainers are added.
    """
    trainers = [beat for beat in beats if beat.service == "trainer"]
    return any(beat.progress > steps.setdefault(beat.worker, beat.progress) for beat in trainers)
