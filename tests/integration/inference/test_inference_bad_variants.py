"""Variants that do not load, give infinities or fail: fp32 answers in their place."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.inference.variant_answers import RUN, Fastest, auto, said
from zerofleet.client import AsyncModel
from zerofleet.errors import (
    IncompatibleModelError,
    InferenceUnavailableError,
)


async def test_a_variant_that_does_not_load_costs_itself(
    serve: Any, models: Any, make_marker: Any, observations: Any
) -> None:
    for version in (1, 2):
        models.publish(version)
        models.promote(version)
        models.publish_variant(version, "int8", make_marker(version, precision="int8")[:-20])
    async with (
        serve(precisions=auto(Fastest())) as served,
        AsyncModel(served.address, RUN) as client,
    ):
        for _ in range(2):
            await served.models.refresh_variants()
            assert said(await client.predict(observations(1))) == (2, "fp32")
        assert said(await client.predict(observations(1), "1")) == (1, "fp32")
        assert served.models.failed_loads == 1  # tried once, and again after a pause
        with pytest.raises(IncompatibleModelError):
            await client.predict(observations(1), "1", "int8")
        index = {state.version: state.ready for state in await served.models.index()}
        assert index == {1: True, 2: True}


async def test_one_that_does_not_load_is_left_out_of_one_measurement(
    serve: Any, models: Any, make_marker: Any, observations: Any
) -> None:
    models.publish(1)
    models.publish_variant(1, "int8")
    models.publish_variant(1, "fp16", make_marker(1, precision="fp16")[:-20])
    models.promote(1)
    fastest = Fastest()
    async with (
        serve(precisions=auto(fastest, ("int8", "fp16"))) as served,
        AsyncModel(served.address, RUN) as client,
    ):
        for _ in range(3):
            await served.models.refresh_variants()
            assert said(await client.predict(observations(1))) == (1, "int8")
    assert fastest.asked == [["fp32", "int8"]]


async def test_a_variant_that_gives_infinities_gives_way_to_fp32_at_once(
    serve: Any, models: Any, make_marker: Any, observations: Any
) -> None:
    for version in (1, 2):
        models.publish(version)
        models.promote(version)
        models.publish_variant(
            version, "int8", make_marker(version, precision="int8", poisoned=True)
        )
    poisonous = observations(4)
    poisonous[2, 0] = 66
    async with (
        serve(precisions=auto(Fastest())) as served,
        AsyncModel(served.address, RUN) as client,
        client.stream() as stream,
    ):
        await served.models.refresh_variants()
        assert said(await stream.predict(observations(4))) == (2, "int8")
        with pytest.raises(InferenceUnavailableError, match=r"version 2 \(int8\) answered"):
            await stream.predict(poisonous)
        assert said(await stream.predict(poisonous)) == (2, "fp32")
        await served.models.refresh_variants()
        assert said(await stream.predict(poisonous)) == (2, "fp32")
        # Another version's variant is another file; it gives way when it does the same.
        assert said(await client.predict(observations(4), "1")) == (1, "int8")
        with pytest.raises(InferenceUnavailableError):
            await client.predict(poisonous, "1")
        assert said(await client.predict(poisonous, "1")) == (1, "fp32")


async def test_a_variant_that_fails_again_and_again_gives_way_to_fp32(
    serve: Any, models: Any, make_marker: Any, observations: Any
) -> None:
    models.publish(1)
    models.promote(1)
    models.publish_variant(1, "int8", make_marker(1, precision="int8", broken=True))
    fatal = observations(4)
    fatal[2, 0] = 66
    async with (
        serve(precisions=auto(Fastest())) as served,
        AsyncModel(served.address, RUN) as client,
        client.stream() as stream,
    ):
        await served.models.refresh_variants()
        assert said(await stream.predict(observations(4))) == (1, "int8")
        for _ in range(3):
            with pytest.raises(InferenceUnavailableError, match="version 1 failed to run"):
                await stream.predict(fatal)
        assert said(await stream.predict(fatal)) == (1, "fp32")
        assert not served.batcher.broken.is_set()


async def test_fp32_that_gives_infinities_takes_its_variants_along(
    serve: Any, models: Any, make_marker: Any, observations: Any
) -> None:
    models.publish(1)
    models.publish(2, make_marker(2, poisoned=True))
    models.publish_variant(2, "int8")
    for version in (1, 2):
        models.promote(version)
    poisonous = observations(4)
    poisonous[2, 0] = 66
    async with (
        serve(precisions=auto(Fastest())) as served,
        AsyncModel(served.address, RUN) as client,
    ):
        await served.models.refresh_variants()
        assert said(await client.predict(observations(1))) == (2, "int8")
        with pytest.raises(InferenceUnavailableError):
            await client.predict(poisonous, "2", "fp32")
        await served.models.refresh()
        await served.models.refresh_variants()
        assert said(await client.predict(poisonous)) == (1, "fp32")
        with pytest.raises(IncompatibleModelError, match="non-finite"):
            await client.predict(observations(1), "2")
