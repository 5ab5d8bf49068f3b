"""Limits on connections, requests and open pages, and the login.

``PageListener`` accepts connections. uvicorn alone would wait forever for a request's head, accept
connections until no file can be opened any longer, and then log a line for each one it refuses.

``Gate`` requires every request to be same-origin and, if a login is required, to have a session.

``PageLimits`` and ``limit_events`` limit the open pages and their events. NiceGUI keeps a page for
a minute even if no browser joins it, accepts events of any size, and logs each invalid one with a
traceback.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import ipaddress
import json
import logging
import math
import re
import resource
import socket
import time
import traceback
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qs

import structlog
import uvicorn
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from zerofleet.errors import AccessDeniedError, OverloadedError
from zerofleet.printable import printable
from zerofleet.service import first_of
from zerofleet.services.dashboard.toolkit import Client, sio, ui
from zerofleet.services.dashboard.visitors import SESSION_SECONDS, Visitor, Visitors

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

_log = structlog.get_logger()

HEAD_SECONDS = 10.0
"""Closes a connection that has not sent the whole head of a request within this time."""
MOST_CONNECTIONS = 1_024
MOST_OF_ADDRESS = 256
_HEAD_BYTES = 64 << 10
_RESERVE = 128  # descriptors reserved for stores, files and libraries
_FEWEST = 16
_RETRY_SECONDS = 0.5
_WARNING_SECONDS = 60.0

_MOST_BYTES = 4096  # bytes of a login request
_LOGIN_SECONDS = 10.0
_LONGEST_ADDRESS = 2048  # limit for the address that a login leads to
_HSTS = "max-age=31536000"
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::[0-9]{1,5})?", re.IGNORECASE)
# NiceGUI starts its pages with an inline script, Vue compiles templates, and Quasar sets styles.
_PAGE_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_STYLE = (
    "body{font-family:system-ui,sans-serif;display:grid;justify-content:center;padding:15vh 1rem;"
    "background:#f6f7f9;color:#1c2128}form{display:grid;gap:.75rem;width:min(22rem,90vw)}"
    "input,button{font:inherit;padding:.5rem;border:1px solid #8a93a1;border-radius:4px}"
    "button{background:#2f6db3;color:#fff;border:0}p{margin:0}"
    "@media(prefers-color-scheme:dark){body{background:#14171b;color:#e4e7eb}"
    "input{background:#1d2127;color:inherit}}"
)
_LOGIN_POLICY = (
    f"default-src 'none'; style-src 'sha256-"
    f"{base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()}'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_LOGIN_PAGE = (
    '<!doctype html><html lang="en-GB"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width,initial-scale=1"><title>zerofleet</title>'
    "<style>{style}</style></head><body>"
    '<form method="post" action="/login"><h1>zerofleet</h1><p role="alert">{why}</p>'
    '<label for="token">Token of a viewer, or of a client to play and analyse</label>'
    '<input id="token" name="token" type="password" autocomplete="current-password" required '
    'autofocus><input type="hidden" name="to" value="{to}"><button>Log in</button></form>'
    "</body></html>"
)

MOST_PAGES = 20  # limit for one login; without logins, for all visitors
MOST_PAGES_IN_ALL = 100
JOIN_SECONDS = 20.0
"""Deletes a page that no browser has joined within this time; building it takes less."""
MOST_EVENT_CHARACTERS = 20_000
"""Longest event, except for the events of an editor."""
MOST_MESSAGE_BYTES = 1_000_000
"""Largest message on a page's socket; NiceGUI's script never sends a longer one."""
MOST_UNREAD = 100
"""Messages that a browser has not read or acknowledged."""

_SWEEP_SECONDS = 2.0
_LOG_SECONDS = 1.0
_LOG_CHARACTERS = 300
_LOG_FRAMES = 3
_LOGGERS = ("nicegui", "engineio.server", "socketio.server", "uvicorn.error", "asyncio")
_CLOSED = (
    f"This page was closed, because {MOST_PAGES} newer pages of this login are open. "
    "Reload it to open it again."
)
# A socket that the server disconnects is not reopened automatically.
_SHOW_CLOSED = f"""
    document.title = "Closed · zerofleet";
    document.body.replaceChildren({json.dumps(_CLOSED)});
    document.body.style.padding = "2rem";
