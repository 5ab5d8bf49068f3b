"""How predictions are served: ``[inference]``."""

from pydantic import Field

from zerofleet.config.section import Section


class InferenceSection(Section):
    """``[inference]``: how predictions are batched."""

    max_batch_rows: int = Field(default=1024, ge=1)
    """Most rows of one batch; also the most of one request."""
    max_queue_rows: int = Field(default=16_384, ge=1)
    """Rows that may wait; beyond, requests are refused with RESOURCE_EXHAUSTED."""
    sessions: int = Field(default=1, ge=1)
    """ONNX Runtime sessions of one thread each that run side by side (on CPU)."""
