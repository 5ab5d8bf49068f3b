"""What the stores know of a run's models: Redis of the best, Postgres of everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Protocol

from zerofleet.best_pointer import BestPointer
from zerofleet.database import Database, Promotion
from zerofleet.errors import ModelNotFoundError


class ModelSource(Protocol):
    """What the stores know about one run's models; all methods block."""

    def best(self) -> Promotion | None:
        """The newest promotion as far as is cheap to know; None before the first.

        It is checked against ``promotions`` before it is followed.

        Raises:
            StoreUnavailableError: neither store answers.
        """
        ...

    def promotions(self) -> Sequence[Promotion]:
        """All promotions, newest first.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        ...

    def sha256(self, version: int) -> str:
        """The name of a version's file.

        Raises:
            ModelNotFoundError: there is no such version.
            StoreUnavailableError: Postgres does not answer.
        """
        ...

    def variants(self, version: int) -> Mapping[str, str]:
        """The names of a version's accepted files in other precisions, by precision.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        ...

    def refresh(self) -> None:
        """Forget what was cached of versions whose rows are gone or name another file.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        ...

    def versions(self) -> Sequence[int]:
        """All versions.

        Raises:
            StoreUnavailableError: Postgres does not answer.
        """
        ...


class StoredModels:
    """A ``ModelSource`` over both stores.

    The pointer in Redis may be that of another chain until the evaluator repairs it, so
    ``ServedModels`` believes ``promotions`` before it. Models and variants are append-only, so
    their rows are cached. Only a failover of Postgres that loses the newest rows can replace a
    version: ``refresh`` finds it.
    """

    def __init__(self, run: str, database: Database, pointer: BestPointer) -> None:
        self._run = run
        self._database = database
        self._pointer = pointer
        self._sha256: dict[int, str] = {}
        self._variants: dict[int, dict[str, str]] = {}

    def best(self) -> Promotion | None:
        """See ``ModelSource``."""
        return self._pointer.newest(self._database)

    def promotions(self) -> list[Promotion]:
        """See ``ModelSource``."""
        return self._database.promotions(self._run)

    def sha256(self, version: int) -> str:
        """See ``ModelSource``."""
        known = self._sha256.get(version)
        if known is None:
            row = self._database.model(self._run, version)
            if row is None:
                raise ModelNotFoundError(f"model '{self._run}' has no version {version}")
            if row.removed_at is not None and row.removed_at <= datetime.now(UTC):
                raise ModelNotFoundError(
                    f"model '{self._run}' version {version} is not kept any more: its files "
                    f"went at {row.removed_at:%Y-%m-%d %H:%M} UTC ([retention] of the run file)"
                )
            known = self._sha256[version] = row.sha256
        return known

    def variants(self, version: int) -> dict[str, str]:
        """See ``ModelSource``."""
        known = self._variants.get(version)
        if known is None:
            rows = self._database.variants(self._run, version)
            known = {row.precision: row.sha256 for row in rows if row.accepted and row.sha256}
            self._variants[version] = known
        return known

    def refresh(self) -> None:
        """See ``ModelSource``."""
        kept = {row.version: row.sha256 for row in self._database.models(self._run)}
        for version, sha256 in list(self._sha256.items()):
            if kept.get(version) == sha256:
                continue
            row = self._database.model(self._run, version)  # files that are not kept have a row
            if row is None or row.sha256 != sha256:
                self._sha256.pop(version, None)
        self._variants.clear()

    def versions(self) -> list[int]:
        """See ``ModelSource``."""
        return [row.version for row in self._database.models(self._run)]
