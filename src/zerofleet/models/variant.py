"""Models in other precisions than fp32: requested, made and measured.

The trainer runs ``python -m zerofleet.models.variant`` in a separate process, so that a tool that
crashes costs a variant and never the model. Positions come on standard input; one line of JSON, an
``Outcome``, goes to standard output. An accepted variant is left as a staged file in the model
folder; nothing is left of a refused one.
"""

from __future__ import annotations

import io
import json
import os
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import IncompatibleModelError, ZerofleetError
from zerofleet.launch import leave_with
from zerofleet.models.folder import ModelFolder
from zerofleet.models.graph import ModelShape, Shape

if TYPE_CHECKING:
    from zerofleet.models.session import ModelSession


_CPU_SECONDS = 900
_BATCH = 64  # positions


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
    """The wanted variants, and the bounds that they are judged by.

    Args:
        precisions: ``int8``, ``fp16``.
        positions: to make them with and to judge them on.
        bounds: what they may lose.
    """

    precisions: Sequence[str]
    positions: Positions
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class Divergence:
    """Difference between the answers of a variant and of fp32, mean over positions."""

    policy_kl: float  # KL(fp32 || variant), nats
    value_difference: float  # absolute

    def why_refused(self, bounds: Bounds) -> str:
        """Return the figures beyond their bounds, for people; empty if there are none."""
        return ", ".join(
            f"{name} {figure:.3g} is above {bound:g}"
            for name, figure, bound in (
                ("policy_kl", self.policy_kl, bounds.policy_kl),
                ("value_difference", self.value_difference, bounds.value_difference),
            )
            if not figure <= bound
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of making a variant."""

    staged: str | None = None  # its file; None: refused, as the next
    sha256: str | None = None
    policy_kl: float | None = None  # None: not measured, as the next
    value_difference: float | None = None
    reason: str = ""  # why it was refused


def make(
    folder: ModelFolder,
    fp32: bytes,
    shape: ModelShape,
    precision: str,
    positions: Positions,
    bounds: Bounds,
) -> Outcome:
    """Make a variant and judge it; stage it if it is accepted.

    Args:
        folder: where it is staged.
        fp32: the model.
        shape: of its game.
        precision: ``int8`` or ``fp16``.
        positions: to make it with and to judge it on.
        bounds: what it may lose.

    Raises:
        IncompatibleModelError: it cannot be made, or not be run.
        OSError: the folder cannot be written.
    """
    from zerofleet.models.session import ModelSession  # loads ONNX Runtime

    model_bytes = MAKERS[precision](fp32, positions)
    loss = measure(ModelSession(fp32, shape), ModelSession(model_bytes, shape), positions.check)
    reason = loss.why_refused(bounds)
    if reason:
        return Outcome(reason=reason, **asdict(loss))
    staged = folder.stage(model_bytes)
    if sha256(staged.path.read_bytes()).hexdigest() != staged.sha256:
        raise IncompatibleModelError("the bytes on disk differ from what was written")
    return Outcome(staged=str(staged.path), sha256=staged.sha256, **asdict(loss))


def measure(
    reference: ModelSession, variant: ModelSession, observations: NDArray[np.uint8]
) -> Divergence:
    """Hold a variant against its model.

    Raises:
        IncompatibleModelError: an answer is not finite.
    """
    divergence, difference = 0.0, 0.0
    for start in range(0, len(observations), _BATCH):
        batch = np.ascontiguousarray(observations[start : start + _BATCH])
        logits, value = reference.run(batch)
        other_logits, other_value = variant.run(batch)
        log_policy, other_log_policy = _log_softmax(logits), _log_softmax(other_logits)
        divergence += (np.exp(log_policy) * (log_policy - other_log_policy)).sum()
        difference += np.abs(value - other_value).sum(dtype=np.float64)
    if not np.isfinite([divergence, difference]).all():
        raise IncompatibleModelError("it answers with numbers that are not finite")
    return Divergence(float(divergence / len(observations)), float(difference / len(observations)))


def _log_softmax(logits: NDArray[np.float16]) -> NDArray[np.float64]:
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def _int8(fp32: bytes, positions: Positions) -> bytes:
    from zerofleet.models.quantize import quantize_int8  # needs onnx, which only trainers have

    return quantize_int8(fp32, positions.calibration)


def _fp16(fp32: bytes, positions: Positions) -> bytes:
    del positions
    from zerofleet.models.quantize import to_fp16

    return to_fp16(fp32)


MAKERS: Mapping[str, Callable[[bytes, Positions], bytes]] = {"int8": _int8, "fp16": _fp16}


def main() -> int:
    """Make the variant that the command line names.

    Its arguments: the folder's root, the run, the fp32 file, the game's number of actions, the
    precision, and both bounds.
    """
    root, run, path, num_actions, precision, policy_kl, value_difference = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    leave_with(os.getppid())
    bounds = Bounds(float(policy_kl), float(value_difference))
    try:
        fp32, positions = Path(path).read_bytes(), Positions.read(sys.stdin.buffer)
        shape = Shape(positions.check.shape[1], int(num_actions))
        outcome = make(ModelFolder(Path(root), run), fp32, shape, precision, positions, bounds)
    except (ZerofleetError, OSError) as error:
        outcome = Outcome(reason=str(error))
    sys.stdout.write(f"{json.dumps(asdict(outcome), allow_nan=False)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
