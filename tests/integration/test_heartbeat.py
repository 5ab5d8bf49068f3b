"""Heartbeats: the last of each process, gone when it is."""

import contextlib
import time

import redis

from zerofleet.heartbeat import Heartbeat, Heartbeats


def test_the_last_of_each_process_is_read(valkey_url: str) -> None:
    heartbeats = Heartbeats(valkey_url, "test")
    other = Heartbeats(valkey_url, "test_2")
    assert heartbeats.read() == []
    heartbeats.beat("selfplay", "host:2", 5, "", {"games": 1.0})
    heartbeats.beat("selfplay", "host:2", 9, "", {"games": 2.0})
    heartbeats.beat("evaluator", "host:1", 0, "a best model", {})
    other.beat("selfplay", "host:3", 1, "", {})
    assert heartbeats.read() == [
        Heartbeat("evaluator", "host:1", 0, "a best model", {}),
        Heartbeat("selfplay", "host:2", 9, "", {"games": 2.0}),
    ]
    heartbeats.close()
    other.close()


def test_the_trainer_is_found_by_one_key(valkey_url: str) -> None:
    with (
        contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats,
        redis.Redis.from_url(valkey_url) as server,
    ):
        assert heartbeats.read_trainer() is None
        heartbeats.beat("selfplay", "host:2", 5, "", {})
        assert heartbeats.read_trainer() is None
        heartbeats.beat("trainer", "host:1", 1, "positions", {"unspent_positions": 3.0})
        heartbeats.beat("trainer", "host:7", 2, "", {"unspent_positions": 4.0})  # took over
        scans = server.info("commandstats").get("cmdstat_scan")
        trainer = Heartbeat("trainer", "host:7", 2, "", {"unspent_positions": 4.0})
        assert heartbeats.read_trainer() == trainer
        assert server.info("commandstats").get("cmdstat_scan") == scans
        assert [each.worker for each in heartbeats.read()] == ["host:2", "host:7"]


def test_what_makes_no_sense_is_passed_over(valkey_url: str) -> None:
    with (
        contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats,
        redis.Redis.from_url(valkey_url) as server,
    ):
        key = "zerofleet:test:heartbeat:selfplay:{}".format
        server.set(key("a"), b"\xff{", px=60_000)
        server.set(key("b"), '{"service": "selfplay", "figures": 7}', px=60_000)
        heartbeats.beat("selfplay", "c", 1, "", {"games": 2.0, "loss": float("nan")})
        newer = '{"service": "selfplay", "worker": "d", "progress": 1, "waiting_for": "", '
        server.set(key("d"), newer + '"figures": {}, "said_by_a_newer_version": 1}', px=60_000)
        assert heartbeats.read() == [
            Heartbeat("selfplay", "c", 1, "", {"games": 2.0}),
            Heartbeat("selfplay", "d", 1, "", {}),
        ]


def test_it_disappears_when_it_is_not_renewed(valkey_url: str) -> None:
    heartbeats = Heartbeats(valkey_url, "test")
    heartbeats.beat("trainer", "host:1", 1, "", {}, ttl=0.05)
    deadline = time.monotonic() + 5
    while heartbeats.read():
        assert time.monotonic() < deadline
    heartbeats.close()
