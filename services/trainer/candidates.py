"""Candidate models: exported, checked, and then made known by their rows."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial

import structlog
from zerofleet_core import GameSpec

import zerofleet
from zerofleet.database import ModelRow, Variant
from zerofleet.errors import StaleEpochError, StoreUnavailableError
from zerofleet.learning import PolicyValueNet, export_onnx
from zerofleet.learning.export import golden_answers, golden_observations
from zerofleet.models.publish import Published, publish
from zerofleet.models.variant import VariantRequest
from zerofleet.services.trainer.trainer_stores import TrainerStores

_log = structlog.get_logger()


class Candidates:
    """Publishes the network every so many steps, each step and each version once.

    Args:
        run: name of the run.
        spec: the game.
        stores: where files and rows go.
        epoch: the trainer's fence epoch.
        every_steps: steps between two models.
        published: the models that exist already.
    """

    def __init__(
        self,
        run: str,
        spec: GameSpec,
        stores: TrainerStores,
        epoch: int,
        every_steps: int,
        published: Sequence[ModelRow],
    ) -> None:
        self._run = run
        self._spec = spec
        self._stores = stores
        self._epoch = epoch
        self._every_steps = every_steps
        self.version = max((row.version for row in published), default=0)
        self._last_step = max((row.step for row in published), default=None)
        self._observations = golden_observations(spec)

    def due(self, step: int) -> bool:
        """Whether a model is wanted now: at once when there is none, then at each interval."""
        if self._last_step is None:
            return True
        return step // self._every_steps > self._last_step // self._every_steps

    def publish(
        self,
        network: PolicyValueNet,
        step: int,
        metrics: Mapping[str, float],
        variants: VariantRequest | None = None,
    ) -> Published:
        """Publish the network as the run's next version.

        Args:
            network: as it is after ``step`` steps.
            step: kept in the row.
            metrics: the newest figures, kept in the row.
            variants: what is made of it beside the fp32 file; None: nothing.

        Raises:
            IncompatibleModelError: the file does not load or disagrees with the network.
            OSError: the folder cannot be written.
            StoppedError: told to leave while Postgres was waited for.
            StoreUnavailableError: the bucket cannot be written; nothing tells of this version.
            StaleEpochError: another trainer has taken over.
        """
        version = self.version + 1
        portable = copy.deepcopy(network).cpu().eval()
        metadata = {
            "run": self._run,
            "game": self._spec.name,
            "version": str(version),
            "step": str(step),
            "zerofleet": zerofleet.__version__,
        }
        try:
            published = publish(
                self._stores.models,
                export_onnx(portable, self._spec.observation_bytes, metadata),
                version,
                golden_answers(portable, self._observations),
                partial(self._insert, version, step, metrics),
                wanted=variants,
            )
        except StaleEpochError:
            try:
                self._give_back(version)
            except StoreUnavailableError as error:
                _log.warning("triton_entry_not_restored", version=version, reason=str(error))
            raise
        self.version, self._last_step = version, step
        _log.info("model_published", version=version, step=step, sha256=published.sha256)
        return published

    def pass_over(self, step: int) -> None:
        """Publish nothing for this step after all; the next interval is tried again."""
        self._last_step = step

    def _insert(
        self,
        version: int,
        step: int,
        metrics: Mapping[str, float],
        sha256: str,
        location: str,
        variants: Sequence[Variant],
    ) -> None:
        run, database, epoch = self._run, self._stores.database, self._epoch
        self._stores.ask(
            lambda: database.insert_model(
                run, version, sha256, step, metrics, location, epoch, variants
            )
        )

    def _give_back(self, version: int) -> None:
        """Put the file of the trainer that did publish this version back for Triton."""
        row = self._stores.database.model(self._run, version)
        if row is not None:
            self._stores.models.expose(row.sha256, version, self._spec)
