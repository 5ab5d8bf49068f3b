"""The preset ``agz`` has the numbers that the paper of AlphaGo Zero prints (Nature 550, 2017).

They stand here once more, so that a change of a default or of the preset is seen to leave the
paper. c_puct is not among them: the paper does not print it.
"""

import numpy as np
import pytest
from zerofleet_core import SelfPlay

from zerofleet.config import RunConfig, TrainerSection, run_from_values
from zerofleet.search_configs import selfplay_search

GAME = "go(size=19)"

# Values from the paper's Methods for each service, by section and key of a run file.
PRINTED = {
    "search": {  # "Self-play", "Search algorithm"
        "num_simulations": 1600,
        "fpu": "zero",  # Q(s, a) = 0 of a new edge
        "root": "puct",
        "reuse_tree": True,
        "random_symmetry": True,
    },
    "selfplay": {  # "Self-play"
        "temperature": 1.0,
        "temperature_moves": 30,
        "temperature_final": 0.0,  # "tau -> 0"
        "dirichlet_fraction": 0.25,
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
        "momentum": 0.9,
        "l2": 1e-4,
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
    "search": {"prove_results": False, "decisive_moves": False},
    "selfplay": {
        "full_search_share": 1.0,
        "random_opening_plies": 0,
        "root_fpu_reduction": None,
        "root_policy_temperature": 1.0,
        "root_policy_temperature_halflife": 0.0,
        "forced_playouts": 0.0,
        "min_child_visits": 0,
        "prune_targets": False,
        "temperature_halflife": 0.0,
        "fork_share": 0.0,
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


def test_the_losses_are_weighted_equally() -> None:
    assert TrainerSection.value_loss_weight == 1.0


def leaves(run: RunConfig, **other: float) -> list[bytes]:
    """The first positions that self-play asks for when every prediction is even."""
    play = run.selfplay.model_copy(update=other)
    engine = SelfPlay(GAME, 1, selfplay_search(run.model_copy(update={"selfplay": play})), 1)
    asked: list[bytes] = []
    for _ in range(100):
        observations = engine.select()
        asked += [row.tobytes() for row in observations]
        rows = len(observations)
        engine.backup(np.zeros((rows, 362), np.float16), np.zeros(rows, np.float32), 1)
    return asked


def test_alpha_is_three_hundredths_on_19x19(agz: RunConfig) -> None:
    """With even predictions, the root's noise alone says where the search goes."""
    ours = leaves(agz)
    assert len(set(ours)) > 50
    assert ours == leaves(agz, dirichlet_alpha=0.03)
    assert ours != leaves(agz, dirichlet_alpha=0.031)


@pytest.mark.parametrize(
    ("preset", "optimizer"), [(None, "adamw"), (None, "sgd"), ("plain", "muon")]
)
def test_an_optimizer_that_is_not_the_presets_brings_its_own_rate(
    preset: str | None, optimizer: str
) -> None:
    values = {"name": "a", "preset": preset, "game": "tic_tac_toe"}
    with pytest.raises(ValueError, match=rf'"{optimizer}" in place .* needs a trainer.learning_ra'):
        run_from_values(values | {"trainer": {"optimizer": optimizer}})
    given = {"optimizer": optimizer, "learning_rate": [0.03]}
    assert run_from_values(values | {"trainer": given}).trainer.learning_rate == (0.03,)


def test_the_default_optimizer_has_the_default_rate() -> None:
    values = {"name": "a", "game": "tic_tac_toe", "trainer": {"optimizer": "muon"}}
    assert run_from_values(values).trainer.learning_rate == (0.12,)


RECIPE = {
    "search": {
        "root": "gumbel",
        "num_simulations": 32,
        "prove_results": True,
        "decisive_moves": True,
    },
    "selfplay": {
        "full_search_share": 1.0,
        "max_ahead_positions": 20_000,
        "random_opening_share": 0.9,
        "random_opening_plies": None,
        "forced_playouts": 0.0,
        "prune_targets": False,
        "root_policy_temperature": 1.0,
    },
    "resign": {"enabled": True},
    "network": {"value_head": "outcome"},
    "trainer": {
        "batch_size": 256,
        "optimizer": "muon",
        "learning_rate": (0.12,),
        "warmup_samples": 20_000,
        "samples_per_position": 4.0,
        "value_lambda": 0.9,
        "growing_window": True,
        "average_decay": 0.75,
    },
    "precision": {"variants": ("auto",)},
    "evaluator": {"test": "sprt", "threshold": 0.5},
}


def test_a_run_file_of_two_lines_gets_the_recipe() -> None:
    values = run_from_values({"name": "mine", "game": "tic_tac_toe"}).model_dump()
    found = {section: {key: values[section][key] for key in RECIPE[section]} for section in RECIPE}
    assert found == RECIPE


@pytest.mark.parametrize(
    ("game", "plies"),
    [("tic_tac_toe", 4), ("connect_four", 21), ("othello", 24), ("go(size=19)", 24)],
)
def test_random_openings_are_half_of_the_longest_game_and_at_most_24(game: str, plies: int) -> None:
    run = run_from_values({"name": "mine", "game": game})
    assert selfplay_search(run).random_opening_plies == plies
    own = {"name": "mine", "game": game, "selfplay": {"random_opening_plies": 3}}
    assert selfplay_search(run_from_values(own)).random_opening_plies == 3


def test_the_preset_fast_is_gone_with_the_way_out() -> None:
    with pytest.raises(ValueError, match="the defaults replace this preset: leave the line out"):
        run_from_values({"name": "mine", "game": "tic_tac_toe", "preset": "fast"})
