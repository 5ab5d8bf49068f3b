"""The training window: recent games in commit order, and the number of samples that they allow.

New positions add samples to the train bucket, as in KataGo (Wu 2019 and its later training
scripts). Without this limit, a trainer that is faster than self-play would overfit a few games.
``Demand`` measures how fast the trainer could draw samples, which determines how much self-play it
needs.
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

from zerofleet.config import RunConfig
from zerofleet.database import StoredGame, WindowBlocker, WindowGames, add_to_buffer
from zerofleet.database.metrics import Split
from zerofleet.database.window_games import OptionalColumn
from zerofleet.errors import StoreUnavailableError
from zerofleet.fleet.figures import DemandFigures
from zerofleet.learning.learner import Learner
from zerofleet.learning.measurement import TracedBatch, TrainBatch
from zerofleet.learning.overfit import OverfitWatch
from zerofleet.learning.restarts import RestartBuffer
from zerofleet.learning.schedule import held_out_limit, window_limit
from zerofleet.records import is_held_out

PAGE_GAMES = 512
_FIRST_PAGE_GAMES = 16
# Approximate rows of search tables in a page: 14 bytes each, 22 where a target is not the visit
# counts. Postgres makes one value of each column, twice as long in text, and would refuse 19x19
# games in the number of a page of 9x9 games.
PAGE_ENTRIES = 4_000_000
_BLOCKER_LOOK_SECONDS = 5.0
# Publishing is part of the work: the demand's window should include several publications.
_DEMAND_SECONDS = 600.0
_DEMAND_EVERY_SECONDS = 5.0

_log = structlog.get_logger()


@dataclass(slots=True)
class TrainBucket:
    """Samples that may still be drawn.

    Args:
        samples_per_position: samples that one new position allows.
        samples: allowed and not yet drawn.
        received: positions that have been added since the run began.
        drawn: samples drawn since the run began.
        pace: share of these that a new position currently allows, set by the overfit watch.
        least_samples_per_position: samples that it allows, if that is less, while the trainer is
            behind.
        behind: positions; the trainer is behind while the bucket holds the samples of this many.
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
        """Samples that a new position currently allows, unless the trainer is behind."""
        return self.samples_per_position * self.pace

    def pay(self, positions: int, *, given: bool = False) -> None:
        """Add new positions.

        Args:
            positions: their number.
            given: whether the run did not play them. It gets them all at once, so a trainer that
                is behind by them is no reason for fewer samples.
        """
        rate = self.rate
        if self.samples >= self.behind * rate and not given:
            rate = min(rate, self.least_samples_per_position * self.pace)
        self.samples += positions * rate
        self.received += positions

    def limit(self, window_positions: int, batch_size: int) -> None:
        """Drop samples from positions that have left the window by now.

        Otherwise a trainer that was behind would draw these samples from newer positions, more
        often than they allow. One batch may always be saved up: a small window that allows few
        samples, as while the trainer is slowed down, must not stop training forever.
        """
        self.samples = min(self.samples, max(window_positions * self.rate, float(batch_size)))

    def slow(self, pace: float) -> None:
        """Let positions allow only this share, including those whose samples are not drawn yet."""
        self.samples *= pace / self.pace
        self.pace = pace

    def full_pace(self) -> None:
        """Let new positions allow all their samples; the samples in the bucket stay."""
        self.pace = 1.0

    def holds(self, batch_size: int) -> bool:
        """Return whether the bucket holds a batch."""
        return self.samples >= batch_size

    def draw(self, batch_size: int) -> None:
        """Take the samples of one batch."""
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
    """The state at one time."""

    seconds: float
    waited: float  # total seconds before
    drawn: int
    received: int


