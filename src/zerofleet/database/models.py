"""Published models and their variants in other precisions; rows are written after the files."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, exc, text

from zerofleet.database.connection import ConnectionPool, explain
from zerofleet.errors import StaleEpochError
from zerofleet.prediction import ModelFile

_COLUMNS = "run, version, sha256, step, metrics, location, created_at, removed_at"
_INSERT_MODEL = """
INSERT INTO models (run, version, sha256, step, metrics, location, epoch)
VALUES (:run, :version, :sha256, :step, CAST(:metrics AS jsonb), :location, :epoch)
"""
_INSERT_VARIANTS = """
INSERT INTO model_variants (
    run, version, precision, sha256, location, policy_kl, value_difference, accepted, reason, epoch
) VALUES (
    :run, :version, :precision, :sha256, :location, :policy_kl, :value_difference, :accepted,
    :reason, :epoch
)
"""


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A published model."""

    run: str
    version: int
    sha256: str
    step: int
    metrics: Mapping[str, float]
    location: str
    created_at: datetime
    removed_at: datetime | None = None  # time from which its files may be gone; None: they are kept


@dataclass(frozen=True, slots=True)
class Variant:
    """A model in another precision than fp32, or why there is none."""

    precision: str  # int8 or fp16
    sha256: str | None = None  # names its file; None: refused, there is none
    location: str | None = None  # where its file is within the store
    policy_kl: float | None = None  # KL(fp32 || variant), nats, mean over positions; None: unknown
    value_difference: float | None = None  # absolute, mean over positions; None: unknown
    reason: str = ""  # why it was refused; empty: it was accepted

    @property
    def accepted(self) -> bool:
        """Whether it may answer."""
        return not self.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantRow(Variant):
    """A variant as it was published."""

    run: str
    version: int
    created_at: datetime


class Models(ConnectionPool):
    """Reading models and their variants."""

    def models(self, run: str) -> list[ModelRow]:
        """Every model of a run whose files are kept, oldest first; the newest always are."""
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM models WHERE run = :run AND removed_at IS NULL "
            "ORDER BY version",
            run=run,
        )
        return [_model(row) for row in rows]

    def model(self, run: str, version: int) -> ModelRow | None:
        """One model of a run, also one whose files are not kept any more."""
        rows = self._rows(
            f"SELECT {_COLUMNS} FROM models WHERE run = :run AND version = :version",
            run=run,
            version=version,
        )
        return _model(rows[0]) if rows else None

    def variants(self, run: str, version: int) -> list[VariantRow]:
        """All variants of a model, the refused ones too, by precision.

        Their set never changes: a model without variants here will never have any.
        """
        rows = self._rows(
            "SELECT run, version, precision, sha256, location, policy_kl, value_difference, "
            "reason, created_at FROM model_variants WHERE run = :run AND version = :version "
            "ORDER BY precision",
            run=run,
            version=version,
        )
        mappings = [row._mapping for row in rows]  # pyright: ignore[reportPrivateUsage] - public
        return [VariantRow(**mapping) for mapping in mappings]

    def model_files(self, run: str, versions: Collection[int]) -> list[ModelFile]:
        """Return the files of some models, without refused variants."""
        rows = self._rows(
            "SELECT version, 'fp32', sha256 FROM models "
            "WHERE run = :run AND version = ANY(:versions) "
            "UNION ALL SELECT version, precision, sha256 FROM model_variants "
            "WHERE run = :run AND version = ANY(:versions) AND accepted",
            run=run,
            versions=list(versions),
        )
        return [ModelFile(*row) for row in rows]

    def names_file(self, run: str, sha256: str) -> bool:
        """Return whether a file belongs to a model of the run, or to a variant of one."""
        [row] = self._rows(
            "SELECT EXISTS (SELECT FROM models WHERE run = :run AND sha256 = :sha256) OR "
            "EXISTS (SELECT FROM model_variants WHERE run = :run AND sha256 = :sha256) AS known",
            run=run,
            sha256=sha256,
        )
        return row.known


class NewModels(Models):
    """Inserting models, each with its variants."""

    def insert_model(
        self,
        run: str,
        version: int,
        sha256: str,
        step: int,
        metrics: Mapping[str, float],
        location: str,
        epoch: int,
        variants: Sequence[Variant] = (),
    ) -> None:
        """Publish a model whose files are in place and were loaded once.

        Repeating the same insertion does nothing.

        Args:
            version: version of the model in the run.
            sha256: SHA-256 of the fp32 file.
            step: SGD steps taken for the weights.
            metrics: figures stored with the model.
            location: path of the file, relative to the model folder.
            epoch: the trainer's fence epoch.
            variants: all variants that were made, including refused ones.

        Raises:
            StaleEpochError: another trainer has taken over, or took this version.
        """
        try:
            with self._transaction() as connection:
                connection.execute(
                    text(_INSERT_MODEL),
                    {
                        "run": run,
                        "version": version,
                        "sha256": sha256,
                        "step": step,
                        "metrics": json.dumps(dict(metrics)),
                        "location": location,
                        "epoch": epoch,
                    },
                )
                write_variants(connection, run, version, variants, epoch)
        except exc.IntegrityError as error:
            known = self.model(run, version)
            if known is None or known.sha256 != sha256:
                raise StaleEpochError(
                    f"model {version} of the run {run} cannot be published: "
                    f"{explain(error.orig or error)}"
                ) from error


def _model(row: Row[Any]) -> ModelRow:
    return ModelRow(*row)


def write_variants(
    connection: Connection, run: str, version: int, variants: Sequence[Variant], epoch: int
) -> None:
    """Insert the variants of a model in the caller's transaction."""
    if not variants:
        return
    connection.execute(
        text(_INSERT_VARIANTS),
        [
            {
                "run": run,
                "version": version,
                "precision": variant.precision,
                "sha256": variant.sha256,
                "location": variant.location,
                "policy_kl": variant.policy_kl,
                "value_difference": variant.value_difference,
                "accepted": variant.accepted,
                "reason": variant.reason,
                "epoch": epoch,
            }
            for variant in variants
        ],
    )
