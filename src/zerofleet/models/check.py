"""``python -m zerofleet.models.check FILE SHA256``: load a model as its users will, and compare.

The trainer runs this in a separate process before a file gets its lasting name: what is proved is
that a program without torch can load these bytes and agrees with torch about them. Golden answers
come on standard input. It exits with 0 and one line of JSON, or with 1 and one line that says why
not. Only numpy and ONNX Runtime are imported: it costs about 0.3 CPU-seconds, nearly all of it to
start Python and load the runtime.
"""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from zerofleet.errors import IncompatibleModelError, ZerofleetError
from zerofleet.models.golden import Difference, Golden, compare
from zerofleet.models.session import ModelSession
from zerofleet.models.shape import Shape

_CPU_SECONDS = 120


def check(model_bytes: bytes, expected_sha256: str, golden: Golden) -> Difference:
    """Load the bytes and compare their answers with the golden ones.

    Raises:
        IncompatibleModelError: damaged, not loadable, or its answers differ by more than rounding.
    """
    if sha256(model_bytes).hexdigest() != expected_sha256:
        raise IncompatibleModelError("the bytes on disk are not those that were written")
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
