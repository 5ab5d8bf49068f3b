"""Publishes models: exports the network, has its files checked, then writes the model's row."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial

import numpy as np
import structlog
import torch
from numpy.typing import NDArray
from zerofleet_core import GameSpec

import zerofleet
from zerofleet.config import RunConfig
from zerofleet.database import ModelRow, Variant
from zerofleet.database.metrics import Split
from zerofleet.errors import ConfigError, StaleEpochError, StoreUnavailableError
from zerofleet.fleet.figures import InferenceFigures, VariantFigures
from zerofleet.learning import export_onnx
from zerofleet.learning.export import golden_answers, golden_observations, random_positions
from zerofleet.learning.window import Window
from zerofleet.models.publish import Published, publish
from zerofleet.models.runtime import FAST_PRECISIONS
from zerofleet.models.variant import Bounds, Positions, VariantRequest
from zerofleet.network import Network
from zerofleet.prediction import VariantPrecision
from zerofleet.services.trainer.checkpoints import TrainerStores
from zerofleet.waiting import StoppedError

_POLL_SECONDS = 1.0

_log = structlog.get_logger()


@dataclass(slots=True)
class _PendingModel:
    """A model between ``begin`` and ``finish``: its files are being made, or its row is missing."""

    version: int
    step: int
    metrics: Mapping[str, float]
    make: Callable[[], Published]
    future: Future[Published] | None = None  # None: the disk refused the files
    waiting_for: str = "the new model to be checked"


class Publisher:
    """Publishes the network at fixed intervals, each step and each version once.

    Training goes on while other processes check the model and make its variants. A thread waits for
    them. This thread uses neither torch nor the database.

    Args:
        run: name of the run.
        spec: the game.
        stores: stores of the files and rows.
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
        self._pending: _PendingModel | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="publishing")

    def due(self, step: int) -> bool:
        """Return whether to publish now: at once if there is no model, then at each interval."""
        last = self._last_step if self._pending is None else self._pending.step
        return last is None or step // self._every_steps > last // self._every_steps

    @property
    def is_busy(self) -> bool:
        """Whether a model is being made or waits for ``finish``."""
        return self._pending is not None

    @property
    def is_ready(self) -> bool:
        """Whether ``finish`` would not wait."""
        future = None if self._pending is None else self._pending.future
        return future is not None and future.done()

    def begin(
        self,
        network: Network,
        step: int,
        metrics: Mapping[str, float],
        variants: VariantRequest | None = None,
    ) -> None:
        """Start to make the files of the run's next version; ``finish`` publishes it.

        Args:
            network: the weights after ``step`` steps; they may change once this returns.
            step: number of steps, stored in the row.
            metrics: the newest figures, stored in the row.
            variants: variants to make in addition to the fp32 file; None: none.

        Raises:
            IncompatibleModelError: the network cannot be exported.
        """
        assert self._pending is None
        version = self.version + 1
        portable = copy.deepcopy(network).cpu().eval()
        metadata = {
            "run": self._run,
            "game": self._spec.name,
            "version": str(version),
            "step": str(step),
            "zerofleet": zerofleet.__version__,
        }
        content = export_onnx(portable, self._spec.observation_bytes, metadata)
        golden = golden_answers(portable, self._observations)
        make = partial(
            publish,
            self._stores.models,
            content,
            version,
            golden,
            wanted=variants,
            waiting=self._note_variant,
        )
        self._pending = _PendingModel(version, step, metrics, make)
        self._pending.future = self._thread.submit(make)

    def finish(self) -> Published:
        """Wait for the files of the model that ``begin`` started, then publish it by its row.

        Raises:
            IncompatibleModelError: the file does not load or disagrees with the network.
            OSError: the folder cannot be written; the next call tries again.
            StoppedError: the process was told to stop before the version was published; the model
                is still due.
            StoreUnavailableError: the bucket cannot be written; no row names this version.
            StaleEpochError: another trainer has taken over.
        """
        pending = self._pending
        assert pending is not None
        try:
            published = self._await(pending)
            self._record(pending.version, pending.step, pending.metrics, published)
        except OSError:
            pending.future = None
            raise
        except StoppedError:
            raise  # the model stays pending: ``close`` restores Triton's entry
        except BaseException:
            self._pending = None
            raise
        finally:
            self._stores.waits.end("variants")
        self._pending = None
        self.version, self._last_step = pending.version, pending.step
        named = {"version": pending.version, "step": pending.step, "sha256": published.sha256}
        _log.info("model_published", **named)
        return published

    def pass_over(self, step: int) -> None:
        """Publish nothing for this step; the next interval tries again."""
        self._last_step = step

    def close(self) -> None:
        """End the thread. If a model was not published, restore Triton's entry for its version."""
        self._thread.shutdown()
        pending, self._pending = self._pending, None
        if pending is None or pending.future is None or pending.future.exception() is not None:
            return
        self._restore_triton_entry(pending.version)

    def _await(self, pending: _PendingModel) -> Published:
        if pending.future is None:
            pending.future = self._thread.submit(pending.make)
        while not wait([pending.future], timeout=_POLL_SECONDS).done:
            self._stores.waits.begin("variants", pending.waiting_for, "running")
        return pending.future.result()

    def _note_variant(self, precision: str) -> None:
        """Note which variant is being made, for the heartbeat.

        Raises:
            StoppedError: the process was told to stop.
        """
        assert self._pending is not None
        self._pending.waiting_for = f"the {precision} model to be made"
        if self._stores.stop.is_set():
            raise StoppedError

    def _record(
        self, version: int, step: int, metrics: Mapping[str, float], published: Published
    ) -> None:
        run, database, epoch = self._run, self._stores.database, self._epoch
        sha256, location, variants = published.sha256, published.location, published.variants
        try:
            self._stores.ask(
                lambda: database.insert_model(
                    run, version, sha256, step, metrics, location, epoch, variants
                )
            )
        except StaleEpochError:
            self._restore_triton_entry(version)
            raise
        published.recorded()

    def _restore_triton_entry(self, version: int) -> None:
        """Point Triton's entry to the file that the row of this version names, if there is one.

        If a store is down, log a warning and leave the entry as it is.
        """
        try:
            row = self._stores.database.model(self._run, version)
            if row is not None:
                self._stores.models.expose(row.sha256, version, self._spec)
        except (OSError, StoreUnavailableError) as error:
            _log.warning("triton_entry_not_restored", version=version, reason=str(error))


