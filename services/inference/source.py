"""The stores' knowledge of a run's models: Redis for the best, Postgres for everything."""

from __future__ import annotations

from services.inference.repository import Promoted
from zerofleet.best import BestPointer
from zerofleet.database import Database
from zerofleet.errors import ModelNotFoundError, StoreUnavailableError


class StoredModels:
    """A ``ModelSource`` over both stores.

    The pointer in Redis is asked first because it is cheap; where Redis is away or empty, the
    ledger of promotions in Postgres says the same. The pointer may be that of another chain until
    the evaluator repairs it, so the repository believes ``promotions`` before it. A version never
    changes: it is looked up once.
    """

    def __init__(self, run: str, database: Database, pointer: BestPointer) -> None:
        self._run = run
        self._database = database
        self._pointer = pointer
        self._sha256: dict[int, str] = {}

    def best(self) -> Promoted | None:
        """See ``ModelSource``."""
        try:
            best = self._pointer.get()
        except StoreUnavailableError:
            best = None
        if best is not None:
            return Promoted(best.seq, best.version, best.sha256)
        head = self._database.promotion_head(self._run)
        return None if head is None else Promoted(head.seq, head.version, head.sha256)

    def promotions(self) -> list[Promoted]:
        """See ``ModelSource``."""
        return [
            Promoted(promotion.seq, promotion.version, promotion.sha256)
            for promotion in self._database.promotions(self._run)
        ]

    def sha256(self, version: int) -> str:
        """See ``ModelSource``."""
        known = self._sha256.get(version)
        if known is None:
            row = self._database.model(self._run, version)
            if row is None:
                raise ModelNotFoundError(f"model '{self._run}' has no version {version}")
            known = self._sha256[version] = row.sha256
        return known

    def versions(self) -> list[int]:
        """See ``ModelSource``."""
        return [row.version for row in self._database.models(self._run)]
