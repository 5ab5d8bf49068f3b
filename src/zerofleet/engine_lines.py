"""An engine that a board or a chess program controls: its options, standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from dataclasses import dataclass, field

from zerofleet.printable import printable_lines
from zerofleet.rpc.codec import BEST
from zerofleet.rpc.player_service import SearchOptions


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of an engine's searches."""

    version: str = BEST
    search: SearchOptions = field(default_factory=SearchOptions)
    """Options for a move; an analysis has no end of its own."""


def read_stdin() -> asyncio.Queue[str | None]:
    """Return a queue of the lines of standard input, followed by None."""
    return lines_of(sys.stdin.fileno())


def lines_of(descriptor: int) -> asyncio.Queue[str | None]:
    """Return a queue of the lines of a blocking file, followed by None."""
    lines: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            # Unbuffered: a thread that waits in a buffered file holds its lock, and then the
            # interpreter cannot end.
            with (
                contextlib.suppress(OSError),  # a terminal that is gone counts as the end
                open(descriptor, "rb", buffering=0, closefd=False) as source,
            ):
                for line in source:
                    loop.call_soon_threadsafe(
                        lines.put_nowait, line.decode(errors="surrogateescape")
                    )
            loop.call_soon_threadsafe(lines.put_nowait, None)

    # A daemon: after `quit` it may stay in a read that nothing ends.
    threading.Thread(target=read, name="engine-input", daemon=True).start()
    return lines


def write(text: str) -> None:
    """Write text to the controller at once."""
    # A message may repeat a path that this encoding cannot write.
    encoding = sys.stdout.encoding
    text = printable_lines(text)
    sys.stdout.write(text.encode(encoding, errors="backslashreplace").decode(encoding))
    sys.stdout.flush()


def complain(text: str) -> None:
    """Show a line to the user, separately from the responses."""
    sys.stderr.write(f"zerofleet: {printable_lines(text)}\n")
