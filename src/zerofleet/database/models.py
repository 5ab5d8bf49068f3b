"""Published models: the row comes last, after the files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, exc, text

from zerofleet.database.connection import ConnectionPool, explain
from zerofleet.database.variants import NewVariant, write_variants
from zerofleet.errors import StaleEpochError

_COLUMNS = "run, version, sha256, step, metrics, location, created_at, removed_at"
_INSERT = """
INSERT INTO models (run, version, sha256, step, metrics, location, epoch)
VALUES (:run, :version, :sha256, :step, CAST(:metrics AS jsonb), :location, :epoch)
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
    removed_at: datetime | None = None  # from when on its files may be gone; None: they are kept


class Models(ConnectionPool):
    """Inserting and finding models."""

    def insert_model(
        self,
        run: str,
        version: int,
        sha256: str,
        step: int,
        metrics: Mapping[str, float],
        location: str,
        epoch: int,
        variants: Sequence[NewVariant] = (),
    ) -> None:
        """Publish a model whose files are in their places and were loaded once.

        Repeating the same insertion does nothing.

        Args:
            run: name of the run.
            version: number of the model within it.
            sha256: of the fp32 file.
            step: SGD steps that the weights have seen.
            metrics: figures that are kept with the model.
            location: where the file is, relative to the model folder.
            epoch: the trainer's fence epoch.
            variants: all that were made of it in other precisions, the refused ones too.

        Raises:
            StaleEpochError: another trainer has taken over, or took this version.
        """
        try:
            with self._transaction() as connection:
                connection.execute(
                    text(_INSERT),
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


def _model(row: Row[Any]) -> ModelRow:
    return ModelRow(*row)
