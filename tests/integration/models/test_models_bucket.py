"""Models in a bucket: content matches its sha256; an interruption leaves no name without a file."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zerofleet.errors import (
    ConfigError,
    IncompatibleModelError,
    ModelNotFoundError,
    StoreUnavailableError,
)
from zerofleet.models.bucket import ModelBucket, Objects, bucket_address
from zerofleet.models.check import Golden
from zerofleet.models.folder import ModelFolder
from zerofleet.models.graph import Shape
from zerofleet.models.publish import publish

CONTENT = np.random.default_rng(0).bytes(50_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
SHAPE = Shape(16, 7)
SECRET = "canary-of-the-bucket"


def put(store: ModelBucket, content: bytes = CONTENT) -> str:
    staged = store.stage(content)
    store.publish(staged)
    staged.path.unlink()
    return staged.sha256


def blob(s3: Any, sha256: str = SHA256) -> Path:
    return s3.folder / "blobs" / f"{sha256}.onnx"


def overwrite(store: ModelBucket, content: bytes) -> None:
    """Damage a blob through the store's own client."""
    store._objects.write(store.location(SHA256), content)


def objects(s3: Any) -> set[str]:
    files = s3.folder.rglob("*")
    return {str(path.relative_to(s3.folder)) for path in files if path.is_file()}


def nobody_asks(sha256: str) -> bool:
    raise AssertionError(f"{sha256} was not announced")


def test_published_bytes_come_back(open_bucket: Any, s3: Any) -> None:
    store = open_bucket()
    assert put(store) == SHA256
    assert blob(s3).read_bytes() == CONTENT
    assert open_bucket(machine="two").read_verified(SHA256) == CONTENT
    assert store.location(SHA256) == f"blobs/{SHA256}.onnx"


def test_a_blob_is_created_and_never_replaced(open_bucket: Any, front: Any, s3: Any) -> None:
    store = open_bucket(front.url)
    put(store)
    written = blob(s3).stat().st_mtime_ns
    put(store)
    assert blob(s3).stat().st_mtime_ns == written
    writes = [request for request in front.requests if not request.startswith("GET")]
    assert writes == [f"CREATE blobs/{SHA256}.onnx"] * 2


def test_a_damaged_blob_is_mended_by_publishing_it_again(
    open_bucket: Any, front: Any, s3: Any
) -> None:
    store = open_bucket(front.url)
    put(store)
    overwrite(store, CONTENT[:-1])
    put(store)
    assert blob(s3).read_bytes() == CONTENT


def test_a_server_without_conditional_writes(open_bucket: Any, front: Any, s3: Any) -> None:
    front.before = lambda request: 501 if request.startswith("CREATE") else 0
    store = open_bucket(front.url)
    put(store)
    assert blob(s3).read_bytes() == CONTENT
    before = len(front.requests)
    put(store)
    assert not [request for request in front.requests[before:] if request.startswith("CREATE")]


def test_what_the_server_damages_is_not_published(open_bucket: Any, front: Any) -> None:
    front.damage = lambda request, body: body[:-1] + b"?" if ".onnx" in request else body
    with pytest.raises(StoreUnavailableError, match="gives back other bytes"):
        put(open_bucket(front.url))


def test_every_truncation_is_refused(open_bucket: Any, s3: Any) -> None:
    writer = open_bucket()
    put(writer)
    reader = open_bucket(machine="two")
    place = f"s3://models/{s3.prefix}/blobs/{SHA256}.onnx is damaged"
    for part in (0.0, 0.5, 0.99):
        overwrite(writer, CONTENT[: int(len(CONTENT) * part)])
        with pytest.raises(IncompatibleModelError, match=place):
            reader.read_verified(SHA256)


def test_damage_on_the_way_is_fetched_again(open_bucket: Any, front: Any) -> None:
    put(open_bucket())
    damaged: list[str] = []

    def damage(request: str, body: bytes) -> bytes:
        damaged.append(request)
        return body[:-1] + b"?" if len(damaged) == 1 else body

    front.damage = damage
    assert open_bucket(front.url, machine="two").read_verified(SHA256) == CONTENT
    assert len(damaged) == 2


def test_a_short_outage_is_waited_out(open_bucket: Any, front: Any) -> None:
    put(open_bucket())
    front.before = lambda _: 503 if len(front.requests) < 3 else 0
    assert open_bucket(front.url, machine="two").read_verified(SHA256) == CONTENT


@pytest.mark.parametrize("name", ["", "x" * 64, "../../../etc/passwd", "A" * 64, "0" * 63])
def test_names_that_are_no_hashes(open_bucket: Any, front: Any, name: str) -> None:
    with pytest.raises(ModelNotFoundError):
        open_bucket(front.url).read_verified(name)
    assert front.requests == []


def test_a_model_that_is_not_there(open_bucket: Any) -> None:
    with pytest.raises(ModelNotFoundError, match=r"there is no s3://models/fleet-.*/blobs/000"):
        open_bucket().read_verified("0" * 64)


