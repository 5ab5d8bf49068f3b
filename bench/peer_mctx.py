"""Training loop around Mctx's Gumbel policy and pgx's Connect Four, with games in lockstep.

Each step plays some plies of all games, then trains once on each of their positions.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import mctx
import numpy as np
import optax
import pgx
from numpy.typing import NDArray

from bench.peer_process import Answer, run

SHAPE = (6, 7, 2)
NUM_ACTIONS = 7
BLOCKS = 3
CHANNELS = 32
SIMULATIONS = 32
GAMES = 128  # games in lockstep
PLIES = 64  # plies of each game between two passes of training
BATCH = 256
LEARNING_RATE = 1e-3

Tree = Any
"""Pytree of jax: nested containers of arrays."""


class Moves(NamedTuple):
    """Moves of all games at one ply, or at several plies with a leading axis ``[plies, ...]``."""

    observation: jax.Array  # [games, 6, 7, 2] before the move
    policy: jax.Array  # [games, 7] improved policy of the search
    reward: jax.Array  # [games] for the player that moved, in [-1, 1]; 0 unless the game ended
    ended: jax.Array  # [games] whether the move ended the game


class Network(nn.Module):
    """Residual network with a policy head and a value head."""

    @nn.compact
    def __call__(self, observation: jax.Array, *, train: bool) -> tuple[jax.Array, jax.Array]:
        """Predict policies and values.

        Args:
            observation: ``[batch, 6, 7, 2]``.
            train: normalize by the batch's own statistics and update their running averages.

        Returns:
            Policy logits ``[batch, 7]``, and values ``[batch]`` in [-1, 1] for the player to move.
        """

        def convolution(x: jax.Array, channels: int, size: int) -> jax.Array:
            x = nn.Conv(channels, (size, size), use_bias=False)(x)
            return nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)

        x = nn.relu(convolution(observation.astype(jnp.float32), CHANNELS, 3))
        for _ in range(BLOCKS):
            y = nn.relu(convolution(x, CHANNELS, 3))
            x = nn.relu(x + convolution(y, CHANNELS, 3))
        batch = len(x)
        policy = nn.relu(convolution(x, 2, 1)).reshape(batch, -1)
        value = nn.relu(convolution(x, 1, 1)).reshape(batch, -1)
        value = nn.Dense(1)(nn.relu(nn.Dense(CHANNELS)(value)))
        return nn.Dense(NUM_ACTIONS)(policy), jnp.tanh(value[:, 0])


NETWORK = Network()


def new_variables(seed: int) -> Tree:
    """Return the weights and running averages of an untrained network."""
    return NETWORK.init(jax.random.key(seed), jnp.zeros((1, *SHAPE)), train=False)


def predict(variables: Tree, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Predict as in play, with running averages; arguments and results are ``Network``'s."""
    return NETWORK.apply(variables, observation, train=False)


class Play:
    """Games in lockstep; a new game replaces each one that ends."""

    def __init__(self) -> None:
        self._env = pgx.make("connect_four")
        self.begin = jax.jit(lambda key: jax.vmap(self._env.init)(jax.random.split(key, GAMES)))
        self.play = jax.jit(self._play)

    def _play(self, variables: Tree, state: Tree, key: jax.Array) -> tuple[Tree, Moves]:
        """Play ``PLIES`` plies of each game; return the new state and moves ``[plies, games]``."""
        keys = jax.random.split(key, PLIES)
        return jax.lax.scan(lambda at, one: self._ply(variables, at, one), state, keys)

    def _ply(self, variables: Tree, state: Tree, key: jax.Array) -> tuple[Tree, Moves]:
        search_key, begin_key = jax.random.split(key)
        logits, value = predict(variables, state.observation)
        found = mctx.gumbel_muzero_policy(
            params=variables,
            rng_key=search_key,
            root=mctx.RootFnOutput(prior_logits=logits, value=value, embedding=state),
            recurrent_fn=self._expand,
            num_simulations=SIMULATIONS,
            invalid_actions=~state.legal_action_mask,
            qtransform=mctx.qtransform_completed_by_mix_value,
        )
        after, reward = self._move(state, found.action)
        moves = Moves(state.observation, found.action_weights, reward, after.terminated)
        return jax.tree.map(_where(after.terminated), self.begin(begin_key), after), moves

    def _expand(
        self, variables: Tree, key: jax.Array, action: jax.Array, state: Tree
    ) -> tuple[mctx.RecurrentFnOutput, Tree]:
        """Make one step of the search; its discount of -1 negates the opponent's value."""
        del key
        after, reward = self._move(state, action)
        logits, value = predict(variables, after.observation)
        logits = jnp.where(after.legal_action_mask, logits, jnp.finfo(logits.dtype).min)
        step = mctx.RecurrentFnOutput(
            reward=reward,
            discount=jnp.where(after.terminated, 0.0, -1.0),
            prior_logits=logits,
            value=jnp.where(after.terminated, 0.0, value),
        )
        return step, after

    def _move(self, state: Tree, action: jax.Array) -> tuple[Tree, jax.Array]:
        """Return the states after one action each, and the rewards of the players that moved."""
        after = jax.vmap(self._env.step)(state, action)
        return after, after.rewards[jnp.arange(len(action)), state.current_player]


