"""The overfit watch: when it begins, when it ends, and what it says."""

import json
from functools import cache

import pytest

from zerofleet.config import OverfitSection
from zerofleet.fleet.figures import Measurement
from zerofleet.learning.overfit import OverfitWatch

SETTINGS = {"max_policy_gap": 0.2, "max_value_gap": 0.1, "min_positions": 100}


def measured(policy_loss: float, value_loss: float, error: float | None = 0.001) -> Measurement:
    return Measurement(
        positions=32,
        policy_loss=policy_loss,
        value_loss=value_loss,
        policy_error=error,
        value_error=error,
        total_loss=policy_loss + value_loss,
        policy_entropy=1.0,
        target_entropy=1.0,
        policy_agreement=0.5,
        search_kl=policy_loss - 1.0,
        explained_variance=None,
        value_bias=0.0,
        distinct_share=1.0,
        age_games=0.0,
        calibration=(),
    )


@cache
def section(smoothing: float) -> type[OverfitSection]:
    constants = {"smoothing": smoothing, "__module__": __name__}
    return type("OverfitSection", (OverfitSection,), constants)


def watch(smoothing: float = 0.0, **settings: object) -> OverfitWatch:
    return OverfitWatch(section(smoothing)(**{**SETTINGS, **settings}))


def look(
    ours: OverfitWatch, policy_gap: float, value_gap: float = 0.0, positions: int = 100
) -> str | None:
    train, held_out = measured(1.0, 0.5), measured(1.0 + policy_gap, 0.5 + value_gap)
    return ours.observe(train, held_out, positions, received=1_000, window_positions=400)


@pytest.mark.parametrize(("policy_gap", "value_gap"), [(0.21, 0.0), (-1.0, 0.11)])
def test_either_gap_is_enough(policy_gap: float, value_gap: float) -> None:
    ours = watch()
    assert look(ours, 0.19, 0.09) is None
    assert look(ours, policy_gap, value_gap) == "overfit_begins"
    assert look(ours, policy_gap, value_gap) is None
    assert ours.active


def test_it_ends_at_half_the_maximum_and_not_before() -> None:
    ours = watch()
    look(ours, 0.3, 0.0)
    assert [look(ours, gap) for gap in (0.19, 0.15, 0.11)] == [None] * 3
    assert look(ours, 0.09, 0.06) is None
    assert look(ours, 0.09, 0.04) == "overfit_ends"
    assert look(ours, 0.15) is None
    assert not ours.active


def test_one_measurement_alone_decides_nothing() -> None:
    ours = watch(smoothing=0.8)
    assert [look(ours, gap) for gap in (0.9, 0.0, 0.0)] == [None] * 3
    assert ours.policy_gap == pytest.approx(0.18 * 0.64)
    assert [look(ours, 0.4) for _ in range(3)] == [None, "overfit_begins", None]


@pytest.mark.parametrize("error", [0.2, None])
def test_what_may_be_chance_decides_nothing(error: float | None) -> None:
    """Twice the standard error of the difference: 2 * sqrt(2) * 0.2 = 0.57."""
    ours = watch()
    for gap in (0.5, 0.56):
        train, held_out = measured(1.0, 0.5, error), measured(1.0 + gap, 0.5 + gap, error)
        assert ours.observe(train, held_out, 100, 0, 0) is None
    train, held_out = measured(1.0, 0.5, error), measured(1.6, 0.5, error)
    assert ours.observe(train, held_out, 100, 0, 0) == (error and "overfit_begins")


def test_few_held_out_positions_say_nothing() -> None:
    ours = watch()
    assert [look(ours, 9.0, positions=99) for _ in range(5)] == [None] * 5
    assert (ours.policy_gap, ours.value_gap, ours.active) == (None, None, False)
    assert look(ours, 9.0, positions=100) == "overfit_begins"


@pytest.mark.parametrize(
    ("action", "pace", "waits"), [("slow", 0.25, False), ("wait", 1.0, True), ("off", 1.0, False)]
)
def test_what_follows(action: str, pace: float, waits: bool) -> None:
    ours = watch(action=action)
    assert (ours.pace, ours.waits) == (1.0, False)
    look(ours, 1.0)
    assert (ours.active, ours.pace, ours.waits) == (True, pace, waits)


def test_a_wait_ends_when_the_window_is_renewed() -> None:
    ours = watch(action="wait", smoothing=0.9)
    assert ours.look_at_window(9_999) is None
    look(ours, 9.0)
    assert ours.renewed_at == 1_400
    assert ours.look_at_window(1_399) is None
    assert ours.look_at_window(1_400) == "overfit_ends"
    assert ours.explain() == "the window was renewed"
    assert look(ours, 0.1) is None  # the gaps of before are forgotten
    assert not ours.active


def test_slowing_goes_on_however_many_games_come_in() -> None:
    ours = watch(action="slow")
    look(ours, 1.0)
    assert ours.look_at_window(1_000_000) is None
    assert ours.pace < 1


def test_it_says_how_far_and_what_follows() -> None:
    ours = watch()
    look(ours, 0.312, 0.052)
    assert ours.explain() == (
        "held-out above training loss by 0.312 nats of policy (most 0.2) and 0.052 of value "
        "(most 0.1)"
    )
    assert ours.consequence(4.0) == "a new position pays for 1 samples"


def test_it_is_the_same_after_a_checkpoint() -> None:
    ours, again = watch(), watch()
    look(ours, 1 / 3, 1 / 7)
    again.restore(json.loads(json.dumps(ours.state())))
    assert again == ours
    again.restore({})
    assert again == watch()
