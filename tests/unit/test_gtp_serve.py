"""Where a controller's lines come from."""

import asyncio
import os

from zerofleet.engine_lines import lines_of


async def test_a_terminal_that_is_gone_is_the_end() -> None:
    """Reading it fails, where a pipe would be at its end."""
    ours, theirs = os.openpty()
    try:
        lines = lines_of(theirs)
        os.write(ours, b"name\n")
        async with asyncio.timeout(120):
            assert await lines.get() == "name\n"
            os.close(ours)
            assert await lines.get() is None
    finally:
        os.close(theirs)
