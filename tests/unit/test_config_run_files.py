"""The run files of ``runs/``: each GPU's file repeats the file for CPUs, except for these keys."""

from pathlib import Path

import pytest

from zerofleet.config import load_run
from zerofleet.config.differences import differing_keys, run_values

RUNS = Path(__file__).parents[2] / "runs"
FOR_A_GPU = {
    "inference.require_gpu",
    "network.blocks",
    "network.channels",
    "search.num_simulations",
    "trainer.batch_size",
}


@pytest.mark.parametrize(
    ("game", "more"),
    [
        ("go9", {"inference.sessions", "rating.games", "selfplay.games_per_engine"}),
        ("chess", set[str]()),
    ],
)
def test_a_run_file_for_a_gpu_differs_in_few_keys(game: str, more: set[str]) -> None:
    runs = {name: load_run(RUNS / f"{name}.toml") for name in (game, f"{game}_gpu")}
    keys = differing_keys({name: run_values(run) for name, run in runs.items()})
    assert keys.keys() == FOR_A_GPU | more