def test_the_size_is_bounded_before_anything_is_read(open_bucket: Any) -> None:
    found = open_bucket()._objects
    found.write("key", b"12345")
    assert found.read("key", 5) == b"12345"
    with pytest.raises(IncompatibleModelError, match="/key has 5 bytes: more than 4 are not read"):
        found.read("key", 4)


# ---- the reader's disk cache


def test_what_was_read_is_kept_on_disk(open_bucket: Any, front: Any) -> None:
    put(open_bucket())
    assert open_bucket(front.url, machine="two").read_verified(SHA256) == CONTENT
    before = len(front.requests)
    assert open_bucket(front.url, machine="two").read_verified(SHA256) == CONTENT
    assert len(front.requests) == before


def test_a_damaged_copy_is_fetched_again(open_bucket: Any, tmp_path: Path) -> None:
    store = open_bucket()
    put(store)
    store.read_verified(SHA256)
    copy = tmp_path / "one" / "cache" / "blobs" / f"{SHA256}.onnx"
    copy.chmod(0o644)
    copy.write_bytes(b"other bytes")
    assert store.read_verified(SHA256) == CONTENT
    assert copy.read_bytes() == CONTENT


def test_a_disk_that_cannot_be_written_does_no_harm(open_bucket: Any, tmp_path: Path) -> None:
    put(open_bucket())
    (tmp_path / "two").write_text("a file where the folder should be")
    assert open_bucket(machine="two").read_verified(SHA256) == CONTENT


# ---- Triton


def test_triton_repository(open_bucket: Any, front: Any, s3: Any) -> None:
    store = open_bucket(front.url)
    put(store)
    for version in (1, 2):
        store.expose(SHA256, version, SHAPE)
    files = {name for name in objects(s3) if name.startswith("triton/")}
    assert files == {
        "triton/run/1/model.onnx",
        "triton/run/2/model.onnx",
        "triton/run/config.pbtxt",
    }
    root = s3.folder / "triton" / "run"
    assert (root / "1" / "model.onnx").read_bytes() == CONTENT
    assert "dims: [ 16 ]" in (root / "config.pbtxt").read_text()
    written = [r for r in front.requests if r == "PUT triton/run/config.pbtxt"]
    assert len(written) == 1  # a second write would make Triton load every version again


def test_files_of_a_model_that_is_not_kept_go_and_what_is_gone_is_no_error(
    open_bucket: Any, s3: Any
) -> None:
    store = open_bucket(s3.url)
    put(store)
    for version in (1, 2):
        store.expose(SHA256, version, SHAPE)
    store.remove(1, [])  # another model has the same file
    assert "triton/run/1/model.onnx" not in objects(s3)
    assert blob(s3).exists()
    for _ in range(2):
        store.remove(2, [SHA256])
    assert not blob(s3).exists()
    assert {name for name in objects(s3) if name.startswith("triton/")} == {
        "triton/run/config.pbtxt"
    }


# ---- interrupted publications


def a_publication(store: ModelBucket, number: int, rows: list[str]) -> None:
    rng = np.random.default_rng(number)
    golden = Golden(
        np.zeros((2, 16), np.uint8), np.zeros((2, 7), np.float32), np.zeros(2, np.float32)
    )
    published = publish(store, rng.bytes(1000), 1, golden)
    rows.append(published.sha256)
    published.recorded()


@pytest.mark.parametrize("when", ["before", "after"])
def test_cut_off_at_every_request(
    open_bucket: Any,
    front: Any,
    s3: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    when: str,
) -> None:
    """No named file is missing, the next attempt works, and no files are left over."""
    # The check in a child process has its own test and does not use buckets.
    monkeypatch.setattr("zerofleet.models.publish.check_in_child", lambda *_: None)
    rows: list[str] = []
    first, reader = open_bucket(front.url, run="run-0"), open_bucket(machine="reader")
    a_publication(first, 0, rows)
    requests = len(front.requests)
    assert requests == 7  # note, blob read back, copy, config read and written, note
    for last in range(requests):
        store = ModelBucket(first._objects, f"run-{last + 1}", tmp_path / "one")
        begin, known = len(front.requests), len(rows)

        def refuse(_: str, begin: int = begin, last: int = last) -> int:
            return 403 if len(front.requests) - begin > last else 0

        setattr(front, when, refuse)
        if last + 1 < requests:
            with pytest.raises(StoreUnavailableError, match="403"):
                a_publication(store, 100 + last, rows)
            assert len(rows) == known
        else:  # the interruption hit the removal of the note, when everything is done
            a_publication(store, 100 + last, rows)
            assert len(rows) == known + 1
        setattr(front, when, lambda _: 0)
        for name in rows:
            assert len(reader.read_verified(name)) == 1000
        store.sweep(lambda sha256: sha256 in rows)
        a_publication(store, 200 + last, rows)
    triton = {f"triton/run-{run}/" for run in range(requests + 1)}
    assert objects(s3) == {
        *(f"blobs/{name}.onnx" for name in rows),
        *(f"{run}{name}" for run in triton for name in ("1/model.onnx", "config.pbtxt")),
    }


