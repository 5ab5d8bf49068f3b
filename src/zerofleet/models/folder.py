"""The folder of published models.

::

    <root>/blobs/<sha256>.onnx             the files themselves, read-only, never changed
    <root>/<run>/<version>/model.onnx      the same files again, as NVIDIA Triton wants to find them
    <root>/<run>/config.pbtxt              and their description for Triton

A file's name is the sha256 of its bytes, so whoever reads one can tell whether it is whole.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from zerofleet.errors import ConfigError, IncompatibleModelError, ModelNotFoundError
from zerofleet.models.shape import INPUT, POLICY_OUTPUT, VALUE_OUTPUT, ModelShape

MAX_MODEL_BYTES = 1 << 30  # a bound on what anybody is made to read
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StagedModel:
    """A file that is written and on disk, but has no name yet that anybody looks for."""

    path: Path
    sha256: str


class ModelFolder:
    """The models of one run inside a folder that several runs may share.

    Args:
        root: the folder; made when something is first published.
        run: name of the run.

    Raises:
        ConfigError: the run's name is taken by the folder's own layout.
    """

    def __init__(self, root: Path, run: str) -> None:
        if run == "blobs":
            raise ConfigError("a run cannot be named 'blobs': the model folder uses that name")
        self.root = root
        self.run = run
        self._blobs = root / "blobs"

    def path(self, sha256: str) -> Path:
        """Where the file of this name is or would be.

        Raises:
            ModelNotFoundError: the name is not 64 lower-case hexadecimal digits.
        """
        if not _SHA256.fullmatch(sha256):
            raise ModelNotFoundError(f"{sha256[:80]!r} is not the sha256 of a model")
        return self._blobs / f"{sha256}.onnx"

    def read_verified(self, sha256: str) -> bytes:
        """Read a model; what is returned hashes to the name, whatever happened to the disk.

        Raises:
            ModelNotFoundError: there is no such file.
            IncompatibleModelError: the bytes are not those the name promises.
        """
        path = self.path(sha256)
        try:
            with path.open("rb") as file:
                model_bytes = file.read(MAX_MODEL_BYTES + 1)
        except FileNotFoundError as error:
            raise ModelNotFoundError(f"no model {sha256} in {self._blobs}") from error
        except OSError as error:
            raise IncompatibleModelError(f"cannot read {path}: {error.strerror}") from error
        if len(model_bytes) > MAX_MODEL_BYTES:
            raise IncompatibleModelError(f"{path} is larger than {MAX_MODEL_BYTES} bytes")
        if hashlib.sha256(model_bytes).hexdigest() != sha256:
            raise IncompatibleModelError(
                f"{path} is damaged: its {len(model_bytes)} bytes do not hash to its name"
            )
        return model_bytes

    def stage(self, model_bytes: bytes) -> StagedModel:
        """Write a file under a temporary name in the folder it will stay in, and fsync it."""
        if not self._blobs.is_dir():
            self._blobs.mkdir(parents=True, exist_ok=True)
            fsync_folder(self.root)
        temporary = self._blobs / f".{self.run}-{token_hex(8)}.tmp"
        with temporary.open("wb") as file:
            file.write(model_bytes)
            file.flush()
            os.fchmod(file.fileno(), 0o444)
            os.fsync(file.fileno())
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
        _replace_text(self.root / self.run / "config.pbtxt", triton_config(self.run, shape))
        fsync_folder(folder)
        return entry

    def sweep(self) -> int:
        """Remove what a publication of this run left behind when it was cut off.

        Returns:
            Number of files removed.
        """
        orphans = [
            *self._blobs.glob(f".{self.run}-*.tmp"),
            *(self.root / self.run).glob("*/.*.tmp"),
            *(self.root / self.run).glob(".*.tmp"),
        ]
        for orphan in orphans:
            orphan.unlink(missing_ok=True)
        return len(orphans)


def triton_config(run: str, shape: ModelShape) -> str:
    """The ``config.pbtxt`` with which NVIDIA Triton serves a run's files as they are."""
    return f"""name: "{run}"
platform: "onnxruntime_onnx"
max_batch_size: 1024
version_policy: {{ all {{ }} }}
dynamic_batching {{ }}
input [ {{ name: "{INPUT}" data_type: TYPE_UINT8 dims: [ {shape.observation_bytes} ] }} ]
output [
  {{ name: "{POLICY_OUTPUT}" data_type: TYPE_FP16 dims: [ {shape.num_actions} ] }},
  {{ name: "{VALUE_OUTPUT}" data_type: TYPE_FP32 dims: [ 1 ] reshape: {{ shape: [ ] }} }}
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
