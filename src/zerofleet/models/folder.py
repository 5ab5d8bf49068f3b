"""The folder of published models.

::

    <root>/blobs/<sha256>.onnx             the files themselves, read-only, never changed
    <root>/<run>/<version>/model.onnx      the same files again, as NVIDIA Triton wants to find them
    <root>/<run>/config.pbtxt              and their description for Triton

A file's name is the sha256 of its bytes, so a reader can tell whether it is whole.
Variants of a model in other precisions are among the blobs; Triton is shown the fp32 files alone.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from zerofleet.errors import (
    ConfigError,
    IncompatibleModelError,
    ModelNotFoundError,
    StoreUnavailableError,
)
from zerofleet.models.graph import ModelShape
from zerofleet.prediction import OBSERVATION, POLICY_LOGITS, VALUE

MAX_MODEL_BYTES = 1 << 30  # no reader takes more into memory
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StagedModel:
    """A file that is on disk under a temporary name, which no reader looks for."""

    path: Path
    sha256: str


class ModelFolder:
    """The models of one run inside a folder that several runs may share.

    Args:
        root: the folder; made when something is first published.
        max_batch_rows: most rows of one batch, for Triton to keep to.

    Raises:
        ConfigError: the run's name is taken by the folder's own layout.
    """

    def __init__(self, root: Path, run: str, max_batch_rows: int = 1024) -> None:
        if run == "blobs":
            raise ConfigError("a run cannot be named 'blobs': the model folder uses that name")
        self.root = root
        self.run = run
        self._max_batch_rows = max_batch_rows
        self._blobs = root / "blobs"
        # Another run's name may begin with ours and a hyphen.
        self._temporary = re.compile(rf"\.{re.escape(run)}-[0-9a-f]{{16}}\.(tmp|names)")

    @property
    def staging(self) -> Path:
        """See ``ModelStore``."""
        return self.root

    def check(self) -> None:
        """See ``ModelStore``; nothing to do here: staging reports a disk that cannot be written."""

    def path(self, sha256: str) -> Path:
        """Return the path that the file of this name has or would have.

        Raises:
            ModelNotFoundError: the name is not 64 lower-case hexadecimal digits.
        """
        if not _SHA256.fullmatch(sha256):
            raise ModelNotFoundError(f"{sha256[:80]!r} is not the sha256 of a model")
        return self._blobs / f"{sha256}.onnx"

    def location(self, sha256: str) -> str:
        """Return that path relative to the folder, as rows have it."""
        return str(self.path(sha256).relative_to(self.root))

    def read_verified(self, sha256: str) -> bytes:
        """Read a model; what is returned hashes to the name, whatever happened to the disk.

        Raises:
            ModelNotFoundError: there is no such file.
            IncompatibleModelError: the bytes are not those the name promises.
            StoreUnavailableError: the disk does not give them; they may be good ones.
        """
        path = self.path(sha256)
        try:
            with path.open("rb") as file:
                model_bytes = file.read(MAX_MODEL_BYTES + 1)
        except FileNotFoundError as error:
            raise ModelNotFoundError(f"no model {sha256} in {self._blobs}") from error
        except OSError as error:
            raise StoreUnavailableError(
                f"cannot read {path}: {error.strerror}; check its disk and who may read there"
            ) from error
        if len(model_bytes) > MAX_MODEL_BYTES:
            raise IncompatibleModelError(f"{path} is larger than {MAX_MODEL_BYTES} bytes")
        if hashlib.sha256(model_bytes).hexdigest() != sha256:
            raise IncompatibleModelError(
                f"{path} is damaged: its {len(model_bytes)} bytes do not hash to its name"
            )
        return model_bytes

    def stage(self, model_bytes: bytes) -> StagedModel:
        """Write a file under a temporary name in the folder it will stay in, and fsync it.

        Raises:
            OSError: the disk does not take it; nothing is left behind.
        """
        if not self._blobs.is_dir():
            self._blobs.mkdir(parents=True, exist_ok=True)
            fsync_folder(self.root)
        temporary = self._blobs / f".{self.run}-{token_hex(8)}.tmp"
        try:
            with temporary.open("wb") as file:
                file.write(model_bytes)
                file.flush()
                os.fchmod(file.fileno(), 0o444)
                os.fsync(file.fileno())
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        return StagedModel(temporary, hashlib.sha256(model_bytes).hexdigest())

    def publish(self, staged: StagedModel) -> Path:
        """Give a staged file its lasting name; after this it survives a power cut.

        The same bytes may be published again: the name, and what it names, stay the same.
        """
        path = self.path(staged.sha256)
        staged.path.replace(path)
        fsync_folder(self._blobs)
        return path

    def expose(self, sha256: str, version: int, shape: ModelShape) -> Path:
        """Enter a published file into the Triton repository as ``<run>/<version>/model.onnx``."""
        source = self.path(sha256)
        folder = self.root / self.run / str(version)
        folder.mkdir(parents=True, exist_ok=True)
        entry = folder / "model.onnx"
        temporary = folder / f".{token_hex(8)}.tmp"
        _link_or_copy(source, temporary)
        temporary.replace(entry)
        # Two links to one file: rename does nothing then and leaves the temporary name behind.
        temporary.unlink(missing_ok=True)
        config = triton_config(self.run, shape, self._max_batch_rows)
        _replace_text(self.root / self.run / "config.pbtxt", config)
        fsync_folder(folder)
        return entry

    def announce(self, names: Iterable[str]) -> Callable[[], None]:
        """Note, on disk, files that will be named before anything else tells of them.

        Returns:
            A function that removes the note, to be called once the files are recorded; what is
            noted and not recorded is swept.
        """
        note = self._blobs / f".{self.run}-{token_hex(8)}.names"
        with note.open("w", encoding="ascii") as file:
            file.write("\n".join(names))
            file.flush()
            os.fsync(file.fileno())
        fsync_folder(self._blobs)
        return note.unlink

    def remove(self, version: int, sha256s: Iterable[str]) -> None:
        """See ``ModelStore``."""
        for sha256 in sha256s:
            self.path(sha256).unlink(missing_ok=True)
        shutil.rmtree(self.root / self.run / str(version), ignore_errors=True)

    def sweep(self, is_recorded: Callable[[str], bool]) -> int:
        """Remove what publications of this run left behind when they were cut off.

        Args:
            is_recorded: whether anything tells of the file of this sha256; asked of announced files
                alone.

        Returns:
            Number of files removed.
        """
        orphans = list(self._orphans(is_recorded))
        for orphan in orphans:
            orphan.unlink(missing_ok=True)
        return len(orphans)

    def _orphans(self, is_recorded: Callable[[str], bool]) -> Iterator[Path]:
        """Notes come after the files that they name, so that a sweep may be cut off as well."""
        for path in self._blobs.glob(f".{self.run}-*"):
            if not self._temporary.fullmatch(path.name):
                continue
            if path.suffix == ".names":
                names = path.read_text(encoding="ascii", errors="replace").split()
                # A power cut may have left anything in it.
                announced = (self.path(name) for name in names if _SHA256.fullmatch(name))
                yield from (
                    file for file in announced if file.exists() and not is_recorded(file.stem)
                )
            yield path
        yield from (self.root / self.run).glob("*/.*.tmp")
        yield from (self.root / self.run).glob(".*.tmp")


def triton_config(run: str, shape: ModelShape, max_batch_rows: int) -> str:
    """The ``config.pbtxt`` with which NVIDIA Triton serves a run's files as they are.

    It loads every version that is there, since any may be the best or in a match, and its batcher
    takes what waits without a delay, as ours does.
    """
    return f"""name: "{run}"
platform: "onnxruntime_onnx"
max_batch_size: {max_batch_rows}
version_policy: {{ all {{ }} }}
dynamic_batching {{ }}
input [ {{ name: "{OBSERVATION}" data_type: TYPE_UINT8 dims: [ {shape.observation_bytes} ] }} ]
output [
  {{ name: "{POLICY_LOGITS}" data_type: TYPE_FP16 dims: [ {shape.num_actions} ] }},
  {{ name: "{VALUE}" data_type: TYPE_FP32 dims: [ 1 ] reshape: {{ shape: [ ] }} }}
]
"""


def fsync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        # Not every file system has hard links (network shares, some container mounts).
        if error.errno not in {errno.EPERM, errno.EXDEV, errno.EOPNOTSUPP, errno.EMLINK}:
            raise
        shutil.copyfile(source, target)
        target.chmod(0o444)


def _replace_text(path: Path, text: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if path.read_text(encoding="utf-8") == text:
            return
    temporary = path.with_name(f".{path.name}-{token_hex(8)}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
