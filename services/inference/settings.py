"""The settings of an inference process."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from zerofleet.config import ProcessSettings


class InferenceSettings(ProcessSettings):
    """The settings of every process, and some of its own."""

    inference_keep_models: int = 8
    """Model files in memory at once, with the files of the best version."""
    call_seconds: float = Field(default=60.0, gt=0)
    """The deadline of a unary call whose client sets none."""
    inference_drain_seconds: float = 5.0
    """After SIGTERM, the longest time for answering what has come."""
    devices: str = ""
    """GPUs by number: ``1``, or several as ``0,1`` or ``all``: then one process for each, behind
    one address."""
    engine_folder: Path = Path("engines")
    """Folder in which TensorRT keeps its engine of each model."""
    share_port: bool = False
    """Set for the processes that share an address."""
