"""Heartbeats: each process has its last one, until it stops."""

import asyncio
import contextlib
import json
import math
import threading
import time

import pytest
import redis
from structlog.testing import capture_logs

from zerofleet.fleet.figures import (
    DemandFigures,
    EvaluatorFigures,
    Measurement,
    SelfplayFigures,
    Stage,
    TrainerFigures,
)
from zerofleet.fleet.heartbeat import (
    BEAT_TTL_SECONDS,
    KEPT_NOTES,
    Heartbeat,
    HeartbeatHistory,
    Heartbeats,
    history_key,
    note,
)
from zerofleet.redis_connection import UP
from zerofleet.service import Pulse, beat


def test_the_last_of_each_process_is_read(valkey_url: str) -> None:
    heartbeats = Heartbeats(valkey_url, "test")
    other = Heartbeats(valkey_url, "test_2")
    assert heartbeats.read() == []
    heartbeats.beat(Heartbeat("host:2", 5, "", SelfplayFigures(games=1)))
    heartbeats.beat(Heartbeat("host:2", 9, "", SelfplayFigures(games=2)))
    heartbeats.beat(Heartbeat("host:1", 0, "a best model", EvaluatorFigures()))
    other.beat(Heartbeat("host:3", 1, "", SelfplayFigures()))
    assert heartbeats.read() == [
        Heartbeat("host:1", 0, "a best model", EvaluatorFigures()),
        Heartbeat("host:2", 9, "", SelfplayFigures(games=2)),
    ]
    heartbeats.close()
    other.close()


def test_the_trainer_is_found_by_one_key(valkey_url: str) -> None:
    with (
        contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats,
        redis.Redis.from_url(valkey_url) as server,
    ):
        assert heartbeats.read_trainer() is None
        heartbeats.beat(Heartbeat("host:2", 5, "", SelfplayFigures()))
        assert heartbeats.read_trainer() is None
        heartbeats.beat(Heartbeat("host:1", 1, "positions", TrainerFigures(unspent_positions=3.0)))
        heartbeats.beat(
            Heartbeat("host:7", 2, "", TrainerFigures(unspent_positions=4.0))
        )  # the trainer took over
        scans = server.info("commandstats").get("cmdstat_scan")
        assert heartbeats.read_trainer() == TrainerFigures(unspent_positions=4.0)
        assert server.info("commandstats").get("cmdstat_scan") == scans
        assert [each.worker for each in heartbeats.read()] == ["host:2", "host:7"]


def test_what_makes_no_sense_is_passed_over(valkey_url: str) -> None:
    with (
        contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats,
        redis.Redis.from_url(valkey_url) as server,
    ):

        def put(worker: str, content: bytes | str) -> None:
            server.set(f"zerofleet:test:heartbeat:selfplay:{worker}", content, px=60_000)

        beat = '"worker": "{}", "progress": 1, "waiting_for": "", "figures": {}'.format
        put("a", b"\xff{")
        put("b", '{"service": "selfplay", "figures": 7}')
        put("c", '{"service": "unheard of", ' + beat("c", "{}") + "}")
        put("d", '{"service": "selfplay", ' + beat("d", "[]") + "}")
        assert heartbeats.read() == []
        newer = '"said_by_a_newer_version": 1'
        put("e", '{"service": "selfplay", ' + beat("e", "{" + newer + "}") + f", {newer}}}")
        bad = '{"games": "many", "conflicts": 3, "spool": null}'
        put("f", '{"service": "selfplay", ' + beat("f", bad) + "}")
        assert heartbeats.read() == [
            Heartbeat("e", 1, "", SelfplayFigures(), version=""),
            Heartbeat("f", 1, "", SelfplayFigures(conflicts=3), version=""),
        ]
        # The owner of one worker's key cannot pose as a trainer or as another worker.
        put("e", '{"service": "trainer", ' + beat("e", "{}") + "}")
        put("f", '{"service": "selfplay", ' + beat("g", "{}") + "}")
        assert heartbeats.read() == []


def test_figures_of_a_process_of_1_0_are_read_under_their_new_names(valkey_url: str) -> None:
    earlier = {"positions_per_s": 90.0, "simulations_per_s": 120.0, "games": 3}
    with (
        contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats,
        contextlib.closing(HeartbeatHistory(valkey_url, "test")) as history,
        redis.Redis.from_url(valkey_url) as server,
    ):
        content = {"service": "selfplay", "worker": "w", "progress": 1, "waiting_for": ""}
        key = "zerofleet:test:heartbeat:selfplay:w"
        server.set(key, json.dumps(content | {"figures": earlier}), px=60_000)
        [beat] = heartbeats.read()
        assert beat.figures == SelfplayFigures(
            positions_per_second=90.0, simulations_per_second=120.0, games=3
        )
        server.xadd(history_key("test", "selfplay", "w"), earlier, id="7200000-0")
        found = history.read("selfplay", until=7210, seconds=10)
        assert found.known("positions_per_second") == [[90.0]]
        assert found.known("simulations_per_second") == [[120.0]]


