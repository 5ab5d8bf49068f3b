"""The games of one engine as the fleet knows them: uid, start, epoch, plies already saved."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from zerofleet_core import GameColumns

from zerofleet.records import GameRecord, new_game_uid


@dataclass(slots=True)
class _Identity:
    game_uid: UUID
    started_at: datetime
    epoch: int = 0  # grows when another worker adopts the game
    saved_plies: int = 0  # a crash now would lose the plies above these
    ours: bool = True


class GamesInPlay:
    """Maps an engine's game ids to identities that last as long as the game, wherever it goes on.

    The engine numbers games as they start, and adopted ones as they are queued; a free slot takes
    the next adopted game, or starts a new one.

    Args:
        game: name of the game.
        slots: games that the engine plays at once.
    """

    def __init__(self, game: str, slots: int) -> None:
        self.slots = slots
        self._game = game
        self._identities: dict[int, _Identity] = {}
        self._next_id = 0
        self._free_slots = slots
        self._queued = 0  # adopted games without a slot
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

    def begin(self, now: datetime) -> None:
        """Every free slot has begun a game; to be called after each ``select``."""
        while self._free_slots > 0:
            if self._queued > 0:
                self._queued -= 1
                self._free_slots -= 1
            else:
                self._open(now)

    def adopt(self, game_id: int, record: GameRecord, epoch: int) -> None:
        """A game that another worker began is ours now, under its own uid and start."""
        self._identities[game_id] = _Identity(
            record.game_uid, record.started_at, epoch, record.length
        )
        self._next_id = max(self._next_id, game_id + 1)
        self._queued += 1

    def renew(self, game_uid: UUID, epoch: int) -> bool:
        """A game that this engine plays already was adopted anew: its epoch has grown."""
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

        False: it is finished, and the database will say whose record counts; or it was adopted
        anew meanwhile, by this worker itself.
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
        while game.game_id >= self._next_id:
            self._open(now)  # it began since the last ``begin``
        identity = self._identities.pop(game.game_id)
        self._free_slots += 1
        return (self._record(game, identity, now), identity.epoch) if identity.ours else None

    def _open(self, now: datetime) -> None:
        self._identities[self._next_id] = _Identity(new_game_uid(now - self.clock_ahead), now)
        self._next_id += 1
        self._free_slots -= 1

    def _record(
        self, game: GameColumns, identity: _Identity, finished_at: datetime | None
    ) -> GameRecord:
        return GameRecord(identity.game_uid, self._game, game, identity.started_at, finished_at)
