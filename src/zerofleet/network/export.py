"""From the trained network to one ONNX file: bytes in, policy logits and values out."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn

from zerofleet.models.graph import OPSET, check_graph
from zerofleet.models.shape import INPUT, POLICY_OUTPUT, VALUE_OUTPUT
from zerofleet.network.policy_value_net import PolicyValueNet


class _Exported(nn.Module):
    """The network with outputs as the wire wants them: half-precision logits."""

    def __init__(self, network: PolicyValueNet) -> None:
        super().__init__()
        self.network = network

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        policy_logits, value = self.network(observations)
        return policy_logits.half(), value


def export_onnx(
    network: PolicyValueNet, observation_bytes: int, metadata: Mapping[str, str]
) -> bytes:
    """Write the network, in evaluation mode, as an ONNX model with a free batch dimension.

    Batch normalisation is folded into the convolutions. Input and outputs are those of
    ``zerofleet.models.shape``; nothing but default-domain operators of an allow-list is in the
    file, and all weights are inside.

    Args:
        network: its mode and its weights are left as they were.
        observation_bytes: bytes of one packed observation.
        metadata: text kept in the file, such as run and version; it makes files of different
            models differ even when their weights agree.

    Raises:
        IncompatibleModelError: the exporter wrote something that the allow-list does not know.
    """
    training = network.training
    example = torch.zeros(2, observation_bytes, dtype=torch.uint8)
    file = io.BytesIO()
    try:
        with warnings.catch_warnings():
            # The older exporter is chosen on purpose: it takes 0.1 CPU-seconds, the newer one
            # 1 to 2.6. Torch is pinned, so the warning that it will go away is of no use.
            warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"torch\.onnx")
            warnings.filterwarnings("ignore", r".*legacy TorchScript.*", DeprecationWarning)
            # Torch's annotations forget that this exporter takes an open file.
            cast("Any", torch.onnx).export(
                _Exported(network.eval()),
                (example,),
                file,
                dynamo=False,
                opset_version=OPSET,
                input_names=[INPUT],
                output_names=[POLICY_OUTPUT, VALUE_OUTPUT],
                dynamic_axes={name: {0: "batch"} for name in (INPUT, POLICY_OUTPUT, VALUE_OUTPUT)},
            )
    finally:
        network.train(training)
    model_bytes = _finish(file.getvalue(), metadata)
    check_graph(model_bytes)
    return model_bytes


def _finish(model_bytes: bytes, metadata: Mapping[str, str]) -> bytes:
    """Check the file with ONNX's own checker and add the metadata."""
    import onnx  # here: 0.1 CPU-seconds that a trainer need not pay before it exports

    model = onnx.load_model_from_string(model_bytes)
    onnx.helper.set_model_props(model, dict(metadata))
    cast("Any", onnx.checker).check_model(model)
    return model.SerializeToString()
