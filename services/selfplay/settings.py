"""The settings of a self-play process."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from zerofleet.config import ProcessSettings


class SelfplaySettings(ProcessSettings):
    """Those of every process, one for other servers, and two for tests and audits."""

    versions_by_number: bool = False
    """Look up which version is the best, and ask for it by its number: for an inference server that
    is not zerofleet's own and knows no 'best', such as NVIDIA Triton."""

    selfplay_seed: int | None = None
    """The same games each time, given the same predictions; unset: other games each time."""

    selfplay_audit: Path | None = None
    """A file that gets a line for each finished game and for each answer; unset: none."""

    def seeds(self, run_seed: int) -> Iterator[int]:
        """One seed for each engine, without end.

        Two workers of one run must not play the same games, nor a worker after a restart the same
        as before: so the operating system's entropy goes in, unless a test asks otherwise.
        """
        own = self.selfplay_seed
        entropy = secrets.randbits(128) if own is None else own
        sequence = np.random.SeedSequence([run_seed, entropy])
        while True:
            yield int(sequence.spawn(1)[0].generate_state(1, np.uint64)[0])
