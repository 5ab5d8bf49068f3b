"""Heartbeats: the last of each process, gone when it is."""

import time

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


def test_it_disappears_when_it_is_not_renewed(valkey_url: str) -> None:
    heartbeats = Heartbeats(valkey_url, "test")
    heartbeats.beat("trainer", "host:1", 1, "", {}, ttl=0.05)
    deadline = time.monotonic() + 5
    while heartbeats.read():
        assert time.monotonic() < deadline
    heartbeats.close()
