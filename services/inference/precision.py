"""Which variant of a version answers: the one that is fastest here, or the one that is named."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack

import numpy as np
import structlog
from numpy.typing import NDArray

from zerofleet.models.runtime import ProviderName
from zerofleet.services.inference.loaded_models import FP32, LoadedModel

_log = structlog.get_logger()

AUTO = "auto"
FASTER = 1.15  # times fp32; a variant that gains less is not worth its rounding
_ROUNDS = 5
_MOST_SECONDS = 3.0  # of measuring; for a large network that is one round

RUNS: dict[ProviderName, frozenset[str]] = {
    "cpu": frozenset({"int8"}),
    "openvino": frozenset({"int8"}),
    "cuda": frozenset({"fp16"}),
    "tensorrt": frozenset({"fp16"}),
}
"""What each provider computes faster than fp32, where it does at all: others it would translate."""


class Precisions:
    """The choice for one process.

    Args:
        wanted: ``auto``, or the precision that answers where a version has it.
        runs: precisions that ``auto`` may take here.
        fastest: of several precisions of one version; blocking.
    """

    def __init__(
        self,
        wanted: str = FP32,
        runs: Collection[str] = (),
        fastest: Callable[[Sequence[LoadedModel]], LoadedModel] | None = None,
    ) -> None:
        self._wanted = wanted
        self._runs = runs
        self._fastest = fastest
        self._settled: dict[frozenset[str], str] = {}
        self._said_missing = False

    @property
    def only_fp32(self) -> bool:
        """Whether no version's variants need to be looked up."""
        return self._wanted == FP32

    def usable(self, variants: Mapping[str, str]) -> dict[str, str]:
        """Those of a version's variants that may answer for it unasked: precision and sha256."""
        allowed = self._runs if self._wanted == AUTO else (self._wanted,)
        return {precision: sha256 for precision, sha256 in variants.items() if precision in allowed}

    def settled(self, usable: Collection[str]) -> str | None:
        """What answers for a version with these usable variants; None: that must be measured."""
        if not usable:
            return FP32
        return self._wanted if self._wanted != AUTO else self._settled.get(frozenset(usable))

    def settle(self, models: Sequence[LoadedModel]) -> str:
        """Measure one version's models, fp32 among them, and keep to what comes out. Blocking."""
        assert self._fastest is not None
        fastest = self._fastest(models).precision
        variants = frozenset(model.precision for model in models) - {FP32}
        self._settled[variants] = fastest
        return fastest

    def miss(self, version: int) -> None:
        """Say once that a version lacks the precision that was named."""
        if self._wanted not in (AUTO, FP32) and not self._said_missing:
            self._said_missing = True
            reason = "not published or not accepted"
            _log.warning("precision_missing", wanted=self._wanted, version=version, reason=reason)


def fastest_model(
    models: Sequence[LoadedModel],
    observations: NDArray[np.uint8],
    clock: Callable[[], float] = time.perf_counter,
) -> LoadedModel:
    """The model that predicts these rows fastest; fp32 unless another one is clearly faster.

    Args:
        models: of one version, fp32 among them.
        observations: ``[rows, observation_bytes]``.
        clock: seconds; on the CPU the thread's own, which other threads do not lengthen.
    """
    seconds = dict.fromkeys(models, np.inf)
    end = time.monotonic() + _MOST_SECONDS
    for model in models:
        _seconds(model, observations, clock)  # the first run may have to allocate
    for _ in range(_ROUNDS):
        # On a GPU the batches of the one that answers would delay the others, but not itself: with
        # them it takes turns.
        with ExitStack() as stack:
            for model in models:
                stack.enter_context(model.paused())
            for model in models:
                # The least of several: other work on the machine only adds time.
                seconds[model] = min(seconds[model], _seconds(model, observations, clock))
        if time.monotonic() >= end:
            break
    reference = next(model for model in models if model.precision == FP32)
    best = min(models, key=lambda model: seconds[model])
    chosen = best if seconds[best] * FASTER <= seconds[reference] else reference
    _log.info(
        "precision_chosen",
        precision=chosen.precision,
        positions_per_s={
            model.precision: round(len(observations) / seconds[model]) for model in models
        },
    )
    return chosen


def _seconds(
    model: LoadedModel, observations: NDArray[np.uint8], clock: Callable[[], float]
) -> float:
    """Seconds that one run takes; infinite where it fails."""
    start = clock()
    try:
        model.run(0, observations)
    except Exception as error:  # then the variant is not chosen
        _log.warning("variant_failed", precision=model.precision, reason=str(error))
        return np.inf
    return clock() - start
