"""``bench.peer_openspiel`` with a network that is compiled for single positions.

OpenSpiel runs the network one jax operation at a time, which is nearly the whole cost of its play.
This module shows how fast its algorithm learns without that cost. Everything else is unchanged.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from open_spiel.python.algorithms.alpha_zero.model_linen import Model

from bench.peer_openspiel import SHAPE, learn, load
from bench.peer_process import run


def compiled_inference(
    model: Model, observation: ArrayLike, legals_mask: ArrayLike
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Replace ``Model.inference`` by a compiled network.

    Args:
        model: OpenSpiel's model; the compiled function is stored in it.
        observation: one position.
        legals_mask: whether each action is legal, ``[7]``.

    Returns:
        The value and the policy as numpy arrays, which are cheap to read.
    """
    if not hasattr(model, "compiled"):
        apply = model._state.apply_fn

        def predict(
            weights: dict[str, jax.Array], observation: jax.Array, legal: jax.Array
        ) -> tuple[jax.Array, jax.Array]:
            logits, value = apply(weights, observation, training=False, mutable=False)
            return value, jax.nn.softmax(jnp.where(legal, logits, jnp.finfo(jnp.float32).min))

        model.compiled = jax.jit(predict)
    weights = {"params": model._state.params, "batch_stats": model._state.batch_stats}
    value, policy = model.compiled(
        weights, np.asarray(observation, np.float32), np.asarray(legals_mask, bool)
    )
    return np.asarray(value), np.asarray(policy)


# The actors are processes that import this module under another name. They need the replacement,
# too, so it does not depend on that name.
Model.inference = compiled_inference

if __name__ == "__main__":
    run(__doc__, learn, load, SHAPE)
