"""A worker needs nothing but the Open Inference Protocol of its inference server.

The server here knows nothing of ours: NVIDIA's generated messages and service, a published folder
as it lies on the disk, versions by number, no parameters, and errors as Triton gives them. A real
worker with real stores plays by it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnxruntime as ort
import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc

from zerofleet.best_pointer import BestPointer
from zerofleet.config import NetworkSection, RunConfig, load_run
from zerofleet.database import Database, Promotion
from zerofleet.games import spec
from zerofleet.learning import export_onnx, make_network
from zerofleet.models.folder import ModelFolder
from zerofleet.services.selfplay.service import serve
from zerofleet.services.selfplay.settings import SelfplaySettings

RUN = """
name = "plain"
preset = "plain"
[game]
name = "tic_tac_toe"
[search]
num_simulations = 8
[selfplay]
games_per_engine = 8
[inference]
max_batch_rows = 64
"""


class PlainServer(service_pb2_grpc.GRPCInferenceServiceServicer):
    """A Triton model repository over the standard protocol; whatever it does not have fails.

    Args:
        repository: folder with ``<model>/config.pbtxt`` and ``<model>/<version>/model.onnx``.
    """

    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self._sessions: dict[tuple[str, str], Any] = {}
        self.parameters: Counter[str] = Counter()
        self.methods: Counter[str] = Counter()
        self.versions: Counter[str] = Counter()

    def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.methods["ModelReady"] += 1
        path = self._repository / request.name / request.version / "model.onnx"
        return service_pb2.ModelReadyResponse(ready=request.version.isdecimal() and path.is_file())

    def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.methods["ModelInfer"] += 1
        try:
            return self._infer(request)
        except ValueError as error:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

    def ModelStreamInfer(self, requests: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        self.methods["ModelStreamInfer"] += 1
        for request in requests:
            try:
                response = self._infer(request)
            except ValueError as error:
                failed = service_pb2.ModelInferResponse(id=request.id)
                yield service_pb2.ModelStreamInferResponse(
                    error_message=str(error), infer_response=failed
                )
            else:
                yield service_pb2.ModelStreamInferResponse(infer_response=response)

    def _infer(self, request: Any) -> Any:
        self.parameters.update(list(request.parameters))
        self.versions[request.model_version] += 1
        if not request.model_version.isdecimal():
            raise ValueError(f"failed to get model version from '{request.model_version}'")
        config = text_format.Parse(
            (self._repository / request.model_name / "config.pbtxt").read_text(),
            model_config_pb2.ModelConfig(),
        )
        inputs: dict[str, np.ndarray] = {}
        for sent, raw, described in zip(
            request.inputs, request.raw_input_contents, config.input, strict=True
        ):
            rows, *sizes = sent.shape
            if (sent.name, sent.datatype, sizes) != (described.name, "UINT8", described.dims):
                raise ValueError(f"unexpected input {sent}")
            if not 1 <= rows <= config.max_batch_size:
                raise ValueError(f"batch size {rows} exceeds {config.max_batch_size}")
            inputs[sent.name] = np.frombuffer(raw, np.uint8).reshape(sent.shape)
        response = service_pb2.ModelInferResponse(
            model_name=request.model_name, model_version=request.model_version, id=request.id
        )
        names = [described.name for described in config.output]
        answers = self._session(request.model_name, request.model_version).run(names, inputs)
        for described, answer in zip(config.output, answers, strict=True):
            kind = model_config_pb2.DataType.Name(described.data_type).removeprefix("TYPE_")
            tensor = response.outputs.add(name=described.name, datatype=kind)
            tensor.shape.extend([len(answer), *described.dims])
            response.raw_output_contents.append(answer.tobytes())
        return response

    def _session(self, model: str, version: str) -> Any:
        session = self._sessions.get((model, version))
        if session is None:
            path = self._repository / model / version / "model.onnx"
            if not path.is_file():
                raise ValueError(f"Request for unknown model: '{model}' version {version}")
            options = ort.SessionOptions()
            options.intra_op_num_threads = 1
            session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            self._sessions[model, version] = session
        return session


@contextlib.contextmanager
def serving(server: PlainServer) -> Iterator[str]:
    running = grpc.server(ThreadPoolExecutor(8))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(server, running)
    port = running.add_insecure_port("127.0.0.1:0")
    running.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        running.stop(0).wait()


class Records:
    """The run's rows, as the trainer and the evaluator write them."""

    def __init__(self, database: Database, run: RunConfig, folder: ModelFolder) -> None:
        self._database = database
        self._run = run
        self._folder = folder
        database.register_run(run)
        self._trainer = database.acquire_fence(run.name, "trainer")
        self._evaluator = database.acquire_fence(run.name, "evaluator")

    def promote(self, version: int) -> Promotion:
        """Publish a network and make it the best."""
        game = spec(self._run.game.name)
        network = make_network(game, NetworkSection(blocks=1, channels=8), seed=version)
        content = export_onnx(network, game.observation_bytes, {"version": str(version)})
        staged = self._folder.stage(content)
        self._folder.publish(staged)
        self._folder.expose(staged.sha256, version, game)
        name = self._run.name
        self._database.insert_model(name, version, staged.sha256, version, {}, "", self._trainer)
        head = self._database.promotion_head(name)
        seq = head.seq if head else 0
        self._database.promote(name, version, None, "test", seq, epoch=self._evaluator)
        return Promotion(seq + 1, version, staged.sha256)

    def plies(self) -> dict[int, int]:
        """Plies of stored games by the version that played them."""
        rows = self._database._rows(
            "SELECT model_version, count(*) AS plies FROM positions GROUP BY model_version"
        )
        return {row.model_version: row.plies for row in rows}


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(RUN)
    return path


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - rows have no event
            await asyncio.sleep(0.05)


@pytest.mark.slow
async def test_a_worker_plays_by_a_server_of_the_standard_protocol(
    tmp_path: Path,
    run_file: Path,
    database_url: str,
    role_url: Callable[[str], str],
    valkey_url: str,
) -> None:
    run = load_run(run_file)
    folder = ModelFolder(tmp_path / "models", run.name, run.inference.max_batch_rows)
    server = PlainServer(folder.root)
    stop = asyncio.Event()
    with (
        Database(database_url) as database,
        contextlib.closing(BestPointer(valkey_url, run.name)) as pointer,
        serving(server) as address,
    ):
        records = Records(database, run, folder)
        settings = SelfplaySettings(
            run_file=run_file,
            database_url=role_url("worker"),
            redis_url=valkey_url,
            inference_address=address,
            versions_by_number=True,
        )
        worker = asyncio.create_task(serve(run, settings, stop))
        try:
            records.promote(1)  # known from Postgres alone
            await until(lambda: records.plies().get(1, 0) > 200)
            pointer.set_if_newer(records.promote(2))
            await until(lambda: records.plies().get(2, 0) > 200)
        finally:
            stop.set()
            await worker
        assert set(records.plies()) == {1, 2}
        assert database.summary(run.name).games > 40
    assert set(server.versions) == {"1", "2"}
    assert set(server.methods) == {"ModelReady", "ModelStreamInfer"}
    assert set(server.parameters) <= {"timeout"}  # the protocol's own; Triton knows it too
