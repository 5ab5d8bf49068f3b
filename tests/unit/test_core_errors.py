"""Inputs that the core's engines refuse, and the messages."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from zerofleet_core import Match, Search, SearchConfig, SelfPlay


@pytest.mark.parametrize(
    ("logits", "value", "message"),
    [
        (np.zeros((2, 7), np.float32), np.zeros(2, np.float32), "expected 3 rows"),
        (np.zeros((3, 9), np.float32), np.zeros(3, np.float32), r"expected \[3, 7\]"),
        (np.zeros((3, 7), np.float32), np.zeros((3, 1), np.float32), r"value has shape \[3, 1\]"),
        (np.zeros(21, np.float32), np.zeros(3, np.float32), r"policy_logits has shape \[21\]"),
        (np.zeros((3, 7), np.float64), np.zeros(3, np.float32), "float16 or float32"),
        (np.full((3, 7), np.nan, np.float16), np.zeros(3, np.float32), "not finite"),
        (np.full((3, 7), np.inf, np.float32), np.zeros(3, np.float32), "not finite"),
        (np.zeros((3, 7), np.float32), np.full(3, np.nan, np.float32), r"not in \[-1, 1\]"),
        (np.zeros((3, 7), np.float32), np.full(3, 7, np.float32), r"not in \[-1, 1\]"),
    ],
)
def test_unsound_predictions_change_nothing(
    logits: NDArray[Any], value: NDArray[Any], message: str
) -> None:
    engine = SelfPlay("connect_four", 3, SearchConfig(), 1)
    before = engine.select().copy()
    with pytest.raises(ValueError, match=message):
        engine.backup(logits, value, 1)
    assert engine.statistics.positions_evaluated == 0
    np.testing.assert_array_equal(engine.select(), before)
    engine.backup(np.zeros((3, 7), np.float32), np.zeros(3, np.float32), 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"num_simulations": 0},
        {"c_puct": 0.0},
        {"c_puct": float("nan")},
        {"fpu": "best"},
        {"fpu_reduction": -0.1},
        {"dirichlet_fraction": 1.5},
        {"dirichlet_alpha": 0.0},
        {"temperature": -1.0},
        {"temperature_moves": -1},
        {"temperature_final": float("inf")},
        {"virtual_loss": -1.0},
        {"cache_positions": -1},
    ],
)
def test_an_invalid_setting_is_named(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        SearchConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_simulations": 1.5}, "num_simulations must be int, not 1.5"),
        ({"c_puct": "2"}, "c_puct must be float, not '2'"),
        ({"dirichlet_alpha": "small"}, "dirichlet_alpha must be float | None, not 'small'"),
        ({"reuse_tree": "yes"}, "reuse_tree must be bool, not 'yes'"),
        ({"root": 1}, "root must be str, not 1"),
        ({"cpuct": 2.0}, "the search has no setting cpuct"),
    ],
)
def test_a_setting_of_another_type_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        SearchConfig(**settings)


def test_settings_are_read_as_they_were_given() -> None:
    given = {"root": "gumbel", "fpu": "zero", "opening_actions": "mixed", "c_puct": 2}
    given |= {"fast_simulations": None, "dirichlet_alpha": 0.5, "prove_results": True}
    config = SearchConfig(**given)
    assert {name: getattr(config, name) for name in given} == given
    assert SearchConfig().root == "puct"


def test_unknown_game_names_the_known_ones() -> None:
    for make in (
        lambda: SelfPlay("checkers", 1, SearchConfig(), 1),
        lambda: Match("checkers", [[]], SearchConfig(), 1),
        lambda: Search("checkers", [[]], SearchConfig(), 1),
    ):
        with pytest.raises(
            ValueError, match="unknown game 'checkers'; known: chess, connect_four, "
        ):
            make()
