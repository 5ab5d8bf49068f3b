"""The network's prediction for a batch of positions, its names, and the interface to get it."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

OBSERVATION = "observation"  # uint8 [batch, observation_bytes], bit-packed planes
POLICY_LOGITS = "policy_logits"  # float16 [batch, num_actions]
VALUE = "value"  # float32 [batch], in [-1, 1], for the player to move
"""Names of the tensors in model files and in messages."""

VariantPrecision = Literal["int8", "fp16"]
"""Precision of a model's variant: int8 for CPUs, fp16 for GPUs."""
Precision = Literal["fp32", VariantPrecision]
"""Precision of any model file."""
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
FP32: Precision = "fp32"


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a published model: of a version in one precision."""

    version: int
    precision: str  # fp32, int8, fp16
    sha256: str  # names the file


@dataclass(frozen=True, slots=True)
class Prediction:
    """The network's answer to a batch; row ``i`` answers observation ``i``."""

    policy_logits: NDArray[np.floating[Any]]  # [batch, num_actions] float16 or float32
    value: NDArray[np.float32]  # [batch], in [-1, 1], for the player to move
    model_version: int  # the one model that gave every row
    precision: str = ""  # which of its variants: fp32, int8, fp16; empty where unknown
    sha256: str = ""  # names the file that answered; empty if the server does not


class Predictor(Protocol):
    """Evaluates positions: a gRPC stream, an in-process session, a cache around either."""

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        """Predict a batch.

        Args:
            observations: bit-packed planes, ``[batch, observation_bytes]`` uint8.

        Raises:
            InferenceUnavailableError: no server answered; the call may be repeated.
            OverloadedError: the server's queue is full; back off first.
        """
        ...
