"""The Python client over mTLS and with a token."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zerofleet.client import AsyncPlayer, Model, Player
from zerofleet.errors import AccessDeniedError


async def test_a_player_and_a_model_with_certificate_and_token(
    serve: Any, secured: Any, fleet_secrets: Path
) -> None:
    shown = {
        "tls_folder": fleet_secrets / "tls" / "client",
        "token_file": fleet_secrets / "tokens" / "client",
        "timeout": 120.0,
    }
    async with serve(secured) as served:
        async with AsyncPlayer(served.address, **shown) as player:
            assert (await player.describe()).run == "secured"

        def blocking() -> None:
            with Player(served.address, **shown) as player:
                assert player.describe().run == "secured"
            with Model(served.address, "secured", **shown) as model:
                assert len(model.predict(np.zeros((5, 4), np.uint8)).value) == 5
            with (
                Player(served.address, **shown | {"token_file": None}) as player,
                pytest.raises(AccessDeniedError),
            ):
                player.describe()

        await asyncio.to_thread(blocking)
