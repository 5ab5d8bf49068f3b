"""How predictions are served: ``[inference]``."""

from typing import Literal

from pydantic import Field

from zerofleet.config.section import Section


class InferenceSection(Section):
    """``[inference]``: how predictions are batched, and what they are computed on."""

    max_batch_rows: int = Field(default=1024, ge=1)
    """Most rows of one batch; also the most of one request."""
    max_queue_rows: int = Field(default=16_384, ge=1)
    """Rows that may wait; beyond, requests are refused with RESOURCE_EXHAUSTED."""
    sessions: int = Field(default=1, ge=1)
    """ONNX Runtime sessions that run side by side: on the CPU of one thread each; on a GPU a second
    one overlaps copies with computation."""
    provider: Literal["auto", "cpu", "cuda", "tensorrt", "openvino"] = "auto"
    """What the network runs on; ``auto`` is CUDA where the installed ONNX Runtime has it and it
    works, else the CPU."""
    require_gpu: bool = False
    """End with an error rather than run on anything but a GPU."""
    precision: Literal["auto", "fp32", "int8", "fp16"] = "auto"
    """Which variant of a model answers, where it was published and accepted; ``auto`` measures
    which is fastest here and takes another one than fp32 when it is at least 15% faster."""
    cuda_graphs: bool = False
    """Record a CUDA graph for each batch size and replay it (provider ``cuda`` only)."""
