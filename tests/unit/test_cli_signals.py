"""A wish to end is heard whatever becomes of the words about it."""

import subprocess
import sys

SCRIPT = """
import asyncio, os, signal
from zerofleet.cli.terminal import stop_event

def say():
    raise OSError("the terminal is gone")

async def main():
    async with stop_event(say, say) as stop:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.wait_for(stop.wait(), 120)

asyncio.run(main())
"""


def test_a_terminal_that_is_gone_does_not_keep_the_run_going() -> None:
    assert subprocess.run([sys.executable, "-c", SCRIPT], check=False, timeout=120).returncode == 0