def test_a_heartbeat_has_no_more_than_a_reader_can_use(valkey_url: str) -> None:
    with contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats:
        heartbeats.beat(Heartbeat("a", 1, "x" * 60_000, SelfplayFigures(), version="9" * 1000))
        heartbeats.beat(Heartbeat("b", 1, "x" * 70_000, SelfplayFigures()))
        heartbeats.beat(Heartbeat("t", 1, "x" * 70_000, TrainerFigures(unspent_positions=0.0)))
        [beat] = heartbeats.read()
        assert (beat.worker, beat.waiting_for, beat.version) == ("a", "x" * 500, "9" * 50)
        assert heartbeats.read_trainer() is None


def test_of_one_service_a_bounded_number_is_read(
    valkey_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker may write under any worker's key, as often as it likes."""
    monkeypatch.setattr("zerofleet.fleet.heartbeat.MOST_BEATS", 3)
    with contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats:
        for number in range(5):
            heartbeats.beat(Heartbeat(f"w{number}", 1, "", SelfplayFigures()))
        heartbeats.beat(Heartbeat("t", 1, "", TrainerFigures()))
        assert [beat.worker for beat in heartbeats.read()] == ["w0", "w1", "w2", "t"]
        assert heartbeats.state.status == "up"
        assert str(heartbeats.state) == "up: 2 heartbeats are not read: a service has more than 3"
        heartbeats.remove("selfplay", "w0")
        heartbeats.remove("selfplay", "w1")
        deadline = time.monotonic() + 120
        while heartbeats.state != UP:
            assert time.monotonic() < deadline
            heartbeats.read()


def test_a_figure_that_is_not_finite_is_not_known(valkey_url: str) -> None:
    with contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats:
        worker = SelfplayFigures(games=2, cache_hit_rate=math.inf, resign_threshold=math.nan)
        trainer = TrainerFigures(positions=5, train=measured(math.nan), held_out=measured(0.5))
        heartbeats.beat(Heartbeat("w", 1, "", worker))
        heartbeats.beat(Heartbeat("t", 1, "", trainer))
        assert [beat.figures for beat in heartbeats.read()] == [
            SelfplayFigures(games=2),
            TrainerFigures(positions=5, held_out=measured(0.5)),
        ]


def measured(predicted: float) -> Measurement:
    stage = Stage(stage=1, positions=3, predicted=predicted, actual=1.0, squared_error=0.25)
    return Measurement(
        positions=3,
        policy_loss=1.0,
        value_loss=0.5,
        policy_error=None,
        value_error=0.1,
        total_loss=1.5,
        policy_entropy=1.0,
        target_entropy=0.7,
        policy_agreement=0.5,
        search_kl=0.3,
        explained_variance=None,
        value_bias=0.0,
        distinct_share=1.0,
        age_games=2.0,
        calibration=(stage,),
    )


def test_it_disappears_when_it_is_not_renewed(valkey_url: str) -> None:
    heartbeats = Heartbeats(valkey_url, "test")
    heartbeats.beat(Heartbeat("host:1", 1, "", TrainerFigures()), ttl=0.05)
    deadline = time.monotonic() + 120
    while heartbeats.read():
        assert time.monotonic() < deadline
    heartbeats.close()


def test_its_age_is_known_by_the_clock_of_redis(valkey_url: str) -> None:
    with (
        contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats,
        redis.Redis.from_url(valkey_url) as server,
    ):
        heartbeats.beat(Heartbeat("w", 1, "", SelfplayFigures()), ttl=600.0)
        [fresh] = heartbeats.read()
        assert not fresh.is_late
        server.pexpire("zerofleet:test:heartbeat:selfplay:w", 300_000)  # 300 s later
        [late] = heartbeats.read()
        assert late.is_late
        assert 300 <= late.age_seconds < 600


def test_the_heartbeat_of_a_process_that_has_ended_is_removed(valkey_url: str) -> None:
    with contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats:
        for service in (SelfplayFigures(), TrainerFigures()):
            heartbeats.beat(Heartbeat("host-12", 1, "", service), ttl=600.0)
        heartbeats.remove("selfplay", "host-12")
        deadline = time.monotonic() + 120
        while [each.service for each in heartbeats.read()] != ["trainer"]:
            assert time.monotonic() < deadline


async def test_a_service_that_shuts_down_removes_its_heartbeat(valkey_url: str) -> None:
    with contextlib.closing(Heartbeats(valkey_url, "test")) as heartbeats:
        beating = asyncio.create_task(
            beat(heartbeats, "w", lambda: Pulse(1, "work", SelfplayFigures(), "idle"))
        )
        deadline = time.monotonic() + 120
        while [each.status for each in heartbeats.read()] != ["idle"]:
            assert time.monotonic() < deadline
            await asyncio.sleep(0)
        beating.cancel()
        with pytest.raises(asyncio.CancelledError):
            await beating
        while heartbeats.read():
            assert time.monotonic() < deadline


async def test_a_heartbeat_that_is_being_sent_does_not_outlive_its_service(
    valkey_url: str,
) -> None:
    begun, may_go, ended = threading.Event(), threading.Event(), threading.Event()

    class Slow(Heartbeats):
        def beat(self, beat: Heartbeat, ttl: float = BEAT_TTL_SECONDS) -> None:
            begun.set()
            assert may_go.wait(60)
            super().beat(beat, ttl=600.0)
            ended.set()

    with contextlib.closing(Slow(valkey_url, "test")) as heartbeats:
        beating = asyncio.create_task(
            beat(heartbeats, "w", lambda: Pulse(1, "", SelfplayFigures()))
        )
        await asyncio.to_thread(begun.wait, 60)
        beating.cancel()
        await asyncio.wait({beating}, timeout=0.1)  # without the wait, the removal would come first
        may_go.set()
        with pytest.raises(asyncio.CancelledError):
            await beating
        assert await asyncio.to_thread(ended.wait, 60)  # the session's loop keeps its threads
        deadline = time.monotonic() + 60
        while heartbeats.read():
            assert time.monotonic() < deadline


def test_figures_are_noted_every_ten_seconds_and_no_more_than_a_day_of_them(
    valkey_url: str,
) -> None:
    seconds = iter(range(0, 28, 4))
    key = history_key("test", "selfplay", "w")
    with (
        contextlib.closing(Heartbeats(valkey_url, "test", lambda: next(seconds))) as heartbeats,
        redis.Redis.from_url(valkey_url) as server,
    ):
        with server.pipeline(transaction=False) as writes:
            for number in range(KEPT_NOTES):
                writes.xadd(key, {"spool": 1}, id=f"{number + 1}-0")
            writes.execute()
        for _ in range(7):
            heartbeats.beat(Heartbeat("w", 1, "", SelfplayFigures(positions_per_second=1234.5678)))
        noted = server.xrevrange(key, count=KEPT_NOTES)
        assert [entry[b"positions_per_second"] for _, entry in noted[:3]] == [b"1234"] * 3
        assert b"positions_per_second" not in noted[3][1]  # notes at 0, 12 and 24 s
        assert server.xlen(key) <= KEPT_NOTES + 100  # Redis deletes a hundred at once
        assert 86_000 < server.ttl(key) <= 86_400


def test_history_is_thinned_out_and_says_where_it_begins(valkey_url: str) -> None:
    with (
        contextlib.closing(HeartbeatHistory(valkey_url, "test")) as history,
        redis.Redis.from_url(valkey_url) as server,
    ):
        none = history.read("selfplay", until=7200, seconds=3600)
        assert (none.begins_at, none.total("positions_per_second")) == (None, [None] * 120)
        for worker, begin in (("a", 3000), ("b", 5400)):
            for second in range(begin, 7200, 10):
                figures = SelfplayFigures(positions_per_second=second / 10, waiting_share=0.125)
                key = history_key("test", "selfplay", worker)
                server.xadd(key, {**note(figures), "newer": "?"}, id=f"{second}000-0")
        found = history.read("selfplay", until=7200, seconds=3600, points=4)
        assert found.steps == (3600, 4500, 5400, 6300)
        assert [each.worker for each in found.processes] == ["a", "b"]
        assert found.total("positions_per_second") == [360, 450, 1080, 1260]
        assert found.mean("waiting_share") == [0.125] * 4
        assert found.begins_at == 3000
        of_b = history.read("selfplay", until=7200, seconds=3600, worker="b", points=2)
        [only_b] = of_b.processes
        assert only_b.begins_at == 5400
        assert only_b.figures["positions_per_second"] == (None, 540)
        few = history.read("selfplay", until=7200, seconds=25, most=1)
        assert (len(few.processes), few.left_out, len(few.steps)) == (1, 1, 2)
        odd = {"positions_per_second": "many", "waiting_share": "nan"}  # from another version
        server.xadd(history_key("test", "selfplay", "odd"), odd, id="7200000-0")
        found = history.read("selfplay", until=7210, seconds=10)
        assert found.known("positions_per_second") == found.known("waiting_share") == [[]]
        server.flushall()
        assert history.read("selfplay", until=7200, seconds=60).begins_at is None


def test_the_demand_of_the_trainer_is_noted_and_what_is_unknown_is_empty() -> None:
    known = note(TrainerFigures(positions=7, demand=DemandFigures(reuse=2.51234)))
    assert (known["positions"], known["reuse"], known["unspent_positions"]) == (7, "2.51", "")


def test_a_redis_that_refuses_notes_still_gets_heartbeats(valkey_url: str) -> None:
    seconds = iter((0, 11, 22))
    with (
        contextlib.closing(Heartbeats(valkey_url, "test", lambda: next(seconds))) as heartbeats,
        redis.Redis.from_url(valkey_url) as server,
        capture_logs() as logs,
    ):
        server.set(history_key("test", "selfplay", "w"), "no stream")
        for number in range(3):
            heartbeats.beat(Heartbeat("w", number, "", SelfplayFigures()))
        assert [beat.progress for beat in heartbeats.read()] == [2]
        assert [entry["event"] for entry in logs] == ["no_history"]
