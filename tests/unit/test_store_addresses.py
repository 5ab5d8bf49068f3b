"""URLs of Postgres and Redis: read as a whole, or refused without repeating them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zerofleet.database.connection import connection_parameters
from zerofleet.errors import ConfigError
from zerofleet.redis_connection import open_redis
from zerofleet.secrets.files import split_password_file, with_password_file

BIG = "9" * 5000
REDIS = [
    *(
        "redis://h:0/0",
        "redis://h:65536/0",
        f"redis://h:{BIG}/0",
        "redis://h:1/1x",
        "redis://h/a/b",
    ),
    *(
        f"redis://h:1/{BIG}",
        "redis://h:1/-5",
        "redis://a%00b:1/0",
        "redis://a b:1/0",
        "unix://a%00b",
    ),
    *("redis://h:1/0?protocol=9", "redis://h:1/0?socket_timeout=abc", "redis://[::1/0", "x", ""),
    *("redis://h:1/0%00", "redis://h:\u0661/0", "redis://\udcff:1/0", "redis://h:1/0\n"),
]


@pytest.mark.parametrize("url", REDIS)
def test_a_redis_url_that_would_be_read_in_part_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="the Redis URL is not valid: write redis://host:6379/0"):
        open_redis(url)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("redis://h", "h:6379"),
        ("redis://user:p%40ss@h:1/2", "h:1"),
        ("rediss://[::1]:7/", "::1:7"),
        ("unix:///run/a b/redis.sock?db=1", "localhost:6379"),
    ],
)
def test_redis_urls(url: str, place: str) -> None:
    client, where = open_redis(url)
    client.close()
    assert where == place


@pytest.mark.parametrize("port", ["0", "65536", BIG, "99999999", "1,70000"])
def test_ports_that_postgres_does_not_have(port: str) -> None:
    host = "a,b" if "," in port else "a"
    with pytest.raises(ConfigError, match="give 1 to 65535"):
        connection_parameters(f"postgresql://u@/d?host={host}&port={port}")


TEXT = st.text(max_size=20) | st.sampled_from(
    ["%00", BIG, "'", '"', "\\", "[::1", "?a=b", "\udcff"]
)


@given(host=TEXT, port=TEXT, name=TEXT, option=TEXT)
def test_any_url_is_read_or_refused(host: str, port: str, name: str, option: str) -> None:
    for read, scheme in ((connection_parameters, "postgresql"), (open_redis, "redis")):
        url = f"{scheme}://{host}:{port}/{name}?{option}"
        said = ""
        try:
            read(url)
        except ConfigError as error:
            said = str(error)
        assert len(said) < 300


@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), st.binary())
def test_a_file_of_any_name_is_found_again_in_a_url(name: str, more: bytes) -> None:
    path = Path(name + more.replace(b"\0", b"").decode(errors="surrogateescape"))
    assert split_password_file(with_password_file("redis://h/0", path)) == ("redis://h/0", path)