"""


class PageListener(uvicorn.Server):
    """A uvicorn server over one socket with limited connections; it ignores signals.

    At the limit, a new connection replaces the oldest one that is not a WebSocket and has no
    request in progress. If there is none, the new connection is closed.

    Args:
        sock: a listening socket; not closed here. Serve with ``serve([])``.
        most: connections at once; fewer if the process may not open that many files.
        most_of_address: connections from one address at once.
        head_seconds: time to send the whole head of a request.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        sock: socket.socket,
        *,
        most: int = MOST_CONNECTIONS,
        most_of_address: int = MOST_OF_ADDRESS,
        head_seconds: float = HEAD_SECONDS,
    ) -> None:
        super().__init__(config)
        self._sock = sock
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        room = most if files == resource.RLIM_INFINITY else max(files - _RESERVE, _FEWEST)
        self._most = min(most, room)
        self._most_of_address = min(most_of_address, self._most)
        self._head_seconds = head_seconds
        self._open: dict[str, list[_Connection]] = {}  # oldest first, by address
        self._next_line = 0.0

    async def main_loop(self) -> None:
        """Accept connections until the server should exit."""
        await first_of(super().main_loop(), self._accept())

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to the service."""
        yield

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        self._sock.setblocking(False)
        while True:
            await asyncio.sleep(0)  # with a full backlog, accepting alone would block other tasks
            try:
                sock, peer = await loop.sock_accept(self._sock)
            except ConnectionAbortedError:
                continue
            except OSError as error:  # no file can be opened, or there is no memory
                self._complain("cannot_accept", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            address = str(peer[0])
            if not self._make_room(address):
                sock.close()
                self._complain("too_many_connections", address=address)
                continue
            connection = _Connection(sock)
            self._open.setdefault(address, []).append(connection)
            connection.entering = asyncio.create_task(self._enter(connection))

    async def _enter(self, connection: _Connection) -> None:
        """Begin to serve a connection, over TLS if the page is HTTPS."""

        def protocol() -> _PageProtocol:
            return _PageProtocol(
                connection,
                self._head_seconds,
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
            )

        tls = self.config.ssl
        with contextlib.suppress(OSError):  # a handshake fails or takes too long
            await asyncio.get_running_loop().connect_accepted_socket(
                protocol,
                connection.sock,
                ssl=tls,
                ssl_handshake_timeout=None if tls is None else self._head_seconds,
            )

    def _make_room(self, address: str) -> bool:
        """Return whether there is room for a connection; close an idle one if necessary."""
        mine = self._still_open(address)
        if len(mine) >= self._most_of_address:
            return _close_idle(mine)
        if sum(map(len, self._open.values())) < self._most:
            return True
        for each in tuple(self._open):
            self._still_open(each)
        if sum(map(len, self._open.values())) < self._most:
            return True
        by_number = sorted(self._open.values(), key=len, reverse=True)
        return any(_close_idle(connections) for connections in by_number)

    def _still_open(self, address: str) -> list[_Connection]:
        """Return the open connections of an address; drop the closed ones."""
        connections = [each for each in self._open.get(address, ()) if each.is_open]
        if connections:
            self._open[address] = connections
        else:
            self._open.pop(address, None)
        return connections

    def _complain(self, event: str, **words: object) -> None:
        """Write a warning, at most one a minute."""
        now = time.monotonic()
        if now >= self._next_line:
            self._next_line = now + _WARNING_SECONDS
            _log.warning(event, **words)


class _Connection:
    """One connection, from the moment that it is accepted."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.idle = True
        """Whether it is not a WebSocket and has no request in progress."""
        self.entering: asyncio.Task[None] | None = None
        self.transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """Return whether it holds a descriptor."""
        return self.sock.fileno() >= 0

    def close(self) -> None:
        """Abort the connection."""
        if self.transport is not None:
            self.transport.abort()
        elif self.entering is not None:
            self.entering.cancel()