class Demand:
    """How fast the trainer could train if it never waited for positions; over the last ten minutes.

    Args:
        bucket: counts positions and samples.
        clock: seconds that never go back.
    """

    def __init__(self, bucket: TrainBucket, clock: Callable[[], float] = time.monotonic) -> None:
        self._bucket = bucket
        self._clock = clock
        self._marks: deque[_Mark] = deque()
        self._waited = 0.0
        self._waiting_since: float | None = None
        self._samples_per_second = 0.0  # last known value

    def turn(self, *, hungry: bool) -> None:
        """Call this once for each round of the loop.

        Args:
            hungry: whether positions are missing: the time until the next call counts as waiting.
        """
        now = self._clock()
        if self._waiting_since is not None:
            self._waited += now - self._waiting_since
        self._waiting_since = now if hungry else None
        if not self._marks or now - self._marks[-1].seconds >= _DEMAND_EVERY_SECONDS:
            self._marks.append(self._mark(now))
            while now - self._marks[0].seconds > _DEMAND_SECONDS:
                self._marks.popleft()
            self._update_speed(self._marks[-1])

    def figures(self) -> DemandFigures:
        """Return the current figures."""
        target = self._bucket.rate
        if not self._marks:
            return DemandFigures(reuse_target=target)
        first, last = self._marks[0], self._mark(self._clock())
        self._update_speed(last)
        seconds, received = last.seconds - first.seconds, last.received - first.received
        return DemandFigures(
            reuse_target=target,
            wait_share=(last.waited - first.waited) / seconds if seconds > 0 else None,
            reuse=(last.drawn - first.drawn) / received if received > 0 else None,
            samples_per_second=self._samples_per_second or None,
        )

    def _update_speed(self, last: _Mark) -> None:
        """Update the speed if a batch was drawn in the window; otherwise the last one stays."""
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
    paid_tx: int = 0  # games up to this transaction are counted in the bucket


class Window:
    """The games that training samples from, and the validation games that it never does.

    Args:
        run: game, sizes and the share of validation games.
        database: source of the games.
        training: its bucket counts new positions.
        given: positions of games that the run did not play and begins with.
    """

    def __init__(
        self, run: RunConfig, database: WindowGames, training: Training, given: int = 0
    ) -> None:
        self._settings = settings = run.trainer
        self._given = given
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
        targets = list(training.learner.network.shapes.drawn_targets)
        self._optional_columns = optional_columns(run, targets)
        self.restarts = RestartBuffer() if run.selfplay.restart_share else None
        """Where the player was most wrong; None: games do not restart."""
        self.trained = empty_buffer(run, settings.window_positions, targets)
        self._least_held_out = run.overfit.min_positions
        most_held_out = held_out_limit(settings, settings.window_positions, self._least_held_out)
        self.held_out = empty_buffer(run, most_held_out)

    @property
    def limit(self) -> int:
        """Return the most positions to sample from now, as far as the window has grown."""
        return window_limit(self._settings, self._training.bucket.received, self._given)

    def sample(self, batch_size: int, seed: int) -> TrainBatch:
        """Draw positions for training, under random symmetries if the run file says so.

        Args:
            seed: equal windows and seeds give equal batches.
        """
        return draw(self.trained, batch_size, seed, symmetry=self._settings.augment)

    def trace(self, split: Split, batch_size: int, seed: int) -> TracedBatch | None:
        """Draw positions for a measurement, as they were played; None if there are none."""
        return trace(self.trained if split == "train" else self.held_out, batch_size, seed)

    def observations(self, split: Split, positions: int, seed: int) -> NDArray[np.uint8] | None:
        """Draw observations ``[positions, bytes]``; None if there are fewer.

        Training positions come under random symmetries if the run file says so, as they do in
        training; validation positions come as they were played.
        """
        training = split == "train"
        buffer = self.trained if training else self.held_out
        if buffer.positions < positions:
            return None
        symmetry = training and self._settings.augment
        return buffer.sample(positions, seed, symmetry=symmetry)[0]

    def read_page(self) -> bool:
        """Read the next games, if there are any, and add new positions to the train bucket.

        A game that cannot be read or does not replay under the rules is left out and recorded: see
        ``record_rejections``.

        Returns:
            Whether there was a page; all of its games may have been rejected before.

        Raises:
            StoreUnavailableError: nothing was read; the next call reads a smaller page.
        """
        games = min(self._page_games, PAGE_GAMES)
        try:
            page = self._database.read_games(self._run, self.next_tx, games, self._optional_columns)
        except StoreUnavailableError:
            # Postgres may have run out of memory for a page of large games: read fewer.
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
        """Record in the database which games were left out; repeated until each is recorded.

        Raises:
            StoreUnavailableError: games that are not recorded yet are kept.
        """
        while self._rejections:
            game_uid, reason = self._rejections[-1]
            self._database.reject_game(self._run, game_uid, reason)
            self._rejections.pop()

    def _take(self, game: StoredGame, *, pays: bool) -> None:
        """Add one game to its split; the window grows first, so that it does not drop too much.

        Games counted before a restart are among ``received`` already, and the games that they had
        pushed out of the window leave it again: see ``schedule.window_limit``.
        """
        bucket = self._training.bucket
        if is_held_out(game.game_uid, self._settings.held_out_share):
            self._add(self.held_out, game)
            self._bound_held_out()
            return
        coming = int(np.count_nonzero(game.full_search)) if pays else 0
        self._bound(bucket.received + coming)
        positions = self._add(self.trained, game)
        if positions:
            self._note_regrets(game)
        if pays:
            bucket.pay(positions, given=game.given)
        if pays and positions != coming:
            self._bound(bucket.received)

    def _note_regrets(self, game: StoredGame) -> None:
        if self.restarts is None or game.start or game.given:
            return
        assert game.to_play is not None
        assert game.root_value is not None
        self.restarts.add(game.action, game.to_play, game.root_value, game.full_search, game.result)

    def _bound(self, received: int) -> None:
        if self._settings.growing_window:
            limit = window_limit(self._settings, received, self._given)
            self.trained.set_max_positions(limit)

    def _bound_held_out(self) -> None:
        """Let validation games reach as far back as the window, before which older models played.

        The figures of both splits are compared, so they must be from the same time.
        """
        kept = self.trained.positions
        if kept < self.trained.total_positions:
            limit = held_out_limit(self._settings, kept, self._least_held_out)
            self.held_out.set_max_positions(limit)

    def _add(self, buffer: ReplayBuffer, game: StoredGame) -> int:
        """Add one game; return its number of positions."""
        try:
            return add_to_buffer(buffer, game)
        except ValueError as error:
            self._reject(game.game_uid, str(error))
            return 0

    def _reject(self, game_uid: UUID, reason: str) -> None:
        self.rejected += 1
        self._rejections.append((game_uid, reason))
        _log.warning("game_rejected", game_uid=str(game_uid), reason=reason)


