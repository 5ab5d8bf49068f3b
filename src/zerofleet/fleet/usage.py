"""Duration and CPU time of a run, as its data folder has them in ``usage.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Usage:
    """Seconds since the first game, over all the times the run was up."""

    wall_seconds: float
    cpu_seconds: float


def read_usage(file: Path) -> tuple[Usage, list[tuple[float, float]]]:
    """Return what a run took, and its curve: times in seconds since 1970 with the CPU-seconds.

    ``UsageMeter`` writes the file. The usage is 0 if the file is missing or damaged. The curve is
    empty if a version of zerofleet wrote the file that saved none.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        usage = Usage(float(content["wall_seconds"]), float(content["cpu_seconds"]))
        curve = [(float(at), float(cpu)) for at, cpu in content.get("curve", ())]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Usage(0.0, 0.0), []
    return usage, curve
