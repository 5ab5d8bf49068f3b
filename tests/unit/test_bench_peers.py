"""A peer's network answers for our player to move, in our columns, from what it would observe."""

import json
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyspiel
import pytest
from numpy.typing import NDArray
from zerofleet_core import State

from bench import peers
from bench.children import ChildGoneError
from bench.peer_predictor import PEERS, PeerPredictor
from tests.processes import wait_ended
from zerofleet.errors import ConfigError

OPENING = [3, 3, 3, 2, 0, 6, 6]
"""Heights 1, 0, 1, 3, 0, 0, 2; the second player moves."""

Network = Callable[[NDArray[np.float32]], tuple[NDArray[np.float32], NDArray[np.float32]]]


def observations(*games: list[int]) -> NDArray[np.uint8]:
    states = [State("connect_four") for _ in games]
    for state, actions in zip(states, games, strict=True):
        for action in actions:
            state.apply(action)
    return np.stack([state.observation() for state in states])


def predictor(name: str, network: Network) -> PeerPredictor:
    def ask(given: NDArray[np.float32]) -> NDArray[np.float32]:
        logits, value = network(given)
        return np.column_stack([logits, value])

    return PeerPredictor(PEERS[name], ask)


def planes(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.unpackbits(packed, axis=1, count=126).reshape(-1, 3, 6, 7)


def test_openspiel_observes_what_its_own_rules_show() -> None:
    chance = random.Random(3)
    state = pyspiel.load_game("connect_four").new_initial_state()
    actions: list[int] = []
    while not state.is_terminal():
        [ours] = PEERS["openspiel"].observe(planes(observations(actions)))
        np.testing.assert_array_equal(ours.ravel(), state.observation_tensor())
        actions.append(chance.choice(state.legal_actions()))
        state.apply_action(actions[-1])


async def test_openspiels_value_is_turned_to_the_player_to_move() -> None:
    """A network that counts the first player's discs in the bottom row less the second's."""

    def network(given: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        first, second, empty = np.moveaxis(given, 1, 0)
        value = (first[:, 0] - second[:, 0]).sum(axis=1) / 7
        return 6 - empty.sum(axis=1), value

    answer = await predictor("openspiel", network).predict(observations([0], [0, 0], [0, 0, 1]))
    np.testing.assert_allclose(answer.value, [-1 / 7, 1 / 7, -2 / 7], atol=1e-6)
    answer = await predictor("openspiel", network).predict(observations(OPENING))
    np.testing.assert_array_equal(answer.policy_logits, [[1, 0, 1, 3, 0, 0, 2]])


async def test_mctxs_value_is_that_of_the_player_to_move_as_it_is() -> None:
    """A network that counts own discs in the bottom row less the other's."""

    def network(given: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        mine, others = np.moveaxis(given, -1, 0)
        return (mine + others).sum(axis=1), (mine[:, 5] - others[:, 5]).sum(axis=1) / 7

    answer = await predictor("mctx", network).predict(observations([0], [0, 0], [0, 0, 1], OPENING))
    np.testing.assert_allclose(answer.value, [-1 / 7, 1 / 7, -2 / 7, 0], atol=1e-6)
    np.testing.assert_array_equal(answer.policy_logits[-1], [1, 0, 1, 3, 0, 0, 2])


def test_the_newest_checkpoint_is_the_one_of_the_last_whole_line(tmp_path: Path) -> None:
    assert peers.newest_checkpoint(tmp_path) is None
    (tmp_path / "checkpoint-0").touch()
    assert peers.newest_checkpoint(tmp_path) == {"step": 0, "games": 0, "positions": 0}
    line = '{"step": 1, "total_trajectories": 9, "total_states": 250}\n'
    (tmp_path / "learner.jsonl").write_text(line + line.replace("1", "2", 1)[:-1])
    assert peers.newest_checkpoint(tmp_path) == {"step": 1, "games": 9, "positions": 250}


HAND_MADE = """
import os, signal, sys
from bench.peer_process import run

def learn(folder, seed):
    if seed == 9:
        sys.exit("no luck")
    (folder / "pid").write_text(str(os.getpid()))
    (folder / "checkpoint-0").touch()
    signal.pause()

def load(checkpoint):
    print(checkpoint)  # is no answer
    return lambda given: (given.sum(axis=(1, 3)), given.sum(axis=(1, 2, 3)) / 42)

run(None, learn, load, (6, 7, 2))
"""
"""A peer that plays where most discs are, and takes a full board for won."""


@pytest.fixture
def hand_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    (tmp_path / "hand_made.py").write_text(HAND_MADE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setitem(PEERS, "hand_made", replace(PEERS["mctx"], module="hand_made"))
    return ["hand_made", f"--python={sys.executable}", f"--folder={tmp_path}", "--positions=3"]


@pytest.mark.slow
def test_a_peer_is_examined_at_its_mark_and_ended(
    hand_made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "hand_made"

    def used(pid: int) -> float:
        return 0.1 if peers.newest_checkpoint(folder) is None else next(seconds)

    seconds = iter((0.2, 0.3))
    monkeypatch.setattr(peers, "family_cpu_seconds", used)
    file = tmp_path / "rows.jsonl"
    peers.main([*hand_made, "--marks=0.25", "--simulations=2", f"--output={file}"])
    row = json.loads(file.read_text())
    assert (row["peer"], row["mark"], row["step"], row["games"]) == ("hand_made", 0.25, 0, 0)
    assert (row["cpu_start"] in {0.1, 0.2}, row["cpu_seconds"]) == (True, 0.3)
    assert {row["random@2"], row["good@2"]} <= {0, 0.33333, 0.66667, 1}
    wait_ended([int((folder / "pid").read_text())])


@pytest.mark.slow
def test_a_peer_that_ends_says_why(hand_made: list[str]) -> None:
    with pytest.raises(ChildGoneError, match="hand_made ended with status 1: no luck"):
        peers.main([*hand_made, "--seed=9"])


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--python=no/such/python"], "no/such/python: there is no such interpreter"),
        (["--python=.", "--run=runs/go9.toml"], "peers learn only connect_four"),
    ],
)
def test_what_cannot_be_examined_is_refused(given: list[str], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        peers.main(["mctx", *given])
