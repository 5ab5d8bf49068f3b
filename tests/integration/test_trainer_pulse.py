"""The trainer's heartbeats: at a bounded rate, and of no consequence when Redis is away."""

import pytest

from services.trainer import pulse
from services.trainer.pulse import Pulse
from zerofleet.heartbeat import Heartbeats


def test_says_how_far_it_is_and_what_it_waits_for(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    heartbeats = Heartbeats(valkey_url, "run")
    steps = iter(range(10))
    ours = Pulse(heartbeats, "trainer-1", lambda: (next(steps), {"positions": 5.0}))
    monkeypatch.setattr(pulse, "BEAT_SECONDS", 0.0)
    ours.waiting("positions", "1,234 positions")
    [beat] = heartbeats.read()
    assert (beat.service, beat.worker) == ("trainer", "trainer-1")
    assert (beat.progress, beat.waiting_for) == (0, "1,234 positions")
    assert beat.figures == {"positions": 5.0}
    ours.working()
    [beat] = heartbeats.read()
    assert (beat.progress, beat.waiting_for) == (1, "")


def test_beats_no_more_often_than_needed(valkey_url: str) -> None:
    asked: list[int] = []

    def figures() -> tuple[int, dict[str, float]]:
        asked.append(1)
        return 0, {}

    ours = Pulse(Heartbeats(valkey_url, "run"), "trainer-1", figures)
    for _ in range(100):
        ours.working()
        ours.waiting("positions")
    assert len(asked) == 1


def test_redis_away_is_no_matter() -> None:
    Pulse(Heartbeats("redis://127.0.0.1:1/0", "run"), "trainer-1", lambda: (0, {})).working()
