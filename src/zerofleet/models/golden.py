"""Golden answers: what torch said about some positions, for another program to be held against."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

# Most that a file may differ from the network it was exported from. Logits travel as float16,
# whose spacing is 2^-11 of the number; the rest is the order of float32 sums.
LOGIT_TOLERANCE = 2e-3  # of max(1, |logit|)
VALUE_TOLERANCE = 1e-4
KL_TOLERANCE = 1e-5  # nats, mean over positions, of softmax(golden) against softmax(answer)


@dataclass(frozen=True, slots=True, eq=False)
class Golden:
    """Positions and the network's answers to them."""

    observations: NDArray[np.uint8]  # [positions, observation_bytes]
    policy_logits: NDArray[np.float32]  # [positions, num_actions]
    value: NDArray[np.float32]  # [positions]

    def to_bytes(self) -> bytes:
        """The three arrays, one after the other, in numpy's own format."""
        file = io.BytesIO()
        for column in (self.observations, self.policy_logits, self.value):
            np.save(file, column, allow_pickle=False)
        return file.getvalue()

    @classmethod
    def read(cls, file: BinaryIO) -> Golden:
        """Rebuild from ``to_bytes``."""
        content = io.BytesIO(file.read())
        columns = [np.load(content, allow_pickle=False) for _ in range(3)]
        return cls(
            cast("NDArray[np.uint8]", columns[0]),
            cast("NDArray[np.float32]", columns[1]),
            cast("NDArray[np.float32]", columns[2]),
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """How far two sets of answers lie apart; see the tolerances above."""

    logit: float  # max over all of |difference| / max(1, |golden|)
    value: float  # max over all of |difference|
    kl: float  # nats, mean over positions

    @property
    def acceptable(self) -> bool:
        """Whether the difference is nothing but rounding; not a number is never acceptable."""
        return (
            self.logit <= LOGIT_TOLERANCE
            and self.value <= VALUE_TOLERANCE
            and self.kl <= KL_TOLERANCE
        )


def compare(
    golden: Golden, policy_logits: NDArray[np.float16], value: NDArray[np.float32]
) -> Difference:
    """Hold answers to the golden positions against the golden answers."""
    answered = policy_logits.astype(np.float32)
    logit = np.abs(answered - golden.policy_logits) / np.maximum(1, np.abs(golden.policy_logits))
    wanted_log, answered_log = _log_softmax(golden.policy_logits), _log_softmax(answered)
    kl = (np.exp(wanted_log) * (wanted_log - answered_log)).sum(axis=1)
    return Difference(
        logit=float(logit.max()),
        value=float(np.abs(value - golden.value).max()),
        kl=float(kl.mean()),
    )


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
