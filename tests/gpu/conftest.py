"""For machines with an NVIDIA GPU alone: no stores, tiny real networks."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from zerofleet import games
from zerofleet.config import NetworkSection
from zerofleet.errors import IncompatibleModelError, InferenceUnavailableError
from zerofleet.models.driver import device_count
from zerofleet.models.runtime import Provider
from zerofleet.services.inference.devices import probe

GAME = "connect_four"


@pytest.fixture(scope="session", autouse=True)
def gpu() -> None:
    """Skip everything where no GPU can be used, and say why."""
    try:
        count = device_count()
    except OSError as error:
        pytest.skip(f"no NVIDIA driver: {error}")
    if count == 0:
        pytest.skip("the driver knows no GPU")
    try:
        probe(Provider("cuda"))
    except (IncompatibleModelError, InferenceUnavailableError) as error:
        pytest.skip(f"ONNX Runtime has no CUDA that works here: {error}")


@cache
def exported(seed: int, blocks: int, channels: int) -> bytes:
    import torch

    from zerofleet.learning import export_onnx, make_network

    spec = games.spec(GAME)
    network = make_network(spec, NetworkSection(blocks=blocks, channels=channels), seed=seed)
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if not parameter.any():  # heads begin with zeros, and so would say nothing
                parameter.normal_(0.0, 0.05, generator=chance)
            if name == "value_head.4.bias":
                lead = 0.25 * seed - 0.6  # by which each seed's values are known
                parameter.copy_(torch.linspace(lead, -lead, len(parameter)))  # win, draw, loss
    return export_onnx(network, spec.observation_bytes, {"seed": str(seed)})


@pytest.fixture(scope="session")
def make_model() -> Callable[..., bytes]:
    """A network with random weights, the same for the same seed."""

    def make(seed: int = 1, blocks: int = 2, channels: int = 32) -> bytes:
        return exported(seed, blocks, channels)

    return make


@pytest.fixture(scope="session")
def rows() -> Callable[[int], np.ndarray]:
    """Positions of random play, one after the other."""

    def make(count: int) -> np.ndarray:
        generator = np.random.default_rng(count)
        state, found = games.State(GAME), list[np.ndarray]()
        while len(found) < count:
            found.append(state.observation())
            state.apply(int(generator.choice(state.legal_actions())))
            if state.is_terminal:
                state = games.State(GAME)
        return np.stack(found)

    return make
