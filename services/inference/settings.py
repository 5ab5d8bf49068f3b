"""The settings of an inference process."""

from __future__ import annotations

import os
import socket

from zerofleet.config import ProcessSettings


class InferenceSettings(ProcessSettings):
    """Those of every process, and two of its own."""

    inference_keep_models: int = 6
    """Versions in memory at once, the best among them."""
    inference_drain_seconds: float = 5.0
    """After SIGTERM, the longest time for answering what has come."""

    @property
    def worker_name(self) -> str:
        """The name in heartbeats."""
        return self.worker or f"{socket.gethostname()}-{os.getpid()}"
