"""Promise 5: each answer comes from the model it names, while models come, go and fail."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from zerofleet.client import AsyncModel
from zerofleet.errors import (
    IncompatibleModelError,
    InferenceUnavailableError,
    ModelNotFoundError,
)
from zerofleet.prediction import Prediction

RUN = "marker"


def _decode(prediction: Prediction) -> set[int]:
    return set(np.rint(prediction.value * 1024).astype(int).tolist())


async def test_no_answer_names_another_model_under_swaps(
    serve: Any, models: Any, observations: Any, until: Any
) -> None:
    """Streams ask for the best model and for exact versions while eight models are promoted."""
    models.publish(1)
    models.promote(1)
    async with serve(threads=2, keep=3) as served, AsyncModel(served.address, RUN) as client:
        stop = asyncio.Event()
        newest: Counter[int] = Counter()

        async def ask(version: str, rows: int) -> int:
            answers = 0
            async with client.stream(version) as stream:
                while not stop.is_set():
                    predictions = await asyncio.gather(
                        *(stream.predict(observations(rows + extra)) for extra in range(4))
                    )
                    for prediction in predictions:
                        assert _decode(prediction) == {prediction.model_version}
                        assert version in ("best", str(prediction.model_version))
                        if version == "best":
                            newest[prediction.model_version] += 1
                        answers += len(prediction.value)
            return answers

        for version in range(2, 10):
            models.publish(version)
        askers = [
            asyncio.create_task(ask(version, rows))
            for version, rows in (("best", 1), ("best", 16), ("best", 60), ("2", 8), ("9", 3))
        ]
        for version in range(2, 10):
            models.promote(version)
            await served.models.refresh()
            await until(lambda version=version: newest[version] > 100)
        stop.set()
        answers = sum(await asyncio.gather(*askers))
    assert answers > 5_000
    assert set(newest) >= set(range(2, 10))


def _truncated(make: Any) -> bytes:
    return make(2)[:-40]


def _wrong_shape(make: Any) -> bytes:
    from zerofleet.models.graph import Shape

    return make(2, Shape(observation_bytes=9, num_actions=7))


def _wrong_actions(make: Any) -> bytes:
    from zerofleet.models.graph import Shape

    return make(2, Shape(observation_bytes=8, num_actions=6))


def _wrong_rank(make: Any) -> bytes:
    return make(2, value_rank=2)


@pytest.mark.parametrize("damage", [_truncated, _wrong_shape, _wrong_actions, _wrong_rank])
async def test_a_damaged_model_leaves_the_old_one_serving(
    serve: Any, models: Any, make_marker: Any, observations: Any, damage: Any
) -> None:
    models.publish(1)
    models.promote(1)
    async with serve() as served, AsyncModel(served.address, RUN) as client:
        models.publish(2, damage(make_marker))
        models.promote(2)
        await served.models.refresh()
        assert served.models.failed_loads == 1
        assert (await client.predict(observations(3))).model_version == 1
        assert served.models.best_fault.startswith("model 2: ")
        with pytest.raises(IncompatibleModelError):
            await client.predict(observations(3), "2")
        assert not await client.ready("2")
        index = {state.version: state for state in await served.models.index()}
        assert index[1].ready
        assert not index[2].ready
        assert index[2].reason not in ("", "not in memory")
        # The broken model does not delay a later promotion.
        models.publish(3)
        models.promote(3)
        await served.models.refresh()
        assert (await client.predict(observations(3))).model_version == 3
        assert served.models.best_fault == ""


async def test_bytes_under_a_wrong_name_are_not_loaded(
    serve: Any, models: Any, make_marker: Any, observations: Any, refusal: Any
) -> None:
    models.publish(1, make_marker(1), name="0" * 64)
    models.promote(1)
    async with (
        serve() as served,
        AsyncModel(served.address, RUN) as patient,
        AsyncModel(served.address, RUN, timeout=2) as client,
    ):
        assert "do not hash to its name" in served.models.waiting_for
        assert not await patient.ready("1")
        assert "do not hash to its name" in await refusal(lambda: client.predict(observations(1)))


async def test_a_start_with_a_damaged_best_model_serves_the_one_before(
    serve: Any, models: Any, make_marker: Any, observations: Any
) -> None:
    for version in (1, 2):
        models.publish(version)
        models.promote(version)
    models.publish(3, make_marker(3)[:-1])
    models.promote(3)
    async with serve() as served, AsyncModel(served.address, RUN) as client:
        assert (await client.predict(observations(1))).model_version == 2
        assert served.models.best_fault == "model 3: the file is not an ONNX model, or is cut off"


async def test_a_missing_file_that_appears_later_is_loaded(
    serve: Any, models: Any, observations: Any, until: Any
) -> None:
    sha256 = models.publish(1)
    path = models.folder.path(sha256)
    content = path.read_bytes()
    path.unlink()
    models.promote(1)
    async with serve() as served, AsyncModel(served.address, RUN, timeout=120) as client:
        assert "no model" in served.models.waiting_for
        path.write_bytes(content)
        follower = asyncio.create_task(served.models.follow_best(0.01))
        await until(lambda: served.models.peek(None) is not None)
        follower.cancel()
        assert served.models.waiting_for == ""
        assert (await client.predict(observations(2))).model_version == 1


async def test_a_file_that_cannot_be_read_now_is_asked_for_again(
    serve: Any, models: Any, observations: Any, refusal: Any
) -> None:
    """The status is not FAILED_PRECONDITION, which would reject a candidate forever."""
    models.publish(1)
    models.promote(1)
    path = models.folder.path(models.publish(2))
    content = path.read_bytes()
    path.unlink()
    path.mkdir()  # read() fails, as on a broken disk
    async with serve() as served, AsyncModel(served.address, RUN, timeout=2) as hasty:
        words = await refusal(lambda: hasty.predict(observations(1), "2"))
        assert re.search(r"cannot read .*: Is a directory", words)
        path.rmdir()
        path.write_bytes(content)
        async with AsyncModel(served.address, RUN, timeout=120) as patient:
            assert (await patient.predict(observations(1), "2")).model_version == 2


async def test_a_model_that_gives_infinities_is_used_no_more(
    serve: Any, models: Any, make_marker: Any, observations: Any
) -> None:
    models.publish(1)
    models.promote(1)
    poisonous = observations(4)
    poisonous[2, 0] = 66
    async with (
        serve() as served,
        AsyncModel(served.address, RUN, timeout=120) as client,
        client.stream() as stream,
    ):
        models.publish(2, make_marker(2, poisoned=True))
        models.promote(2)
        await served.models.refresh()
        assert (await stream.predict(observations(4))).model_version == 2
        with pytest.raises(InferenceUnavailableError, match="not finite"):
            await stream.predict(poisonous)
        await served.models.refresh()
        assert (await stream.predict(poisonous)).model_version == 1
        with pytest.raises(IncompatibleModelError, match="non-finite"):
            await client.predict(observations(1), "2")


async def test_stores_away_leave_loaded_models_serving(
    serve: Any, models: Any, observations: Any, refusal: Any
) -> None:
    models.publish(1)
    models.publish(2)
    models.promote(1)
    async with (
        serve() as served,
        AsyncModel(served.address, RUN, timeout=120) as client,
        AsyncModel(served.address, RUN, timeout=2) as hasty,
    ):
        models.source.away = True
        await served.models.refresh()
        assert (await client.predict(observations(1))).model_version == 1
        assert (await client.predict(observations(1), "1")).model_version == 1
        assert "stores are down" in await refusal(lambda: hasty.predict(observations(1), "2"))
        models.source.away = False
        assert (await client.predict(observations(1), "2")).model_version == 2
        with pytest.raises(ModelNotFoundError):
            await client.predict(observations(1), "3")


async def test_memory_is_bounded_and_keeps_the_best(
    serve: Any, models: Any, observations: Any
) -> None:
    for version in range(1, 12):
        models.publish(version)
    models.promote(1)
    async with serve(keep=3) as served, AsyncModel(served.address, RUN) as client:
        for version in range(1, 12):
            await client.predict(observations(1), str(version))
        versions = [model.version for model in served.models.loaded()]
        assert len(versions) == 3
        assert versions[0] == 1
        assert (await client.predict(observations(1))).model_version == 1
