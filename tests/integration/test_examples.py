"""Examples run, and show what they say."""

from __future__ import annotations

import pytest

from examples import whole_loop


@pytest.mark.slow
async def test_the_whole_loop_learns() -> None:
    untrained, *_, last = await whole_loop.main(models=3, each=128)
    assert last < 0.8 * untrained
