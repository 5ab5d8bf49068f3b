"""The preset ``agz`` has the numbers that the paper of AlphaGo Zero prints (Nature 550, 2017).

They stand here once more, so that a change of a default or of the preset is seen to leave the
paper. c_puct is not among them: the paper does not print it.
"""

import numpy as np
import pytest
from zerofleet_core import SearchConfig, SelfPlay

from zerofleet.config import RunConfig, run_from_values
from zerofleet.config.selfplay import SearchSection

GAME = "go(size=19)"

# Values from the paper's Methods for each service, by section and key of a run file.
PRINTED = {
    "search": {  # "Self-play", "Search algorithm"
        "num_simulations": 1600,
        "temperature": 1.0,
        "temperature_moves": 30,
        "temperature_final": 0.0,  # "tau -> 0"
        "dirichlet_fraction": 0.25,
        "fpu": "zero",  # Q(s, a) = 0 of a new edge
        "root": "puct",
        "reuse_tree": True,
        "random_symmetry": True,
    },
    "resign": {"enabled": True, "play_on_share": 0.1, "false_positive_share": 0.05},  # "Self-play"
    "network": {  # "Neural network architecture"
        "blocks": 19,
        "channels": 256,
        "policy_channels": 2,
        "value_channels": 1,
        "value_hidden": 256,
    },
    "trainer": {  # "Optimisation", Extended Data Table 3
        "batch_size": 2048,
        "window_games": 500_000,
        "learning_rate": (0.01, 0.001, 0.0001),
        "learning_rate_steps": (400_000, 600_000),
        "schedule": "steps",
        "momentum": 0.9,
        "l2": 1e-4,
        "value_loss_weight": 1.0,  # "weighted equally"
        "checkpoint_every_steps": 1000,
        "publish_every_steps": 1000,  # each checkpoint is judged
        "augment": True,
    },
    "evaluator": {  # "Evaluator"
        "gate": True,
        "test": "fixed",
        "games": 400,
        "num_simulations": 1600,
        "threshold": 0.55,
    },
}
# Features newer than the paper are off.
LATER = {
    "search": {
        "full_search_share": 1.0,
        "c_puct_growth": 0.0,
        "root_fpu_reduction": None,
        "root_policy_temperature": 1.0,
        "root_policy_temperature_halflife": 0.0,
        "forced_playouts": 0.0,
        "min_child_visits": 0,
        "prune_targets": False,
        "temperature_halflife": 0.0,
        "fork_share": 0.0,
        "prove_results": False,
        "decisive_moves": False,
        "simulations_start": None,
        "simulations_growth_models": 0,
    },
    "network": {
        "global_pooling": False,
        "squeeze_excitation": False,
        "policy_head": "dense",
        "value_head": "scalar",
    },
    "trainer": {
        "growing_window": False,
        "average_decay": 0.0,
        "warmup_samples": 0,
        "budget_samples": 0,
        "budget_minutes": 0.0,
        "optimizer": "sgd",
        "value_lambda": 1.0,
        "soft_policy_weight": 0.0,
        "opponent_policy_weight": 0.0,
        "final_planes_weight": 0.0,
        "final_score_weight": 0.0,
        "policy_surprise_share": 0.0,
        "repeated_positions": "all",
        "age_halflife": 0.0,
    },
    "precision": {"variants": ()},
}


@pytest.fixture(scope="module")
def agz() -> RunConfig:
    return run_from_values({"name": "paper", "preset": "agz", "game": GAME})


@pytest.mark.parametrize("said", [PRINTED, LATER], ids=["printed", "later"])
def test_agz_is_what_the_paper_says(agz: RunConfig, said: dict[str, dict[str, object]]) -> None:
    values = agz.model_dump()
    found = {section: {key: values[section][key] for key in keys} for section, keys in said.items()}
    assert found == said


def leaves(search: SearchSection, **other: float) -> list[bytes]:
    """The first positions that self-play asks for when every prediction is even."""
    engine = SelfPlay(GAME, 1, SearchConfig(**search.model_copy(update=other).model_dump()), 1)
    asked: list[bytes] = []
    for _ in range(100):
        observations = engine.select()
        asked += [row.tobytes() for row in observations]
        rows = len(observations)
        engine.backup(np.zeros((rows, 362), np.float16), np.zeros(rows, np.float32), 1)
    return asked


def test_alpha_is_three_hundredths_on_19x19(agz: RunConfig) -> None:
    """With even predictions, the root's noise alone says where the search goes."""
    ours = leaves(agz.search)
    assert len(set(ours)) > 50
    assert ours == leaves(agz.search, dirichlet_alpha=0.03)
    assert ours != leaves(agz.search, dirichlet_alpha=0.031)


@pytest.mark.parametrize(
    ("preset", "optimizer"), [("fast", "adamw"), ("fast", "sgd"), ("plain", "muon")]
)
def test_an_optimizer_that_is_not_the_presets_brings_its_own_rate(
    preset: str, optimizer: str
) -> None:
    values = {"name": "a", "preset": preset, "game": "tic_tac_toe"}
    with pytest.raises(ValueError, match=rf'"{optimizer}" with .* needs a trainer.learning_rate'):
        run_from_values(values | {"trainer": {"optimizer": optimizer}})
    given = {"optimizer": optimizer, "learning_rate": [0.03]}
    assert run_from_values(values | {"trainer": given}).trainer.learning_rate == (0.03,)


def test_the_presets_own_optimizer_has_the_presets_rate() -> None:
    values = {"name": "a", "game": "tic_tac_toe", "trainer": {"optimizer": "muon"}}
    assert run_from_values(values).trainer.learning_rate == (0.12,)
