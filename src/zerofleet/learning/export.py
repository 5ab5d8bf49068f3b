"""Exports a network to one ONNX file, and computes the golden answers that check such a file."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Generator, Mapping
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.jit._trace import TracerWarning
from torch.onnx.errors import OnnxExporterError
from zerofleet_core import GameSpec, State

from zerofleet.errors import IncompatibleModelError
from zerofleet.models.check import Golden
from zerofleet.models.graph import OPSET, check_graph
from zerofleet.network import Network
from zerofleet.prediction import OBSERVATION, POLICY_LOGITS, VALUE


class _Exported(nn.Module):
    """The network with the outputs of the wire: half-precision logits."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        policy_logits, value = self.network.predict(observations)
        return policy_logits.half(), value


EXPORTED_POSITIONS = 5
GOLDEN_POSITIONS = 64  # from random play, and the same number of random bits


def export_onnx(network: Network, observation_bytes: int, metadata: Mapping[str, str]) -> bytes:
    """Write the network, in evaluation mode, as an ONNX model with a free batch dimension.

    Batch normalisation is folded into the convolutions. Input and outputs are described in
    ``zerofleet.models.graph``. The file contains only default-domain operators of an allow-list,
    and all weights.

    Args:
        network: its mode and its weights are left unchanged.
        observation_bytes: bytes of one packed observation.
        metadata: text in the file, such as run and version; it makes files of different models
            differ even if their weights are equal.

    Raises:
        IncompatibleModelError: the exporter wrote an operator that the allow-list does not contain.
    """
    training = network.training
    example = torch.zeros(EXPORTED_POSITIONS, observation_bytes, dtype=torch.uint8)
    file = io.BytesIO()
    try:
        with warnings.catch_warnings(), _without_dump():
            # The older exporter is chosen on purpose: it takes 0.1 CPU-seconds, the newer one 1 to
            # 2.6. Torch is pinned, so the warning about its removal is irrelevant.
            warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"torch\.onnx")
            warnings.filterwarnings("ignore", r".*legacy TorchScript.*", DeprecationWarning)
            warnings.filterwarnings("ignore", "ONNX export mode is set", UserWarning)
            # Sizes become constants of the graph; the golden answers would show a mistake.
            warnings.filterwarnings("ignore", category=TracerWarning)
            # Torch's annotations omit that this exporter accepts an open file.
            cast("Any", torch.onnx).export(
                _Exported(network.eval()),
                (example,),
                file,
                dynamo=False,
                opset_version=OPSET,
                input_names=[OBSERVATION],
                output_names=[POLICY_LOGITS, VALUE],
            )
    except OnnxExporterError as error:
        reason = str(error).partition("\n")[0]
        raise IncompatibleModelError(f"the network cannot be exported: {reason}") from error
    finally:
        network.train(training)
    model_bytes = _finish(file.getvalue(), metadata)
    check_graph(model_bytes)
    return model_bytes


@contextlib.contextmanager
def _without_dump() -> Generator[None]:
    """Keep the exporter from printing the whole graph to standard output when it fails."""
    name = "_jit_onnx_log"
    before = getattr(torch._C, name)  # pyright: ignore[reportPrivateUsage]
    setattr(torch._C, name, _print_nothing)  # pyright: ignore[reportPrivateUsage]
    try:
        yield
    finally:
        setattr(torch._C, name, before)  # pyright: ignore[reportPrivateUsage]


def _print_nothing(*_: object) -> None:
    pass


def _finish(model_bytes: bytes, metadata: Mapping[str, str]) -> bytes:
    """Check the file with ONNX's own checker and add the metadata."""
    # Imported here: 0.1 CPU-seconds that a trainer need not spend before it exports.
    import onnx

    from zerofleet.learning.exported_graph import settle

    model = settle(onnx.load_model_from_string(model_bytes))
    onnx.helper.set_model_props(model, dict(metadata))
    cast("Any", onnx.checker).check_model(model)
    return model.SerializeToString()


def golden_observations(spec: GameSpec, seed: int = 0) -> NDArray[np.uint8]:
    """Return positions of random play, then random bits: ``[2 * GOLDEN_POSITIONS, bytes]``."""
    generator = np.random.default_rng(seed)
    played = random_positions(spec, GOLDEN_POSITIONS, generator)
    return np.concatenate([played, generator.integers(0, 256, played.shape, np.uint8)])


def golden_answers(network: Network, observations: NDArray[np.uint8]) -> Golden:
    """Compute torch's answers to the golden positions, on the CPU and in evaluation mode."""
    with torch.no_grad():
        inputs = torch.from_numpy(observations)  # pyright: ignore[reportUnknownMemberType]
        policy_logits, value = network.predict(inputs)
    return Golden(observations, policy_logits.numpy(), value.numpy())


def random_positions(
    spec: GameSpec, positions: int, generator: np.random.Generator
) -> NDArray[np.uint8]:
    """Play random games and return their first positions: ``[positions, observation_bytes]``."""
    played = np.empty((positions, spec.observation_bytes), np.uint8)
    state = State(spec.name)
    for row in played:
        if state.is_terminal:
            state = State(spec.name)
        row[:] = state.observation()
        state.apply(int(generator.choice(state.legal_actions())))
    return played
