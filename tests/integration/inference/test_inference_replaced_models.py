"""After a failover Postgres may lack a model's row, and the number then names another model."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from zerofleet.best_pointer import BestPointer
from zerofleet.client import AsyncModel
from zerofleet.database import Database, Variant
from zerofleet.errors import ModelNotFoundError
from zerofleet.services.inference.loaded_models import LoadedModel, Precisions
from zerofleet.services.inference.served_models import ServedModels, StoredModels

RUN = "marker"


async def test_answers_name_their_files(serve: Any, models: Any, observations: Any) -> None:
    file, variant = models.publish(1), models.publish_variant(1, "int8")
    models.promote(1)
    async with serve() as served, AsyncModel(served.address, RUN) as client:
        assert (await client.predict(observations(3))).sha256 == file
        async with client.stream("1", "int8") as stream:
            assert (await stream.predict(observations(3))).sha256 == variant
        # 600 rows take several messages
        assert (await client.predict(observations(600), "1")).sha256 == file


async def test_a_version_that_is_replaced_is_loaded_again(
    serve: Any, models: Any, make_marker: Any, observations: Any
) -> None:
    for version in (1, 2, 3):
        models.publish(version)
    models.publish_variant(2, "int8")
    models.promote(1)
    precisions = Precisions("int8")
    async with (
        serve(precisions=precisions, keep=6) as served,
        AsyncModel(served.address, RUN) as client,
    ):
        before = {}
        for version in ("1", "2", "3"):
            before[version] = (await client.predict(observations(2), version)).sha256
        await client.predict(observations(2), "2", "fp32")
        await served.models.drop_replaced()
        assert len(served.models.loaded()) == 4  # nothing has changed

        replaced = models.publish(2, make_marker(12))
        variant = models.publish_variant(2, "int8", make_marker(12, precision="int8"))
        models.publish(1, make_marker(11))  # its promotion names the file
        models.source.away = True
        await served.models.drop_replaced()
        assert len(served.models.loaded()) == 4
        models.source.away = False
        await served.models.drop_replaced()
        assert [model.version for model in served.models.loaded()] == [1, 3]
        assert (await client.predict(observations(2), "2")).sha256 == variant
        assert (await client.predict(observations(2), "2", "fp32")).sha256 == replaced
        for version in ("1", "3"):
            assert (await client.predict(observations(2), version)).sha256 == before[version]

        del models.source.known[3]
        await served.models.drop_replaced()
        with pytest.raises(ModelNotFoundError, match="has no version 3"):
            await client.predict(observations(2), "3")


async def test_only_the_variant_is_replaced(serve: Any, models: Any, observations: Any) -> None:
    models.publish(1)
    models.promote(1)
    file = models.publish(2)
    models.publish_variant(2, "int8")
    async with (
        serve(precisions=Precisions("int8")) as served,
        AsyncModel(served.address, RUN) as client,
    ):
        assert (await client.predict(observations(2), "2")).precision == "int8"
        await client.predict(observations(2), "2", "fp32")
        del models.source.accepted[2]
        await served.models.drop_replaced()
        assert (await client.predict(observations(2), "2")).sha256 == file


async def test_rows_are_read_past_the_cache(database: Database, valkey_url: str) -> None:
    epoch = database.acquire_fence("test", "trainer")
    evaluator = database.acquire_fence("test", "evaluator")

    def publish(version: int, fp32: str, int8: str) -> None:
        variants = [Variant("int8", int8 * 64, "m", 0.0, 0.0)]
        database.insert_model("test", version, fp32 * 64, 1, {}, "m", epoch, variants)

    for version, (fp32, int8) in enumerate(("12", "34", "56"), 1):
        publish(version, fp32, int8)
    database.promote("test", 1, None, "e", 0, epoch=evaluator)
    with (
        closing(BestPointer(valkey_url, "test")) as pointer,
        closing(
            ServedModels(
                "test",
                StoredModels("test", database, pointer),
                lambda file: LoadedModel(file, ()),
                keep=9,
            )
        ) as models,
    ):
        await models.refresh()
        for version in (1, 2, 3):
            await models.get(version)
            await models.get(version, "int8")
        # The newest rows are lost, and the trainer publishes another model as version 2.
        for table in ("model_variants", "models"):
            database._run(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            database._run(f"DELETE FROM {table} WHERE version > 1")
            database._run(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        publish(2, "7", "8")
        assert (await models.get(2)).file.sha256 == "3" * 64
        await models.drop_replaced()
        assert [model.version for model in models.loaded()] == [1, 1]
        assert (await models.get(2)).file.sha256 == "7" * 64
        assert (await models.get(2, "int8")).file.sha256 == "8" * 64
        with pytest.raises(ModelNotFoundError, match="has no version 3"):
            await models.get(3)
