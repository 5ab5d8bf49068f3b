"""The choice between a model's precisions by speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Protocol, TypeVar

import numpy as np
import structlog
from numpy.typing import NDArray

from zerofleet.prediction import FP32

_log = structlog.get_logger()

_FASTER = 1.15  # times fp32; a variant that gains less is not worth its rounding
_ROUNDS = 5
_MEASURE_SECONDS = 3.0  # enough for one round of a large network


class TimedModel(Protocol):
    """A model whose speed can be measured."""

    @property
    def precision(self) -> str:
        """``fp32``, ``int8`` or ``fp16``."""
        ...

    def run(self, thread: int, observations: NDArray[np.uint8]) -> object:
        """Predict on the calling model thread's own session."""
        ...

    def paused(self) -> AbstractContextManager[object]:
        """Let no other thread run it meanwhile, where it shares a device with other models."""
        ...


_Model = TypeVar("_Model", bound=TimedModel)


def fastest_model(
    models: Sequence[_Model],
    observations: NDArray[np.uint8],
    clock: Callable[[], float] = time.perf_counter,
) -> _Model:
    """Return the model that predicts these rows fastest; fp32 unless another is clearly faster.

    Args:
        models: hashable models of one version, fp32 among them.
        observations: ``[rows, observation_bytes]``.
        clock: seconds; on the CPU the thread's own, which other threads do not lengthen.
    """
    seconds = dict.fromkeys(models, np.inf)
    end = time.monotonic() + _MEASURE_SECONDS
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
    chosen = best if seconds[best] * _FASTER <= seconds[reference] else reference
    _log.info(
        "precision_chosen",
        precision=chosen.precision,
        positions_per_second={
            model.precision: round(len(observations) / seconds[model]) for model in models
        },
    )
    return chosen


def _seconds(
    model: TimedModel, observations: NDArray[np.uint8], clock: Callable[[], float]
) -> float:
    """Return the seconds that one run takes; infinite where it fails."""
    start = clock()
    try:
        model.run(0, observations)
    except Exception as error:  # then the variant is not chosen
        _log.warning("variant_failed", precision=model.precision, reason=str(error))
        return np.inf
    return clock() - start