def _close_idle(connections: list[_Connection]) -> bool:
    """Close the oldest idle connection; return whether there was one."""
    for connection in connections:
        if connection.idle:
            connection.close()
            connections.remove(connection)
            return True
    return False


class _PageProtocol(HttpToolsProtocol):
    """HTTP on one connection, which is aborted when a request's head is too slow or too long."""

    def __init__(
        self,
        connection: _Connection,
        head_seconds: float,
        **given: Any,  # noqa: ANN401 - of uvicorn's own types
    ) -> None:
        super().__init__(**given)
        self._connection = connection
        self._head_seconds = head_seconds
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._upgraded = False

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - of asyncio or of TLS
        """Wait for the first head."""
        super().connection_made(transport)
        self._connection.transport = transport
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request."""
        self._head_bytes += len(data)
        super().data_received(data)
        self._watch()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over; socket.io and uvicorn send pings on it."""
        self._upgraded = True
        super().handle_websocket_upgrade()

    def on_response_complete(self) -> None:
        """Wait for the next head; uvicorn closes the connection earlier if nothing comes at all."""
        super().on_response_complete()
        self._watch()

    def _watch(self) -> None:
        """Start or stop waiting for a head."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # uvicorn's type lacks None
        answered = cycle is None or cycle.response_complete
        self._connection.idle = answered and not self._upgraded
        if not self._connection.idle:
            self._stop_waiting()
        elif self._head_bytes > _HEAD_BYTES:
            self.transport.abort()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(self._head_seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        self._head_bytes = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class Gate:
    """Checks each HTTP request and WebSocket before the pages.

    An accepted request carries its ``Visitor`` as ``request.state.visitor``.

    Args:
        app: the pages.
        visitors: the known visitors.
        https: browsers use HTTPS, so the cookie is limited to HTTPS.
        behind_proxy: the last address in ``X-Forwarded-For`` is the visitor's, and the last scheme
            in ``X-Forwarded-Proto`` is the browser's.
    """

    def __init__(
        self, app: ASGIApp, visitors: Visitors, *, https: bool, behind_proxy: bool
    ) -> None:
        self._app = app
        self._visitors = visitors
        self._https = https
        self._behind_proxy = behind_proxy
        self._cookie = "__Host-zerofleet" if https else "zerofleet"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        incoming = HTTPConnection(scope)
        refusal = self._foreign(incoming)
        visitor = self._visitors.find(incoming.cookies.get(self._cookie, ""))
        if scope["type"] == "websocket":
            if refusal or visitor is None or "origin" not in incoming.headers:
                await send({"type": "websocket.close", "code": 1008})
                return
            scope.setdefault("state", {})["visitor"] = visitor
            await self._app(scope, _until(visitor, receive), send)
            return
        answer: Response | None
        if refusal:
            answer = PlainTextResponse(refusal, 403)
        elif self._visitors.log_in and scope["path"] in ("/login", "/logout"):
            answer = await self._own_page(Request(scope, receive))
        elif visitor is None:
            to = scope["path"] + (f"?{incoming.url.query}" if incoming.url.query else "")
            is_page = incoming.headers.get("sec-fetch-mode", "navigate") == "navigate"
            answer = _login_page(to) if is_page else PlainTextResponse("log in first", 401)
        else:
            answer = None
            scope.setdefault("state", {})["visitor"] = visitor
        is_secure = self._https and not _is_local(incoming.headers.get("host", ""))
        await (answer or self._app)(scope, receive, _with_headers(send, is_secure=is_secure))

    def _foreign(self, incoming: HTTPConnection) -> str:
        """Return why a request is not from one of our own pages; empty if it may be."""
        host = incoming.headers.get("host", "")
        # Without a login, a foreign page whose name resolves to this machine must not read our
        # pages.
        if not self._visitors.log_in and not _is_local(host):
            return (
                f"this page was requested as {host[:80]!r}, and without a login it answers only "
                "to localhost and 127.0.0.1: set ZEROFLEET_TOKEN_ROLES_FILE"
            )
        origin = incoming.headers.get("origin")
        ours = f"{self._browser_scheme(incoming)}://{host}"
        if origin is not None and origin.lower() != ours.lower():
            return "requests from pages of another origin are not allowed"
        if not _is_from_here(incoming.headers):
            return "other sites may link to this page, but not embed it"
        is_read = incoming.scope["type"] != "http" or incoming.scope["method"] in ("GET", "HEAD")
        if origin is None and not is_read:
            return "a request that changes something must name its origin"
        return ""

    def _browser_scheme(self, incoming: HTTPConnection) -> str:
        """Return the scheme that the browser uses."""
        if self._behind_proxy:
            forwarded = incoming.headers.getlist("x-forwarded-proto")
            if forwarded:
                return forwarded[-1].rpartition(",")[2].strip()
            if _is_local(incoming.headers.get("host", "")):  # through kubectl port-forward
                return "http"
        return "https" if self._https else "http"

    async def _own_page(self, request: Request) -> Response:
        """Answer ``/login`` and ``/logout``."""
        if request.method != "POST":
            return _login_page("/")
        if request.url.path == "/logout":
            self._visitors.leave(request.cookies.get(self._cookie, ""))
            left = RedirectResponse("/", 303)
            left.delete_cookie(self._cookie, secure=self._https, httponly=True, samesite="strict")
            return left
        fields = await _fields(request)
        to = fields.get("to", "/")
        try:
            session = self._visitors.enter(fields.get("token", "").strip(), self._address(request))
        except OverloadedError as error:
            return _login_page(to, str(error), 429)
        except AccessDeniedError as error:
            return _login_page(to, str(error), 403)
        entered = RedirectResponse(_inside(to), 303)
        entered.set_cookie(
            self._cookie,
            session,
            max_age=SESSION_SECONDS,
            secure=self._https,
            httponly=True,
            samesite="strict",
        )
        return entered

    def _address(self, request: Request) -> str:
        forwarded = request.headers.getlist("x-forwarded-for")
        if self._behind_proxy and forwarded:
            return forwarded[-1].rpartition(",")[2].strip()[:64]
        return request.client.host if request.client else ""


def _is_local(host: str) -> bool:
    """Return whether a Host header is a name of this machine that nobody elsewhere can use.

    Only localhost and loopback addresses are; other spellings of addresses that gRPC accepts are
    not.
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = found[1] or found[2]
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return name.lower() == "localhost"


