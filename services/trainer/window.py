"""The recent games: read in the order their transactions were decided, rebuilt into positions."""

from __future__ import annotations

import structlog
from zerofleet_core import ReplayBuffer

from services.trainer.state import Training
from zerofleet.config import RunConfig
from zerofleet.database import Database, StoredGame
from zerofleet.records import is_held_out

PAGE_GAMES = 512
HELD_OUT_POSITIONS = 50_000  # enough for figures; the bound is for memory

_log = structlog.get_logger()


class Window:
    """The games that are sampled, and beside them the held-out ones that never are.

    Args:
        run: game, sizes and the held-out share.
        database: where games come from.
        training: whose bucket new positions pay into.
    """

    def __init__(self, run: RunConfig, database: Database, training: Training) -> None:
        settings = run.trainer
        self._run = run.name
        self._share = settings.held_out_share
        self._database = database
        self._training = training
        self._rejections: list[tuple[StoredGame, str]] = []
        self.next_tx = 0
        self.rejected = 0
        self.trained = ReplayBuffer(run.game.name, settings.window_positions, settings.window_games)
        self.held_out = ReplayBuffer(run.game.name, HELD_OUT_POSITIONS, settings.window_games)

    def read_page(self) -> int:
        """Read the next games, if there are any, and let those pay that have not paid yet.

        A game that does not replay under the rules is left out and noted: see
        ``record_rejections``.

        Returns:
            Games read.

        Raises:
            StoreUnavailableError: nothing was read; the next call reads the same page.
        """
        page = self._database.read_games(self._run, self.next_tx, PAGE_GAMES)
        training = self._training
        for game in page.games:
            positions = self._add(game)
            if game.tx > training.paid_tx:
                training.bucket.pay(positions)
        self.next_tx = page.next_tx
        if page.next_tx > training.paid_tx:
            training.paid_tx = page.next_tx
            training.bucket.limit(self.trained.positions)
        return len(page.games)

    def record_rejections(self) -> None:
        """Tell the database which games were left out; repeated until it has heard of each.

        Raises:
            StoreUnavailableError: what is not told yet is kept.
        """
        while self._rejections:
            game, reason = self._rejections[-1]
            self._database.reject_game(self._run, game.game_uid, reason)
            self._rejections.pop()

    def _add(self, game: StoredGame) -> int:
        """Add one game; returns the positions it gives to train on."""
        held_out = is_held_out(game.game_uid, self._share)
        buffer = self.held_out if held_out else self.trained
        try:
            positions = buffer.add(
                game.actions,
                game.result,
                game.full_search,
                game.offsets,
                game.child_actions,
                game.child_visit_counts,
            )
        except ValueError as error:
            self.rejected += 1
            self._rejections.append((game, str(error)))
            _log.warning("game_rejected", game_uid=str(game.game_uid), reason=str(error))
            return 0
        return 0 if held_out else positions
