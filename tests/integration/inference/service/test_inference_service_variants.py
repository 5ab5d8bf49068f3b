"""The whole process with variants in the record: it takes one up, and says so."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import urllib.request
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zerofleet import games
from zerofleet.best_pointer import BestPointer
from zerofleet.client import AsyncModel, AsyncPlayer
from zerofleet.database import InferenceDatabase, Variant
from zerofleet.errors import ModelNotFoundError
from zerofleet.fleet.figures import InferenceFigures
from zerofleet.fleet.heartbeat import Heartbeats
from zerofleet.fleet.report import doing_text
from zerofleet.local.monitor import Monitor
from zerofleet.models.graph import Shape
from zerofleet.services.inference.served_models import StoredModels

GAME = "connect_four"
MARKS = {"fp32": 0.0, "int8": 0.25, "fp16": 0.5}


def publish(fleet: Any, version: int, precisions: tuple[str, ...]) -> None:
    """A model with accepted variants and a refused one, in one transaction, promoted."""
    spec = games.spec(GAME)
    shape = Shape(spec.observation_bytes, spec.num_actions)
    sha256: dict[str, str] = {}
    for precision in ("fp32", *precisions):
        content = fleet.make_marker(version, shape, precision=precision)
        fleet.folder.publish(fleet.folder.stage(content))
        sha256[precision] = hashlib.sha256(content).hexdigest()
    variants = [
        Variant(precision, sha256[precision], fleet.folder.location(sha256[precision]), 0.0, 0.0)
        for precision in precisions
    ]
    variants += [
        Variant(precision, policy_kl=1.0, value_difference=1.0, reason="too far from fp32")
        for precision in MARKS
        if precision not in sha256
    ]
    fleet.database.insert_model(
        fleet.run.name, version, sha256["fp32"], version, {}, "", fleet.epoch, variants
    )
    fleet.promote(version)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - a process has no event
            await asyncio.sleep(0.05)


def figures(fleet: Any) -> InferenceFigures:
    """Return the figures of the inference service's heartbeat."""
    with contextlib.closing(Heartbeats(fleet.redis_url, fleet.run.name)) as heartbeats:
        beats = heartbeats.read()
    found = beats[0].figures if beats else InferenceFigures()
    assert isinstance(found, InferenceFigures)
    return found


def page(fleet: Any) -> str:
    url = f"http://127.0.0.1:{fleet.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=120) as found:
        return found.read().decode()


async def answer(client: AsyncModel, **asked: str) -> str:
    rows = np.repeat(games.State(GAME).observation()[np.newaxis], 3, axis=0)
    prediction = await client.predict(rows, **asked)
    mark = prediction.model_version + MARKS[prediction.precision]
    np.testing.assert_allclose(prediction.value * 1024, mark)
    return f"{prediction.model_version} {prediction.precision}"


@pytest.mark.slow
async def test_a_service_takes_up_variants(fleet: Any, role_url: Callable[[str], str]) -> None:
    """The precision is named, so that no measurement of a busy machine decides this test."""
    publish(fleet, 1, ("int8",))
    with fleet.start(
        ZEROFLEET_SET="inference.precision=int8", ZEROFLEET_DATABASE_URL=role_url("worker")
    ):
        async with AsyncModel(fleet.address, fleet.run.name, timeout=120) as client:
            await until(lambda: figures(fleet).precision == "int8")
            assert figures(fleet).provider == "cpu"
            assert await answer(client) == "1 int8"
            assert await answer(client, precision="fp32") == "1 fp32"
            publish(fleet, 2, ("int8", "fp16"))
            await until(lambda: figures(fleet).model_version == 2)
            await until(lambda: figures(fleet).precision == "int8")
            assert await answer(client) == "2 int8"
            assert await answer(client, precision="fp16") == "2 fp16"
            async with AsyncPlayer(fleet.address, timeout=120) as player:
                table = await player.search([3], game=GAME)
                # Every leaf's value is the model's, so the root's is too, but for finished games.
                assert (table.version, round(table.network_value * 4096)) == (2, 9)
            metrics = await asyncio.to_thread(page, fleet)
            name = "zerofleet_inference_answers_with"
            assert f'{name}{{precision="int8",provider="cpu"}} 1.0' in metrics
            assert 'zerofleet_inference_precision_rows_total{precision="int8"}' in metrics

        def shown() -> str:
            with Monitor(fleet.run, fleet.database_url, fleet.redis_url) as monitor:
                monitor.figures()
                return doing_text(monitor.services_of_heartbeats()[0])

        assert await asyncio.to_thread(shown) == "Running on cpu in int8"


def test_what_the_record_says_of_variants(fleet: Any, role_url: Callable[[str], str]) -> None:
    publish(fleet, 1, ("int8",))
    publish(fleet, 2, ())
    with (
        InferenceDatabase(role_url("worker")) as database,
        contextlib.closing(BestPointer(fleet.redis_url, "serving")) as pointer,
    ):
        source = StoredModels("serving", database, pointer)
        assert set(source.files(1)) == {"fp32", "int8"}  # the refused one has no file
        assert set(source.files(2)) == {"fp32"}
        with pytest.raises(ModelNotFoundError, match="has no version 3"):
            source.files(3)


def test_definitions_of_another_version_keep_no_model_from_being_served(fleet: Any) -> None:
    publish(fleet, 1, ("int8",))
    fleet.database._run("UPDATE definitions SET digest = 'other' || digest")
    with (
        InferenceDatabase(fleet.database_url) as database,
        contextlib.closing(BestPointer(fleet.redis_url, "serving")) as pointer,
    ):
        source = StoredModels("serving", database, pointer)
        assert set(source.files(1)) == {"fp32", "int8"}
