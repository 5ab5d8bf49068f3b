"""The same as ``bench.peer_openspiel``, but its network is compiled to answer one position.

OpenSpiel's own answer to a position takes jax through the network an operation at a time, which is
nearly all that its play costs. This shows what its algorithm learns once that is cured; the rest
of it is as it comes.
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
    """As ``Model.inference``: value and policy, as numpy has them, which are cheap to read."""
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


# Its actors are processes that import this module anew, under another name.
Model.inference = compiled_inference

if __name__ == "__main__":
    run(__doc__, learn, load, SHAPE)
