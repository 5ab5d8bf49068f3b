"""Published models in an S3-compatible bucket.

::

    <prefix>/blobs/<sha256>.onnx                 the files themselves, never changed
    <prefix>/triton/<run>/<version>/model.onnx   the fp32 files again, as NVIDIA Triton wants them
    <prefix>/triton/<run>/config.pbtxt           and their description for Triton
    <prefix>/notes/<run>/<number>                files of publications that are not recorded yet

Triton's repository has a folder of its own here, because Triton takes every folder that it finds in
one for a model. An object comes to be in one step, so nothing is ever half there.

``ModelBucket`` knows this layout. ``Objects`` talks to the server and explains its errors.
"""

from __future__ import annotations

import configparser
import contextlib
import ipaddress
import os
import re
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256 as sha256_of
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

import structlog

from zerofleet.errors import (
    ConfigError,
    IncompatibleModelError,
    ModelNotFoundError,
    StoreUnavailableError,
)
from zerofleet.models.folder import MAX_MODEL_BYTES, ModelFolder, StagedModel, triton_config
from zerofleet.models.graph import ModelShape

if TYPE_CHECKING:
    from obstore.store import S3Credential, S3Store

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


_VARIABLE = "ZEROFLEET_MODEL_STORE"
_SMALL_SECONDS = 10  # for a request without a model in it
_LARGE_SECONDS = 120  # for one with: a gibibyte at 9 MB/s
_RETRY_SECONDS = 20  # after which no further try begins
# obstore asks again five minutes before the end: a rotated file is seen within one minute.
_CREDENTIALS_SECONDS = 360


