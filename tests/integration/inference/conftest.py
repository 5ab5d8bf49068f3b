"""Real model files, a real server on a free port, and stores made of plain lists."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from zerofleet.database import Promotion
from zerofleet.errors import ModelNotFoundError, StoreUnavailableError
from zerofleet.models.folder import ModelFolder
from zerofleet.models.graph import Shape
from zerofleet.models.session import ModelSession
from zerofleet.prediction import FP32, ModelFile
from zerofleet.rpc.codec import RequestShape
from zerofleet.rpc.server import Server
from zerofleet.services.inference.backend import Backend
from zerofleet.services.inference.batcher import Batcher, BatchLimits
from zerofleet.services.inference.loaded_models import ModelLoader, Precisions
from zerofleet.services.inference.served_models import ServedModels

RUN = "marker"
POISON = 66
SHAPE = Shape(observation_bytes=8, num_actions=7)


MARKS = {"fp32": 0.0, "int8": 0.25, "fp16": 0.5}


def marker_model(
    version: int,
    shape: Shape = SHAPE,
    *,
    precision: str = "fp32",
    poisoned: bool = False,
    broken: bool = False,
    value_rank: int = 1,
) -> bytes:
    """A tiny real model whose value is ``version / 1024`` for every position.

    The mark of another precision is added to the version. A poisoned model returns an infinite
    value if the first byte of the observation is ``POISON``. A broken model raises an error then.
    """
    generator = np.random.default_rng(version)
    weights = generator.normal(size=(shape.observation_bytes, shape.num_actions)) / 1000
    values = np.full(256, (version + MARKS[precision]) / 1024, np.float32)
    if poisoned:
        values[POISON] = np.inf
    if broken:
        # an index past the end makes Gather fail; index -1 is the last entry
        values = values[:POISON]
    constants = {
        "weights": weights.astype(np.float32),
        "values": values,
        "first": np.array(0 if value_rank == 1 else [0], np.int64),
    }
    nodes = [
        helper.make_node("Cast", ["observation"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["floats", "weights"], ["logits"]),
        helper.make_node("Cast", ["logits"], ["policy_logits"], to=TensorProto.FLOAT16),
        helper.make_node(
            "Cast", ["observation"], ["bytes"], to=TensorProto.INT8 if broken else TensorProto.UINT8
        ),
        helper.make_node("Cast", ["bytes"], ["integers"], to=TensorProto.INT64),
        helper.make_node("Gather", ["integers", "first"], ["byte"], axis=1),
        helper.make_node("Gather", ["values", "byte"], ["value"]),
    ]
    value_shape: list[str | int] = ["batch"] if value_rank == 1 else ["batch", 1]
    graph = helper.make_graph(
        nodes,
        "marker",
        [_tensor("observation", TensorProto.UINT8, ["batch", shape.observation_bytes])],
        [
            _tensor("policy_logits", TensorProto.FLOAT16, ["batch", shape.num_actions]),
            _tensor("value", TensorProto.FLOAT, value_shape),
        ],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return model.SerializeToString()


def _tensor(name: str, kind: int, shape: list[str | int]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


@dataclass
class ListedModels:
    """A ``ModelSource`` of plain lists; while ``away`` is set, both stores are unreachable."""

    chain: list[Promotion] = field(default_factory=list)
    known: dict[int, str] = field(default_factory=dict)
    accepted: dict[int, dict[str, str]] = field(default_factory=dict)  # sha256 by precision
    away: bool = False
    foreign: Promotion | None = None  # if set, the pointer names it instead of the end of the chain

    def best(self) -> Promotion | None:
        if self.foreign is not None:
            return self.foreign
        self._look()
        return self.chain[-1] if self.chain else None

    def promotions(self) -> list[Promotion]:
        self._look()
        return self.chain[::-1]

    def files(self, version: int) -> dict[str, ModelFile]:
        self._look()
        if version not in self.known:
            raise ModelNotFoundError(f"model '{RUN}' has no version {version}")
        named = {FP32: self.known[version]} | self.accepted.get(version, {})
        return {name: ModelFile(version, name, sha256) for name, sha256 in named.items()}

    def versions(self) -> list[int]:
        self._look()
        return sorted(self.known)

    def refresh(self) -> None:
        self._look()

    def _look(self) -> None:
        if self.away:
            raise StoreUnavailableError("the stores are down")


@dataclass
class Models:
    """A folder of published models and the stores that name them."""

    folder: ModelFolder
    source: ListedModels = field(default_factory=ListedModels)

    def publish(self, version: int, model_bytes: bytes | None = None, *, name: str = "") -> str:
        """Publish a model and return its sha256; ``name`` replaces the true sha256."""
        content = marker_model(version) if model_bytes is None else model_bytes
        sha256 = name or hashlib.sha256(content).hexdigest()
        path = self.folder.path(sha256)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        self.source.known[version] = sha256
        return sha256

    def publish_variant(self, version: int, precision: str, content: bytes | None = None) -> str:
        """Publish an accepted variant of a version and return its sha256."""
        content = marker_model(version, precision=precision) if content is None else content
        sha256 = hashlib.sha256(content).hexdigest()
        self.folder.path(sha256).write_bytes(content)
        self.source.accepted.setdefault(version, {})[precision] = sha256
        return sha256

    def promote(self, version: int) -> None:
        seq = len(self.source.chain) + 1
        self.source.chain.append(Promotion(seq, version, self.source.known[version]))


@dataclass
class Served:
    """A running server and its parts."""

    address: str
    server: Server
    models: ServedModels
    batcher: Batcher


@pytest.fixture
def models(tmp_path: Path) -> Models:
    return Models(ModelFolder(tmp_path / "models", RUN))


Serve = Callable[..., contextlib.AbstractAsyncContextManager[Served]]


@pytest.fixture
def make_marker() -> Callable[..., bytes]:
    return marker_model


@pytest.fixture
def serve(models: Models) -> Serve:
    """Start a server over ``models``: ``async with serve(...) as served``."""

    @contextlib.asynccontextmanager
    async def serving(
        *,
        address: str = "127.0.0.1:0",
        max_batch_rows: int = 256,
        max_queue_rows: int = 4096,
        threads: int = 1,
        keep: int = 4,
        precisions: Precisions | None = None,
        share_port: bool = False,
    ) -> AsyncIterator[Served]:
        loader = ModelLoader(
            models.folder.read_verified,
            lambda content: ModelSession(content, SHAPE),
            threads,
            np.zeros((1, SHAPE.observation_bytes), np.uint8),
        )
        served_models = ServedModels(RUN, models.source, loader, keep, precisions)
        limits = BatchLimits(max_batch_rows, max_queue_rows, threads)
        async with Batcher(limits, served_models.mark_bad) as batcher:
            shape = RequestShape(SHAPE.observation_bytes, SHAPE.num_actions, max_batch_rows)
            backend = Backend(served_models, batcher, shape)
            await served_models.refresh()
            async with Server(
                address, inference=backend, reflection=True, share_port=share_port
            ) as server:
                await server.set_serving(backend.ready())
                host = address.rpartition(":")[0]
                yield Served(f"{host}:{server.port}", server, served_models, batcher)

    return serving


@pytest.fixture
def observations() -> Callable[[int], np.ndarray]:
    """Return a function that makes rows of observations, none of them poisonous."""

    def make(rows: int) -> np.ndarray:
        made = np.random.default_rng(rows).integers(0, 256, (rows, SHAPE.observation_bytes))
        made[:, 0] = 1
        return made.astype(np.uint8)

    return make
