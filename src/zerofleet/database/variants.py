"""Models in other precisions than fp32: what was made, and what each is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection, text

from zerofleet.database.connection import ConnectionPool

_INSERT = """
INSERT INTO model_variants (
    run, version, precision, sha256, location, policy_kl, value_difference, accepted, reason, epoch
) VALUES (
    :run, :version, :precision, :sha256, :location, :policy_kl, :value_difference, :accepted,
    :reason, :epoch
)
"""


class NewVariant(Protocol):
    """What is known of a variant when its model is published."""

    @property
    def precision(self) -> str:
        """``int8`` or ``fp16``."""
        ...

    @property
    def sha256(self) -> str | None:
        """Of its file; None where it was refused, as ``location``."""
        ...

    @property
    def location(self) -> str | None:
        """Where the file is, relative to the model folder."""
        ...

    @property
    def policy_kl(self) -> float | None:
        """``KL(fp32 || variant)`` in nats; None where it could not be measured."""
        ...

    @property
    def value_difference(self) -> float | None:
        """Mean absolute difference of the value; None where it could not be measured."""
        ...

    @property
    def reason(self) -> str:
        """Why it was refused; empty where it was accepted."""
        ...


@dataclass(frozen=True, slots=True)
class VariantRow:
    """A model in another precision than fp32."""

    run: str
    version: int
    precision: str  # int8 or fp16
    sha256: str | None  # of its file; None: refused, there is none
    location: str | None  # relative to the model folder
    policy_kl: float | None  # KL(fp32 || variant), nats, mean over positions; None: not measured
    value_difference: float | None  # absolute, mean over positions
    accepted: bool
    reason: str  # why it was refused; empty where it was not
    created_at: datetime


class Variants(ConnectionPool):
    """Reading variants; they are written with their model."""

    def variants(self, run: str, version: int) -> list[VariantRow]:
        """All variants of a model, the refused ones too, by precision.

        Their set never changes: a model without variants here will never have any.
        """
        rows = self._rows(
            "SELECT run, version, precision, sha256, location, policy_kl, value_difference, "
            "accepted, reason, created_at FROM model_variants "
            "WHERE run = :run AND version = :version ORDER BY precision",
            run=run,
            version=version,
        )
        return [VariantRow(*row) for row in rows]

    def names_file(self, run: str, sha256: str) -> bool:
        """Whether a file is that of a model of the run, or of a variant of one."""
        [row] = self._rows(
            "SELECT EXISTS (SELECT FROM models WHERE run = :run AND sha256 = :sha256) OR "
            "EXISTS (SELECT FROM model_variants WHERE run = :run AND sha256 = :sha256) AS known",
            run=run,
            sha256=sha256,
        )
        return row.known


def write_variants(
    connection: Connection, run: str, version: int, variants: Sequence[NewVariant], epoch: int
) -> None:
    """Insert the variants of a model in the caller's transaction."""
    if not variants:
        return
    connection.execute(
        text(_INSERT),
        [
            {
                "run": run,
                "version": version,
                "precision": variant.precision,
                "sha256": variant.sha256,
                "location": variant.location,
                "policy_kl": variant.policy_kl,
                "value_difference": variant.value_difference,
                "accepted": not variant.reason,
                "reason": variant.reason,
                "epoch": epoch,
            }
            for variant in variants
        ],
    )
