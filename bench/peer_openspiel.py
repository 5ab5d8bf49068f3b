"""OpenSpiel's AlphaZero on Connect Four: its ``alpha_zero()`` with two actors, no evaluators."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from open_spiel.python.algorithms.alpha_zero import alpha_zero, utils

from bench.peer_process import Answer, run

MODEL = utils.api_selector("linen").Model
INFERENCE = MODEL.inference
"""OpenSpiel's own inference; ``bench.peer_openspiel_jit`` replaces the method of the class."""

SHAPE = (3, 6, 7)
NUM_ACTIONS = 7
BLOCKS = 3
CHANNELS = 32
LEARNING_RATE = 1e-3
WEIGHT_DECAY = 1e-4
SIMULATIONS = 100


def learn(folder: Path, seed: int) -> None:
    """Train forever, with the settings of OpenSpiel's example except for three.

    The network, the simulations and the evaluators differ. Every step writes a checkpoint.

    Args:
        folder: folder for the checkpoints and ``learner.jsonl``.
        seed: ignored; each actor draws a new seed.
    """
    del seed
    alpha_zero.alpha_zero(
        alpha_zero.Config(
            game="connect_four",
            path=str(folder),
            learning_rate=LEARNING_RATE,
            weight_decay=WEIGHT_DECAY,
            decouple_weight_decay=False,
            train_batch_size=2**7,
            replay_buffer_size=2**13,
            replay_buffer_reuse=4,
            max_steps=0,
            checkpoint_freq=1,
            actors=2,
            evaluators=0,
            evaluation_window=50,
            eval_levels=7,
            uct_c=1.41,
            max_simulations=SIMULATIONS,
            policy_alpha=1.0,
            policy_epsilon=0.25,
            temperature=1,
            temperature_drop=2,
            nn_model="resnet",
            nn_width=CHANNELS,
            nn_depth=BLOCKS,
            observation_shape=None,
            output_size=None,
            verbose=False,
            quiet=True,
            nn_api_version="linen",
        )
    )


def load(checkpoint: Path) -> Answer:
    """Load a checkpoint with OpenSpiel's model class.

    The logits are the logarithm of the policy over all actions.
    """
    model = MODEL.build_model(
        "resnet",
        SHAPE,
        NUM_ACTIONS,
        CHANNELS,
        BLOCKS,
        WEIGHT_DECAY,
        LEARNING_RATE,
        str(checkpoint.parent),
    )
    model.load_checkpoint(int(checkpoint.name.partition("-")[2]))
    every = jnp.ones(NUM_ACTIONS, bool)
    infer = jax.jit(jax.vmap(lambda observation: INFERENCE(model, observation, every)))

    def answer(
        observations: NDArray[np.float32],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        value, policy = infer(observations)
        return np.log(np.maximum(np.asarray(policy), np.finfo(np.float32).tiny)), np.asarray(value)

    return answer


if __name__ == "__main__":
    run(__doc__, learn, load, SHAPE)
