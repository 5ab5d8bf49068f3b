"""Limits of open pages: how many there are, how long one may wait for its browser, what it sends.

NiceGUI keeps a page for a minute though no browser joins it, takes events of any size, and logs
each one that is wrong with a traceback.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerofleet.services.dashboard.toolkit import Client, sio, ui
from zerofleet.services.dashboard.visitors import Visitor

MOST_PAGES = 20  # of a login; where none is asked for, of all visitors
MOST_PAGES_IN_ALL = 100
JOIN_SECONDS = 20.0
"""A page is deleted if no browser has joined it for so long. It is built in fewer seconds."""
MOST_EVENT_CHARACTERS = 20_000
"""Of an event, but for those of an editor."""
MOST_MESSAGE_BYTES = 1_000_000
"""Of a message on a page's socket; NiceGUI's script sends none that is longer."""
MOST_UNREAD = 100
"""Messages that a browser has not read, or not acknowledged."""

_SWEEP_SECONDS = 2.0
_LOG_SECONDS = 1.0
_LOG_CHARACTERS = 300
_LOG_FRAMES = 3
_LOGGERS = ("nicegui", "engineio.server", "socketio.server", "uvicorn.error", "asyncio")
_CLOSED = (
    f"This page was closed, because {MOST_PAGES} newer pages of this login are open. "
    "Reload it to open it again."
)
# A socket that the server disconnects is not opened again by itself.
_SHOW_CLOSED = f"""
    document.title = "Closed · zerofleet";
    document.body.replaceChildren({json.dumps(_CLOSED)});
    document.body.style.padding = "2rem";
"""


@dataclass(eq=False, slots=True)
class _Page:
    client: Client
    visitor: Visitor
    was_joined: bool = False


class PageLimits:
    """The pages that are open, a limited number for each login and in all.

    Where there is no room for a new page, the oldest page of the same login goes, or in all the
    oldest page of the token that has the most. Pages whose browser has left go first.
    """

    def __init__(self) -> None:
        self._pages: list[_Page] = []
        self._closing: set[asyncio.Task[None]] = set()
        self._without_page: dict[str, float] = {}  # sockets, and since when

    def admit(self, client: Client, visitor: Visitor) -> None:
        """Count a page that is being opened, and close another one if there are too many."""
        mine = [page for page in self._pages if page.visitor is visitor]
        if len(mine) >= MOST_PAGES:
            self._close(mine)
        elif len(self._pages) >= MOST_PAGES_IN_ALL:
            tokens = [page.visitor.token for page in self._pages]
            busiest = max(tokens, key=tokens.count)
            self._close([page for page in self._pages if page.visitor.token == busiest])
        page = _Page(client, visitor)
        self._pages.append(page)

        def joined() -> None:
            page.was_joined = True

        client.on_connect(joined)
        client.on_delete(lambda: self._forget(page))

    def _forget(self, page: _Page) -> None:
        if page in self._pages:
            self._pages.remove(page)

    def _close(self, pages: Sequence[_Page]) -> None:
        """Close one of these pages."""
        left = [page for page in pages if page.was_joined and not page.client.has_socket_connection]
        page = (left or pages)[0]
        self._forget(page)
        closing = asyncio.create_task(_close(page.client))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def keep_closing(self) -> None:
        """Close, forever, pages that no browser joins, and sockets without a page or a reader."""
        while True:
            Client.prune_instances(client_age_threshold=JOIN_SECONDS)
            await self._close_sockets()
            await asyncio.sleep(_SWEEP_SECONDS)

    async def _close_sockets(self) -> None:
        joined = {
            eio_sid
            for client in Client.instances.values()
            for _, eio_sid in sio.manager.get_participants("/", client.id)
        }
        now = time.monotonic()
        sockets = dict(sio.eio.sockets)
        self._without_page = {
            key: self._without_page.get(key, now) for key in sockets if key not in joined
        }
        for key, socket in sockets.items():
            alone = self._without_page.get(key, math.inf) <= now - JOIN_SECONDS
            if alone or socket.queue.qsize() > MOST_UNREAD:
                await socket.close(wait=False, abort=True)
                while not socket.queue.empty():
                    socket.queue.get_nowait()
                socket.queue.put_nowait(None)  # ends the writer


async def _close(client: Client) -> None:
    """Delete a page, and say so in the browser if one shows it."""
    sids = [sid for sid, _ in sio.manager.get_participants("/", client.id)]
    if sids:
        await sio.emit("run_javascript", {"code": _SHOW_CLOSED}, room=client.id)
    if client.id in Client.instances:
        client.delete()
    for sid in sids:
        await sio.disconnect(sid)


def limit_events(clock: Callable[[], float] = time.monotonic) -> None:
    """Refuse what no page sends, and log one line a second of what goes wrong in events.

    Call it once, before pages are served.
    """
    handlers: dict[str, Callable[..., Any]] = sio.handlers["/"]
    handlers.pop("log", None)  # would write any text of a visitor to our log
    handle = handlers["event"]

    def limited(sid: str, message: dict[str, Any]) -> None:
        client = Client.instances.get(message["client_id"])
        element = None if client is None else client.elements.get(message["id"])
        size = sum(len(arg) for arg in message.get("args", []) if arg is not None)
        if size > MOST_EVENT_CHARACTERS and not isinstance(element, ui.codemirror):
            raise ValueError(f"the event has {size:,} characters")
        handle(sid, message)

    handlers["event"] = limited
    sio.packet_class = _text_packets(sio.packet_class)
    sio.eio.max_http_buffer_size = MOST_MESSAGE_BYTES
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers.clear()  # socket.io's write a second line
        for each in [each for each in logger.filters if isinstance(each, OneLineASecond)]:
            logger.removeFilter(each)
        logger.addFilter(OneLineASecond(clock))


def _text_packets(base: type[Any]) -> type[Any]:
    """Return a class of packets without attachments, which socket.io would collect without end."""
    if issubclass(base, _NoAttachments):
        return base
    return type("TextPacket", (_NoAttachments, base), {})


class _NoAttachments:
    """Mixin for packets of socket.io."""

    packet_type: int

    def decode(self, encoded_packet: str) -> int:
        count: int = super().decode(encoded_packet)  # pyright: ignore  the packet's
        if count or self.packet_type not in range(5):
            raise ValueError("a page sends no binary packets")
        return 0


class OneLineASecond(logging.Filter):
    """Lets through one record a second, as one short line: visitors cause these records.

    Args:
        clock: seconds that only go on.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._next = clock()
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten a record; whether it is logged."""
        if self._clock() < self._next:
            self._left_out += 1
            return False
        self._next = self._clock() + _LOG_SECONDS
        words = _short(record.getMessage())
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            words = f"{words}: {type(error).__name__}: {_short(str(error))} ({_place(error)})"
        if self._left_out:
            words += f"; {self._left_out:,} more were left out"
        self._left_out = 0
        record.msg, record.args = words, ()
        record.exc_info = record.exc_text = record.stack_info = None
        return True


def _short(text: str) -> str:
    """Return the first line of a text, printable and not long."""
    first = text.strip().partition("\n")[0][:_LOG_CHARACTERS]
    return "".join(each if each.isprintable() else "?" for each in first)


def _place(error: BaseException) -> str:
    """Return the innermost lines of code that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)[-_LOG_FRAMES:]
    return ", ".join(f"{Path(each.filename).name}:{each.lineno}" for each in reversed(frames))
