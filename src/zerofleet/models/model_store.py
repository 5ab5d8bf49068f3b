"""The store of published models: a folder or an S3-compatible bucket, with one interface."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from zerofleet.models.folder import ModelFolder, StagedModel
from zerofleet.models.graph import ModelShape

if TYPE_CHECKING:
    from zerofleet.config import ProcessSettings


class ModelStore(Protocol):
    """The models of one run.

    A file's name is the sha256 of its bytes. It is staged first, where only its maker looks, and
    published once it has been checked. All methods block. A bucket raises
    ``StoreUnavailableError`` while it does not answer or refuses. A folder raises ``OSError``, and
    ``StoreUnavailableError`` in ``read_verified``.
    """

    @property
    def run(self) -> str:
        """Name of the run."""
        ...

    @property
    def staging(self) -> Path:
        """The local folder in which a ``ModelFolder`` of this run stages files."""
        ...

    def check(self) -> None:
        """Raise what a publication would raise at once; cheap."""
        ...

    def location(self, sha256: str) -> str:
        """Return the place of a file within the store, as rows have it."""
        ...

    def read_verified(self, sha256: str) -> bytes:
        """Read a model; what is returned hashes to the name.

        Raises:
            ModelNotFoundError: there is no such file.
            IncompatibleModelError: the bytes do not hash to the name.
            StoreUnavailableError: they cannot be read now.
        """
        ...

    def stage(self, model_bytes: bytes) -> StagedModel:
        """Write a file that has no lasting name yet."""
        ...

    def announce(self, names: Iterable[str]) -> Callable[[], None]:
        """Note files that will be published before anything else tells of them.

        Returns:
            A function that removes the note, to be called once the files are recorded. What is
            noted and not recorded is swept.
        """
        ...

    def publish(self, staged: StagedModel) -> object:
        """Give a staged file its lasting name. The same bytes may be published again."""
        ...

    def expose(self, sha256: str, version: int, shape: ModelShape) -> object:
        """Enter a published file into the repository that NVIDIA Triton reads."""
        ...

    def remove(self, version: int, sha256s: Iterable[str]) -> None:
        """Remove a model's files and its entry in Triton's repository; what is gone is no error.

        Args:
            version: of the model.
            sha256s: its file and its variants' files, except files that another model has too.
        """
        ...

    def sweep(self, is_recorded: Callable[[str], bool]) -> int:
        """Remove what publications of this run left behind when they were cut off.

        Args:
            is_recorded: whether anything tells of the file of this sha256.

        Returns:
            Number of files removed.
        """
        ...


def open_store(settings: ProcessSettings, run: str, max_batch_rows: int = 1024) -> ModelStore:
    """The store that the settings name: ``model_store`` if that is set, else ``model_folder``.

    Args:
        settings: of this process.
        run: name of the run.
        max_batch_rows: most rows of one batch, for Triton to keep to.

    Raises:
        ConfigError: a setting that a person must mend, or the package for buckets is missing.
    """
    if settings.model_store is None:
        return ModelFolder(settings.model_folder, run, max_batch_rows)
    # Only who has a bucket pays for this, and needs the package behind it.
    from zerofleet.models.bucket import ModelBucket, Objects, bucket_address

    address = bucket_address(
        settings.model_store,
        settings.model_store_endpoint,
        settings.model_store_credentials,
        allow_plaintext=settings.allow_plaintext,
    )
    return ModelBucket(Objects(address), run, settings.model_folder, max_batch_rows)