def empty_buffer(run: RunConfig, most_positions: int, targets: Sequence[str] = ()) -> ReplayBuffer:
    """Return the buffer of a run before its first game.

    Validation positions are drawn by the same rules as training positions, because their losses are
    compared.

    Args:
        run: its game, the window's limit in games and lambda.
        most_positions: the limit in positions.
        targets: targets in addition to policy and value, which only training positions need.
    """
    settings = run.trainer
    return ReplayBuffer(
        run.game.name,
        most_positions,
        settings.window_games,
        value_lambda=settings.value_lambda,
        auxiliary=list(targets),
    )


def optional_columns(run: RunConfig, targets: Sequence[str] = ()) -> tuple[OptionalColumn, ...]:
    """Return the optional columns that this run's targets and restarts need."""
    restarts = bool(run.selfplay.restart_share)
    needed: dict[OptionalColumn, bool] = {
        "to_play": restarts,
        "root_value": restarts or run.trainer.value_lambda < 1 or "root_value" in targets,
        "priors": "search_surprise" in targets,
    }
    return tuple(name for name, is_needed in needed.items() if is_needed)


def draw(buffer: ReplayBuffer, batch_size: int, seed: int, *, symmetry: bool) -> TrainBatch:
    """Draw positions to train on, with the auxiliary targets that the buffer has."""
    if buffer.auxiliary_width:
        return buffer.sample_with_auxiliary(batch_size, seed, symmetry=symmetry)
    return buffer.sample(batch_size, seed, symmetry=symmetry)


def trace(buffer: ReplayBuffer, batch_size: int, seed: int) -> TracedBatch | None:
    """Draw positions for a measurement, as they were played; None if there are none."""
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


def _next_page_games(page_games: int, games: Sequence[StoredGame]) -> int:
    """Return the number of games for the next page; it grows slowly, as games may grow longer."""
    entries = sum(int(game.offsets[-1]) for game in games)
    if entries == 0:
        return page_games
    return max(1, min(4 * page_games, PAGE_ENTRIES * len(games) // entries))


def sample_seed(seed: int, purpose: str, step: int) -> int:
    """Derive the seed of one draw from the run's, so that a resumed trainer repeats its draws."""
    text = f"{seed}/{purpose}/{step}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
