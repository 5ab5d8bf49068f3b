"""What the stores know about a run's models, as the repository asks for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Promoted:
    """A promotion: the greater ``seq``, the newer."""

    seq: int
    version: int
    sha256: str


class ModelSource(Protocol):
    """What the stores know about one run's models; all methods block."""

    def best(self) -> Promoted | None:
        """The newest promotion as far as is cheap to know; None before the first.

        It is checked against ``promotions`` before it is followed.

        Raises:
            StoreUnavailableError: neither store answers.
        """
        ...

    def promotions(self) -> Sequence[Promoted]:
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

    def refused(self) -> Collection[str]:
        """Precisions that the newest match against fp32 found weaker.

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