@dataclass(frozen=True, slots=True)
class Credentials:
    """A key to a bucket; its text shows nothing of it."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None
    region: str | None

    def __repr__(self) -> str:
        return "Credentials(...)"


@dataclass(frozen=True, slots=True)
class BucketAddress:
    """A folder of a bucket."""

    bucket: str
    prefix: str  # without slashes at its ends; may be empty
    endpoint: str | None  # URL of the server; None: AWS
    credentials: Path | None  # None: the identity that the machine or pod has

    def __str__(self) -> str:
        return "/".join(filter(None, ("s3:/", self.bucket, self.prefix)))

    def credentials_hint(self) -> str:
        """Return the source of the credentials, for errors."""
        if self.credentials is None:
            return "the machine's own identity (AWS_*, web identity, instance metadata)"
        return f"{_VARIABLE}_CREDENTIALS = {self.credentials}"


def bucket_address(
    url: str,
    endpoint: str | None = None,
    credentials: Path | None = None,
    *,
    allow_plaintext: bool = False,
) -> BucketAddress:
    """Read what the settings say.

    Args:
        url: ``s3://bucket/prefix``.
        endpoint: URL of an S3-compatible server; None: AWS.
        credentials: file in the format of AWS' shared credentials; None: the machine's identity.
        allow_plaintext: let ``http`` be used with other hosts than this machine.

    Raises:
        ConfigError: one of them cannot be used; the message repeats no part that may be a secret.
    """
    bucket, prefix = _read_url(url)
    if endpoint is not None:
        _check_endpoint(endpoint, allow_plaintext=allow_plaintext)
        endpoint = endpoint.rstrip("/")
    if credentials is not None:
        read_credentials(credentials)
    return BucketAddress(bucket, prefix, endpoint, credentials)


def _read_url(url: str) -> tuple[str, str]:
    parts = _split(_VARIABLE, url)
    if parts.scheme != "s3" or not parts.netloc:
        raise ConfigError(
            f"{_VARIABLE} = '{url}': give s3://bucket/prefix, or leave it unset to use "
            "ZEROFLEET_MODEL_FOLDER"
        )
    segments = [segment for segment in parts.path.split("/") if segment]
    if parts.query or parts.fragment or {".", ".."}.intersection(segments) or ":" in parts.netloc:
        raise ConfigError(
            f"{_VARIABLE} = '{url}': give a bucket and a prefix and nothing else; an S3-compatible "
            f"server is named by {_VARIABLE}_ENDPOINT"
        )
    return parts.netloc, "/".join(segments)


def _check_endpoint(endpoint: str, *, allow_plaintext: bool) -> None:
    parts = _split(f"{_VARIABLE}_ENDPOINT", endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigError(
            f"{_VARIABLE}_ENDPOINT = '{endpoint}': give the URL of a server, https://host:port"
        )
    if parts.scheme == "http" and not allow_plaintext and not _is_loopback(parts.hostname):
        raise ConfigError(
            f"{_VARIABLE}_ENDPOINT = '{endpoint}' is plain http to another machine: give https, or "
            "set ZEROFLEET_ALLOW_PLAINTEXT=true where the network between them is private"
        )


def _split(variable: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        has_user = "@" in parts.netloc
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"{variable} is not a URL: {error}") from None
    if has_user:  # not repeated: what stands there may be a secret
        raise ConfigError(
            f"{variable} has a user name or password in it: put credentials into a file and name "
            f"it by {_VARIABLE}_CREDENTIALS"
        )
    return parts


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_credentials(path: Path) -> Credentials:
    """Read a file in the format of AWS' shared credentials: its default or only profile.

    Raises:
        ConfigError: it cannot be read, or lacks a key; nothing of its content is repeated.
    """
    where = f"{_VARIABLE}_CREDENTIALS = {path}"
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{where}: cannot be read: {error.strerror}") from None
    except (configparser.Error, UnicodeDecodeError):
        raise ConfigError(
            f"{where}: is not in the format of AWS' shared credentials; begin it with [default]"
        ) from None
    names = parser.sections()
    name = "default" if "default" in names or not names else names[0]
    if name not in names or (name != "default" and len(names) > 1):
        raise ConfigError(f"{where}: has no profile [default]")
    profile = parser[name]
    for key in ("aws_access_key_id", "aws_secret_access_key"):
        if not profile.get(key):
            raise ConfigError(f"{where}: its profile [{name}] has no {key}")
    return Credentials(
        profile["aws_access_key_id"],
        profile["aws_secret_access_key"],
        profile.get("aws_session_token"),
        profile.get("region"),
    )


class Objects:
    """A folder of a bucket, as keys under its prefix.

    Failed requests are tried again, with back-off, for about ``_RETRY_SECONDS``. After that every
    method raises ``StoreUnavailableError``, which names the object and the way out.

    Raises:
        ConfigError: the package for buckets is missing, or the credentials cannot be read.
    """

    def __init__(self, address: BucketAddress) -> None:
        self._address = address
        self._small = _open(address, _SMALL_SECONDS, retries=2)
        self._large = _open(address, _LARGE_SECONDS, retries=5)
        self._has_conditions = True

    def __repr__(self) -> str:
        return str(self._address)

    def place(self, key: str) -> str:
        """An object's name, for people."""
        return f"{self._address}/{key}"

    def read(self, key: str, most_bytes: int) -> bytes | None:
        """An object's bytes; None where there is none.

        Raises:
            IncompatibleModelError: it is larger than that; none of it was read.
        """
        import obstore

        with self._our_errors("read", key):
            try:
                found = obstore.get(self._large, key)
            except FileNotFoundError as error:
                _raise_if_no_bucket(error)
                return None
            size = found.meta["size"]
            if size <= most_bytes:
                return bytes(found.bytes())
        raise IncompatibleModelError(
            f"{self.place(key)} has {size} bytes: more than {most_bytes} are not read"
        )

    def create(self, key: str, content: bytes) -> None:
        """Write an object that is never replaced; one that is there stays, whatever it holds.

        A server that knows no conditional writes replaces it: the caller's bytes must be those
        that belong there.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, BaseError

        with self._our_errors("write", key):
            if self._has_conditions:
                try:
                    obstore.put(self._large, key, content, mode="create")
                except AlreadyExistsError:
                    return
                except BaseError as error:
                    if not _lacks_conditions(str(error)):
                        raise
                    self._has_conditions = False
                else:
                    return
            obstore.put(self._large, key, content, use_multipart=False)

    def write(self, key: str, content: bytes) -> None:
        """Write an object, or another one in its place."""
        import obstore

        with self._our_errors("write", key):
            obstore.put(self._large, key, content, use_multipart=False)

    def copy(self, source: str, target: str) -> None:
        """Copy an object within the bucket, at the server."""
        import obstore

        with self._our_errors("write", target):
            obstore.copy(self._large, source, target)

    def remove(self, key: str) -> None:
        """Remove an object; one that is not there is no error."""
        import obstore

        with self._our_errors("remove", key), contextlib.suppress(FileNotFoundError):
            obstore.delete(self._small, key)

    def keys(self, folder: str) -> list[str]:
        """The keys of all objects in a folder."""
        import obstore

        with self._our_errors("list", f"{folder}/"):
            pages = obstore.list(self._small, folder)  # pyright: ignore[reportUnknownMemberType]
            return sorted(entry["path"] for page in pages for entry in page)

    @contextlib.contextmanager
    def _our_errors(self, action: str, key: str) -> Generator[None]:
        """Turn errors of obstore, which are many lines of its own inside, into one of ours."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError, ValueError) as error:
            reason, hint = _explain(str(error), self._address)
            raise StoreUnavailableError(
                f"cannot {action} {self.place(key)}: {reason}; {hint}"
            ) from None  # the text has been read; the rest of it is for obstore's makers


