"""The rule that sizes the fleet: which inputs it follows and which changes it never makes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerofleet.config import ScalingSection
from zerofleet.fleet.need import FleetFigures, Need, mean, need_of
from zerofleet.services.autoscaler.desired_replicas import Desired, ScalingReason, ScalingRule

EVERY = 10.0
SECTION = ScalingSection(
    max_workers=1000, max_inference=8, every_seconds=EVERY, window_seconds=EVERY
)
LOOKS = round(SECTION.shrink_after_seconds / EVERY) + 2


def a_fleet(
    workers: float,
    reuse: float,
    *,
    target: float = 4.0,
    load: float = 0.3,
    wait: float = 0.2,
    replicas: float = 1,
) -> FleetFigures:
    """Return a fleet in which each worker makes 10 positions a second from 1,000 rows."""
    rows = 1_000.0 * workers
    return FleetFigures(
        trainers=1,
        samples_per_second=reuse * 10 * workers,
        reuse_target=target,
        workers=workers,
        playing=workers,
        active=workers,
        positions_per_second=10 * workers,
        replicas=replicas,
        rows_per_second=rows,
        capacity_rows_per_second=rows / load,
        filled=0.31 * rows,
        waited=wait * rows,
    )


class Watched:
    """A rule with a clock of its own, after its first answer."""

    def __init__(self, fleet: FleetFigures, section: ScalingSection = SECTION) -> None:
        self.rule = ScalingRule(section)
        self._times: Iterator[float] = (EVERY * number for number in count())
        found = None
        while found is None:
            found = self.look(fleet)
        self.first = found

    def look(self, fleet: FleetFigures) -> Desired | None:
        return self.rule.look(next(self._times), fleet)

    def see(self, fleet: FleetFigures, looks: int = 1) -> Desired:
        """Look at the same fleet this many times and return the last answer."""
        found = [self.look(fleet) for _ in range(looks)][-1]
        assert found is not None
        return found


def test_the_first_answer_is_what_there_is_and_comes_after_a_window() -> None:
    rule, fleet = ScalingRule(SECTION), a_fleet(12, 4.0)
    early = [rule.look(seconds, fleet) for seconds in (0.0, 5.0, 9.9)]
    assert early == [None] * 3
    found = rule.look(EVERY, fleet)
    assert found is not None
    assert (found.selfplay.count, found.selfplay.reason) == (12, ScalingReason.ENOUGH)
    assert found.inference.count == 1


def test_the_first_answer_counts_neither_the_dead_nor_an_emptied_redis() -> None:
    """One of 5 workers and one of 2 replicas are dead; their heartbeats last ten more seconds."""
    rule = ScalingRule(ScalingSection(max_workers=1000, max_inference=8))
    dead, alive, none = a_fleet(5, 4.0, replicas=2), a_fleet(4, 4.0), FleetFigures()
    looks = [dead, dead, alive, alive, alive, none]
    assert [rule.look(EVERY * number, fleet) for number, fleet in enumerate(looks)] == [None] * 6
    found = rule.look(60.0, alive)
    assert found is not None
    assert (found.selfplay.count, found.inference.count) == (4, 1)


def test_wants_workers_and_says_why_in_the_words_of_the_documentation() -> None:
    found = Watched(a_fleet(12, 4.0)).see(a_fleet(12, 6.0)).selfplay
    assert found.text == "12 -> 18: reuse 6.0 of 4.0, fill 0.31, wait/compute 0.2"
    assert found.reason is ScalingReason.GREW


def test_at_most_twice_what_is_there() -> None:
    watched = Watched(a_fleet(5, 4.0))
    assert watched.see(a_fleet(5, 400.0)).selfplay.count == 10
    still = watched.see(a_fleet(5, 400.0))
    assert (still.selfplay.count, still.selfplay.reason) == (10, ScalingReason.STARTING)
    assert watched.see(a_fleet(10, 400.0)).selfplay.count == 20


def test_pods_that_start_or_are_preempted_change_nothing() -> None:
    """The need is a rate divided by the rate of one worker, however many workers there are."""
    watched = Watched(a_fleet(10, 4.0))
    assert watched.see(a_fleet(10, 8.0)).selfplay.count == 20
    for workers in (12, 15, 20, 10, 16, 20):
        one = a_fleet(workers, 8.0 * 10 / workers)
        assert watched.see(one).selfplay.count == 20


def test_less_than_a_tenth_is_no_reason() -> None:
    watched = Watched(a_fleet(20, 4.0))
    assert watched.see(a_fleet(20, 4.3)).selfplay.reason is ScalingReason.ENOUGH
    assert watched.see(a_fleet(20, 3.4), LOOKS).selfplay.count == 20


def test_shrinks_slowly_to_what_was_of_use_at_the_busiest_time() -> None:
    watched = Watched(a_fleet(20, 4.0))
    looks = [watched.see(a_fleet(20, 2.0)) for _ in range(LOOKS - 12)]
    assert {each.selfplay.count for each in looks} == {20}
    assert looks[-1].selfplay.reason is ScalingReason.SURPLUS
    busier = [watched.see(a_fleet(20, 2.8)) for _ in range(20)]
    shrunk = [each.selfplay for each in busier if each.selfplay.reason is ScalingReason.SHRANK]
    assert len(shrunk) == 1
    assert shrunk[0].count == 14  # 20 * 2.8 / 4, not 20 * 2.0 / 4


def test_shrinks_to_half_at_once_and_never_to_none() -> None:
    watched, workers = Watched(a_fleet(20, 4.0)), 20
    seen = [workers]
    for _ in range(6 * LOOKS):
        workers = watched.see(a_fleet(workers, 0.02 * 20 / workers)).selfplay.count
        if workers != seen[-1]:
            seen.append(workers)
    assert seen == [20, 10, 5, 3, 2, 1]


def test_a_mean_takes_its_time_and_its_tail_is_no_use() -> None:
    """In the mean over a minute a short burst is small, and a fall leaves no peak behind."""
    section = SECTION.model_copy(update={"window_seconds": 6 * EVERY})
    watched = Watched(a_fleet(20, 4.0), section)
    watched.see(a_fleet(20, 4.0), 6)
    assert watched.see(a_fleet(20, 6.0)).selfplay.count == 20
    shrunk = [watched.see(a_fleet(20, 2.4)).selfplay for _ in range(LOOKS + 8)]
    assert [each.count for each in shrunk if each.reason is ScalingReason.SHRANK] == [12]


def test_a_busy_moment_begins_the_ten_minutes_anew() -> None:
    watched = Watched(a_fleet(20, 4.0))
    watched.see(a_fleet(20, 2.0), LOOKS - 12)
    watched.see(a_fleet(20, 4.0))
    after = [watched.see(a_fleet(20, 2.0)).selfplay for _ in range(LOOKS)]
    first = next(number for number, each in enumerate(after) if each.reason is ScalingReason.SHRANK)
    assert first * EVERY >= SECTION.shrink_after_seconds - EVERY


def test_where_requests_wait_for_longer_than_a_batch_inference_grows_instead() -> None:
    watched = Watched(a_fleet(12, 4.0))
    found = watched.see(a_fleet(12, 6.1, load=0.9, wait=1.7))
    assert found.selfplay.count == 12
    assert found.selfplay.reason is ScalingReason.INFERENCE
    assert found.selfplay.words.startswith("inference should grow: wait/compute 1.7")
    assert found.inference.count == 2


def test_grows_no_further_than_inference_feeds() -> None:
    watched = Watched(a_fleet(10, 4.0))
    found = watched.see(a_fleet(10, 8.0, load=0.7))
    assert found.selfplay.count == 13  # 0.95 / 0.7 of ten workers
    assert found.inference.count == 2
    watched = Watched(a_fleet(10, 4.0))
    found = watched.see(a_fleet(10, 8.0, load=0.93))
    assert found.selfplay.reason is ScalingReason.INFERENCE
    assert "load 0.93" in found.selfplay.words


def test_says_so_where_inference_may_not_grow() -> None:
    alone = SECTION.model_copy(update={"max_inference": 1})
    watched = Watched(a_fleet(12, 4.0), alone)
    found = watched.see(a_fleet(12, 6.1, wait=1.7))
    assert "which is at its most (1)" in found.selfplay.words
    assert found.inference.count == 1
    assert found.inference.reason is ScalingReason.AT_MOST


def test_inference_shrinks_after_ten_minutes_but_not_below_its_load() -> None:
    fleet = a_fleet(10, 4.0, load=0.3, replicas=4)
    watched = Watched(fleet)
    looks = [watched.see(fleet).inference for _ in range(2 * LOOKS)]
    changes = [each.count for each in looks if each.reason is ScalingReason.SHRANK]
    assert changes == [2]  # 0.3 * 4 / 0.8 replicas are needed
    busy = a_fleet(10, 4.0, load=0.6, replicas=2)
    assert Watched(busy).see(busy, 2 * LOOKS).inference.count == 2


def test_an_unknown_capacity_leaves_the_wait_to_decide() -> None:
    unknown = replace(a_fleet(10, 8.0), capacity_rows_per_second=0)
    assert Watched(a_fleet(10, 4.0)).see(unknown).selfplay.count == 20
    waiting = replace(unknown, waited=1.2 * unknown.rows_per_second)
    found = Watched(a_fleet(10, 4.0)).see(waiting)
    assert found.selfplay.reason is ScalingReason.INFERENCE
    assert found.inference.count == 2


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ({"workers": 0, "playing": 0, "active": 0}, "no heartbeat of a self-play worker"),
        ({"trainers": 0, "reuse_target": 0}, "no figures of a trainer that trains"),
        ({"replicas": 0}, "no figures of inference"),
        ({"playing": 0, "active": 0}, "no worker plays"),
        ({"active": 0}, "no worker plays"),
    ],
)
def test_missing_figures_change_nothing_and_are_named(
    missing: dict[str, float], words: str
) -> None:
    watched = Watched(a_fleet(7, 4.0))
    grown = watched.see(a_fleet(7, 8.0)).selfplay.count
    found = watched.see(replace(a_fleet(7, 0.1), **missing), 2 * LOOKS)
    assert (found.selfplay.count, found.selfplay.reason) == (grown, ScalingReason.HELD)
    assert found.selfplay.words == f"held: {words}"
    assert found.need is None


def test_redis_away_is_held_and_its_time_counts_for_nothing() -> None:
    watched = Watched(a_fleet(20, 4.0))
    watched.see(a_fleet(20, 1.0), LOOKS - 12)
    for _ in range(3 * LOOKS):
        next(watched._times)
        held = watched.rule.hold("Redis does not answer")
        assert held is not None
        assert (held.selfplay.count, held.selfplay.words) == (20, "held: Redis does not answer")
    assert watched.see(a_fleet(20, 1.0), 2).selfplay.count == 20


def test_without_a_worker_there_is_no_answer() -> None:
    rule = ScalingRule(SECTION)
    assert [rule.look(10.0 * number, FleetFigures()) for number in range(100)] == [None] * 100
    assert rule.hold("Redis does not answer") is None


def test_without_inference_there_is_no_answer_that_one_is_enough() -> None:
    rule, silent = ScalingRule(SECTION), replace(a_fleet(12, 4.0), replicas=0)
    assert [rule.look(10.0 * number, silent) for number in range(9)] == [None] * 9
    found = rule.look(90.0, a_fleet(12, 4.0, replicas=5))
    assert found is not None
    assert (found.selfplay.count, found.inference.count) == (12, 5)


def test_a_trainer_that_lets_self_play_pause_has_too_many_workers() -> None:
    """Paused workers make fewer positions, but their capacity is unchanged."""
    full = a_fleet(10, 2.0)
    half = replace(full, active=5, paused=5, positions_per_second=50, samples_per_second=200)
    need = need_of(half, SECTION)
    assert (need.reuse, need.workers) == (pytest.approx(2.0), pytest.approx(5.0))
    asleep = replace(full, active=0, paused=10, positions_per_second=0)
    assert not asleep.missing
    assert need_of(asleep, SECTION).workers == 5.0


def test_reuse_is_what_the_trainer_measures_over_the_time_it_works() -> None:
    """Positions are drawn 4 times each; without its waits the trainer would draw them 6 times."""
    positions, drawn_each, wait_share = 10.0, 4.0, 1 / 3
    fleet = replace(a_fleet(1, 4.0), samples_per_second=positions * drawn_each / (1 - wait_share))
    assert need_of(fleet, SECTION).reuse == pytest.approx(drawn_each / (1 - wait_share))


def test_the_mean_of_looks_is_a_look() -> None:
    one, two = a_fleet(10, 4.0), a_fleet(20, 4.0)
    both = mean([one, two])
    assert (both.workers, both.fill, both.wait) == (15.0, pytest.approx(0.31), pytest.approx(0.2))


fleets = st.builds(
    a_fleet,
    st.integers(1, 400),
    st.floats(0.01, 100),
    load=st.floats(0.01, 1.2),
    wait=st.floats(0, 10),
    replicas=st.integers(1, 8),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(fleets, st.just(FleetFigures())), min_size=1, max_size=120))
def test_whatever_is_seen_bounds_hold_and_steps_are_bounded(seen: list[FleetFigures]) -> None:
    section = ScalingSection(min_workers=2, max_workers=150, max_inference=4)
    rule, answers = ScalingRule(section), list[tuple[Desired, FleetFigures]]()
    for number, fleet in enumerate(seen):
        found = rule.look(number * 30.0, fleet)
        if found is not None:
            answers.append((found, fleet))
    for found, _ in answers:
        assert 2 <= found.selfplay.count <= 150
        assert 1 <= found.inference.count <= 4
    for (before, _), (after, fleet) in pairwise(answers):
        assert after.selfplay.before == before.selfplay.count
        assert after.selfplay.count >= before.selfplay.count // 2
        assert after.selfplay.count <= max(before.selfplay.count, 2 * fleet.workers, 2)
        if fleet.missing:
            assert after.selfplay.count == before.selfplay.count
            assert after.inference.count == before.inference.count


@settings(max_examples=40, deadline=None)
@given(st.floats(0.5, 900), st.integers(1, 1000), st.floats(0.5, 8))
def test_a_constant_demand_is_met_once_and_for_all(
    useful: float, workers: int, target: float
) -> None:
    """The fleet follows each answer at once; after that nothing changes."""

    def at(now: int) -> FleetFigures:
        return a_fleet(now, target * useful / now, target=target, load=0.05)

    watched = Watched(at(workers))
    counts = [workers]
    for _ in range(14 * LOOKS):
        counts.append(watched.see(at(counts[-1])).selfplay.count)
    assert len(set(counts[-LOOKS:])) == 1
    steps = [after - before for before, after in pairwise(counts) if after != before]
    assert all(step > 0 for step in steps) or all(step < 0 for step in steps)
    assert useful / 1.1 - 1 <= counts[-1] <= max(useful + 1, useful / SECTION.shrink_below)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.1, 50), st.floats(0.1, 50))
def test_more_demand_never_asks_for_less(one: float, other: float) -> None:
    low, high = sorted((one, other))

    def workers(reuse: float) -> int:
        return Watched(a_fleet(10, 4.0)).see(a_fleet(10, reuse), 2 * LOOKS).selfplay.count

    assert workers(low) <= workers(high)


@pytest.mark.parametrize("useful", [1.0, 1.5, 3.3, 250.0])
def test_needs_are_in_workers(useful: float) -> None:
    need: Need = need_of(a_fleet(10, 4.0 * useful / 10), SECTION)
    assert need.workers == pytest.approx(useful)
