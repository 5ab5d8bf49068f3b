"""A GTP engine on standard input and output, for a player elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading

from zerofleet.client import AsyncPlayer
from zerofleet.errors import ConfigError
from zerofleet.games.go_rules import is_go
from zerofleet.gtp.engine import Engine, EngineOptions
from zerofleet.printable import printable_lines
from zerofleet.rpc.tls import ClientCredentials

_GREETING_SECONDS = 5.0  # a board says nothing while it waits for its engine


async def serve_gtp(address: str, options: EngineOptions, credentials: ClientCredentials) -> None:
    """Answer a controller until it says ``quit`` or goes away.

    Raises:
        ConfigError: the server plays another game than Go, or it would be reached in plaintext.
        ZerofleetError: the server cannot be asked.
    """
    async with AsyncPlayer(address, timeout=_GREETING_SECONDS, **credentials) as greeter:
        description = await greeter.describe()
    async with AsyncPlayer(address, **credentials) as player:
        if not is_go(description.game):
            raise ConfigError(
                f"GTP is for Go, and {address} plays '{description.game}': "
                "play it with `zerofleet play`"
            )
        engine = Engine(player, description, options, _write, _complain)
        # A controller that has gone away reads no more answers.
        with contextlib.suppress(BrokenPipeError):
            await engine.run(_lines(sys.stdin.fileno()))


def _write(text: str) -> None:
    # A message may repeat a path that this encoding cannot write.
    encoding = sys.stdout.encoding
    text = printable_lines(text)
    sys.stdout.write(text.encode(encoding, errors="backslashreplace").decode(encoding))
    sys.stdout.flush()


def _complain(text: str) -> None:
    sys.stderr.write(f"zerofleet: {printable_lines(text)}\n")


def _lines(descriptor: int) -> asyncio.Queue[str | None]:
    """The lines of a blocking file as they come, then None."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            # Unbuffered: a thread that waits in a buffered file holds its lock, and then the
            # interpreter cannot end.
            with (
                contextlib.suppress(OSError),  # a terminal that is gone is an end too
                open(descriptor, "rb", buffering=0, closefd=False) as source,
            ):
                for line in source:
                    loop.call_soon_threadsafe(
                        lines.put_nowait, line.decode(errors="surrogateescape")
                    )
            loop.call_soon_threadsafe(lines.put_nowait, None)

    # A daemon: after `quit` it may stay in a read that nothing ends.
    threading.Thread(target=read, name="gtp-input", daemon=True).start()
    return lines
