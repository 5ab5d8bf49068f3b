"""A pointer left by an older run of the same name: the chain in Postgres is followed anyway."""

from __future__ import annotations

from typing import Any

from zerofleet.client import AsyncModel
from zerofleet.database import Promotion

RUN = "marker"


async def _best(client: AsyncModel, observations: Any) -> int:
    return (await client.predict(observations(1))).model_version


async def test_promotions_are_followed_though_the_pointer_is_foreign(
    serve: Any, models: Any, observations: Any
) -> None:
    for version in (1, 2):
        models.publish(version)
    models.promote(1)
    models.source.foreign = Promotion(40, 40, "0" * 64)  # its file is gone
    async with serve() as served, AsyncModel(served.address, RUN) as client:
        assert await _best(client, observations) == 1
        models.promote(2)
        await served.models.refresh()
        assert await _best(client, observations) == 2
        assert served.models.failed_loads == 0


async def test_a_foreign_best_model_gives_way_to_a_lower_seq(
    serve: Any, models: Any, make_marker: Any, observations: Any
) -> None:
    """Its file was still there, and Postgres was away when the service started."""
    models.source.foreign = Promotion(40, 2, models.publish(2, make_marker(7)))
    models.source.away = True
    async with serve() as served, AsyncModel(served.address, RUN) as client:
        assert await _best(client, observations) == 2
        for version in (1, 2):
            models.publish(version)
        models.promote(1)
        models.source.away = False
        models.source.foreign = None  # repaired
        await served.models.refresh()
        assert await _best(client, observations) == 1
        answer = await client.predict(observations(1), "2")  # this chain's, not the other's
        assert round(float(answer.value[0]) * 1024) == 2
        models.promote(2)
        await served.models.refresh()
        assert await _best(client, observations) == 2


async def test_the_same_model_in_another_chain_stays_in_memory(
    serve: Any, models: Any, observations: Any
) -> None:
    models.source.foreign = Promotion(40, 1, models.publish(1))
    models.source.away = True
    async with serve() as served, AsyncModel(served.address, RUN) as client:
        models.promote(1)
        models.source.away = False
        models.source.foreign = None
        await served.models.refresh()
        assert [model.version for model in served.models.loaded()] == [1]
        assert await _best(client, observations) == 1


async def test_a_stale_pointer_does_not_move_the_best_model_back(
    serve: Any, models: Any, observations: Any
) -> None:
    for version in (1, 2):
        models.publish(version)
        models.promote(version)
    async with serve() as served, AsyncModel(served.address, RUN) as client:
        models.source.foreign = models.source.chain[0]
        for away in (False, True):
            models.source.away = away
            await served.models.refresh()
            assert await _best(client, observations) == 2


async def test_without_any_promotion_a_foreign_model_is_not_served(serve: Any, models: Any) -> None:
    models.source.foreign = Promotion(40, 1, models.publish(1))
    async with serve() as served:
        assert served.models.peek(None) is None
        assert served.models.waiting_for == "the first promoted model"
