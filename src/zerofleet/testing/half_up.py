"""Redis that answers and refuses writes, for tests and for the rounds of chaos."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import redis

_DEADLINE_SECONDS = 120.0


@contextlib.contextmanager
def read_only(client: Any) -> Generator[None]:
    """Make the server a replica, as after a failover: READONLY."""
    client.execute_command("REPLICAOF", "127.0.0.1", "1")
    try:
        yield
    finally:
        client.execute_command("REPLICAOF", "NO", "ONE")


@contextlib.contextmanager
def out_of_memory(client: Any) -> Generator[None]:
    """Leave the server no memory, and nothing that it may evict: OOM."""
    with _configured(client, {"maxmemory-policy": "noeviction", "maxmemory": "1"}):
        yield


@contextlib.contextmanager
def unable_to_save(client: Any) -> Generator[None]:
    """Make a snapshot of a server of this machine fail: MISCONF."""
    where = client.config_get("dir", "dbfilename")
    snapshot = Path(where["dir"]) / where["dbfilename"]
    snapshot.mkdir()
    (snapshot / "in the way").touch()
    try:
        with _configured(client, {"save": "86400 1000000"}):
            client.bgsave()
            deadline = time.monotonic() + _DEADLINE_SECONDS
            while client.info("persistence")["rdb_last_bgsave_status"] != "err":
                if time.monotonic() > deadline:
                    raise TimeoutError("the snapshot does not fail")
                time.sleep(0.01)
            yield
    finally:
        (snapshot / "in the way").unlink()
        snapshot.rmdir()


REFUSALS: MappingProxyType[str, Callable[[Any], contextlib.AbstractContextManager[None]]] = (
    MappingProxyType(
        {"READONLY": read_only, "OOM": out_of_memory, "MISCONF": unable_to_save},
    )
)
"""By the code of the error with which Redis refuses writes."""


@contextlib.contextmanager
def refusing_writes(url: str, code: str) -> Generator[None]:
    """Have a Redis of this machine refuse writes while this is entered.

    Args:
        url: with the right to configure the server.
        code: one of ``REFUSALS``.
    """
    client = redis.Redis.from_url(url, decode_responses=True)  # pyright: ignore[reportUnknownMemberType]
    with contextlib.closing(client), REFUSALS[code](client):
        yield


@contextlib.contextmanager
def _configured(client: Any, settings: dict[str, str]) -> Generator[None]:
    """Change settings of the server, and put them back in the opposite order."""
    before = {name: client.config_get(name)[name] for name in reversed(settings)}
    for name, value in settings.items():
        client.config_set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            client.config_set(name, value)
