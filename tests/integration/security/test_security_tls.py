"""Certificates: who is believed, what is refused, and how they are rotated."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zerofleet.client import AsyncModel
from zerofleet.errors import ConfigError
from zerofleet.rpc.tls import ClientCredentials, ServerCredentials, followed_certificates
from zerofleet.secrets.authority import make_authority, make_certificate
from zerofleet.secrets.files import read_bytes

RUN = "secured"
ROWS = np.zeros((2, 4), np.uint8)


async def _asks(address: str, credentials: ClientCredentials, seconds: float = 120.0) -> int:
    async with AsyncModel(address, RUN, timeout=seconds, **credentials) as client:
        return (await client.predict(ROWS)).model_version


async def _is_answered(address: str, folder: Path | None) -> bool:
    """By one try alone."""
    async with AsyncModel(address, RUN, **ClientCredentials(tls_folder=folder)) as client:
        return await client.server_ready()


async def test_both_sides_show_certificates(serve: Any, tls: Callable[[str], Path]) -> None:
    async with serve(ServerCredentials(tls("inference"))) as served:
        credentials = ClientCredentials(tls_folder=tls("selfplay"))
        assert await _asks(served.address, credentials) == 1
        async with (
            AsyncModel(served.address, RUN, **credentials) as client,
            client.stream() as stream,
        ):
            assert (await stream.predict(ROWS)).model_version == 1


async def test_whom_a_server_does_not_believe(
    serve: Any, tls: Callable[[str], Path], tmp_path: Path
) -> None:
    stranger = _folder(tmp_path / "stranger", "selfplay", ("selfplay",), server=False)
    shutil.copy(tls("selfplay") / "ca.crt", stranger / "ca.crt")  # it believes our server
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(tls("selfplay") / "ca.crt", bare / "ca.crt")
    async with serve(ServerCredentials(tls("inference"))) as served:
        for folder in (stranger, bare, None):
            assert not await _is_answered(served.address, folder)
        assert await _is_answered(served.address, tls("selfplay"))
    async with serve(ServerCredentials(tls("inference"), "optional")) as served:
        assert await _is_answered(served.address, bare)


async def test_whom_a_client_does_not_believe(
    serve: Any, tls: Callable[[str], Path], tmp_path: Path, refusal: Any
) -> None:
    """Another authority's server; another host's; and a worker who poses as a server."""
    other = _folder(tmp_path / "other", "inference", ("localhost",), server=True)
    for folder in (other, tls("selfplay")):
        async with serve(ServerCredentials(folder, "optional")) as served:
            assert not await _is_answered(served.address, tls("selfplay"))
    async with serve(ServerCredentials(other, "optional")) as served:
        # localhost is ::1 too, where nobody listens: the last error may be of that.
        address = served.address.replace("localhost", "127.0.0.1")
        shown = ClientCredentials(tls_folder=tls("selfplay"))
        words = await refusal(lambda: _asks(address, shown, 2.0))
        assert "CERTIFICATE_VERIFY_FAILED" in words


async def test_certificates_are_rotated_without_a_restart(
    serve: Any, tls: Callable[[str], Path], tmp_path: Path
) -> None:
    """First everybody believes both authorities, then each side moves to the new one."""
    server, client = tmp_path / "server", tmp_path / "client"
    authority = make_authority("the next one")
    both = read_bytes(tls("inference") / "ca.crt") + authority.certificate
    for folder, name, hosts in (
        (server, "inference", ("localhost",)),
        (client, "selfplay", ("c",)),
    ):
        shutil.copytree(tls(name), folder)
        _write(folder / "ca.crt", both)
        pair = make_certificate(authority, name, hosts, server=True, client=True)
        (folder / "next.crt").write_bytes(pair.certificate)
        (folder / "next.key").write_bytes(pair.key)
    credentials = ClientCredentials(tls_folder=client)
    async with (
        serve(ServerCredentials(server)) as served,
        AsyncModel(served.address, RUN, timeout=120, **credentials) as one,
        one.stream() as stream,
    ):
        assert (await stream.predict(ROWS)).model_version == 1
        for folder in (server, client):
            (folder / "next.key").replace(folder / "tls.key")
            (folder / "next.crt").replace(folder / "tls.crt")
            assert (await one.predict(ROWS)).model_version == 1
            assert await _asks(served.address, credentials) == 1
            assert (await stream.predict(ROWS)).model_version == 1  # over its old connection
        for folder in (server, client):  # nobody shows anything of the old authority any more
            _write(folder / "ca.crt", authority.certificate)
        assert await _asks(served.address, credentials) == 1
        assert (await one.predict(ROWS)).model_version == 1
        assert not await _is_answered(served.address, tls("selfplay"))


async def test_a_rotation_that_went_wrong_changes_nothing(
    serve: Any, tls: Callable[[str], Path], tmp_path: Path
) -> None:
    server = tmp_path / "server"
    shutil.copytree(tls("inference"), server)
    async with serve(ServerCredentials(server)) as served:
        for damage in (b"", b"-----BEGIN CERTIFICATE-----\n", read_bytes(tls("keda") / "tls.crt")):
            _write(server / "tls.crt", damage)
            assert await _asks(served.address, ClientCredentials(tls_folder=tls("selfplay"))) == 1
        (server / "tls.crt").unlink()
        assert await _asks(served.address, ClientCredentials(tls_folder=tls("selfplay"))) == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tls.crt", None, "lacks tls.crt"),
        ("ca.crt", None, "lacks ca.crt"),
        ("tls.key", b"nothing", "tls.crt cannot be used"),
        ("ca.crt", b"nothing", "ca.crt cannot be used"),
    ],
)
async def test_files_that_are_no_good_are_named(
    serve: Any,
    tls: Callable[[str], Path],
    tmp_path: Path,
    name: str,
    content: bytes | None,
    message: str,
) -> None:
    folder = tmp_path / "tls"
    shutil.copytree(tls("inference"), folder)
    (folder / name).unlink()
    if content is not None:
        (folder / name).write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        async with serve(ServerCredentials(folder)):
            pass
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


def test_a_folder_that_cannot_be_looked_into_is_refused_like_any(tmp_path: Path) -> None:
    """By its name, because whoever runs the tests may enter every folder."""
    with pytest.raises(ConfigError, match="cannot be read: File name too long"):
        followed_certificates(tmp_path / ("x" * 300), server=True)


async def test_plaintext_stays_on_this_machine(serve: Any) -> None:
    with pytest.raises(ConfigError, match="set ZEROFLEET_TLS_FOLDER"):
        async with serve(address="0.0.0.0:0"):
            pass
    with pytest.raises(ConfigError, match=r"inference\.fleet:8001 is another machine"):
        async with AsyncModel("dns:///inference.fleet:8001", RUN):
            pass
    async with serve(ServerCredentials(allow_plaintext=True), address="0.0.0.0:0") as served:
        assert await _asks(served.address, ClientCredentials()) == 1


def _folder(folder: Path, name: str, hosts: tuple[str, ...], *, server: bool) -> Path:
    """A TLS folder of another authority."""
    authority = make_authority("another")
    pair = make_certificate(authority, name, hosts, server=server, client=True)
    folder.mkdir()
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    (folder / "ca.crt").write_bytes(authority.certificate)
    return folder


def _write(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)
