"""Redis that answers and refuses writes, for tests and for the rounds of chaos."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from pathlib import Path
from types import MappingProxyType
from typing import Protocol, cast

from zerofleet.redis_connection import open_redis

_DEADLINE_SECONDS = 120.0


class _Server(Protocol):
    """Commands that are used of Redis."""

    def execute_command(self, *words: str) -> object: ...
    def config_get(self, *names: str) -> dict[str, str]: ...
    def config_set(self, name: str, value: str) -> object: ...
    def bgsave(self) -> object: ...
    def info(self, section: str) -> dict[str, object]: ...
    def close(self) -> None: ...


@contextlib.contextmanager
def read_only(client: _Server) -> Generator[None]:
    """Make the server a replica, as after a failover: READONLY."""
    client.execute_command("REPLICAOF", "127.0.0.1", "1")
    try:
        yield
    finally:
        client.execute_command("REPLICAOF", "NO", "ONE")


@contextlib.contextmanager
def out_of_memory(client: _Server) -> Generator[None]:
    """Leave the server no memory, and nothing that it may evict: OOM."""
    with _configured(client, {"maxmemory-policy": "noeviction", "maxmemory": "1"}):
        yield


@contextlib.contextmanager
def unable_to_save(client: _Server) -> Generator[None]:
    """Make a snapshot of a server of this machine fail: MISCONF."""
    where = client.config_get("dir", "dbfilename")
    snapshot = Path(where["dir"]) / where["dbfilename"]
    snapshot.mkdir()
    (snapshot / "in the way").touch()
    try:
        with _configured(client, {"save": "86400 1000000"}):
            client.bgsave()
            deadline = time.monotonic() + _DEADLINE_SECONDS
            while not _has_failed_to_save(client):
                if time.monotonic() > deadline:
                    raise TimeoutError("the snapshot does not fail")
                time.sleep(0.01)
            yield
    finally:
        (snapshot / "in the way").unlink()
        snapshot.rmdir()


def _has_failed_to_save(client: _Server) -> bool:
    found = client.info("persistence")
    return found["rdb_last_bgsave_status"] == "err" and not found["rdb_bgsave_in_progress"]


REFUSALS: MappingProxyType[str, Callable[[_Server], contextlib.AbstractContextManager[None]]] = (
    MappingProxyType(
        {"READONLY": read_only, "OOM": out_of_memory, "MISCONF": unable_to_save},
    )
)
"""By the code of the error with which Redis refuses writes."""


@contextlib.contextmanager
def refusing_writes(url: str, code: str) -> Generator[None]:
    """Have a Redis of this machine refuse writes while this is entered.

    Args:
        url: as ``open_redis`` takes it, of a user who may configure the server.
        code: one of ``REFUSALS``.
    """
    opened, _ = open_redis(url)
    client = cast("_Server", opened)
    with contextlib.closing(client), REFUSALS[code](client):
        yield


@contextlib.contextmanager
def _configured(client: _Server, settings: dict[str, str]) -> Generator[None]:
    """Change settings of the server, and put them back in the opposite order."""
    before = {name: client.config_get(name)[name] for name in reversed(settings)}
    for name, value in settings.items():
        client.config_set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            client.config_set(name, value)
