"""Which variant plays fp32 of its own model, while no candidate waits."""

from __future__ import annotations

import asyncio

import structlog

from services.evaluator.office import Office
from services.evaluator.variant_match import VariantMatch
from services.evaluator.variants import due_version
from zerofleet.client import AsyncModel
from zerofleet.errors import IncompatibleModelError, RecordRejectedError

_log = structlog.get_logger()


class VariantDuty:
    """Plays the matches between precisions that a run lacks, one after the other.

    Which one is due follows from the rows, so another evaluator, or the next life of this one, goes
    on with it.

    Args:
        office: of this evaluator.
        model: the run's, at the inference service.
        go: cleared while games in play have to wait.
    """

    def __init__(self, office: Office, model: AsyncModel, go: asyncio.Event) -> None:
        self._office = office
        self._model = model
        self._go = go
        self._accepted: dict[int, frozenset[str]] = {}  # by version; they never change
        self._left_out: set[tuple[str, int]] = set()
        self._match: VariantMatch | None = None  # the last one
        self._games_before = 0  # played in the matches before that
        self.at_play = False

    @property
    def games_played(self) -> int:
        """Stored by this process."""
        return self._games_before + (self._match.games_played if self._match else 0)

    @property
    def figures(self) -> dict[str, float]:
        """Of the last match."""
        in_play = {"variant_in_play": float(self.at_play)}
        return {} if self._match is None else {**self._match.figures, **in_play}

    async def play_some(self) -> bool:
        """Play the match that is due, to its verdict; see ``Duty``."""
        for precision in self._office.run.precision.variants:
            version = await self._due(precision)
            if version is not None and (precision, version) not in self._left_out:
                await self._play(precision, version)
                return True
        return False

    async def _due(self, precision: str) -> int | None:
        office, name = self._office, self._office.run.name
        every = office.run.precision.match_every
        if every == 0:
            return None
        chain = await office.ask(office.database.promotions, name)
        promoted = [promotion.version for promotion in reversed(chain)]
        for version in promoted:
            if version not in self._accepted:
                self._accepted[version] = await self._worth_judging(version)
        verdict = await office.ask(office.database.variant_verdict, name, precision)
        accepted = {version for version in promoted if precision in self._accepted[version]}
        return due_version(promoted, accepted, verdict.version if verdict else None, every)

    async def _worth_judging(self, version: int) -> frozenset[str]:
        """The precisions whose accepted variant of this version says something of its strength.

        An untrained network answers about the same for everything, in any precision.
        """
        office, name = self._office, self._office.run.name
        model = await office.ask(office.database.model, name, version)
        if model is None or model.step == 0:
            return frozenset()
        rows = await office.ask(office.database.variants, name, version)
        return frozenset(row.precision for row in rows if row.accepted)

    async def _play(self, precision: str, version: int) -> None:
        """A variant that cannot be used holds nothing up: it has no verdict, and is left out."""
        self._games_before = self.games_played
        self._match = VariantMatch(self._office, precision, version)
        self.at_play = True
        try:
            await self._match.play(self._model, self._go)
        except (IncompatibleModelError, RecordRejectedError) as error:
            self._left_out.add((precision, version))
            _log.error("variant_left_out", precision=precision, version=version, reason=str(error))
        finally:
            self.at_play = False
