"""Heartbeats summed up, and the advice that a person gets from one look at them."""

from __future__ import annotations

import pytest

from zerofleet.config import NetworkSection, ScalingSection, run_from_values
from zerofleet.fleet.figures import (
    DemandFigures,
    EvaluatorFigures,
    InferenceFigures,
    SelfplayFigures,
    TrainerFigures,
)
from zerofleet.fleet.heartbeat import Heartbeat
from zerofleet.fleet.need import FleetFigures, advise, need_of, observe, smaller_network

SECTION = ScalingSection()


def beats(
    workers: int = 2,
    samples: float = 122.0,
    *,
    wait: float = 0.2,
    capacity: float = 8_000.0,
    fill: float = 0.31,
) -> list[Heartbeat]:
    """Workers that make 10 positions a second each of 500 rows."""
    inference = {
        "rows_per_second": 500.0 * workers,
        "capacity_rows_per_second": capacity,
        "fill": fill,
        "queue_wait_per_compute": wait,
    }
    play = {"training_positions_per_second": 10.0, "waiting_share": 0.0, "pause_share": 0.0}
    return [
        Heartbeat(
            "t",
            1,
            "",
            TrainerFigures(demand=DemandFigures(samples_per_second=samples, reuse_target=4.0)),
        ),
        Heartbeat("i", 1, "", InferenceFigures(**inference)),
        *(Heartbeat(f"w{number}", 1, "", SelfplayFigures(**play)) for number in range(workers)),
        Heartbeat("e", 1, "", EvaluatorFigures()),
    ]


def test_a_network_too_large_for_cpus_is_told_with_what_would_fit() -> None:
    """Measured on one core: 175/s, 1,429/s (4, 64), 4,887/s (5, 32), 10,504/s (2, 32)."""
    shape = (17, 9, 9)
    large = NetworkSection(blocks=10, channels=128)
    told = smaller_network(large, shape, 175.0)
    assert told == "175 positions/s: with blocks = 5, channels = 32 about 5,400"
    assert smaller_network(large, shape, 1_000.0) is None
    assert "blocks = 2, channels = 16" in str(smaller_network(large, shape, 3.0))
    assert smaller_network(NetworkSection(blocks=1, channels=8), shape, 500.0) is None


def test_sums_over_all_processes() -> None:
    fleet = observe(beats(workers=3))
    assert (fleet.workers, fleet.playing, fleet.active) == (3, 3, 3)
    assert fleet.positions_per_second == 30
    assert (fleet.samples_per_second, fleet.reuse_target, fleet.trainers) == (122, 4, 1)
    assert (fleet.rows_per_second, fleet.capacity_rows_per_second) == (1_500, 8_000)
    assert (fleet.fill, fleet.wait) == (pytest.approx(0.31), pytest.approx(0.2))
    assert fleet.missing == ""


def test_replicas_count_by_their_rows() -> None:
    busy = {"rows_per_second": 900.0, "capacity_rows_per_second": 1_000.0, "fill": 1.0}
    idle = {"rows_per_second": 100.0, "capacity_rows_per_second": 1_000.0, "fill": 0.0}
    found = [
        Heartbeat(name, 1, "", InferenceFigures(**f)) for name, f in (("a", busy), ("b", idle))
    ]
    fleet = observe(found)
    assert (fleet.replicas, fleet.capacity_rows_per_second) == (2, 2_000)
    assert fleet.fill == pytest.approx(0.9)


def test_a_replica_that_does_not_know_its_capacity_counts_like_the_others() -> None:
    """Or each that comes up would make those before it look too small, and call for more."""
    busy = {"rows_per_second": 800.0, "capacity_rows_per_second": 1_000.0}
    new = {"rows_per_second": 0.0, "capacity_rows_per_second": 0.0}
    alone, both = (
        observe([*beats(), *(Heartbeat(name, 1, "", InferenceFigures(**f)) for name, f in found)])
        for found in ([("a", busy)], [("a", busy), ("b", new)])
    )
    assert both.capacity_rows_per_second == 1.5 * alone.capacity_rows_per_second
    now, before = need_of(both, SECTION), need_of(alone, SECTION)
    assert now.replicas_now == pytest.approx(before.replicas_now)
    assert now.load == pytest.approx(before.load / 1.5)


