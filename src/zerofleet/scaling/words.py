"""The figures of a decision in words."""

from __future__ import annotations

from zerofleet.config import ScalingSection
from zerofleet.scaling.need import Need


def figures_text(need: Need) -> str:
    """Such as ``reuse 6.1 of 4.0, fill 0.31, wait/compute 0.2``."""
    return (
        f"reuse {need.reuse:.1f} of {need.target:.1f}, "
        f"fill {need.fill:.2f}, wait/compute {need.wait:.1f}"
    )


def inference_text(need: Need, section: ScalingSection, replicas: int) -> str:
    """That inference is what lacks, and by which figure one sees it."""
    most = f", which is at its most ({replicas})" if replicas >= section.max_inference else ""
    return f"inference should grow{most}: {_inference_figures(need, section)}"


def one_machine_text(need: Need, section: ScalingSection) -> str:
    """The same where inference is one process beside all others, and cannot grow."""
    return f"more would wait for inference: {_inference_figures(need, section)}"


def _inference_figures(need: Need, section: ScalingSection) -> str:
    waits = need.wait >= section.max_wait
    sign = f"wait/compute {need.wait:.1f}" if waits else f"load {need.load:.2f}"
    return f"{sign} ({figures_text(need)})"
