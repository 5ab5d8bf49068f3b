"""``python -m zerofleet.models.check FILE SHA256``: load a model as its users will, and compare.

The trainer runs this in a separate process before a file gets its lasting name: what is proved is
that a program without torch can load these bytes and agrees with torch about them. Golden answers
come on standard input. It exits with 0 and one line of JSON, or with 1 and one line that says why
not. Only numpy and ONNX Runtime are imported: it costs about 0.3 CPU-seconds, nearly all of it to
start Python and load the runtime.
"""

from __future__ import annotations

import io
import json
import resource
import sys
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import IncompatibleModelError, ZerofleetError
from zerofleet.models.graph import Shape

# Most that a file may differ from the network it was exported from. Logits travel as float16,
# whose spacing is 2^-11 of the number; the rest is the order of float32 sums.
LOGIT_TOLERANCE = 2e-3  # times max(1, |logit|)
VALUE_TOLERANCE = 1e-4
KL_TOLERANCE = 1e-5  # nats, mean over positions, of softmax(golden) against softmax(answer)

_CPU_SECONDS = 120


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


def check(model_bytes: bytes, expected_sha256: str, golden: Golden) -> Difference:
    """Load the bytes and compare their answers with the golden ones.

    Raises:
        IncompatibleModelError: damaged, not loadable, or its answers differ by more than rounding.
    """
    if sha256(model_bytes).hexdigest() != expected_sha256:
        raise IncompatibleModelError("the bytes on disk differ from what was written")
    from zerofleet.models.session import ModelSession  # loads ONNX Runtime

    shape = Shape(golden.observations.shape[1], golden.policy_logits.shape[1])
    session = ModelSession(model_bytes, shape)
    difference = compare(golden, *session.run(golden.observations))
    if not difference.acceptable:
        raise IncompatibleModelError(f"the exported model disagrees with the network: {difference}")
    return difference


def main() -> int:
    """Check the file named on the command line."""
    path, expected_sha256 = sys.argv[1:]
    # A damaged file must not take the machine with it.
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        golden = Golden.read(sys.stdin.buffer)
        difference = check(Path(path).read_bytes(), expected_sha256, golden)
    except (ZerofleetError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{json.dumps(asdict(difference))}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
