"""Verified model files on this machine's disk, so that a restart need not fetch them again."""

from __future__ import annotations

import contextlib
import os

import structlog

from zerofleet.errors import IncompatibleModelError, ModelNotFoundError, StoreUnavailableError
from zerofleet.models.folder import ModelFolder

_MOST_BYTES = 4 << 30

_log = structlog.get_logger()


class ModelCache:
    """Copies of a bucket's models in a ``ModelFolder``; the longest unused are removed first.

    A disk that cannot be written does no harm: models are then fetched again.

    Args:
        folder: for this alone; several processes may share it.
        most_bytes: of all files together, the newest excepted.
    """

    def __init__(self, folder: ModelFolder, most_bytes: int = _MOST_BYTES) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._complained = False

    def get(self, sha256: str) -> bytes | None:
        """A file that is here and whole, or None.

        A damaged file is removed; one that cannot be read now stays, as it may be whole.
        """
        path = self._folder.path(sha256)
        try:
            content = self._folder.read_verified(sha256)
        except (ModelNotFoundError, StoreUnavailableError):
            return None
        except IncompatibleModelError:
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # used now
        return content

    def put(self, content: bytes) -> None:
        """Keep a file, in the place of others if need be."""
        try:
            staged = self._folder.stage(content)
            self._folder.publish(staged)
            self._evict(staged.sha256)
        except OSError as error:
            if not self._complained:
                self._complained = True
                _log.warning("model_cache_not_written", reason=str(error))

    def _evict(self, newest: str) -> None:
        kept = self._folder.path(newest)
        files = [(path.stat(), path) for path in kept.parent.glob("*.onnx") if path != kept]
        free = self._most_bytes - kept.stat().st_size
        for status, path in sorted(files, key=lambda file: file[0].st_mtime_ns, reverse=True):
            free -= status.st_size
            if free < 0:
                path.unlink(missing_ok=True)
