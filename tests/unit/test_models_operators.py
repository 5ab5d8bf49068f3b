"""Layers of torch have the same outputs in a model file, for any number of positions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn
from torch.nn import functional

from zerofleet.errors import IncompatibleModelError
from zerofleet.games import spec
from zerofleet.learning import export_onnx
from zerofleet.learning.export import random_positions
from zerofleet.models.graph import check_graph
from zerofleet.models.quantize import quantize_int8, to_fp16
from zerofleet.models.session import ModelSession
from zerofleet.models.variant import measure
from zerofleet.network import Network, Shapes

GAME = "connect_four"
SIZES = Shapes.of(spec(GAME))


class Alone(nn.Module):
    """A function of torch as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, planes: Tensor) -> Tensor:
        return self.function(planes)


class Around(Network):
    """One layer between a convolution and two linear layers."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__(SIZES)
        self.first = nn.Conv2d(SIZES.planes, 12, 3, padding=1)
        self.layer = layer
        with torch.no_grad():
            size = layer.eval()(self.first(torch.zeros(2, *SIZES.observation_shape))).flatten(1)
        self.policy = nn.Linear(size.shape[1], SIZES.num_actions)
        self.value = nn.Linear(size.shape[1], 3)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        found = self.layer(self.first(planes)).flatten(1)
        return self.policy(found), self.value(found)


def made(layer: nn.Module | Callable[[Tensor], Tensor]) -> Around:
    torch.manual_seed(1)
    network = Around(layer if isinstance(layer, nn.Module) else Alone(layer)).eval()
    generator = torch.Generator().manual_seed(1)
    for name, tensor in network.state_dict().items():
        if name.endswith("running_var"):
            tensor.uniform_(0.5, 2.0, generator=generator)
        elif tensor.is_floating_point():
            tensor.add_(0.1 * torch.randn(tensor.shape, generator=generator))
    return network


def squeezed(planes: Tensor) -> Tensor:
    return planes.mean((2, 3), keepdim=True).squeeze(-1).squeeze(-1)


def attention(planes: Tensor) -> Tensor:
    query, key, value = planes.flatten(2).transpose(1, 2).reshape(len(planes), 42, 3, 4).unbind(2)
    return functional.scaled_dot_product_attention(query, key, value)


def attention_by_hand(planes: Tensor) -> Tensor:
    tokens = planes.flatten(2).transpose(1, 2)
    weights = (tokens @ tokens.transpose(-1, -2) / planes.shape[1] ** 0.5).softmax(-1)
    return weights @ tokens


def own_norm(planes: Tensor) -> Tensor:
    return planes * torch.rsqrt(planes.pow(2).mean(1, keepdim=True) + 1e-6)


def gated(planes: Tensor) -> Tensor:
    first, second = planes.chunk(2, 1)
    return first * second.sigmoid()


def chosen(planes: Tensor) -> Tensor:
    return torch.where(planes > 0, planes, 0.1 * planes.exp())


def parts(planes: Tensor) -> Tensor:
    first, second, third = planes.split([2, 4, 6], 1)
    return torch.cat([third, first.expand(-1, -1, -1, -1), second], dim=-3)


def broadcast(planes: Tensor) -> Tensor:
    return planes + planes.mean((2, 3), keepdim=True).expand(-1, -1, 6, 7)


LAYERS: dict[str, nn.Module | Callable[[Tensor], Tensor]] = {
    "attention": attention,
    "attention by hand": attention_by_hand,
    "a convolution that keeps the size": nn.Conv2d(12, 4, 3, padding="same"),
    "batch norm of vectors": nn.Sequential(nn.Flatten(), nn.BatchNorm1d(12 * 42)),
    "batch norm before a convolution": nn.Sequential(nn.BatchNorm2d(12), nn.Conv2d(12, 4, 1)),
    "broadcast": broadcast,
    "chosen": chosen,
    "clamp": lambda planes: planes.clamp(-0.3, 0.4),
    "clamp from below": lambda planes: planes.clamp(min=-0.1),
    "depthwise convolution": nn.Conv2d(12, 12, 3, padding=1, groups=12),
    "elu": nn.ELU(),
    "gated": gated,
    "gelu": nn.GELU(),
    "gelu by tanh": nn.GELU("tanh"),
    "group norm": nn.GroupNorm(3, 12),
    "hard sigmoid": nn.Hardsigmoid(),
    "hard swish": nn.Hardswish(),
    "instance norm": nn.InstanceNorm2d(12, affine=True),
    "layer norm": nn.LayerNorm([12, 6, 7]),
    "layer norm of channels": lambda planes: functional.layer_norm(planes.movedim(1, 3), [12]),
    "leaky": nn.LeakyReLU(0.1),
    "log softmax": nn.LogSoftmax(1),
    "largest": lambda planes: torch.maximum(planes, -planes.abs()),
    "mish": nn.Mish(),
    "norm": lambda planes: functional.normalize(planes, dim=1),
    "own norm": own_norm,
    "one point": lambda planes: planes[:, :, 2, 3],
    "parts": parts,
    "pooled": nn.AdaptiveAvgPool2d(1),
    "prelu": nn.PReLU(12),
    "selu": nn.SELU(),
    "silu": nn.SiLU(),
    "softmax": nn.Softmax(dim=-1),
    "softplus": nn.Softplus(),
    "softsign": nn.Softsign(),
    "square root": lambda planes: (planes.abs() + 1).sqrt().reciprocal(),
    "squeezed": squeezed,
    "sum": lambda planes: planes.sum(-1),
    "transposed": lambda planes: planes.permute(0, 3, 1, 2).contiguous(),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_answers_as_in_torch(name: str) -> None:
    network = made(LAYERS[name])
    session = ModelSession(export_onnx(network, 16, {}), spec(GAME))
    for positions in (1, 7):
        observations = np.random.default_rng(positions).integers(0, 256, (positions, 16), np.uint8)
        logits, value = session.run(observations)
        with torch.no_grad():
            wanted_logits, wanted_value = network.predict(torch.from_numpy(observations))
        np.testing.assert_allclose(logits, wanted_logits.numpy(), rtol=2e-3, atol=2e-3)
        np.testing.assert_allclose(value, wanted_value.numpy(), atol=1e-4)


def means_of_the_batch(planes: Tensor) -> Tensor:
    return planes - planes.mean(0, keepdim=True)


def positions_last(planes: Tensor) -> Tensor:
    return (planes.permute(1, 2, 3, 0) * 2).permute(3, 0, 1, 2)


def halves_of_the_batch(planes: Tensor) -> Tensor:
    return planes.reshape(-1, 6, 6, 7).reshape(-1, 12, 6, 7)


@pytest.mark.parametrize(
    ("layer", "reason"),
    [
        (means_of_the_batch, r"\(ReduceMean\): it touches the axis of the batch"),
        (positions_last, r"\(Transpose\): it moves the axis of the batch"),
        (halves_of_the_batch, r"\(Reshape\): it changes the number of positions"),
        (nn.RMSNorm([12, 6, 7]), "cannot be exported: .*rms_norm"),
        (nn.Conv2d(12, 4, 5), r"\(Conv\): its kernel is larger than 3"),
        (lambda planes: planes.cumsum(1), "operator 'CumSum'"),
    ],
)
def test_a_layer_that_is_refused(
    layer: nn.Module | Callable[[Tensor], Tensor],
    reason: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(IncompatibleModelError, match=reason):
        export_onnx(made(layer), 16, {})
    assert not capfd.readouterr().out


def forged(nodes: Sequence[onnx.NodeProto], constants: dict[str, Any]) -> bytes:
    """Return a model with additional nodes at its end."""
    model = onnx.load_model_from_string(export_onnx(made(nn.ReLU()), 16, {}))
    for name, numbers in constants.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(numbers), name))
    model.graph.node.extend(nodes)
    return model.SerializeToString()


FORGED: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], str]] = {
    "a batch expanded": (
        [helper.make_node("Expand", ["value", "sizes"], ["more"])],
        {"sizes": np.array([1 << 40], np.int64)},
        r"\(Expand\): it changes the number of positions",
    ),
    "an axis expanded": (
        [helper.make_node("Expand", ["policy_logits", "sizes"], ["more"])],
        {"sizes": np.array([1, 1 << 40], np.int64)},
        r"\(Expand\): the shapes of its inputs do not fit",
    ),
    "a new axis by a constant": (
        [helper.make_node("Add", ["policy_logits", "cube"], ["more"])],
        {"cube": np.zeros((9, 9, 7), np.float32)},
        r"\(Add\): a constant meets the axis of the batch",
    ),
    "a choice between constants": (
        [
            helper.make_node("Greater", ["value", "zero"], ["won"]),
            helper.make_node("Where", ["won", "cube", "zero"], ["more"]),
        ],
        {"cube": np.zeros((9, 9), np.float32), "zero": np.zeros((), np.float32)},
        r"\(Where\): a constant meets the axis of the batch",
    ),
    "positions multiplied": (
        [helper.make_node("MatMul", ["policy_logits", "policy_logits"], ["more"])],
        {},
        r"\(MatMul\): the shapes of its inputs do not fit",
    ),
    "a batch summed": (
        [helper.make_node("ReduceSum", ["value", "first"], ["more"])],
        {"first": np.array([0], np.int64)},
        r"\(ReduceSum\): it touches the axis of the batch",
    ),
    "a batch turned": (
        [helper.make_node("Transpose", ["policy_logits"], ["more"], perm=[1, 0])],
        {},
        r"\(Transpose\): it moves the axis of the batch",
    ),
    "an order without its axes": (
        [helper.make_node("Transpose", ["policy_logits"], ["more"], perm=[0, 0])],
        {},
        r"\(Transpose\): its order has other axes",
    ),
    "a batch normalised": (
        [helper.make_node("LayerNormalization", ["policy_logits", "scale"], ["more"], axis=0)],
        {"scale": np.zeros(7, np.float32)},
        r"\(LayerNormalization\): it touches the axis of the batch",
    ),
    "a running norm": (
        [
            helper.make_node(
                "BatchNormalization", ["policy_logits", *["scale"] * 4], ["more"], training_mode=1
            )
        ],
        {"scale": np.zeros(7, np.float32)},
        r"\(BatchNormalization\): it is in training mode",
    ),
    "a softmax over the batch": (
        [helper.make_node("Softmax", ["policy_logits"], ["more"], axis=0)],
        {},
        r"\(Softmax\): it touches the axis of the batch",
    ),
    "groups that do not divide": (
        [
            helper.make_node("Reshape", ["policy_logits", "sizes"], ["planes"]),
            helper.make_node("Conv", ["planes", "weights"], ["more"], group=2),
        ],
        {
            "sizes": np.array([-1, 7, 1, 1], np.int64),
            "weights": np.zeros((4, 3, 1, 1), np.float32),
        },
        r"\(Conv\): the shapes of its inputs do not fit",
    ),
    "a vector as a matrix": (
        [helper.make_node("MatMul", ["value", "one"], ["more"])],
        {"one": np.zeros(1, np.float32)},
        r"\(MatMul\): the shapes of its inputs do not fit",
    ),
    "a squeeze without axes": (
        [helper.make_node("Squeeze", ["value", "none"], ["more"])],
        {"none": np.array([], np.int64)},
        "weights of a foreign type, or of no size",
    ),
    "whole numbers divided": (
        [
            helper.make_node("Cast", ["observation"], ["whole"], to=TensorProto.INT64),
            helper.make_node("Div", ["least", "whole"], ["more"]),
        ],
        {"least": np.array([-(1 << 63)], np.int64)},
        r"\(Div\): its numbers are integers",
    ),
    "an empty slice": (
        [helper.make_node("Slice", ["policy_logits", *["two"] * 2, *["one"] * 2], ["more"])],
        {"two": np.array([2], np.int64), "one": np.array([1], np.int64)},
        r"\(Slice\): it computes nothing: a size is 0",
    ),
    "a cast to text": (
        [helper.make_node("Cast", ["value"], ["more"], to=TensorProto.STRING)],
        {},
        r"\(Cast\): it casts to another type",
    ),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_node_is_refused(name: str) -> None:
    nodes, constants, reason = FORGED[name]
    with pytest.raises(IncompatibleModelError, match=reason):
        check_graph(forged(nodes, constants))


def test_products_of_computed_tensors_are_counted() -> None:
    before = check_graph(export_onnx(made(nn.ReLU()), 16, {})).operations
    after = check_graph(export_onnx(made(attention_by_hand), 16, {})).operations
    assert after - before > 2 * 42 * 42 * 12


def test_int8_quantizes_what_it_can() -> None:
    """Convolutions between other activations than ours, one of them in groups."""
    layers = (
        nn.Conv2d(12, 12, 3, padding=1),
        nn.SiLU(),
        nn.Conv2d(12, 12, 3, padding=1, groups=12),
        nn.GELU(),
        nn.Conv2d(12, 12, 3, padding=1),
    )
    fp32 = export_onnx(made(nn.Sequential(*layers)), 16, {})
    positions = random_positions(spec(GAME), 256, np.random.default_rng(1))
    int8 = quantize_int8(fp32, positions)
    kinds = [node.op_type for node in onnx.load_model_from_string(int8).graph.node]
    assert kinds.count("QuantizeLinear") > 0
    loss = measure(ModelSession(fp32, spec(GAME)), ModelSession(int8, spec(GAME)), positions)
    assert loss.policy_kl < 0.01
    assert loss.value_difference < 0.02


@pytest.mark.parametrize("name", LAYERS)
def test_fp16_computes_it_too(name: str) -> None:
    fp32 = export_onnx(made(LAYERS[name]), 16, {})
    positions = random_positions(spec(GAME), 32, np.random.default_rng(1))
    half = ModelSession(to_fp16(fp32), spec(GAME))
    loss = measure(ModelSession(fp32, spec(GAME)), half, positions)
    assert loss.policy_kl < 0.001
    assert loss.value_difference < 0.01


def test_a_size_that_is_there_twice_is_refused() -> None:
    """Protobuf takes the last of two sizes."""
    model = onnx.load_model_from_string(export_onnx(made(nn.ReLU()), 16, {}))
    dim = model.graph.input[0].type.tensor_type.shape.dim[1]
    once = dim.SerializeToString()
    for forged in (once + once, b"\x08\x00", once + b"\x12\x01b"):
        with pytest.raises(IncompatibleModelError, match=r"the model('s input)? has"):
            check_graph(_with_longer_parts(model, forged))
    check_graph(_with_longer_parts(model, once))


def _with_longer_parts(model: onnx.ModelProto, dim: bytes) -> bytes:
    """Rewrite the second size of the input, and every message around it."""

    def wrapped(number: int, content: bytes) -> bytes:
        size, length = len(content), b""
        while True:
            length += bytes([size & 0x7F | (0x80 if size > 0x7F else 0)])
            size >>= 7
            if not size:
                return bytes([number << 3 | 2]) + length + content

    value = model.graph.input[0]
    batch = value.type.tensor_type.shape.dim[0].SerializeToString()
    shape = wrapped(1, batch) + wrapped(1, dim)
    tensor = b"\x08\x02" + wrapped(2, shape)
    input_message = wrapped(1, value.name.encode()) + wrapped(2, wrapped(1, tensor))
    rest = onnx.ModelProto()
    rest.CopyFrom(model)
    del rest.graph.input[:]
    graph = rest.graph.SerializeToString() + wrapped(11, input_message)
    rest.ClearField("graph")
    return rest.SerializeToString() + wrapped(7, graph)