def _open(address: BucketAddress, seconds: int, retries: int) -> S3Store:
    try:
        from obstore.store import S3Store
    except ImportError as error:
        raise ConfigError(
            "ZEROFLEET_MODEL_STORE needs the package obstore: pip install 'zerofleet[s3]', or "
            "make setup in a checkout"
        ) from error
    options: dict[str, Any] = {}
    if address.credentials is not None:
        options["credential_provider"] = _FileCredentials(address.credentials)
        options["skip_signature"] = False  # whatever AWS_SKIP_SIGNATURE says
        region = read_credentials(address.credentials).region
        if region:
            options["region"] = region
    if address.endpoint is not None:
        # The second is stronger than the first, also where only the environment has it.
        options["endpoint"] = options["aws_endpoint_url_s3"] = address.endpoint
    return S3Store(
        address.bucket,
        prefix=address.prefix or None,
        disable_bulk_delete=True,  # not every server knows it, and there is little to remove
        client_options={
            "allow_http": (address.endpoint or "").startswith("http:"),
            "connect_timeout": timedelta(seconds=5),
            "timeout": timedelta(seconds=seconds),
        },
        retry_config={"max_retries": retries, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)},
        **options,
    )


class _FileCredentials:
    """Reads the file again and again, so that it may be replaced while we run."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> S3Credential:
        found = read_credentials(self._path)
        return {
            "access_key_id": found.access_key_id,
            "secret_access_key": found.secret_access_key,
            "token": found.session_token,
            "expires_at": datetime.now(UTC) + timedelta(seconds=_CREDENTIALS_SECONDS),
        }


def _raise_if_no_bucket(error: FileNotFoundError) -> None:
    if _tag("Code", str(error)) == "NoSuchBucket":
        raise error


def _lacks_conditions(text: str) -> bool:
    """Return whether the server knows no conditional writes."""
    return _tag("Code", text) == "NotImplemented" or "status code: 501" in text


def _explain(text: str, address: BucketAddress) -> tuple[str, str]:
    """Return the cause and the remedy, from the messages of obstore and the server."""
    said, _, inside = text.partition("\n\nDebug source:")
    code, message = _tag("Code", said), _tag("Message", said)
    status = re.search(r"status code: (\d{3}[A-Za-z ]*)", said)
    words = [status.group(1).strip() if status else "", code, message]
    if not status:
        words = [_cause(said, inside)]
    reason = ", ".join(filter(None, words))
    if code == "NoSuchBucket":
        return reason, f"make the bucket '{address.bucket}', or mend ZEROFLEET_MODEL_STORE"
    if "region" in f"{said if not status else message}".lower():
        return reason, "set AWS_REGION to the bucket's region"
    if re.match(r"40[013]", reason) or "authentication" in said or "metadata" in said:
        return reason, f"check {address.credentials_hint()} and what the bucket's policy allows"
    server = address.endpoint or "AWS"
    return reason, f"check that {server} can be reached from here"


def _cause(said: str, inside: str) -> str:
    """The innermost reason of a request that got no answer."""
    if "kind: Timeout" in inside:
        return "no answer in time"
    for pattern in (r'message: "([^"]+)"', r'error: "([^"]+)"'):
        found = re.search(pattern, inside)
        if found:
            return found.group(1)
    last = " ".join(said.split()).rpartition(" - ")[2]
    return last.removeprefix("HTTP error: ")[:300] or "no reason given"


def _tag(name: str, text: str) -> str:
    found = re.search(rf"<{name}>([^<]{{1,300}})</{name}>", text)
    return found.group(1).strip() if found else ""
