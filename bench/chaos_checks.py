"""Conditions after each fault: the workers' ledger against Postgres, pointer, epochs, settling.

Every worker appends to the ledger the uid of each game that has ended, before Postgres hears of it,
and of each that Postgres has answered for, before it forgets the game.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg2

from bench.chaos_fleet import COMPUTING, NAME, SERVICES, WORKERS, HurtFleet, let_others_pass
from tests.support.databases import GAMES_STORED_TWICE
from zerofleet.best_pointer import BestPointer
from zerofleet.database import Promotion
from zerofleet.errors import ZerofleetError
from zerofleet.fleet.heartbeat import Heartbeat, Heartbeats
from zerofleet.games import spec
from zerofleet.models.folder import ModelFolder
from zerofleet.models.session import ModelSession

_MORE_GAMES = 10
_SELFPLAY = "SELECT game_uid::text FROM games WHERE kind = 'selfplay'"


@dataclass
class Ledger:
    """The workers' notes so far; a file that grows."""

    path: Path
    stored: Counter[str] = field(default_factory=Counter[str])
    """How often Postgres answered that it has stored a game now."""
    finished: set[str] = field(default_factory=set[str])
    answered: set[str] = field(default_factory=set[str])
    _read: int = 0

    def read(self) -> None:
        """Take in the lines that are new; a half one waits for its other half."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            lines, newline, _ = file.read().rpartition(b"\n")
        self._read += len(lines) + len(newline)
        for line in lines.decode().splitlines():
            uid, what, *_ = line.split()
            if what == "finished":
                self.finished.add(uid)
                continue
            self.answered.add(uid)
            if what == "stored":
                self.stored[uid] += 1

    def has_answered(self, uids: set[str]) -> bool:
        """Whether Postgres has answered for all of these games by now."""
        self.read()
        return uids <= self.answered

    def begin_anew(self, stored: set[str]) -> None:
        """An older state of Postgres was restored: it answers for these games and no others."""
        self.stored = Counter(stored)
        self.finished, self.answered = set(stored), set(stored)


@dataclass
class Found:
    """Findings of one look at the fleet."""

    stored: int = 0
    missing: int = 0
    """Acknowledged, and not stored."""
    twice: int = 0
    """Acknowledged as stored more than once, or stored under two uids."""
    gone: int = 0
    """Finished and never acknowledged, neither stored nor unfinished."""
    broken: list[str] = field(default_factory=list[str])
    """Every promise that does not hold, in words."""


class Watch:
    """Watches one fleet from fault to fault."""

    def __init__(self, fleet: HurtFleet) -> None:
        self._fleet = fleet
        self.ledger = Ledger(fleet.ledger)
        self._seq = 0
        self._epochs: dict[str, int] = {}
        self._told_twice = 0
        self._missed: set[str] = set()

    def begin_anew(self) -> None:
        """An older state of Postgres was restored, with its promotions and epochs."""
        stored = {uid for (uid,) in self._fleet.query(_SELFPLAY)}
        self.ledger.read()  # afterwards: what is acknowledged in between is not counted at all
        self.ledger.begin_anew(stored)
        self._seq, self._epochs, self._told_twice, self._missed = 0, {}, 0, set()

    def settle(self, seconds: float) -> tuple[float, str]:
        """Wait until games come in again, the trainer steps and nothing waits to be stored.

        Returns:
            Seconds that it took, and what was not there in the end; empty when all was.
        """
        began = time.monotonic()
        self.ledger.read()
        games = self.ledger.stored.total()
        waiting = self.ledger.finished - self.ledger.answered
        steps: dict[str, int] = {}
        lacks = "nothing was looked at"
        while (took := time.monotonic() - began) < seconds:
            lacks = self._lacks(games, waiting, steps)
            if not lacks:
                return took, ""
            time.sleep(0.25)
        return took, lacks

    def _lacks(self, games: int, waiting: set[str], steps: dict[str, int]) -> str:
        fleet = self._fleet
        if fleet.has_ended:
            return "`up` has ended"
        running = {process: name for name in SERVICES for process in fleet.processes(name)}
        if len(running) < len(SERVICES) - 1 + WORKERS:
            return f"only {sorted(running.values())} run"
        let_others_pass(process for process, name in running.items() if name in COMPUTING)
        self.ledger.read()
        more = self.ledger.stored.total() - games
        if more < _MORE_GAMES:
            return f"{more} games came in"
        try:
            beats = self._heartbeats()
            heard = {int(beat.worker.rpartition("-")[2]) for beat in beats}
            if silent := [name for each, name in running.items() if each.pid not in heard]:
                return f"no heartbeat of {silent[0]}"
            if not _trainer_steps(beats, steps):
                return "the trainer does not step"
            head = fleet.query("SELECT max(seq) FROM promotions WHERE run = %s", NAME)[0][0]
            pointer = self._pointer()
            if pointer is None or pointer.seq != head:
                return f"the pointer is not at promotion {head}"
            left = self._unaccounted(waiting - self.ledger.answered)
        except (psycopg2.Error, ZerofleetError, KeyError) as error:
            return f"{type(error).__name__}: {error}"
        return f"{len(left)} finished games are neither stored nor unfinished" if left else ""

    def _heartbeats(self) -> list[Heartbeat]:
        with contextlib.closing(Heartbeats(self._fleet.urls()["redis"], NAME)) as heartbeats:
            return heartbeats.read()

    def _pointer(self) -> Promotion | None:
        with contextlib.closing(BestPointer(self._fleet.urls()["redis"], NAME)) as pointer:
            return pointer.get()

    def _unaccounted(self, uids: set[str]) -> set[str]:
        """Return the games among these that Postgres has neither stored nor unfinished."""
        known = self._fleet.query(
            "SELECT game_uid::text FROM games WHERE game_uid = ANY(%s::uuid[]) UNION "
            "SELECT game_uid::text FROM unfinished_games WHERE game_uid = ANY(%s::uuid[])",
            list(uids),
            list(uids),
        )
        return uids - {uid for (uid,) in known}

    def check(self) -> Found:
        """Compare; the fleet runs meanwhile."""
        self.ledger.read()  # before Postgres is asked: games come in all the time
        found = Found()
        stored = {uid for (uid,) in self._fleet.query(_SELFPLAY)}
        found.stored = len(stored)
        missed = self.ledger.stored.keys() - stored
        found.missing = len(missed - self._missed)
        self._missed |= missed
        told_twice = sum(count > 1 for count in self.ledger.stored.values())
        found.twice = told_twice - self._told_twice
        self._told_twice = told_twice
        for count, what in (
            (found.missing, "acknowledged games are not stored"),
            (found.twice, "games were acknowledged as new twice"),
        ):
            if count:
                found.broken.append(f"{count} {what}")
        found.broken += self._fallen_epochs() + self._wrong_pointer()
        return found

    def _fallen_epochs(self) -> list[str]:
        rows = self._fleet.query(
            "SELECT role, epoch FROM fences UNION ALL "
            "SELECT game_uid::text, epoch FROM unfinished_games"
        )
        epochs = dict(rows)
        fallen = [key for key, epoch in epochs.items() if epoch < self._epochs.get(key, 0)]
        self._epochs = epochs
        return [f"the epoch of {key} fell" for key in fallen]

    def _wrong_pointer(self) -> list[str]:
        rows = self._fleet.query(
            "SELECT p.seq, m.sha256 FROM promotions p JOIN models m USING (run, version) "
            "WHERE run = %s ORDER BY seq DESC LIMIT 1",
            NAME,
        )
        sha256s, wrong = {sha256 for _, sha256 in rows}, []
        best = self._pointer()
        if best is not None:
            sha256s.add(best.sha256)
            if best.seq < self._seq:
                wrong.append(f"the pointer moved back from {self._seq} to {best.seq}")
            self._seq = max(self._seq, best.seq)
        folder = ModelFolder(self._fleet.data / "models", NAME)
        for sha256 in sha256s:
            try:
                ModelSession(folder.read_verified(sha256), spec(NAME))
            except Exception as error:  # whatever it is, it is the finding
                wrong.append(f"the model {sha256} does not load: {error}")
        return wrong

    def check_at_the_end(self) -> Found:
        """Compare what is left when nothing plays any more; the stores run."""
        found = self.check()
        unanswered = self.ledger.finished - self.ledger.answered
        found.gone = len(self._unaccounted(unanswered))
        twice = len(self._fleet.query(GAMES_STORED_TWICE))
        found.twice += twice
        [(unread,)] = self._fleet.query("SELECT count(*) FROM unreadable_games")
        for count, what in (
            (found.gone, "finished games are neither stored nor unfinished"),
            (twice, "games are stored under two uids"),
            (unread, "stored games do not replay"),
        ):
            if count:
                found.broken.append(f"{count} {what}")
        return found


def _trainer_steps(beats: Sequence[Heartbeat], steps: dict[str, int]) -> bool:
    """Whether a trainer has made progress since it was first looked at; notes the first looks."""
    trainers = [beat for beat in beats if beat.service == "trainer"]
    return any(beat.progress > steps.setdefault(beat.worker, beat.progress) for beat in trainers)
