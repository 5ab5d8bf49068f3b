"""The stores' knowledge of a run's models: Redis for the best, Postgres for everything."""

from __future__ import annotations

from services.inference.model import FP32
from services.inference.model_source import Promoted
from zerofleet.best import BestPointer
from zerofleet.database import Database
from zerofleet.errors import ModelNotFoundError, StoreUnavailableError
from zerofleet.rpc.codec import PRECISIONS


class StoredModels:
    """A ``ModelSource`` over both stores.

    The pointer in Redis is asked first because it is cheap; where Redis is away or empty, the
    ledger of promotions in Postgres says the same. The pointer may be that of another chain until
    the evaluator repairs it, so the repository believes ``promotions`` before it. A version never
    changes, nor do its variants, which are recorded with it: they are looked up once.
    """

    def __init__(self, run: str, database: Database, pointer: BestPointer) -> None:
        self._run = run
        self._database = database
        self._pointer = pointer
        self._sha256: dict[int, str] = {}
        self._variants: dict[int, dict[str, str]] = {}
        self._has_variants = False

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

    def variants(self, version: int) -> dict[str, str]:
        """See ``ModelSource``."""
        self._look_at_schema()
        known = self._variants.get(version)
        if known is None:
            rows = self._database.variants(self._run, version)
            known = {row.precision: row.sha256 for row in rows if row.accepted and row.sha256}
            self._variants[version] = known
        return known

    def refused(self) -> set[str]:
        """See ``ModelSource``."""
        self._look_at_schema()
        verdicts = {
            precision: self._database.variant_verdict(self._run, precision)
            for precision in PRECISIONS
            if precision != FP32
        }
        return {name for name, verdict in verdicts.items() if verdict and not verdict.accepted}

    def versions(self) -> list[int]:
        """See ``ModelSource``."""
        return [row.version for row in self._database.models(self._run)]

    def _look_at_schema(self) -> None:
        """Ask nothing of a database that is not migrated yet."""
        if not self._has_variants:
            self._database.wait_ready(0.0)
            self._has_variants = True
