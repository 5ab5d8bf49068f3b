"""The settings of a self-play process."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from zerofleet.config import ProcessSettings


class SelfplaySettings(ProcessSettings):
    """Settings of every process, one for other inference servers, and two for tests and audits."""

    versions_by_number: bool = False
    """Look up the best version, and request it by its number.

    For an inference server other than zerofleet's that has no version 'best', such as NVIDIA
    Triton.
    """

    selfplay_seed: int | None = None
    """Seed for the same games each time, given the same predictions; unset: different games."""

    selfplay_audit: Path | None = None
    """File that gets a line for each finished game and for each answer; unset: none."""

    def seeds(self, run_seed: int) -> Iterator[int]:
        """Yield one seed for each engine, endlessly.

        Two workers of one run must not play the same games, nor a restarted worker its earlier
        games. Therefore the operating system's entropy is added, unless a test sets a seed.
        """
        own = self.selfplay_seed
        entropy = secrets.randbits(128) if own is None else own
        sequence = np.random.SeedSequence([run_seed, entropy])
        while True:
            yield int(sequence.spawn(1)[0].generate_state(1, np.uint64)[0])
