"""Mctx's Gumbel policy on pgx's Connect Four: games in step, then one pass over their positions."""

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
GAMES = 128  # in step
PLIES = 64  # plies of each game, for one pass of training
BATCH = 256
LEARNING_RATE = 1e-3

Tree = Any
"""Nested containers of arrays, as jax knows them."""


class Moves(NamedTuple):
    """Data of games in step at one ply, or at several; ``[..., games]`` and more."""

    observation: jax.Array
    policy: jax.Array  # policy of the search
    reward: jax.Array  # of the player that moved, in [-1, 1]; not 0 only where the game ended
    ended: jax.Array


class Network(nn.Module):
    """A residual network with two heads; a value is for the player to move."""

    @nn.compact
    def __call__(self, observation: jax.Array, *, train: bool) -> tuple[jax.Array, jax.Array]:
        """Observations ``[batch, 6, 7, 2]`` to logits ``[batch, 7]`` and values ``[batch]``."""

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
    """Weights and running averages of an untrained network."""
    return NETWORK.init(jax.random.key(seed), jnp.zeros((1, *SHAPE)), train=False)


def predict(variables: Tree, observation: jax.Array) -> tuple[jax.Array, jax.Array]:
    """As ``Network`` does it once it has learnt."""
    return NETWORK.apply(variables, observation, train=False)


class Play:
    """Games in step, each begun anew when it is over."""

    def __init__(self) -> None:
        self._env = pgx.make("connect_four")
        self.begin = jax.jit(lambda key: jax.vmap(self._env.init)(jax.random.split(key, GAMES)))
        self.play = jax.jit(self._play)

    def _play(self, variables: Tree, state: Tree, key: jax.Array) -> tuple[Tree, Moves]:
        """``PLIES`` of each game; the state after them, and the moves ``[plies, games]``."""
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
        """A step of the search: the opponent's value counts against the player that moved."""
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
        """The states after an action of each, and what the players that moved got for it."""
        after = jax.vmap(self._env.step)(state, action)
        return after, after.rewards[jnp.arange(len(action)), state.current_player]


def _where(ended: jax.Array) -> Any:  # noqa: ANN401
    """Takes the first where a game ended, else the second; of arrays ``[games, ...]``."""

    def choose(begun: jax.Array, after: jax.Array) -> jax.Array:
        return jnp.where(ended.reshape(-1, *[1] * (after.ndim - 1)), begun, after)

    return choose


@jax.jit
def results(moves: Moves) -> tuple[jax.Array, jax.Array]:
    """Each position's result for its player to move, and whether its game has ended here."""

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
    """One step of Adam on observations, policies, values and whether these are known."""
    observation, policy, value, known = batch

    def loss(params: Tree) -> tuple[jax.Array, Tree]:
        (logits, predicted), averages = NETWORK.apply(
            {**variables, "params": params}, observation, train=True, mutable=["batch_stats"]
        )
        of_policy = optax.softmax_cross_entropy(logits, policy).mean()
        of_value = (optax.l2_loss(predicted, value) * known).mean()
        return of_policy + of_value, averages

    gradient, averages = jax.grad(loss, has_aux=True)(variables["params"])
    updates, memory = OPTIMIZER.update(gradient, memory)
    return {"params": optax.apply_updates(variables["params"], updates), **averages}, memory


def learn(folder: Path, seed: int) -> None:
    """Play, train on what was played, and keep a checkpoint, for ever."""
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
    """Keep the arrays in the order of the tree; the name appears when all is written."""
    unfinished = folder / "unfinished.npz"
    np.savez(unfinished, *jax.tree.leaves(variables))
    unfinished.rename(folder / f"checkpoint-{step}")


def load(checkpoint: Path) -> Answer:
    """Read what ``save`` kept."""
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
