"""TensorRT's engines on the disk: one for each model that was loaded, so the old ones must go."""

from __future__ import annotations

import contextlib
from pathlib import Path

KEPT = 24


def prune_engines(folder: Path, kept: int = KEPT) -> int:
    """Remove all but the newest engines, with what lies beside them under the same name.

    The timings, which every build uses again, stay.

    Args:
        folder: TensorRT's cache; it need not exist yet.
        kept: how many engines stay.

    Returns:
        Number of engines removed.
    """
    found = list[tuple[int, Path]]()
    for path in folder.glob("*.engine"):
        with contextlib.suppress(FileNotFoundError):  # other processes may share the folder
            found.append((path.stat().st_mtime_ns, path))
    old = [path for _, path in sorted(found, reverse=True)[kept:]]
    for path in old:
        path.unlink(missing_ok=True)
        path.with_suffix(".profile").unlink(missing_ok=True)
    return len(old)
