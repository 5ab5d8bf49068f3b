"""What every request passes first: the same origin, a login where one is asked for, and headers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import ipaddress
import re
from html import escape
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from zerofleet.errors import AccessDeniedError, OverloadedError
from zerofleet.services.dashboard.visitors import SESSION_SECONDS, Visitor, Visitors

_MOST_BYTES = 4096  # of a login
_LOGIN_SECONDS = 10.0
_LONGEST_ADDRESS = 2048  # that a login goes on to
_HSTS = "max-age=31536000"
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9.-]+))(?::[0-9]{1,5})?", re.IGNORECASE)
# NiceGUI begins its pages by a script in them, Vue compiles templates, and Quasar sets styles.
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


class Gate:
    """Stands before the pages, for HTTP and for WebSockets.

    Each request that is let in carries its ``Visitor`` as ``request.state.visitor``.

    Args:
        app: the pages.
        visitors: who is known.
        https: browsers reach this by HTTPS, so that the cookie is for that alone.
        behind_proxy: the last address in ``X-Forwarded-For`` is the visitor's, and the last scheme
            in ``X-Forwarded-Proto`` is what the browser used.
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
        """One connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        asked = HTTPConnection(scope)
        refusal = self._foreign(asked)
        visitor = self._visitors.find(asked.cookies.get(self._cookie, ""))
        if scope["type"] == "websocket":
            if refusal or visitor is None or "origin" not in asked.headers:
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
            to = scope["path"] + (f"?{asked.url.query}" if asked.url.query else "")
            is_page = asked.headers.get("sec-fetch-mode", "navigate") == "navigate"
            answer = _login_page(to) if is_page else PlainTextResponse("log in first", 401)
        else:
            answer = None
            scope.setdefault("state", {})["visitor"] = visitor
        is_secure = self._https and not _is_local(asked.headers.get("host", ""))
        await (answer or self._app)(scope, receive, _with_headers(send, is_secure=is_secure))

    def _foreign(self, asked: HTTPConnection) -> str:
        """Why a request is not one of our own pages'; empty: it may be."""
        host = asked.headers.get("host", "")
        # Without a login, a page elsewhere whose name leads here must not read what is here.
        if not self._visitors.log_in and not _is_local(host):
            return (
                f"this page was requested as {host[:80]!r}, and without a login it answers only "
                "to localhost and 127.0.0.1: set ZEROFLEET_TOKEN_ROLES_FILE"
            )
        origin = asked.headers.get("origin")
        ours = f"{self._browser_scheme(asked)}://{host}"
        if origin is not None and origin.lower() != ours.lower():
            return "a page of another origin may not ask this"
        if not _is_from_here(asked.headers):
            return "a page elsewhere may link to this page, but not load it as a part of itself"
        is_read = asked.scope["type"] != "http" or asked.scope["method"] in ("GET", "HEAD")
        if origin is None and not is_read:
            return "a request that changes something must name its origin"
        return ""

    def _browser_scheme(self, asked: HTTPConnection) -> str:
        """The scheme by which the browser reaches this."""
        if self._behind_proxy:
            forwarded = asked.headers.getlist("x-forwarded-proto")
            if forwarded:
                return forwarded[-1].rpartition(",")[2].strip()
            if _is_local(asked.headers.get("host", "")):  # by kubectl port-forward
                return "http"
        return "https" if self._https else "http"

    async def _own_page(self, request: Request) -> Response:
        """``/login`` and ``/logout``."""
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
    """Whether a Host header names this machine, by a name that nobody elsewhere can give.

    Only localhost and loopback addresses; what gRPC takes for an address is none here.
    """
    found = _HOST.fullmatch(host)
    if found is None:
        return False
    name = found[1] or found[2]
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(name).is_loopback
    return name.lower() == "localhost"


def _is_from_here(headers: Headers) -> bool:
    """Whether the browser asks for one of our pages, or because a visitor follows a link."""
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return True
    navigates = headers.get("sec-fetch-mode") == "navigate"
    return navigates and headers.get("sec-fetch-dest", "document") == "document"


def _login_page(to: str, why: str = "", status: int = 401) -> Response:
    page = _LOGIN_PAGE.format(style=_STYLE, why=escape(why), to=escape(_inside(to)))
    policy = {"content-security-policy": _LOGIN_POLICY, "cache-control": "no-store"}
    return HTMLResponse(page, status, policy)


def _inside(to: str) -> str:
    """An address of this server: that, or else the first page."""
    is_ours = to.startswith("/") and not to.startswith(("//", "/login", "/logout"))
    plain = to.isprintable() and "\\" not in to and len(to) <= _LONGEST_ADDRESS
    return to if is_ours and plain else "/"


async def _fields(request: Request) -> dict[str, str]:
    """Of a form; nothing where it is too long, too slow or no form."""
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
    """Adds what each answer says to the browser.

    Args:
        send: to the browser.
        is_secure: the browser shall use HTTPS alone for this host from now on.
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
    """Take away the invitation to other origins that socket.io gives."""
    for name in [each for each in Headers(raw=headers.raw) if each.startswith("access-control-")]:
        if name in headers:
            del headers[name]


def _until(visitor: Visitor, receive: Receive) -> Receive:
    """Says that the browser has gone when the visitor's login has ended."""

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