def _is_from_here(headers: Headers) -> bool:
    """Return whether the browser requests one of our pages, or a visitor followed a link."""
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return True
    navigates = headers.get("sec-fetch-mode") == "navigate"
    return navigates and headers.get("sec-fetch-dest", "document") == "document"


def _login_page(to: str, why: str = "", status: int = 401) -> Response:
    page = _LOGIN_PAGE.format(style=_STYLE, why=escape(why), to=escape(_inside(to)))
    policy = {"content-security-policy": _LOGIN_POLICY, "cache-control": "no-store"}
    return HTMLResponse(page, status, policy)


def _inside(to: str) -> str:
    """Return the address if it is one of this server, else the first page."""
    is_ours = to.startswith("/") and not to.startswith(("//", "/login", "/logout"))
    plain = to.isprintable() and "\\" not in to and len(to) <= _LONGEST_ADDRESS
    return to if is_ours and plain else "/"


async def _fields(request: Request) -> dict[str, str]:
    """Return the fields of a form; empty if it is too long, too slow or not a form."""
    body = b""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LOGIN_SECONDS):
            async for part in request.stream():
                body += part
                if len(body) > _MOST_BYTES:
                    return {}
    try:
        given = parse_qs(body.decode("utf-8", "replace"), max_num_fields=4)
    except ValueError:  # more fields than a login has
        return {}
    return {name: values[-1] for name, values in given.items()}