def _where(ended: jax.Array) -> Any:  # noqa: ANN401
    """Return a function that selects the first array where a game ended, else the second.

    Args:
        ended: ``[games]``; both arrays are ``[games, ...]``.
    """

    def choose(begun: jax.Array, after: jax.Array) -> jax.Array:
        return jnp.where(ended.reshape(-1, *[1] * (after.ndim - 1)), begun, after)

    return choose


@jax.jit
def results(moves: Moves) -> tuple[jax.Array, jax.Array]:
    """Return the results of the games, where they are known.

    Args:
        moves: ``[plies, games]``.

    Returns:
        The result of each position's game for its player to move, ``[plies, games]``; and whether
        it is known, because the game ended within these plies.
    """

    def back(carry: Tree, move: Moves) -> tuple[Tree, Tree]:
        value, known = carry
        value = jnp.where(move.ended, move.reward, -value)
        known = known | move.ended
        return (value, known), (value, known)

    begin = jnp.zeros(GAMES), jnp.zeros(GAMES, bool)
    _, found = jax.lax.scan(back, begin, moves, reverse=True)
    return found


OPTIMIZER = optax.adam(LEARNING_RATE)


@jax.jit
def train(variables: Tree, memory: Tree, batch: Tree) -> tuple[Tree, Tree]:
    """Take one step of Adam.

    Args:
        variables: weights and running averages.
        memory: state of the optimizer.
        batch: observations, target policies, target values, and whether these values are known.

    Returns:
        The new variables and the new state of the optimizer.
    """
    observation, policy, value, known = batch

    def loss(params: Tree) -> tuple[jax.Array, Tree]:
        (logits, predicted), averages = NETWORK.apply(
            {**variables, "params": params}, observation, train=True, mutable=["batch_stats"]
        )
        policy_loss = optax.softmax_cross_entropy(logits, policy).mean()
        value_loss = (optax.l2_loss(predicted, value) * known).mean()
        return policy_loss + value_loss, averages

    gradient, averages = jax.grad(loss, has_aux=True)(variables["params"])
    updates, memory = OPTIMIZER.update(gradient, memory)
    return {"params": optax.apply_updates(variables["params"], updates), **averages}, memory


def learn(folder: Path, seed: int) -> None:
    """Alternate play and training forever.

    Each step writes a checkpoint, and a line of JSON to ``learner.jsonl``.

    Args:
        folder: folder for the checkpoints and ``learner.jsonl``.
        seed: seed of the weights, the play and the order of the samples.
    """
    play, order = Play(), np.random.default_rng(seed)
    key, begin_key = jax.random.split(jax.random.key(seed))
    variables = new_variables(seed)
    memory, state = OPTIMIZER.init(variables["params"]), play.begin(begin_key)
    games = 0
    save(variables, folder, 0)
    for step in itertools.count(1):
        key, play_key = jax.random.split(key)
        state, moves = play.play(variables, state, play_key)
        columns = [moves.observation, moves.policy, *results(moves)]
        flat = [np.asarray(each).reshape(PLIES * GAMES, *each.shape[2:]) for each in columns]
        for chosen in order.permutation(PLIES * GAMES).reshape(-1, BATCH):
            batch = [each[chosen] for each in flat]
            variables, memory = train(variables, memory, batch)
        save(variables, folder, step)
        games += int(moves.ended.sum())
        line = {"step": step, "total_trajectories": games, "total_states": step * PLIES * GAMES}
        with (folder / "learner.jsonl").open("a") as file:
            file.write(f"{json.dumps(line)}\n")


def save(variables: Tree, folder: Path, step: int) -> None:
    """Write a checkpoint: the arrays in the order of the tree.

    The file gets its name only when it is complete.
    """
    unfinished = folder / "unfinished.npz"
    np.savez(unfinished, *jax.tree.leaves(variables))
    unfinished.rename(folder / f"checkpoint-{step}")


def load(checkpoint: Path) -> Answer:
    """Load a checkpoint that ``save`` wrote, and return its network."""
    with np.load(checkpoint) as file:
        leaves = [file[f"arr_{number}"] for number in range(len(file.files))]
    variables = jax.tree.unflatten(jax.tree.structure(new_variables(0)), leaves)
    network = jax.jit(lambda observations: predict(variables, observations))

    def answer(
        observations: NDArray[np.float32],
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        logits, value = network(observations)
        return np.asarray(logits), np.asarray(value)

    return answer


if __name__ == "__main__":
    run(__doc__, learn, load, SHAPE)
