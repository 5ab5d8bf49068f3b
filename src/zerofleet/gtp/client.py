"""A program that plays over the Go Text Protocol, version 2, on its standard streams."""

from __future__ import annotations

import asyncio

from zerofleet.engine_process import EngineGoneError, EngineProcess, next_line
from zerofleet.gtp.protocol import GtpError
from zerofleet.printable import printable, shortened

_MOST_LINES = 1_000  # in one answer


class GtpClient(EngineProcess):
    """One running engine; see ``EngineProcess``."""

    async def send(self, command: str) -> str:
        """Send one command; return its answer without the "=", lines joined.

        Raises:
            GtpError: the engine refuses; the message is its own.
            EngineGoneError: it has ended, does not answer in time, or writes without end.
        """
        async with self.answer_to(command) as stream:
            answer = await _answer(stream)
        if answer is None:
            words = printable(shortened(command))
            raise EngineGoneError(f"{self.name} answers '{words}' with more than 1,000 lines")
        mark, text = answer[0], answer[1:].lstrip("0123456789").strip()
        if mark == "?":
            raise GtpError(printable(shortened(text)) or f"refused: {command}")
        return text


async def _answer(stream: asyncio.StreamReader) -> str | None:
    """Read up to the empty line that ends an answer; drop everything before "=" or "?".

    Returns:
        None if there are too many lines.
    """
    lines: list[str] = []
    while len(lines) < _MOST_LINES:
        line = await next_line(stream)
        if lines and not line.strip():
            return "\n".join(lines)
        if lines or line.startswith(("=", "?")):
            lines.append(line)
    return None
