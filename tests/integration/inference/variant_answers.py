"""Helpers of the tests of variants: who answered, and which precision is the fastest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from zerofleet.prediction import Prediction
from zerofleet.services.inference.loaded_models import LoadedModel, Precisions

RUN = "marker"
MARKS = {"fp32": 0.0, "int8": 0.25, "fp16": 0.5}


def said(prediction: Prediction) -> tuple[int, str]:
    """Version and precision that an answer names, once its values say the same."""
    mark = prediction.model_version + MARKS[prediction.precision]
    np.testing.assert_allclose(prediction.value * 1024, mark)
    return prediction.model_version, prediction.precision


class Fastest:
    """Stands for the measurement: one precision is the fastest, and it is asked how often."""

    def __init__(self, precision: str = "int8") -> None:
        self.precision = precision
        self.asked: list[list[str]] = []

    def __call__(self, models: Sequence[LoadedModel]) -> LoadedModel:
        self.asked.append([model.precision for model in models])
        return next(model for model in models if model.precision == self.precision)


def auto(fastest: Fastest, runs: tuple[str, ...] = ("int8",)) -> Precisions:
    return Precisions("auto", runs, fastest)