def test_a_process_that_only_starts_or_leads_several_does_not_count() -> None:
    parent = Heartbeat("p", 0, "", InferenceFigures(devices=2))
    starting = Heartbeat("s", 0, "", SelfplayFigures(training_positions_per_second=0.0))
    untrained = Heartbeat(
        "t", 0, "2,000 positions", TrainerFigures(demand=DemandFigures(reuse_target=4.0))
    )
    fleet = observe([parent, starting, untrained])
    assert (fleet.replicas, fleet.workers, fleet.playing, fleet.trainers) == (0, 1, 0, 0)
    assert fleet.missing == "no figures of inference"


def test_one_that_waits_is_not_slow() -> None:
    figures = {"training_positions_per_second": 5.0, "waiting_share": 0.5, "pause_share": 0.2}
    fleet = observe([Heartbeat("w", 1, "inference", SelfplayFigures(**figures))])
    assert (fleet.playing, fleet.active, fleet.paused) == (1, 0.5, 0.2)


def test_advises_in_the_words_of_the_documentation() -> None:
    advice = advise(observe(beats()), SECTION, cores=8)
    assert (advice.workers, advice.useful) == (2, 4)
    figures = "reuse 6.1 of 4.0, fill 0.31, wait/compute 0.2"
    assert advice.words == "2 workers running. The trainer could use 4."
    assert advice.figures == figures


def test_says_so_when_the_machine_is_too_small_for_its_advice() -> None:
    words = advise(observe(beats()), SECTION, cores=2).words
    assert words.endswith("could use 4, but this machine has 2 cores.")


def test_enough_is_enough() -> None:
    advice = advise(observe(beats(samples=80.0)), SECTION, cores=2)
    assert advice.useful == 2
    assert advice.words == "2 workers running, which is enough."
    assert advice.figures.startswith("reuse 4.0 of 4.0")
    half = advise(observe(beats(samples=60.0)), SECTION)
    assert half.useful == 2  # one and a half


def test_fewer_would_do() -> None:
    advice = advise(observe(beats(workers=10, samples=100.0, capacity=20_000.0)), SECTION)
    assert advice.useful == 3
    assert advice.words == "10 workers running. 3 would be enough."
    assert advice.figures.startswith("reuse 1.0 of 4.0")


def test_inference_may_be_what_lacks() -> None:
    waiting = advise(observe(beats(wait=1.7)), SECTION)
    assert waiting.useful == 2
    saturated = "2 workers running. Adding workers will not help: inference is saturated."
    limit = "It is at its limit (scaling.max_inference = 1)."
    assert waiting.words == f"{saturated} {limit}"
    here = advise(observe(beats(wait=1.7)), SECTION, cores=8)
    assert here.useful == here.workers
    assert here.words == saturated
    assert here.figures.startswith("wait/compute 1.7 (reuse")
    loaded = advise(observe(beats(capacity=1_030.0)), SECTION)
    assert "load 0.97" in loaded.figures
    more = SECTION.model_copy(update={"max_inference": 3})
    assert advise(observe(beats(wait=1.7)), more).words == f"{saturated} Add inference replicas."


def test_without_figures_there_is_no_advice() -> None:
    advice = advise(FleetFigures(workers=1), SECTION)
    assert advice.useful is None
    assert advice.words == "1 worker running. No advice yet: no figures of inference."


def test_bounds_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match=r"min_workers = 5 is above scaling\.max_workers = 2"):
        run_from_values(
            {"name": "r", "game": "tic_tac_toe", "scaling": {"min_workers": 5, "max_workers": 2}}
        )
    run = run_from_values({"name": "r", "game": "tic_tac_toe", "scaling": {"max_workers": 7}})
    assert run.scaling.max_workers == 7
