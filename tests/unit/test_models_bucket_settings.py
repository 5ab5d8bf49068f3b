"""Settings of a bucket: what is taken, and what is refused without repeating a secret."""

from pathlib import Path

import pytest

from zerofleet.config import ProcessSettings
from zerofleet.errors import ConfigError
from zerofleet.models.bucket import bucket_address, read_credentials
from zerofleet.models.folder import ModelFolder
from zerofleet.models.model_store import open_store

CANARY = "canary/secret+key=%"


@pytest.mark.parametrize(
    ("url", "bucket", "prefix"),
    [
        ("s3://models", "models", ""),
        ("s3://models/", "models", ""),
        ("s3://models/a/b/", "models", "a/b"),
        ("s3://models//a", "models", "a"),
    ],
)
def test_urls(url: str, bucket: str, prefix: str) -> None:
    address = bucket_address(url)
    assert (address.bucket, address.prefix) == (bucket, prefix)
    assert str(address) == f"s3://{bucket}/{prefix}".rstrip("/")


@pytest.mark.parametrize(
    "url",
    ["", "models", "gs://models", "s3://", "s3:///a", "s3://m/a?b=c", "s3://m/a#b", "s3://m/../a"],
)
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ConfigError, match=r"^ZEROFLEET_MODEL_STORE = "):
        bucket_address(url)


@pytest.mark.parametrize(
    ("endpoint", "allowed"),
    [
        ("https://s3.example:9000", True),
        ("http://127.0.0.1:9000/", True),
        ("http://[::1]:9000", True),
        ("http://localhost:9000", True),
        ("http://minio:9000", False),
        ("http://10.0.0.1:9000", False),
    ],
)
def test_plain_http_stays_on_this_machine(endpoint: str, allowed: bool) -> None:
    assert bucket_address("s3://m", endpoint, allow_plaintext=True).endpoint == endpoint.rstrip("/")
    if allowed:
        bucket_address("s3://m", endpoint)
        return
    with pytest.raises(ConfigError, match=r"plain http to another machine.*ALLOW_PLAINTEXT=true"):
        bucket_address("s3://m", endpoint)


@pytest.mark.parametrize("endpoint", ["", "minio:9000", "ftp://minio", "https://", "https://m:no"])
def test_endpoints_that_are_none(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="ZEROFLEET_MODEL_STORE_ENDPOINT"):
        bucket_address("s3://m", endpoint)


def test_a_secret_in_a_url_is_not_repeated() -> None:
    for url, endpoint in (("s3://key:canary@m", None), ("s3://m", "https://key:canary@host")):
        with pytest.raises(ConfigError, match="ZEROFLEET_MODEL_STORE_CREDENTIALS") as caught:
            bucket_address(url, endpoint)
        assert "canary" not in str(caught.value)


def credentials(folder: Path, text: str) -> Path:
    path = folder / "credentials"
    path.write_text(text)
    return path


def test_credentials(tmp_path: Path) -> None:
    keys = f"aws_access_key_id = id\naws_secret_access_key = {CANARY}\n"
    found = read_credentials(credentials(tmp_path, f"[default]\n{keys}"))
    assert (found.access_key_id, found.secret_access_key) == ("id", CANARY)
    assert (found.session_token, found.region) == (None, None)
    assert CANARY not in repr(found)
    only = read_credentials(
        credentials(tmp_path, f"[fleet]\n{keys}aws_session_token=t\nregion=eu-west-1\n")
    )
    assert (only.session_token, only.region) == ("t", "eu-west-1")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no profile"),
        (f"{CANARY}\n", "not in the format"),
        (f"aws_secret_access_key = {CANARY}\n", "not in the format"),
        (f"[default]\n{CANARY}\n", "has no aws_access_key_id"),
        (f"[default]\naws_secret_access_key = {CANARY}\n", "has no aws_access_key_id"),
        (f"[a]\nx = {CANARY}\n[b]\nx = y\n", "no profile"),
    ],
)
def test_credentials_that_are_no_good(tmp_path: Path, text: str, reason: str) -> None:
    path = credentials(tmp_path, text)
    with pytest.raises(ConfigError, match=reason) as caught:
        bucket_address("s3://m", None, path)
    assert str(path) in str(caught.value)
    assert CANARY not in str(caught.value)
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_credentials(tmp_path / "nowhere")


def test_without_a_url_the_folder_is_the_store(tmp_path: Path) -> None:
    settings = ProcessSettings(run_file=tmp_path / "run.toml", model_folder=tmp_path)
    store = open_store(settings, "run", 64)
    assert isinstance(store, ModelFolder)
    assert store.staging == tmp_path
    with pytest.raises(ConfigError, match="give s3://bucket/prefix"):
        open_store(settings.model_copy(update={"model_store": "bucket"}), "run")