def test_sweep_takes_announced_files_that_nobody_recorded(open_bucket: Any, s3: Any) -> None:
    store = open_bucket()
    recorded, forgotten = put(store, b"recorded"), put(store, b"forgotten")
    store.announce([recorded, forgotten, "0" * 64])
    other = open_bucket(run="other")
    other.announce([recorded])
    checked: list[str] = []

    def is_recorded(sha256: str) -> bool:
        checked.append(sha256)
        return sha256 == recorded

    store.sweep(is_recorded)
    assert checked == [recorded, forgotten, "0" * 64]
    assert blob(s3, recorded).exists()
    assert not blob(s3, forgotten).exists()
    assert [name.split("/")[1] for name in objects(s3) if "notes" in name] == ["other"]
    assert store.sweep(nobody_asks) == 0


def test_a_sweep_that_cannot_ask_takes_nothing(open_bucket: Any, s3: Any) -> None:
    store = open_bucket()
    name = put(store)
    store.announce([name])

    def away(sha256: str) -> bool:
        raise StoreUnavailableError(f"who knows {sha256}")

    before = objects(s3)
    with pytest.raises(StoreUnavailableError, match="who knows"):
        store.sweep(away)
    assert objects(s3) == before


# ---- error messages


def error_of(call: Callable[[], object], kind: type[Exception] = StoreUnavailableError) -> str:
    with pytest.raises(kind) as caught:
        call()
    text = str(caught.value)
    assert SECRET not in text
    assert "\n" not in text
    return text


def test_a_wrong_key_names_the_file(open_bucket: Any, credentials: Path) -> None:
    credentials.write_text(credentials.read_text().replace(SECRET, "another"))
    text = error_of(open_bucket().check)
    assert "403 Forbidden, SignatureDoesNotMatch" in text
    assert f"check ZEROFLEET_MODEL_STORE_CREDENTIALS = {credentials}" in text


def test_the_environment_does_not_replace_what_is_given(
    open_bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_BUCKET"):
        monkeypatch.setenv(name, "another")
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    open_bucket().check()


def test_a_replaced_key_is_read_again(
    open_bucket: Any, credentials: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # one second instead of a minute
    monkeypatch.setattr("zerofleet.models.bucket._CREDENTIALS_SECONDS", 1)
    right, store = credentials.read_text(), open_bucket()

    def reason() -> str:
        try:
            store.check()
        except StoreUnavailableError as error:
            return str(error)
        return ""

    def until(wanted: str) -> None:
        """Wait for a text in the reason; obstore reads credentials at most ten times a second."""
        deadline = time.monotonic() + 120
        while wanted not in (text := reason()) or bool(text) != bool(wanted):
            assert time.monotonic() < deadline, text

    until("")
    credentials.write_text(right.replace(SECRET, "another"))
    until("SignatureDoesNotMatch")
    credentials.unlink()
    until("No such file")
    credentials.write_text(right)
    until("")


def test_a_bucket_that_is_not_there(s3: Any, credentials: Path) -> None:
    store = Objects(bucket_address("s3://nowhere", s3.url, credentials))
    for call in (
        lambda: store.read("key", 1),
        lambda: store.write("key", b"content"),
        lambda: store.keys("notes"),
    ):
        assert "make the bucket 'nowhere', or mend ZEROFLEET_MODEL_STORE" in error_of(call)


def test_a_server_that_is_not_there(open_bucket: Any, s3: Any) -> None:
    store = open_bucket()
    s3.stop()
    text = error_of(lambda: store.read_verified(SHA256))
    assert f"cannot read s3://models/{s3.prefix}/blobs/{SHA256}.onnx: Connection refused" in text
    assert f"check that {s3.url} can be reached" in text


def test_nothing_shows_the_key(open_bucket: Any) -> None:
    assert SECRET not in repr(vars(open_bucket())) + repr(vars(open_bucket()._objects))


def test_a_run_cannot_take_the_blobs_name(open_bucket: Any) -> None:
    with pytest.raises(ConfigError, match="blobs"):
        open_bucket(run="blobs")


def test_a_folder_of_published_models_is_no_cache(open_bucket: Any, tmp_path: Path) -> None:
    """After a move from a folder to a bucket, the folder and its files stay."""
    folder = ModelFolder(tmp_path / "one", "run")
    path = folder.publish(folder.stage(b"published long ago"))
    store = open_bucket()
    put(store)
    store.sweep(lambda _: False)
    store.read_verified(SHA256)
    assert path.exists()
    with pytest.raises(ModelNotFoundError):
        store.read_verified(path.stem)
