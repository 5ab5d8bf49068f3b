"""Candidate models: exported, checked, and then known to everybody."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import structlog
import torch
from numpy.typing import NDArray
from zerofleet_core import GameSpec

import zerofleet
from services.trainer.random_play import random_positions
from zerofleet.database import ModelRow
from zerofleet.errors import StaleEpochError, StoreUnavailableError
from zerofleet.models.golden import Golden
from zerofleet.models.publish import Published, publish
from zerofleet.models.store import ModelStore
from zerofleet.models.variant import Variant, VariantRequest
from zerofleet.network import PolicyValueNet, export_onnx

GOLDEN_POSITIONS = 64  # of random play, and as many again of random bits

_log = structlog.get_logger()

Insert = Callable[[int, str, int, Mapping[str, float], str, Sequence[Variant]], None]
"""Writes the rows: version, sha256, step, metrics, location, variants. Repeated calls do nothing
more."""


class ModelRows(Protocol):
    """The part of the database that a publisher looks at."""

    def model(self, run: str, version: int) -> ModelRow | None:
        """One model of a run."""
        ...


class Publisher:
    """Publishes the network every so many steps, each step and each version once.

    Args:
        run: name of the run.
        spec: the game.
        store: where model files go.
        rows: where to look up what somebody else has published.
        insert: writes the rows of a model, waiting for the database if need be.
        every_steps: steps between two models.
        published: the models that exist already.
    """

    def __init__(
        self,
        run: str,
        spec: GameSpec,
        store: ModelStore,
        rows: ModelRows,
        insert: Insert,
        every_steps: int,
        published: Sequence[ModelRow],
    ) -> None:
        self._run = run
        self._spec = spec
        self._store = store
        self._rows = rows
        self._insert = insert
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
                self._store,
                export_onnx(portable, self._spec.observation_bytes, metadata),
                version,
                golden_answers(portable, self._observations),
                lambda sha256, location, made: self._insert(
                    version, sha256, step, metrics, location, made
                ),
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

    def _give_back(self, version: int) -> None:
        """Put the file of whoever did publish this version back into the Triton repository."""
        row = self._rows.model(self._run, version)
        if row is not None:
            self._store.expose(row.sha256, version, self._spec)


def golden_observations(spec: GameSpec, seed: int = 0) -> NDArray[np.uint8]:
    """Positions of seeded random play, then random bits: ``[2 * GOLDEN_POSITIONS, bytes]``."""
    generator = np.random.default_rng(seed)
    played = random_positions(spec, GOLDEN_POSITIONS, generator)
    return np.concatenate([played, generator.integers(0, 256, played.shape, np.uint8)])


def golden_answers(network: PolicyValueNet, observations: NDArray[np.uint8]) -> Golden:
    """What torch says about the golden positions, on the CPU and in evaluation mode."""
    with torch.no_grad():
        inputs = torch.from_numpy(observations)  # pyright: ignore[reportUnknownMemberType]
        policy_logits, value = network(inputs)
    return Golden(observations, policy_logits.numpy(), value.numpy())
