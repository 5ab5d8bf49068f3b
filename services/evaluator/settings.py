"""The settings of an evaluator process."""

from __future__ import annotations

import os
import socket

from zerofleet.config import ProcessSettings


class EvaluatorSettings(ProcessSettings):
    """Those of every process."""

    @property
    def worker_name(self) -> str:
        """The name in promotions, games and heartbeats."""
        return self.worker or f"{socket.gethostname()}-{os.getpid()}"