class VariantRequests:
    """Requests the variants of each model that the run file asks for, and keeps their figures.

    Args:
        run: the run file.
        spec: the run's game.
        window: source of the positions.
        sample_seed: returns the seed of a draw for a purpose, at the present step.
        stores: stores with the heartbeats of inference, which say where it runs.
    """

    def __init__(
        self,
        run: RunConfig,
        spec: GameSpec,
        window: Window,
        sample_seed: Callable[[str], int],
        stores: TrainerStores,
    ) -> None:
        self._settings = run.precision
        self._spec = spec
        self._window = window
        self._sample_seed = sample_seed
        self._stores = stores
        self._known_precisions: frozenset[VariantPrecision] = frozenset()
        self.figures: Mapping[str, VariantFigures] = {}
        """Figures of the newest model's variants, by precision."""

    def request(self) -> VariantRequest | None:
        """Return a request for variants of the present network; None if there are none.

        Quantization is calibrated on training positions and checked on validation positions.
        """
        settings, precisions = self._settings, self._precisions()
        if not precisions:
            return None
        calibration = self._draw("train", settings.calibration_positions)
        check = self._draw("held_out", settings.check_positions)
        return VariantRequest(
            precisions,
            Positions(calibration, check),
            Bounds(settings.max_policy_kl, settings.max_value_difference),
        )

    def _precisions(self) -> tuple[VariantPrecision, ...]:
        """Return the precisions of the next model, in the order of the run file."""
        found: dict[VariantPrecision, None] = {}
        for each in self._settings.variants:
            found |= dict.fromkeys(sorted(self._fleet_precisions()) if each == "auto" else [each])
        return tuple(found)

    def _fleet_precisions(self) -> frozenset[VariantPrecision]:
        """Return the precisions that the inference replicas compute faster than fp32.

        Before the first replica sends a heartbeat, they depend on whether this process has a GPU.
        While no replica or Redis responds, the last known precisions stay.
        """
        heartbeats, providers = self._stores.heartbeats, set[str]()
        try:
            beats = [] if heartbeats is None else heartbeats.read(InferenceFigures.service)
        except (StoreUnavailableError, ConfigError) as error:
            _log.warning("providers_not_known", reason=str(error))
        else:
            figures = [each.figures for each in beats]
            providers = {each.provider for each in figures if isinstance(each, InferenceFigures)}
        found = [fast for name, fast in FAST_PRECISIONS.items() if name in providers]
        if found:
            self._known_precisions = frozenset().union(*found)
        here = "cuda" if torch.cuda.is_available() else "cpu"
        return self._known_precisions or FAST_PRECISIONS[here]

    def report(self, version: int, variants: Sequence[Variant]) -> None:
        """Log the outcome of a model's variants, and keep their figures."""
        for variant in variants:
            if variant.reason:
                log, outcome = _log.warning, {"reason": variant.reason}
            else:
                log, outcome = _log.info, {"sha256": variant.sha256}
            log(
                "variant_refused" if variant.reason else "variant_published",
                version=version,
                precision=variant.precision,
                policy_kl=variant.policy_kl,
                value_difference=variant.value_difference,
                **outcome,
            )
        self.figures = {
            variant.precision: VariantFigures(
                policy_kl=variant.policy_kl,
                value_difference=variant.value_difference,
                accepted=not variant.reason,
            )
            for variant in variants
        }

    def _draw(self, split: Split, positions: int) -> NDArray[np.uint8]:
        seed = self._sample_seed(f"variants/{split}")
        drawn = self._window.observations(split, positions, seed)
        if drawn is not None:
            return drawn
        return random_positions(self._spec, positions, np.random.default_rng(seed))
