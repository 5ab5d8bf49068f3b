"""Models in fewer bits: on which positions they are made and judged, and how that went."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import structlog
from numpy.typing import NDArray
from zerofleet_core import GameSpec

from zerofleet.config import RunConfig
from zerofleet.database import Variant
from zerofleet.database.metrics import Split
from zerofleet.fleet.figures import VariantFigures
from zerofleet.learning.export import random_positions
from zerofleet.learning.window import Window
from zerofleet.models.variant import Bounds, Positions, VariantRequest

_log = structlog.get_logger()


class VariantRequests:
    """Asks for the variants of each model that the run file wants, and keeps their figures.

    Args:
        run: the run file.
        spec: the run's game.
        window: where positions come from.
        sample_seed: the seed of a draw for a purpose, at the present step.
        waiting: told which precision is being made, about every second; may raise to stop.
    """

    def __init__(
        self,
        run: RunConfig,
        spec: GameSpec,
        window: Window,
        sample_seed: Callable[[str], int],
        waiting: Callable[[str], None],
    ) -> None:
        self._settings = run.precision
        self._spec = spec
        self._window = window
        self._sample_seed = sample_seed
        self._waiting = waiting
        self.figures: Mapping[str, VariantFigures] = {}
        """The newest model's, by precision."""

    def request(self) -> VariantRequest | None:
        """What to make of the present network; None where the run file wants nothing.

        Ranges come from positions that were trained on, judgement from those that never are.
        """
        settings = self._settings
        if not settings.variants:
            return None
        calibration = self._draw("train", settings.calibration_positions)
        check = self._draw("held_out", settings.check_positions)
        return VariantRequest(
            settings.variants,
            Positions(calibration, check),
            Bounds(settings.max_policy_kl, settings.max_value_difference),
            self._waiting,
        )

    def report(self, version: int, variants: Sequence[Variant]) -> None:
        """Say what became of a model's variants."""
        for variant in variants:
            if variant.reason:
                say, outcome = _log.warning, {"reason": variant.reason}
            else:
                say, outcome = _log.info, {"sha256": variant.sha256}
            say(
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
