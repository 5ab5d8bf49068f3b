"""The training window: recent games in commit order, and how much training they have paid for.

New positions pay for samples in the train bucket, as in KataGo (Wu 2019 and its later training
scripts). Without this limit, a trainer that is faster than self-play would overfit a few games.
``Demand`` measures how fast the trainer could draw samples, which determines how much self-play
it needs.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import structlog
from numpy.typing import NDArray
from zerofleet_core import ReplayBuffer

from zerofleet.config import RunConfig, TrainerSection
from zerofleet.database import Database, StoredGame, WindowBlocker
from zerofleet.database.metrics import Split
from zerofleet.database.window_games import AskedColumn
from zerofleet.errors import StoreUnavailableError
from zerofleet.fleet.figures import DemandFigures
from zerofleet.learning.learner import Learner
from zerofleet.learning.measurement import TracedBatch, TrainBatch
from zerofleet.learning.overfit import OverfitWatch
from zerofleet.learning.schedule import held_out_limit, window_limit
from zerofleet.records import is_held_out

PAGE_GAMES = 512
_FIRST_PAGE_GAMES = 16
# Rows of search tables in a page, about: 14 bytes each, 22 where a target is not the visit counts.
# Postgres makes one value of each column, twice as long in text, and would refuse the games of
# 19x19 that are a page of 9x9.
PAGE_ENTRIES = 4_000_000
_BLOCKER_LOOK_SECONDS = 5.0
# A publication is part of its work: the demand's window should hold several of them.
_DEMAND_SECONDS = 600.0
_DEMAND_EVERY_SECONDS = 5.0

_log = structlog.get_logger()


@dataclass(slots=True)
class TrainBucket:
    """Samples that may still be drawn.

    Args:
        samples_per_position: what one new position pays for.
        samples: paid for and not yet drawn.
        received: positions that have paid since the run began.
        drawn: samples drawn since the run began.
        pace: share of all this that a new position pays for at present, by the overfit watch.
        least_samples_per_position: what it pays for, if that is less, while the trainer is behind.
        behind: positions; the trainer is behind while the bucket holds what so many pay for.
    """

    samples_per_position: float
    samples: float = 0.0
    received: int = 0
    drawn: int = 0
    pace: float = 1.0
    least_samples_per_position: float = math.inf
    behind: float = math.inf

    @property
    def rate(self) -> float:
        """Samples that a new position pays for at present, unless the trainer is behind."""
        return self.samples_per_position * self.pace

    def pay(self, positions: int) -> None:
        """Enter new positions."""
        rate = self.rate
        if self.samples >= self.behind * rate:
            rate = min(rate, self.least_samples_per_position * self.pace)
        self.samples += positions * rate
        self.received += positions

    def limit(self, window_positions: int, batch_size: int) -> None:
        """Drop what was paid for by positions that have left the window by now.

        Otherwise a trainer that was behind would spend it on newer positions, which would then be
        drawn more often than they paid for. One batch may always be saved up: a small window that
        pays little, as while the trainer is slowed down, must not stop training for ever.
        """
        self.samples = min(self.samples, max(window_positions * self.rate, float(batch_size)))

    def slow(self, pace: float) -> None:
        """Let positions pay for this share, those too whose samples are not drawn yet."""
        self.samples *= pace / self.pace
        self.pace = pace

    def full_pace(self) -> None:
        """Let new positions pay in full; what is in the bucket stays as it is."""
        self.pace = 1.0

    def holds(self, batch_size: int) -> bool:
        """Whether a batch is paid for."""
        return self.samples >= batch_size

    def draw(self, batch_size: int) -> None:
        """Take the samples of one batch out."""
        self.samples -= batch_size
        self.drawn += batch_size

    @property
    def reuse(self) -> float:
        """Samples drawn for each position received, so far."""
        return self.drawn / self.received if self.received else 0.0

    def missing_positions(self, batch_size: int) -> int:
        """New positions needed before the next batch."""
        return max(0, math.ceil((batch_size - self.samples) / self.rate))


@dataclass(frozen=True, slots=True)
class _Mark:
    """How things stood at one time."""

    seconds: float
    waited: float  # seconds, of all before
    drawn: int
    received: int


class Demand:
    """How fast the trainer could train if it never waited for positions; of the last ten minutes.

    Args:
        bucket: what was received and drawn.
        clock: seconds that never go back.
    """

    def __init__(self, bucket: TrainBucket, clock: Callable[[], float] = time.monotonic) -> None:
        self._bucket = bucket
        self._clock = clock
        self._marks: deque[_Mark] = deque()
        self._waited = 0.0
        self._waiting_since: float | None = None
        self._samples_per_second = 0.0  # the last that is known

    def turn(self, *, hungry: bool) -> None:
        """Once for each round of the loop.

        Args:
            hungry: whether it lacks positions: until the next call, time is waited.
        """
        now = self._clock()
        if self._waiting_since is not None:
            self._waited += now - self._waiting_since
        self._waiting_since = now if hungry else None
        if not self._marks or now - self._marks[-1].seconds >= _DEMAND_EVERY_SECONDS:
            self._marks.append(self._mark(now))
            while now - self._marks[0].seconds > _DEMAND_SECONDS:
                self._marks.popleft()
            self._learn(self._marks[-1])

    def figures(self) -> DemandFigures:
        """As things stand now."""
        target = self._bucket.rate
        if not self._marks:
            return DemandFigures(reuse_target=target)
        first, last = self._marks[0], self._mark(self._clock())
        self._learn(last)
        seconds, received = last.seconds - first.seconds, last.received - first.received
        return DemandFigures(
            reuse_target=target,
            wait_share=(last.waited - first.waited) / seconds if seconds > 0 else None,
            reuse=(last.drawn - first.drawn) / received if received > 0 else None,
            samples_per_second=self._samples_per_second or None,
        )

    def _learn(self, last: _Mark) -> None:
        """The speed of the window, if a batch was drawn in it; it is kept for when none is."""
        first = self._marks[0]
        drawn = last.drawn - first.drawn
        worked = last.seconds - first.seconds - (last.waited - first.waited)
        if drawn > 0 and worked > 0:
            self._samples_per_second = drawn / worked

    def _mark(self, now: float) -> _Mark:
        waiting = 0.0 if self._waiting_since is None else now - self._waiting_since
        return _Mark(now, self._waited + waiting, self._bucket.drawn, self._bucket.received)


@dataclass(slots=True)
class Training:
    """The state that a checkpoint holds, as the objects in use."""

    learner: Learner
    bucket: TrainBucket
    watch: OverfitWatch
    paid_tx: int = 0  # games up to this transaction have paid into the bucket


class Window:
    """The games that are sampled, and beside them the held-out ones that never are.

    Args:
        run: game, sizes and the held-out share.
        database: where games come from.
        training: whose bucket new positions pay into.
    """

    def __init__(self, run: RunConfig, database: Database, training: Training) -> None:
        self._settings = settings = run.trainer
        self._run = run.name
        self._game = run.game.name
        self._database = database
        self._training = training
        self._rejections: list[tuple[UUID, str]] = []
        self._page_games = _FIRST_PAGE_GAMES
        self.next_tx = 0
        self._next_look = 0.0  # by time.monotonic()
        self.blocker: WindowBlocker | None = None
        """The open transaction that keeps stored games from being read."""
        self.rejected = 0
        self._asked = asked_columns(settings)
        self.trained = empty_buffer(run, settings.window_positions)
        self._least_held_out = run.overfit.min_positions
        most_held_out = held_out_limit(settings, settings.window_positions, self._least_held_out)
        self.held_out = empty_buffer(run, most_held_out, held_out=True)

    @property
    def limit(self) -> int:
        """Most positions that are sampled now, as far as the window has grown."""
        return window_limit(self._settings, self._training.bucket.received)

    def sample(self, batch_size: int, seed: int) -> TrainBatch:
        """Draw positions to train on, under random symmetries if the run file says so.

        Args:
            batch_size: positions.
            seed: equal windows and seeds give equal batches.
        """
        return draw(self.trained, batch_size, seed, symmetry=self._settings.augment)

    def trace(self, split: Split, batch_size: int, seed: int) -> TracedBatch | None:
        """Draw positions to measure on, as they were played; None where there are none."""
        buffer = self.trained if split == "train" else self.held_out
        if not buffer.positions:
            return None
        drawn = buffer.sample_with_plies(batch_size, seed, symmetry=False)
        observations, policy_target, value_target, ply, game_length, game_index, result = drawn
        return TracedBatch(
            (observations, policy_target, value_target),
            ply,
            game_length,
            buffer.total_games - 1 - game_index,
            result,
        )

    def observations(self, split: Split, positions: int, seed: int) -> NDArray[np.uint8] | None:
        """Draw observations ``[positions, bytes]``; None where there are fewer.

        Those to train on come under random symmetries if the run file says so, as they do in
        training; held-out ones as they were played.
        """
        training = split == "train"
        buffer = self.trained if training else self.held_out
        if buffer.positions < positions:
            return None
        symmetry = training and self._settings.augment
        return buffer.sample(positions, seed, symmetry=symmetry)[0]

    def read_page(self) -> bool:
        """Read the next games, if there are any; new ones pay into the train bucket.

        A game that cannot be read or does not replay under the rules is left out and noted: see
        ``record_rejections``.

        Returns:
            Whether there was a page; all of its games may have been rejected before.

        Raises:
            StoreUnavailableError: nothing was read; the next call reads a smaller page.
        """
        games = min(self._page_games, PAGE_GAMES)
        try:
            page = self._database.read_games(self._run, self.next_tx, games, self._asked)
        except StoreUnavailableError:
            # Postgres may have run out of memory for a page of large games: ask for fewer.
            self._page_games = max(1, games // 2)
            raise
        was_page = page.next_tx > self.next_tx
        training = self._training
        for game_uid, reason in page.unreadable:
            self._reject(game_uid, reason)
        for game in page.games:
            self._take(game, pays=game.tx > training.paid_tx)
        self.next_tx = page.next_tx
        if page.next_tx > training.paid_tx:
            training.paid_tx = page.next_tx
            training.bucket.limit(self.trained.positions, self._settings.batch_size)
        self._page_games = _next_page_games(self._page_games, page.games)
        if was_page:
            self.blocker = None
        elif time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _BLOCKER_LOOK_SECONDS
            self.blocker = self._database.window_blocker(self._run)
        return was_page

    def record_rejections(self) -> None:
        """Tell the database which games were left out; repeated until it has heard of each.

        Raises:
            StoreUnavailableError: what is not told yet is kept.
        """
        while self._rejections:
            game_uid, reason = self._rejections[-1]
            self._database.reject_game(self._run, game_uid, reason)
            self._rejections.pop()

    def _take(self, game: StoredGame, *, pays: bool) -> None:
        """Add one game to its split; the window grows before it does, so as not to drop too much.

        Games that have paid before a restart are among ``received`` already, and what they had
        pushed out of the window leaves it again: see ``schedule.window_limit``.
        """
        bucket = self._training.bucket
        if is_held_out(game.game_uid, self._settings.held_out_share):
            self._add(self.held_out, game)
            self._bound_held_out()
            return
        coming = int(np.count_nonzero(game.full_search)) if pays else 0
        self._bound(bucket.received + coming)
        positions = self._add(self.trained, game)
        if pays:
            bucket.pay(positions)
        if pays and positions != coming:
            self._bound(bucket.received)

    def _bound(self, received: int) -> None:
        if self._settings.growing_window:
            self.trained.set_max_positions(window_limit(self._settings, received))

    def _bound_held_out(self) -> None:
        """Held-out games reach as far back as the window: older models played the ones before.

        The figures of both splits are compared, so they have to be of the same time.
        """
        kept = self.trained.positions
        if kept < self.trained.total_positions:
            limit = held_out_limit(self._settings, kept, self._least_held_out)
            self.held_out.set_max_positions(limit)

    def _add(self, buffer: ReplayBuffer, game: StoredGame) -> int:
        """Add one game; returns the positions it gives."""
        try:
            return buffer.add(
                game.action,
                game.result,
                game.full_search,
                game.offsets,
                game.legal_actions,
                game.policy_weights,
                root_value=game.root_value,
                priors=game.priors,
                resigned=game.resigned,
            )
        except ValueError as error:
            self._reject(game.game_uid, str(error))
            return 0

    def _reject(self, game_uid: UUID, reason: str) -> None:
        self.rejected += 1
        self._rejections.append((game_uid, reason))
        _log.warning("game_rejected", game_uid=str(game_uid), reason=reason)


def empty_buffer(run: RunConfig, most_positions: int, *, held_out: bool = False) -> ReplayBuffer:
    """Return the buffer that a run samples from, before its first game."""
    settings = run.trainer
    return ReplayBuffer(
        run.game.name,
        most_positions,
        settings.window_games,
        value_lambda=settings.value_lambda,
        auxiliary=[] if held_out else settings.drawn_targets,
    )


def asked_columns(settings: TrainerSection) -> tuple[AskedColumn, ...]:
    """The columns of a game that this run's targets and weights need besides those always read."""
    return ("root_value",) if settings.value_lambda < 1 else ()


def draw(buffer: ReplayBuffer, batch_size: int, seed: int, *, symmetry: bool) -> TrainBatch:
    """Draw positions to train on, with the auxiliary targets that the buffer has."""
    if buffer.auxiliary_width:
        return buffer.sample_with_auxiliary(batch_size, seed, symmetry=symmetry)
    return buffer.sample(batch_size, seed, symmetry=symmetry)


def _next_page_games(page_games: int, games: Sequence[StoredGame]) -> int:
    """How many games the next page should have: not many times more, for games may grow longer."""
    entries = sum(int(game.offsets[-1]) for game in games)
    if entries == 0:
        return page_games
    return max(1, min(4 * page_games, PAGE_ENTRIES * len(games) // entries))


def sample_seed(seed: int, purpose: str, step: int) -> int:
    """Derive the seed of one draw from the run's seed: a resumed trainer repeats its draws."""
    text = f"{seed}/{purpose}/{step}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
