"""A model in another precision than fp32: what is asked for, and what became of it."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Bounds:
    """Most that a variant may lose against fp32, mean over positions."""

    policy_kl: float  # KL(fp32 || variant), nats
    value_difference: float  # absolute


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """Observations ``[positions, observation_bytes]`` uint8 of two kinds."""

    calibration: NDArray[np.uint8]  # from which a variant may learn its ranges
    check: NDArray[np.uint8]  # on which it is held against fp32

    def to_bytes(self) -> bytes:
        """Both in numpy's own format."""
        file = io.BytesIO()
        for part in (self.calibration, self.check):
            np.save(file, part, allow_pickle=False)
        return file.getvalue()

    @classmethod
    def read(cls, file: BinaryIO) -> Self:
        """Rebuild from ``to_bytes``."""
        content = io.BytesIO(file.read())
        return cls(*(np.load(content, allow_pickle=False) for _ in range(2)))


@dataclass(frozen=True, slots=True)
class VariantRequest:
    """Which variants are wanted, and what they are judged by.

    Args:
        precisions: ``int8``, ``fp16``.
        positions: to make them with and to judge them on.
        bounds: what they may lose.
        waiting: told, about every second, which one is being made; what it raises ends the
            publication.
    """

    precisions: Sequence[str]
    positions: Positions
    bounds: Bounds
    waiting: Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Variant:
    """A model in another precision, or why there is none."""

    precision: str
    sha256: str | None = None  # of its file; None: refused, as the next
    location: str | None = None  # within the store
    policy_kl: float | None = None  # as in Bounds; None: not measured, as the next
    value_difference: float | None = None
    reason: str = ""  # why it was refused; empty: it was not
