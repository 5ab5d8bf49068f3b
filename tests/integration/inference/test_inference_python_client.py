"""``zerofleet.client.Model`` while models are promoted."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from zerofleet.client import AsyncModel

RUN = "marker"


async def test_one_version_answers_the_whole_batch(
    serve: Any, models: Any, observations: Any
) -> None:
    """Whatever is promoted meanwhile; the value of a marker model is its version."""
    models.publish(1)
    models.promote(1)
    rows = observations(200)
    async with serve() as served, AsyncModel(served.address, RUN, message_rows=5) as model:

        async def promote() -> None:
            for version in range(2, 9):
                models.publish(version)
                models.promote(version)
                await served.models.refresh()

        promoting = asyncio.create_task(promote())
        while True:
            last = promoting.done()
            answer = await model.predict(rows)
            np.testing.assert_allclose(answer.value, np.full(200, answer.model_version / 1024))
            if last:
                break
        await promoting
        assert answer.model_version == 8
