"""Which variant of a version answers: chosen, named, broken; and an answer says which."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import tritonclient.grpc as triton

from tests.integration.inference.variant_answers import MARKS, RUN, Fastest, auto, said
from zerofleet.client import AsyncModel
from zerofleet.errors import (
    InvalidRequestError,
    ModelNotFoundError,
    StoreUnavailableError,
)
from zerofleet.prediction import ModelFile
from zerofleet.services.inference.loaded_models import Precisions
from zerofleet.services.inference.recent_load import Load
from zerofleet.services.inference.service import InferenceCollector


async def test_the_fastest_accepted_variant_answers_and_is_measured_once(
    serve: Any, models: Any, observations: Any
) -> None:
    for version in (1, 2, 3):
        models.publish(version)
        models.publish_variant(version, "int8")
    models.publish_variant(1, "fp16")  # nothing for this provider
    models.promote(1)
    fastest = Fastest()
    async with serve(precisions=auto(fastest)) as served, AsyncModel(served.address, RUN) as client:
        assert said(await client.predict(observations(3))) == (1, "fp32")  # no waiting for it
        await served.models.refresh_variants()
        async with client.stream() as stream:
            assert said(await stream.predict(observations(3))) == (1, "int8")
            models.promote(2)
            await served.models.refresh()
            assert said(await stream.predict(observations(2))) == (2, "fp32")
            await served.models.refresh_variants()
            assert said(await stream.predict(observations(2))) == (2, "int8")
        assert said(await client.predict(observations(1), "3")) == (3, "int8")
        assert said(await client.predict(observations(1), "1")) == (1, "int8")
    assert fastest.asked == [["fp32", "int8"]]


async def test_fp32_stays_where_it_is_the_fastest(
    serve: Any, models: Any, observations: Any
) -> None:
    models.publish(1)
    models.publish_variant(1, "int8")
    models.promote(1)
    fastest = Fastest("fp32")
    async with serve(precisions=auto(fastest)) as served, AsyncModel(served.address, RUN) as client:
        for _ in range(2):
            await served.models.refresh_variants()
            assert said(await client.predict(observations(3))) == (1, "fp32")
    assert len(fastest.asked) == 1


async def test_a_request_may_name_the_variant(serve: Any, models: Any, observations: Any) -> None:
    for version in (1, 2):
        models.publish(version)
        models.promote(version)
    models.publish_variant(2, "int8")
    models.publish_variant(2, "fp16")
    async with (
        serve(precisions=auto(Fastest())) as served,
        AsyncModel(served.address, RUN) as client,
        AsyncModel(served.address, RUN, precision="fp16") as half,
    ):
        await served.models.refresh_variants()
        for version in ("best", "2"):
            for precision in MARKS:
                answer = await client.predict(observations(3), version, precision)
                assert said(answer) == (2, precision)
                async with client.stream(version, precision) as stream:
                    assert said(await stream.predict(observations(3))) == (2, precision)
        assert said(await half.predict(observations(1))) == (2, "fp16")
        assert said(await half.predict(observations(1), precision="int8")) == (2, "int8")
        with pytest.raises(ModelNotFoundError, match="version 1 has no accepted variant int8"):
            await client.predict(observations(3), "1", "int8")
        async with client.stream("1", "fp16") as stream:
            with pytest.raises(ModelNotFoundError, match="no accepted variant fp16"):
                await stream.predict(observations(3))
        with pytest.raises(InvalidRequestError, match=r"'precision' is 'int4': give fp32, int8"):
            await client.predict(observations(3), "2", "int4")
        assert said(await client.predict(observations(1))) == (2, "int8")


async def test_the_precision_of_the_run_file(serve: Any, models: Any, observations: Any) -> None:
    for version in (1, 2):
        models.publish(version)
        models.promote(version)
    models.publish_variant(1, "fp16")
    async with (
        serve(precisions=Precisions("fp16")) as served,
        AsyncModel(served.address, RUN) as client,
    ):
        await served.models.refresh_variants()
        assert said(await client.predict(observations(1))) == (2, "fp32")  # it has no other
        assert said(await client.predict(observations(1), "1")) == (1, "fp16")


async def test_without_the_stores_what_answers_goes_on(
    serve: Any, models: Any, observations: Any
) -> None:
    models.publish(1)
    models.publish_variant(1, "int8")
    models.promote(1)
    async with (
        serve(precisions=auto(Fastest())) as served,
        AsyncModel(served.address, RUN) as client,
    ):
        models.source.away = True
        await served.models.refresh_variants()
        assert said(await client.predict(observations(1))) == (1, "fp32")
        models.source.away = False
        await served.models.refresh_variants()
        models.source.away = True
        await served.models.refresh_variants()
        assert said(await client.predict(observations(1))) == (1, "int8")


async def test_a_version_whose_rows_cannot_be_read_answers_once_they_can(
    serve: Any, models: Any, observations: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in (1, 2):
        models.publish(version)
        models.publish_variant(version, "int8")
    models.promote(1)

    def away(version: int) -> dict[str, ModelFile]:
        raise StoreUnavailableError(f"nothing is known of the files of {version}")

    async with (
        serve(precisions=auto(Fastest())) as served,
        AsyncModel(served.address, RUN) as client,
    ):
        await served.models.refresh_variants()
        with monkeypatch.context() as patch:
            patch.setattr(models.source, "files", away)
            with pytest.raises(StoreUnavailableError, match="the files of 2"):
                await served.models.get(2)
            assert said(await client.predict(observations(1))) == (1, "int8")
        assert said(await client.predict(observations(1), "2")) == (2, "int8")


async def test_no_answer_names_another_variant_under_swaps(
    serve: Any, models: Any, observations: Any, until: Any
) -> None:
    """Promotions and variants come and go while streams ask."""
    for version in range(1, 6):
        models.publish(version)
        models.publish_variant(version, "int8")
    models.promote(1)
    async with (
        serve(threads=2, keep=3, precisions=auto(Fastest())) as served,
        AsyncModel(served.address, RUN) as client,
    ):
        stop = asyncio.Event()
        heard = set[tuple[int, str]]()

        async def ask(version: str, precision: str | None) -> None:
            async with client.stream(version, precision) as stream:
                while not stop.is_set():
                    for prediction in await asyncio.gather(
                        *(stream.predict(observations(rows)) for rows in (1, 7, 30))
                    ):
                        answer = said(prediction)
                        assert precision in (None, answer[1])
                        if version == "best" and precision is None:
                            heard.add(answer)

        named = [("best", None), ("best", None), ("best", "int8"), ("best", "fp32"), ("5", "int8")]
        askers = [asyncio.create_task(ask(*names)) for names in named]
        for version in range(2, 6):
            models.promote(version)
            await served.models.refresh()
            await until(lambda version=version: (version, "fp32") in heard)
            await served.models.refresh_variants()
            await until(lambda version=version: (version, "int8") in heard)
        stop.set()
        await asyncio.gather(*askers)


async def test_memory_is_bounded_with_variants_too(
    serve: Any, models: Any, observations: Any
) -> None:
    for version in range(1, 9):
        models.publish(version)
        models.publish_variant(version, "int8")
    for version in (1, 2):
        models.promote(version)
    async with (
        serve(keep=6, precisions=auto(Fastest())) as served,
        AsyncModel(served.address, RUN) as client,
    ):
        await served.models.refresh_variants()
        for version in range(1, 9):
            for precision in ("fp32", "int8"):
                await client.predict(observations(1), str(version), precision)
        keys = [(model.version, model.precision) for model in served.models.loaded()]
        assert len(keys) == 6
        assert {(2, "fp32"), (2, "int8")} <= set(keys)
        assert said(await client.predict(observations(1))) == (2, "int8")


async def test_metadata_statistics_and_metrics_say_what_answers(
    serve: Any, models: Any, observations: Any
) -> None:
    models.publish(1)
    models.publish_variant(1, "int8")
    models.promote(1)
    async with (
        serve(precisions=auto(Fastest())) as served,
        AsyncModel(served.address, RUN) as client,
    ):
        await client.predict(observations(3))
        await served.models.refresh_variants()
        await client.predict(observations(4))

        def ask() -> Any:
            with triton.InferenceServerClient(served.address) as stock:
                return (
                    stock.get_server_metadata(),
                    stock.get_model_config(RUN),
                    stock.get_inference_statistics(RUN),
                )

        server, config, statistics = await asyncio.to_thread(ask)
        assert "provider=cpu" in server.extensions
        parameters = config.config.parameters
        assert {name: parameters[name].string_value for name in parameters} == {
            "provider": "cpu",
            "precision": "int8",
        }
        (counters,) = statistics.model_stats  # one for the version, whatever its precisions
        assert (counters.version, counters.inference_count) == ("1", 7)
        assert counters.inference_stats.success.count == 2
        assert [batch.batch_size for batch in counters.batch_stats] == [3, 4]
        collector = InferenceCollector(
            served.batcher, served.models, "cpu", Load(served.batcher, served.models, "cpu")
        )
        samples = {
            (sample.name.removeprefix("zerofleet_inference_"), *sample.labels.values()): sample
            for metric in collector.collect()
            for sample in metric.samples
        }
        assert samples["precision_rows_total", "fp32"].value == 3
        assert samples["precision_rows_total", "int8"].value == 4
        assert samples["precision_executions_total", "int8"].value == 1
        assert samples["answers_with", "cpu", "int8"].value == 1
