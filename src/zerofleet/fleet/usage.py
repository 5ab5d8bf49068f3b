"""Duration and CPU time of a run, from ``usage.json`` in its data folder."""

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
    """Return the usage of a run, and its curve.

    The curve has pairs of a time, in seconds since 1970, and the CPU-seconds until then.

    ``UsageMeter`` writes the file. If it is missing or damaged, the usage is 0 and the curve is
    empty. The curve is also empty in a file of an older version, which saved none.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        usage = Usage(float(content["wall_seconds"]), float(content["cpu_seconds"]))
        curve = [(float(at), float(cpu)) for at, cpu in content.get("curve", ())]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return Usage(0.0, 0.0), []
    return usage, curve
