"""A Valkey of our own: it remembers, it asks for its password, it listens to this machine alone."""

import socket
import stat
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from zerofleet.errors import ConfigError
from zerofleet.local.valkey import EmbeddedValkey


@pytest.fixture
def folder(store_folder: Path, request: pytest.FixtureRequest) -> Path:
    return store_folder / request.node.name


def test_it_remembers_after_a_clean_stop_and_after_a_crash(folder: Path) -> None:
    server = EmbeddedValkey(folder, {"appendfsync": "always"})
    with redis.Redis.from_url(server.start()) as client:
        client.set("a", "1")
    server.stop()
    server.stop()  # twice is once

    with redis.Redis.from_url(server.start()) as client:
        assert client.get("a") == b"1"
        client.set("a", "2")
    assert server.process is not None
    server.process.kill()
    server.process.wait()
    server.process = None
    server.stop()

    with EmbeddedValkey(folder) as server, redis.Redis.from_url(server.url()) as client:
        assert client.get("a") == b"2"
        settings = client.config_get("appendonly", "appendfsync", "save", "bind")
        assert settings == {
            "appendonly": "yes",
            "appendfsync": "everysec",
            "save": "",
            "bind": "127.0.0.1",
        }


def test_it_asks_for_its_password(valkey: EmbeddedValkey) -> None:
    with (
        redis.Redis(host="127.0.0.1", port=valkey.port, retry=Retry(NoBackoff(), 0)) as client,
        pytest.raises(redis.AuthenticationError),
    ):
        client.ping()
    for name in ("password", "valkey.conf"):
        assert stat.S_IMODE((valkey.folder / name).stat().st_mode) == 0o600
    assert valkey.process is not None
    arguments = Path(f"/proc/{valkey.process.pid}/cmdline").read_bytes()
    assert (valkey.folder / "password").read_bytes() not in arguments


def test_a_folder_in_use_is_refused(valkey: EmbeddedValkey) -> None:
    with pytest.raises(ConfigError, match=f"a server is already running in {valkey.folder}"):
        EmbeddedValkey(valkey.folder, leave_seconds=0.1).start()


def test_a_server_that_cannot_start_says_why(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"Valkey does not start in .*'nonsense 1'.*server\.log"):
        EmbeddedValkey(folder, {"nonsense": "1"}).start()


def test_another_port_is_taken_if_the_chosen_one_is_in_use(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port: int = other.getsockname()[1]
        with monkeypatch.context() as patch:
            patch.setattr("zerofleet.local.valkey.free_port", lambda: port)
            with pytest.raises(ConfigError, match="bind: Address already in use"):
                EmbeddedValkey(folder).start()
        server = EmbeddedValkey(folder)
        server.port = port  # chosen earlier, and taken while the server was down
        with server:
            assert server.port != port


@pytest.mark.parametrize(
    "name", ["it's", 'say "hi"', "back\\slash", "new\nline", "a b", "表", "x\\"]
)
def test_any_name_of_a_folder_will_do(store_folder: Path, name: str) -> None:
    folder = store_folder / "names" / name
    with EmbeddedValkey(folder) as server, redis.Redis.from_url(server.url()) as client:
        assert client.ping()
        assert client.config_get("dir")["dir"] == str(folder)
