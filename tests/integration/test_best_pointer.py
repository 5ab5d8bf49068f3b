"""The pointer in Redis: never back, rebuilt from the record, and no secret in its errors."""

import contextlib
import threading
from collections.abc import Callable

import pytest
import redis
from structlog.testing import capture_logs

from zerofleet.best_pointer import BestPointer
from zerofleet.database import Database, Promotion
from zerofleet.errors import ConfigError, StoreUnavailableError
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.local.processes import free_port


def best(seq: int) -> Promotion:
    return Promotion(seq, 10 * seq, f"{seq:064x}")


@pytest.fixture
def pointer(valkey_url: str) -> BestPointer:
    pointer = BestPointer(valkey_url, "test")
    yield pointer
    pointer.close()


@pytest.fixture
def promoted(database: Database) -> Database:
    """A run whose second model is the best."""
    epoch = database.acquire_fence("test", "trainer")
    for version in (1, 2, 3):
        database.insert_model("test", version, f"{version:064x}", 0, {}, "m", epoch)
    epoch = database.acquire_fence("test", "evaluator")
    for seq, version in enumerate((1, 2)):
        database.promote("test", version, None, "e", seq, epoch=epoch)
    return database


def test_it_moves_forward_only(pointer: BestPointer) -> None:
    assert pointer.get() is None
    assert pointer.set_if_newer(best(2))
    assert not pointer.set_if_newer(best(2))
    assert not pointer.set_if_newer(best(1))
    assert pointer.get() == best(2)
    assert pointer.set_if_newer(best(10))  # numbers, not words: "10" comes after "9"
    assert not pointer.set_if_newer(best(9))


def test_the_newest_of_many_writers_stays(pointer: BestPointer, valkey_url: str) -> None:
    def write(first: int) -> None:
        own = BestPointer(valkey_url, "test")
        for seq in range(first, 200, 4):
            own.set_if_newer(best(seq))
        own.close()

    threads = [threading.Thread(target=write, args=(first,)) for first in (4, 3, 2, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pointer.get() == best(199)


def test_runs_do_not_share_it(pointer: BestPointer, valkey_url: str) -> None:
    other = BestPointer(valkey_url, "other")
    pointer.set_if_newer(best(5))
    assert other.get() is None
    other.close()


def test_it_is_rebuilt_after_a_wipe(
    pointer: BestPointer, promoted: Database, valkey_url: str
) -> None:
    expected = Promotion(2, 2, f"{2:064x}")
    assert pointer.reconcile(promoted) == expected
    assert pointer.get() == expected
    with redis.Redis.from_url(valkey_url) as client:
        client.flushall()
    assert pointer.get() is None
    assert pointer.reconcile(promoted) == expected
    assert pointer.get() == expected


@pytest.mark.parametrize("before", [None, 1, 9])
def test_reconciling_never_moves_it_back(
    pointer: BestPointer, promoted: Database, before: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another evaluator promotes, or repairs, between this one's looks at Redis and Postgres."""
    if before is not None:
        pointer.set_if_newer(best(before))
    head = promoted.promotion_head("test")
    now = Promotion(3, 3, f"{3:064x}")

    def overtaken(_: str) -> object:
        pointer._redis.delete(pointer._key)
        assert pointer.set_if_newer(now)
        return head

    monkeypatch.setattr(promoted, "promotion_head", overtaken)
    pointer.reconcile(promoted)
    assert pointer.get() == now


@pytest.mark.parametrize("foreign", [best(40), best(2), Promotion(2, 2, "f" * 64)])
def test_what_is_no_part_of_the_chain_is_replaced(
    pointer: BestPointer, promoted: Database, foreign: Promotion
) -> None:
    """As after a restore of Postgres alone, or a new run under the name of an old one."""
    assert pointer.set_if_newer(foreign)
    expected = Promotion(2, 2, f"{2:064x}")
    assert pointer.reconcile(promoted) == expected
    assert pointer.get() == expected


@pytest.mark.parametrize(
    ("put", "was"),
    [
        (lambda client, key: client.hset(key, mapping={"seq": "99"}), "no promotion"),
        (lambda client, key: client.rpush(key, "99"), "no hash"),
        (lambda client, key: client.set(key, "99"), "no hash"),
    ],
)
def test_a_broken_pointer_is_replaced(
    pointer: BestPointer,
    promoted: Database,
    valkey_url: str,
    put: Callable[[redis.Redis, str], object],
    was: str,
) -> None:
    with redis.Redis.from_url(valkey_url) as client:
        put(client, "zerofleet:test:best")
    assert pointer.get() is None
    assert pointer.newest(promoted) == Promotion(2, 2, f"{2:064x}")
    with capture_logs() as logs:
        expected = pointer.reconcile(promoted)
    assert [(log["event"], log["was"]) for log in logs] == [("foreign_pointer_replaced", was)]
    assert pointer.get() == expected == Promotion(2, 2, f"{2:064x}")


def test_a_pointer_without_any_promotion_goes(pointer: BestPointer, database: Database) -> None:
    pointer.set_if_newer(best(40))
    assert pointer.reconcile(database) is None
    assert pointer.get() is None


def test_postgres_says_it_where_redis_is_away_or_empty(
    pointer: BestPointer, promoted: Database
) -> None:
    head = promoted.promotion_head("test")
    assert pointer.newest(promoted) == head == Promotion(2, 2, f"{2:064x}")
    with contextlib.closing(BestPointer("redis://127.0.0.1:1/0", "test")) as away:
        assert away.newest(promoted) == head
    pointer.set_if_newer(best(40))
    assert pointer.newest(promoted) == best(40)


def test_before_the_first_promotion_there_is_none(pointer: BestPointer, database: Database) -> None:
    assert pointer.reconcile(database) is None
    assert pointer.get() is None


def test_something_else_under_its_name_is_no_pointer(pointer: BestPointer, valkey_url: str) -> None:
    with redis.Redis.from_url(valkey_url) as client:
        client.hset("zerofleet:test:best", mapping={"seq": "1"})
        assert pointer.get() is None


def test_a_redis_that_is_away_is_named() -> None:
    port = free_port()
    url = f"redis://:canary@127.0.0.1:{port}/0"
    for ask in (
        BestPointer(url, "test").get,
        lambda: BestPointer(url, "test").set_if_newer(best(1)),
        Heartbeats(url, "test").read,
    ):
        with pytest.raises(StoreUnavailableError) as caught:
            ask()
        assert str(caught.value).startswith(f"Redis at 127.0.0.1:{port} does not answer: ")
        assert "canary" not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_url_that_is_none() -> None:
    for kind in (BestPointer, Heartbeats):
        with pytest.raises(ConfigError, match=r"write redis://host:6379/0") as caught:
            kind("http://:canary@host", "test")
        assert "canary" not in str(caught.value)
