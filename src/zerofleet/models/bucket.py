"""Published models in an S3-compatible bucket.

::

    <prefix>/blobs/<sha256>.onnx                 the files themselves, never changed
    <prefix>/triton/<run>/<version>/model.onnx   the fp32 files again, as NVIDIA Triton wants them
    <prefix>/triton/<run>/config.pbtxt           and their description for Triton
    <prefix>/notes/<run>/<number>                files of publications that are not recorded yet

Triton's repository has a folder of its own here, because Triton takes every folder that it finds in
one for a model. An object comes to be in one step, so nothing is ever half there.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable
from hashlib import sha256 as sha256_of
from pathlib import Path
from secrets import token_hex

import structlog

from zerofleet.errors import IncompatibleModelError, ModelNotFoundError, StoreUnavailableError
from zerofleet.models.bucket_objects import Objects
from zerofleet.models.folder import MAX_MODEL_BYTES, ModelFolder, StagedModel, triton_config
from zerofleet.models.graph import ModelShape

_log = structlog.get_logger()

_MOST_CACHE_BYTES = 4 << 30
_MOST_NOTE_BYTES = 4096
_MOST_CONFIG_BYTES = 65_536
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ModelBucket:
    """A ``ModelStore`` in a bucket that several runs may share.

    Args:
        local: a folder of this machine; files are staged and kept in ``cache/`` in it.
        max_batch_rows: most rows of one batch, for Triton to keep to.
    """

    def __init__(self, objects: Objects, run: str, local: Path, max_batch_rows: int = 1024) -> None:
        self.run = run
        self._objects = objects
        self._max_batch_rows = max_batch_rows
        # Not the folder itself: files that were published there must not be taken for copies.
        self._local = ModelFolder(local / "cache", run)
        self._cache = ModelCache(self._local)

    @property
    def staging(self) -> Path:
        """See ``ModelStore``."""
        return self._local.root

    def check(self) -> None:
        """See ``ModelStore``."""
        self._objects.keys(self._notes)

    def location(self, sha256: str) -> str:
        """See ``ModelStore``."""
        return self._local.location(sha256)

    def read_verified(self, sha256: str) -> bytes:
        """See ``ModelStore``; what this machine has already is not fetched."""
        content = self._cache.get(sha256)
        if content is not None:
            return content
        content = self._fetch(sha256)
        if sha256_of(content).hexdigest() != sha256:
            content = self._fetch(sha256)  # it may have been damaged on its way
        if sha256_of(content).hexdigest() != sha256:
            raise IncompatibleModelError(
                f"{self._place(sha256)} is damaged: its {len(content)} bytes do not hash to its "
                "name; put it back from a backup"
            )
        self._cache.put(content)
        return content

    def stage(self, model_bytes: bytes) -> StagedModel:
        """See ``ModelStore``."""
        return self._local.stage(model_bytes)

    def announce(self, names: Iterable[str]) -> Callable[[], None]:
        """See ``ModelStore``."""
        key = f"{self._notes}/{token_hex(8)}"
        self._objects.write(key, "\n".join(names).encode("ascii"))
        return lambda: self._objects.remove(key)

    def publish(self, staged: StagedModel) -> None:
        """See ``ModelStore``; what came to be there has been read back and hashed.

        Raises:
            IncompatibleModelError: the staged file has changed.
        """
        content = staged.path.read_bytes()
        if sha256_of(content).hexdigest() != staged.sha256:
            raise IncompatibleModelError("the bytes on disk differ from what was written")
        self._objects.create(self.location(staged.sha256), content)
        if self._is_whole(staged.sha256):
            return
        self._objects.write(self.location(staged.sha256), content)
        if not self._is_whole(staged.sha256):
            raise StoreUnavailableError(
                f"{self._place(staged.sha256)} gives back other bytes than were put there"
            )

    def expose(self, sha256: str, version: int, shape: ModelShape) -> None:
        """See ``ModelStore``."""
        folder = f"triton/{self.run}"
        self._objects.copy(self.location(sha256), f"{folder}/{version}/model.onnx")
        config = triton_config(self.run, shape, self._max_batch_rows).encode()
        key = f"{folder}/config.pbtxt"
        # Triton loads every version again when this changes, or seems to.
        if self._read_small(key, _MOST_CONFIG_BYTES) != config:
            self._objects.write(key, config)

    def remove(self, version: int, sha256s: Iterable[str]) -> None:
        """See ``ModelStore``."""
        self._objects.remove(f"triton/{self.run}/{version}/model.onnx")
        for sha256 in sha256s:
            self._objects.remove(self.location(sha256))

    def sweep(self, is_recorded: Callable[[str], bool]) -> int:
        """See ``ModelStore``; a note goes after the files that it names."""
        removed = self._local.sweep(lambda _: True)
        for key in self._objects.keys(self._notes):
            note = self._read_small(key, _MOST_NOTE_BYTES) or b""
            for name in note.decode("ascii", "replace").split():
                if _SHA256.fullmatch(name) and not is_recorded(name):
                    self._objects.remove(self.location(name))
                    removed += 1
            self._objects.remove(key)
            removed += 1
        return removed

    @property
    def _notes(self) -> str:
        return f"notes/{self.run}"

    def _place(self, sha256: str) -> str:
        return self._objects.place(self.location(sha256))

    def _fetch(self, sha256: str) -> bytes:
        content = self._objects.read(self.location(sha256), MAX_MODEL_BYTES)
        if content is None:
            raise ModelNotFoundError(f"there is no {self._place(sha256)}")
        return content

    def _is_whole(self, sha256: str) -> bool:
        content = self._objects.read(self.location(sha256), MAX_MODEL_BYTES)
        return content is not None and sha256_of(content).hexdigest() == sha256

    def _read_small(self, key: str, most_bytes: int) -> bytes | None:
        try:
            return self._objects.read(key, most_bytes)
        except IncompatibleModelError:
            return None  # too large to be ours


class ModelCache:
    """Least-recently-used cache of a bucket's models in a ``ModelFolder``.

    If the disk cannot be written, models are downloaded again.

    Args:
        folder: used only for this cache; several processes may share it.
        most_bytes: limit of the total size. The newest file counts but is never removed.
    """

    def __init__(self, folder: ModelFolder, most_bytes: int = _MOST_CACHE_BYTES) -> None:
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