def _with_headers(send: Send, *, is_secure: bool) -> Send:
    """Add our headers to each answer.

    Args:
        send: sends to the browser.
        is_secure: tell the browser to use only HTTPS for this host from now on.
    """

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            if is_secure:
                headers["strict-transport-security"] = _HSTS
            headers.setdefault("content-security-policy", _PAGE_POLICY)
            _keep_to_ourselves(headers)
        await send(message)

    return sent


def _keep_to_ourselves(headers: MutableHeaders) -> None:
    """Remove the headers with which socket.io admits other origins."""
    for name in [each for each in Headers(raw=headers.raw) if each.startswith("access-control-")]:
        if name in headers:
            del headers[name]


def _until(visitor: Visitor, receive: Receive) -> Receive:
    """Report the browser as disconnected when the visitor's login has ended."""

    async def received() -> Message:
        message = asyncio.ensure_future(receive())
        ended = asyncio.ensure_future(visitor.ended.wait())
        try:
            await asyncio.wait({message, ended}, return_when=asyncio.FIRST_COMPLETED)
            if visitor.ended.is_set():
                return {"type": "websocket.disconnect", "code": 1008}
            return message.result()
        finally:
            message.cancel()
            ended.cancel()

    return received


@dataclass(eq=False, slots=True)
class _Page:
    client: Client
    visitor: Visitor
    was_joined: bool = False


class PageLimits:
    """The open pages, limited for each login and in total.

    If there is no room for a new page, the oldest page of the same login is closed, or for the
    total limit the oldest page of the token that has the most. Pages whose browser has left are
    closed first.
    """

    def __init__(self) -> None:
        self._pages: list[_Page] = []
        self._closing: set[asyncio.Task[None]] = set()
        self._without_page: dict[str, float] = {}  # sockets without a page, and since when

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
        for key, each in sockets.items():
            alone = self._without_page.get(key, math.inf) <= now - JOIN_SECONDS
            if alone or each.queue.qsize() > MOST_UNREAD:
                await each.close(wait=False, abort=True)
                while not each.queue.empty():
                    each.queue.get_nowait()
                each.queue.put_nowait(None)  # ends the writer


async def _close(client: Client) -> None:
    """Delete a page, and show that in the browser if one is connected."""
    sids = [sid for sid, _ in sio.manager.get_participants("/", client.id)]
    if sids:
        await sio.emit("run_javascript", {"code": _SHOW_CLOSED}, room=client.id)
    if client.id in Client.instances:
        client.delete()
    for sid in sids:
        await sio.disconnect(sid)


def limit_events(clock: Callable[[], float] = time.monotonic) -> None:
    """Refuse events that no page sends, and log at most one line a second about errors in events.

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
        logger.handlers.clear()  # socket.io's handler would write a second line
        for each in [each for each in logger.filters if isinstance(each, OneLineASecond)]:
            logger.removeFilter(each)
        logger.addFilter(OneLineASecond(clock))


def _text_packets(base: type[Any]) -> type[Any]:
    """Return a class of packets without attachments, which socket.io would collect forever."""
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
    """Lets through one record a second, as one short line, because visitors cause these records.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = clock
        self._next = clock()
        self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten a record; return whether it is logged."""
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
    return printable(text.strip().partition("\n")[0][:_LOG_CHARACTERS])[:_LOG_CHARACTERS]


def _place(error: BaseException) -> str:
    """Return the innermost lines of code that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)[-_LOG_FRAMES:]
    return ", ".join(f"{Path(each.filename).name}:{each.lineno}" for each in reversed(frames))
