"""Self-play in a simulation: pods that play, finish games, are taken away and go on elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.scale_batches import Cost, Served, served

_COHORTS = 8  # groups of games of a worker that move on alike
_LOOKS = 6  # ticks that a worker's figures reach back
_STREAM_SECONDS = (240.0, 360.0)  # a stream is opened anew, perhaps to another replica


@dataclass(frozen=True, slots=True)
class Play:
    """What a worker is, and what its games are."""

    rows_per_second: float = 4_000.0
    """That its core could search: a quarter of a core."""
    message_rows: int = 256
    games: int = 512
    rows_per_ply: float = 50.0
    """Simulations of a ply, full and fast ones, less what cache and kept tree spare."""
    positions_per_ply: float = 0.25 * 0.95
    """Full searches, less what is held out."""
    plies: float = 60.0
    spread: float = 15.0
    """Standard deviation of a game's plies."""

    @property
    def think(self) -> float:
        """Seconds of its core for a message."""
        return self.message_rows / self.rows_per_second

    @property
    def positions_per_second(self) -> float:
        """Of a worker that never waits for inference."""
        return self.rows_per_second / self.rows_per_ply * self.positions_per_ply


class Fleet:
    """Pods in slots of arrays; a slot is free, or has a pod that plays.

    Args:
        play: what each does.
        cost: of a batch of inference.
        most: slots.
        random: all chance comes from here.
    """

    def __init__(self, play: Play, cost: Cost, most: int, random: np.random.Generator) -> None:
        self._play, self._cost, self._random = play, cost, random
        self.runs = np.zeros(most, dtype=bool)
        self._ply = np.zeros((most, _COHORTS))
        self._length = np.zeros((most, _COHORTS))
        self._made = np.zeros((_LOOKS, most))  # positions, of the last ticks
        self._newest = 0
        self._age = np.zeros(most, dtype=np.int64)  # ticks
        self._replica = np.zeros(most, dtype=np.int64)
        self._renewed_at = np.zeros(most)
        self._next_replica = 0
        self._saved: list[tuple[float, float]] = []  # plies and length of cohorts nobody plays
        self.replicas = 1
        self.paused = False
        self.positions_made = 0.0
        self.positions_lost = 0.0
        self.rows_per_second = self.filled = self.waited = 0.0
        self._solved: tuple[bytes, Served] | None = None  # the last, for it is often the same

    @property
    def workers(self) -> int:
        """Pods that play."""
        return int(self.runs.sum())

    def start(self, now: float) -> bool:
        """A pod is up: it goes on with saved games, and begins others; False: no slot is free."""
        free = np.flatnonzero(~self.runs)
        if not len(free):
            return False
        slot = free[0]
        self.runs[slot] = True
        self._age[slot] = 0
        self._made[:, slot] = 0.0
        for cohort in range(_COHORTS):
            saved = self._saved.pop() if self._saved else (0.0, self._new_length())
            self._ply[slot, cohort], self._length[slot, cohort] = saved
        self._open(np.array([slot]), now)
        return True

    def stop(self, pods: int, lost_plies: float) -> None:
        """Pods go; their games are saved, but for the last plies of each.

        Args:
            pods: chosen by chance.
            lost_plies: half of one after SIGTERM (the search that was going on), after SIGKILL half
                of what is played between two saves.
        """
        running = np.flatnonzero(self.runs)
        for slot in self._random.choice(running, min(pods, len(running)), replace=False):
            self.runs[slot] = False
            lost = np.minimum(self._ply[slot], lost_plies)
            games = self._play.games / _COHORTS
            self.positions_lost += float(lost.sum()) * games * self._play.positions_per_ply
            kept = zip(self._ply[slot] - lost, self._length[slot], strict=True)
            self._saved += [(float(ply), float(length)) for ply, length in kept]

    def lose_replica(self, now: float) -> None:
        """One replica is gone; its streams are opened anew."""
        self.replicas = max(1, self.replicas - 1)
        self._open(np.flatnonzero(self.runs & (self._replica >= self.replicas)), now)

    def tick(self, now: float, seconds: float) -> float:
        """Play on; the positions of the games that ended."""
        due = np.flatnonzero(self.runs & (now >= self._renewed_at))
        gone = np.flatnonzero(self.runs & (self._replica >= self.replicas))
        self._open(np.union1d(due, gone), now)
        rate = np.zeros(len(self.runs))  # rows a second
        if not self.paused:
            rate = self._served()
        plies = rate / self._play.rows_per_ply * seconds
        self._newest = (self._newest + 1) % _LOOKS
        self._made[self._newest] = plies * self._play.positions_per_ply
        self._age += self.runs
        self.positions_made += float(self._made[self._newest].sum())
        self._ply += (plies / self._play.games)[:, None]
        ended = self.runs[:, None] & (self._ply >= self._length)
        count = int(ended.sum())
        if not count:
            return 0.0
        games = self._play.games / _COHORTS
        positions = float(self._length[ended].sum()) * games * self._play.positions_per_ply
        self._ply[ended] -= self._length[ended]
        self._length[ended] = self._new_lengths(count)
        for slot, cohort in np.argwhere(ended)[: len(self._saved)]:
            self._ply[slot, cohort], self._length[slot, cohort] = self._saved.pop()
        return positions

    def positions_per_second(self, tick_seconds: float) -> float:
        """As the heartbeats of all say: over half a minute, or a pod's age."""
        looks = np.clip(self._age, 1, _LOOKS)
        return float((self._made.sum(axis=0) / looks)[self.runs].sum()) / tick_seconds

    def _served(self) -> np.ndarray:
        """Rows a second of each pod; also keeps what inference says of itself."""
        on = self._replica[self.runs]
        workers = np.bincount(on, minlength=self.replicas).astype(np.float64)
        rows = self._play.message_rows
        found = self._solve(workers)
        messages = found.messages * (workers > 0)
        per_worker = messages * rows / np.maximum(workers, 1.0)
        self.rows_per_second = float(messages.sum()) * rows
        weights = messages * rows
        self.filled = float((weights * found.batch_rows).sum()) / self._cost.max_rows
        self.waited = float((weights * found.wait / found.compute).sum())
        rate = np.zeros(len(self.runs))
        rate[self.runs] = per_worker[on] * self._random.normal(1.0, 0.02, len(on))
        return rate

    def _solve(self, workers: np.ndarray) -> Served:
        key = workers.tobytes()
        if self._solved is None or self._solved[0] != key:
            play = self._play
            self._solved = key, served(workers, play.think, play.message_rows, self._cost)
        return self._solved[1]

    def _open(self, slots: np.ndarray, now: float) -> None:
        """Streams go round over the replicas."""
        if not len(slots):
            return
        turn = self._next_replica + np.arange(len(slots))
        self._replica[slots] = turn % self.replicas
        self._next_replica = int((turn[-1] + 1) % self.replicas)
        self._renewed_at[slots] = now + self._random.uniform(*_STREAM_SECONDS, len(slots))

    def _new_length(self) -> float:
        return float(self._new_lengths(1)[0])

    def _new_lengths(self, count: int) -> np.ndarray:
        drawn = self._random.normal(self._play.plies, self._play.spread, count)
        return np.maximum(drawn, 5.0)
