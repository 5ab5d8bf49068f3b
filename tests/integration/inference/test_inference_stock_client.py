"""The stock client of the Open Inference Protocol, unmodified, against this server.

It registers the protocol's names in protobuf's default pool, so its presence in this process also
shows that ours stay out of there.
"""

from __future__ import annotations

import asyncio
import queue
from typing import Any

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

RUN = "marker"


def _input(rows: np.ndarray) -> triton.InferInput:
    tensor = triton.InferInput("observation", list(rows.shape), "UINT8")
    tensor.set_data_from_numpy(rows)
    return tensor


async def _in_thread(serve: Any, models: Any, work: Any) -> Any:
    """Serve versions 1 and 2, the second promoted, while ``work(client)`` runs on a thread."""
    for version in (1, 2):
        models.publish(version)
        models.promote(version)
    async with serve() as served:

        def with_client() -> Any:
            with triton.InferenceServerClient(served.address) as client:
                return work(client)

        return await asyncio.to_thread(with_client)


async def test_infer_gives_the_best_models_answer_and_names_it(
    serve: Any, models: Any, observations: Any
) -> None:
    result = await _in_thread(
        serve, models, lambda client: client.infer(RUN, [_input(observations(5))])
    )
    assert result.get_response().model_version == "2"
    assert result.get_response().model_name == RUN
    np.testing.assert_allclose(result.as_numpy("value"), np.full(5, 2 / 1024, np.float32))
    assert result.as_numpy("policy_logits").dtype == np.float16
    assert result.as_numpy("policy_logits").shape == (5, 7)


async def test_infer_of_an_exact_version_loads_it(
    serve: Any, models: Any, observations: Any
) -> None:
    result = await _in_thread(
        serve, models, lambda client: client.infer(RUN, [_input(observations(3))], "1")
    )
    assert result.get_response().model_version == "1"
    np.testing.assert_allclose(result.as_numpy("value"), np.full(3, 1 / 1024, np.float32))


async def test_requested_outputs_only(serve: Any, models: Any, observations: Any) -> None:
    def work(client: triton.InferenceServerClient) -> Any:
        outputs = [triton.InferRequestedOutput("value")]
        return client.infer(RUN, [_input(observations(3))], outputs=outputs, request_id="mine")

    result = await _in_thread(serve, models, work)
    assert result.as_numpy("policy_logits") is None
    assert result.as_numpy("value").shape == (3,)
    assert result.get_response().id == "mine"


async def test_async_infer(serve: Any, models: Any, observations: Any) -> None:
    def work(client: triton.InferenceServerClient) -> list[Any]:
        answers: queue.Queue[Any] = queue.Queue()
        for rows in range(1, 9):
            client.async_infer(
                RUN,
                [_input(observations(rows))],
                lambda result, error: answers.put((result, error)),
            )
        return [answers.get(timeout=120) for _ in range(8)]

    answers = await _in_thread(serve, models, work)
    assert all(error is None for _, error in answers)
    assert sorted(len(result.as_numpy("value")) for result, _ in answers) == list(range(1, 9))


async def test_stream_and_an_error_in_it(serve: Any, models: Any, observations: Any) -> None:
    def work(client: triton.InferenceServerClient) -> list[Any]:
        answers: queue.Queue[Any] = queue.Queue()
        client.start_stream(lambda result, error: answers.put((result, error)))
        client.async_stream_infer(RUN, [_input(observations(4))], request_id="a")
        client.async_stream_infer("stranger", [_input(observations(4))], request_id="b")
        first = [answers.get(timeout=120) for _ in range(2)]
        client.async_stream_infer(RUN, [_input(observations(6))], request_id="c")
        last = answers.get(timeout=120)
        client.stop_stream()
        return [*first, last]

    answers = await _in_thread(serve, models, work)
    errors = [error for _, error in answers if error is not None]
    assert len(errors) == 1
    assert "unknown model 'stranger'" in str(errors[0])
    assert answers[-1][1] is None
    assert answers[-1][0].get_response().id == "c"


async def test_metadata_config_index_health(serve: Any, models: Any) -> None:
    def work(client: triton.InferenceServerClient) -> dict[str, Any]:
        return {
            "live": client.is_server_live(),
            "ready": client.is_server_ready(),
            "model": client.is_model_ready(RUN),
            "exact": client.is_model_ready(RUN, "1"),
            "unknown": [
                client.is_model_ready(*unknown)
                for unknown in (("stranger",), (RUN, "77"), (RUN, "latest"))
            ],
            "server": client.get_server_metadata(as_json=True),
            "metadata": client.get_model_metadata(RUN, as_json=True),
            "config": client.get_model_config(RUN, as_json=True),
            "index": client.get_model_repository_index(as_json=True),
        }

    seen = await _in_thread(serve, models, work)
    assert all(seen[name] for name in ("live", "ready", "model", "exact"))
    assert seen["server"]["name"] == "zerofleet"
    assert seen["unknown"] == [False] * 3
    assert seen["server"]["extensions"] == ["model_configuration", "statistics", "provider=cpu"]
    metadata = seen["metadata"]
    assert metadata["platform"] == seen["config"]["config"]["platform"] == "onnxruntime_onnx"
    assert metadata["versions"] == ["1", "2"]
    assert metadata["inputs"] == [
        {"name": "observation", "datatype": "UINT8", "shape": ["-1", "8"]}
    ]
    assert [tensor["datatype"] for tensor in metadata["outputs"]] == ["FP16", "FP32"]
    assert metadata["outputs"][1]["shape"] == ["-1"]
    config = seen["config"]["config"]
    assert config["max_batch_size"] == 256
    assert config["input"][0]["dims"] == ["8"]
    assert config["input"][0]["data_type"] == "TYPE_UINT8"
    assert config["output"][1]["reshape"] == {}
    assert [model["state"] for model in seen["index"]["models"]] == ["READY", "READY"]


async def test_statistics_have_equal_counts(serve: Any, models: Any, observations: Any) -> None:
    def work(client: triton.InferenceServerClient) -> Any:
        for rows in (1, 2, 3):
            client.infer(RUN, [_input(observations(rows))])
        return client.get_inference_statistics(RUN, "2", as_json=True)

    (entry,) = (await _in_thread(serve, models, work))["model_stats"]
    assert entry["inference_count"] == "6"
    assert entry["execution_count"] == "3"
    stages = entry["inference_stats"]
    names = ("success", "queue", "compute_input", "compute_infer", "compute_output")
    assert [stages[name]["count"] for name in names] == ["3"] * 5
    assert [batch["batch_size"] for batch in entry["batch_stats"]] == ["1", "2", "3"]


async def test_statistics_of_everything(serve: Any, models: Any) -> None:
    statistics = await _in_thread(
        serve, models, lambda client: client.get_inference_statistics(as_json=True)
    )
    assert {entry["version"] for entry in statistics["model_stats"]} == {"2"}


@pytest.mark.parametrize(
    ("name", "version"), [("stranger", ""), (RUN, "77"), (RUN, "latest"), (RUN, "-1")]
)
async def test_unknown_models_are_not_found(
    serve: Any, models: Any, observations: Any, name: Any, version: Any
) -> None:
    def work(client: triton.InferenceServerClient) -> None:
        with pytest.raises(InferenceServerException) as caught:
            client.infer(name, [_input(observations(1))], version)
        assert caught.value.status() == str(grpc.StatusCode.NOT_FOUND)

    await _in_thread(serve, models, work)
