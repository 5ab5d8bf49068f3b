"""Heartbeats: the last of each process, gone when it is."""

import contextlib
import math
import time

import redis

from zerofleet.figures import EvaluatorFigures, Measurement, SelfplayFigures, Stage, TrainerFigures
from zerofleet.heartbeat import Heartbeat, Heartbeats


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
        )  # took over
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
            Heartbeat("e", 1, "", SelfplayFigures()),
            Heartbeat("f", 1, "", SelfplayFigures(conflicts=3)),
        ]


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
    deadline = time.monotonic() + 5
    while heartbeats.read():
        assert time.monotonic() < deadline
    heartbeats.close()
