"""Who may open pages and search, and the headers of each answer."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from zerofleet.client import AsyncPlayer
from zerofleet.errors import (
    ConfigError,
    InferenceUnavailableError,
    OverloadedError,
    PermissionDeniedError,
)
from zerofleet.secrets.tokens import Token, digest_of
from zerofleet.services.dashboard.gate import Gate
from zerofleet.services.dashboard.service import bound, check_exposure, simulations_of_one
from zerofleet.services.dashboard.settings import DashboardSettings
from zerofleet.services.dashboard.visitors import (
    SESSION_SECONDS,
    Allowance,
    Visitor,
    VisitorPlayer,
    Visitors,
)

HOST = "page.example:8080"
HERE = {"origin": f"https://{HOST}"}
TOKENS = {"looks": "viewer", "plays": "client", "works": "worker"}


class Clock:
    """A clock that stands still until the test moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Door:
    """A login in front of an app that shows the user's name, and a browser with cookies."""

    def __init__(self, *, login: bool = True, host: str = HOST, https: bool = True) -> None:
        self.clock = Clock()
        self.tokens = [
            Token(name, cast("Any", role), digest_of(name)) for name, role in TOKENS.items()
        ]
        accepted = (lambda: self.tokens) if login else None
        self.visitors = Visitors(accepted, 600, self.clock)
        self.gate = Gate(self.app, self.visitors, https=https, behind_proxy=https)
        self.browser = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.gate), base_url=f"https://{host}"
        )
        self.came: list[Visitor] = []
        self.socket_open = asyncio.Event()

    async def app(self, scope: Any, receive: Any, send: Any) -> None:
        self.came.append(scope["state"]["visitor"])
        if scope["type"] == "websocket":
            self.socket_open.set()
            await send(await receive())
            return
        headers = [(b"access-control-allow-origin", b"*"), (b"content-type", b"text/plain")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"inside"})

    async def log_in(self, token: str, to: str = "/", **headers: str) -> httpx.Response:
        form = {"token": token, "to": to}
        return await self.browser.post("/login", data=form, headers=HERE | headers)

    async def open_socket(self, origin: str | None) -> list[Any]:
        """Return the messages to a WebSocket with the browser's cookies; it ends with the login."""
        cookie = "; ".join(f"{name}={value}" for name, value in self.browser.cookies.items())
        headers = [(b"host", HOST.encode()), (b"cookie", cookie.encode())]
        headers += [(b"origin", origin.encode())] if origin else []
        scope = {"type": "websocket", "path": "/ws", "query_string": b"", "headers": headers}
        messages: list[Any] = []

        async def send(message: Any) -> None:
            messages.append(message)

        nothing_comes: Any = asyncio.Event().wait
        await self.gate(scope, nothing_comes, send)
        return messages


def test_without_a_login_there_is_a_login_page_and_nothing_else() -> None:
    async def visit() -> None:
        door = Door()
        page = await door.browser.get("/games?kind=<match>")
        assert page.status_code == 401
        assert 'value="/games?kind=%3Cmatch%3E"' in page.text
        assert "unsafe" not in page.headers["content-security-policy"]
        script = await door.browser.get("/x.js", headers={"sec-fetch-mode": "no-cors"})
        assert (script.status_code, script.text) == (401, "log in first")
        assert (await door.open_socket(f"https://{HOST}"))[0]["type"] == "websocket.close"
        assert door.came == []

    asyncio.run(visit())


def test_a_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_see() -> None:
    async def visit() -> None:
        door = Door()
        for to, lands in (("/games?ply=3", "/games?ply=3"), ("//evil.example", "/"), ("x", "/")):
            answer = await door.log_in("looks", to)
            assert (answer.status_code, answer.headers["location"]) == (303, lands)
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-zerofleet=")
        assert {"Secure", "HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
        assert "looks" not in cookie
        page = await door.browser.get("/")
        assert (page.status_code, page.text) == (200, "inside")
        assert door.came[-1].role == "viewer"
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["referrer-policy"] == "same-origin"
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
        assert "access-control-allow-origin" not in page.headers

    asyncio.run(visit())


def test_wrong_tokens_are_refused_and_a_few_failures_a_minute_are_enough() -> None:
    async def visit() -> None:
        door = Door()
        answer = await door.log_in("works")
        assert (answer.status_code, "has the role worker" in answer.text) == (403, True)
        for token in ("wrong", "", digest_of("looks"), "x" * 5000):
            answer = await door.log_in(token)
            assert (answer.status_code, "not known" in answer.text) == (403, True)
        answer = await door.log_in("looks")
        assert answer.status_code == 429
        assert "try again in 61 s" in answer.text
        # The visitor's own text comes before the proxy's.
        lies = "127.0.0.1, 192.0.2.7"
        assert (await door.log_in("looks", **{"x-forwarded-for": lies})).status_code == 303
        door.clock.now = 61.0
        assert (await door.log_in("looks")).status_code == 303

    asyncio.run(visit())


def test_a_form_with_more_fields_than_a_login_has_is_no_login() -> None:
    async def visit() -> None:
        form = {f"field-{number}": "x" for number in range(5)}
        answer = await Door().browser.post("/login", data=form | {"token": "looks"}, headers=HERE)
        assert answer.status_code == 403

    asyncio.run(visit())


def test_a_login_ends_by_time_by_leaving_and_with_its_token() -> None:
    async def visit(end: Callable[[Door], Any]) -> None:
        door = Door()
        await door.log_in("plays")
        assert (await door.browser.get("/")).status_code == 200
        session = door.browser.cookies["__Host-zerofleet"]
        socket = asyncio.create_task(door.open_socket(f"https://{HOST}"))
        await door.socket_open.wait()
        ending = asyncio.create_task(door.visitors.keep_ending(every=0.001))
        left = end(door)
        if left is not None:
            await left
        # Without this task the socket would stay open forever.
        assert (await asyncio.wait_for(socket, 30))[0]["type"] == "websocket.disconnect"
        ending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await ending
        door.browser.cookies.set("__Host-zerofleet", session)
        assert (await door.browser.get("/")).status_code == 401

    def by_time(door: Door) -> None:
        door.clock.now = SESSION_SECONDS

    def by_leaving(door: Door) -> Any:
        return door.browser.post("/logout", headers=HERE)

    def with_its_token(door: Door) -> None:
        door.tokens = door.tokens[:1]

    for end in (by_time, by_leaving, with_its_token):
        asyncio.run(visit(end))


def test_another_origin_is_refused_with_and_without_a_login() -> None:
    async def visit() -> None:
        door = Door()
        await door.log_in("plays")
        for origin in ("https://evil.example", "null", f"https://{HOST}.evil.example"):
            assert (await door.browser.get("/", headers={"origin": origin})).status_code == 403
            assert (await door.open_socket(origin))[0]["type"] == "websocket.close"
        assert (await door.open_socket(None))[0]["type"] == "websocket.close"
        assert (await door.browser.post("/")).status_code == 403
        assert door.came == []
        door = Door(login=False, host="127.0.0.1:8080", https=False)
        evil = {"origin": "http://evil.example"}
        assert (await door.browser.get("/", headers=evil)).status_code == 403
        assert (await door.browser.get("/", headers={"host": "evil.example"})).status_code == 403
        assert (await door.browser.get("/")).status_code == 200

    asyncio.run(visit())


@pytest.mark.parametrize(
    ("host", "is_ours"),
    [
        ("localhost", True),
        ("LOCALHOST:8080", True),
        ("127.0.0.1:8080", True),
        ("[::1]:8080", True),
        ("127.0.0.2:8080", True),
        ("unix:8080", False),
        ("unix-abstract:8080", False),
        ("dns:127.0.0.1", False),
        ("127.0.0.1,evil.example", False),
        ("127.0.0.1:8080:8080", False),
        ("localhost.evil.example:8080", False),
        ("0.0.0.0:8080", False),
        ("2130706433", False),
        ("", False),
    ],
)
def test_without_a_login_the_page_answers_to_local_names_alone(host: str, is_ours: bool) -> None:
    async def visit() -> None:
        door = Door(login=False, host="127.0.0.1:8080", https=False)
        answer = await door.browser.get("/", headers={"host": host})
        assert answer.status_code == (200 if is_ours else 403)

    asyncio.run(visit())


def test_the_scheme_of_an_origin_counts() -> None:
    async def posted(door: Door, origin: str, **headers: str) -> int:
        form = {"token": "looks"}
        answer = await door.browser.post("/login", data=form, headers={"origin": origin} | headers)
        return answer.status_code

    async def visit() -> None:
        door = Door()  # behind a proxy that ends TLS
        assert await posted(door, f"https://{HOST}") == 303
        assert await posted(door, f"http://{HOST}") == 403
        assert (await door.open_socket(f"http://{HOST}"))[0]["type"] == "websocket.close"
        proxied = {"x-forwarded-proto": "https, http"}
        assert await posted(door, f"http://{HOST}", **proxied) == 303
        assert await posted(door, f"https://{HOST}", **proxied) == 403
        # The port is forwarded to this machine.
        forwarded = {"host": "localhost:8080"}
        assert await posted(door, "http://localhost:8080", **forwarded) == 303
        plain = Door(https=False)
        assert await posted(plain, f"http://{HOST}") == 303
        assert await posted(plain, f"https://{HOST}") == 403

    asyncio.run(visit())


def test_a_page_elsewhere_may_link_here_but_not_load_a_page_into_itself() -> None:
    def headers(site: str, mode: str, dest: str) -> dict[str, str]:
        return {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}

    async def visit() -> None:
        door = Door(login=False, host="127.0.0.1:8080", https=False)
        for site in ("cross-site", "same-site"):
            for mode, dest in (("no-cors", "image"), ("navigate", "iframe"), ("cors", "empty")):
                answer = await door.browser.get("/play", headers=headers(site, mode, dest))
                assert answer.status_code == 403
        assert door.came == []
        for allowed in (
            headers("cross-site", "navigate", "document"),
            headers("same-origin", "no-cors", "script"),
            headers("none", "navigate", "document"),
        ):
            assert (await door.browser.get("/play", headers=allowed)).status_code == 200

    asyncio.run(visit())


def test_a_page_that_is_reached_by_https_asks_for_https_from_then_on() -> None:
    async def visit() -> None:
        name = "strict-transport-security"
        assert "max-age=" in (await Door().browser.get("/")).headers[name]
        assert name not in (await Door(https=False).browser.get("/")).headers
        # The header would force HTTPS for everything that a developer runs on localhost.
        assert name not in (await Door(host="localhost:8080").browser.get("/")).headers

    asyncio.run(visit())


def test_other_machines_are_served_with_tokens_and_not_in_plaintext() -> None:
    def settings(**more: Any) -> DashboardSettings:
        given: dict[str, Any] = {
            "run_file": "run.toml",
            "dashboard_address": "0.0.0.0:8080",
            **more,
        }
        return DashboardSettings(**given)

    tokens = {"token_roles_file": Path("roles.toml")}
    with pytest.raises(ConfigError, match="set ZEROFLEET_TOKEN_ROLES_FILE"):
        check_exposure(settings(allow_plaintext=True))
    with pytest.raises(ConfigError, match="set ZEROFLEET_DASHBOARD_TLS_FOLDER"):
        check_exposure(settings(**tokens))
    for way in ("allow_plaintext", "dashboard_behind_proxy"):
        check_exposure(settings(**tokens, **{way: True}))
    check_exposure(settings(**tokens, dashboard_tls_folder=Path("tls")))
    check_exposure(settings(dashboard_address="127.0.0.1:0"))


def test_a_port_in_use_is_named_as_by_all_services() -> None:
    """``zerofleet up`` recognizes by the first words that it may choose another port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"^cannot listen on {address}: "), bound(address):
            pytest.fail("it was bound")


def test_simulations_of_a_minute_are_used_up_and_come_back() -> None:
    clock = Clock()
    allowance = Allowance(600, clock)
    allowance.take(500)
    with pytest.raises(OverloadedError, match=r"100 are left: 200 are possible again in 11 s"):
        allowance.take(200)
    clock.now = 11.0
    allowance.take(200)
    allowance.give_back(200)
    with pytest.raises(OverloadedError, match="ask for 600 or fewer"):
        allowance.take(601)


def test_a_viewer_searches_nothing_and_others_wait_for_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ask() -> None:
        # No server is called: each search is refused before that.
        nobody = AsyncPlayer("127.0.0.1:1", timeout=0.01)
        everybody = Allowance(1_000, searches=0, whose="all visitors together have")
        viewer = Visitor("ann", "viewer", Allowance(600))
        client = Visitor("bob", "client", Allowance(600))
        with pytest.raises(PermissionDeniedError, match="the role viewer may only view"):
            await VisitorPlayer(nobody, viewer, everybody, 100).search()
        with pytest.raises(PermissionDeniedError, match="the role viewer may only view"):
            await anext(VisitorPlayer(nobody, viewer, everybody, 100).analyze())
        player = VisitorPlayer(nobody, client, everybody, 100)
        for _ in range(10):  # a search that was not made does not count
            with pytest.raises(OverloadedError, match="try again"):
                await player.search(simulations=600)
        with pytest.raises(OverloadedError, match="ask for 600 or fewer"):
            await player.search(simulations=601)
        everybody.take(500)
        with pytest.raises(OverloadedError, match="that all visitors together have, 500 are left"):
            await player.search(simulations=600)
        client.allowance.take(600)  # the simulations were returned

    monkeypatch.setattr("zerofleet.services.dashboard.visitors._WAIT_SECONDS", 0.001)
    asyncio.run(ask())


def test_of_a_search_that_fails_what_was_not_made_is_given_back() -> None:
    class Failing:
        async def analyze(self, *_: object, **__: object) -> AsyncIterator[Any]:
            yield SimpleNamespace(simulations=40)
            raise InferenceUnavailableError("gone")

    async def ask() -> None:
        everybody = Allowance(1_000, searches=1, whose="all visitors together have")
        visitor = Visitor("bob", "client", Allowance(600, Clock()))
        player = VisitorPlayer(cast("AsyncPlayer", Failing()), visitor, everybody, 100)
        with pytest.raises(InferenceUnavailableError):
            await player.search()
        visitor.allowance.take(560)
        with pytest.raises(OverloadedError, match="0 are left"):
            visitor.allowance.take(1)

    asyncio.run(ask())


class Endless:
    """Endless analyses; the clock moves by the given seconds before each table."""

    def __init__(self, clock: Clock, *tables: tuple[float, int]) -> None:
        self._clock = clock
        self._tables = tables
        self.begun = asyncio.Event()

    async def analyze(self, *_: object, **__: object) -> AsyncIterator[Any]:
        for seconds, simulations in self._tables:
            self._clock.now += seconds
            yield SimpleNamespace(simulations=simulations)
        self.begun.set()
        await asyncio.Event().wait()


def left_of(allowance: Allowance) -> int:
    """Take all remaining simulations and return their number."""
    taken = 0
    with contextlib.suppress(OverloadedError):
        for _ in range(allowance.per_minute):
            allowance.take(1)
            taken += 1
    return taken


async def stopped_after(
    seconds: float, endless: Endless, visitor: Visitor, everybody: Allowance
) -> None:
    """Start a search of 500 simulations and stop it this long after its last table."""
    player = VisitorPlayer(cast("AsyncPlayer", endless), visitor, everybody, 500)
    search = asyncio.create_task(player.search())
    await endless.begun.wait()
    endless._clock.now += seconds  # pyright: ignore[reportPrivateUsage]
    search.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search


def test_a_search_that_is_stopped_before_its_first_table_is_charged() -> None:
    async def ask() -> None:
        clock = Clock()
        everybody = Allowance(2_000, clock, searches=4)
        visitor = Visitor("bob", "client", Allowance(1_200, Clock()))
        # No rate is known yet, so all simulations may have been made.
        await stopped_after(0.08, Endless(clock), visitor, everybody)
        assert left_of(visitor.allowance) == 700

        # The rate is 100 simulations a second. The long time to the first table does not count.
        visitor = Visitor("bob", "client", Allowance(1_200, Clock()))
        await stopped_after(0, Endless(clock, (60.0, 200), (1.0, 300)), visitor, everybody)
        assert left_of(visitor.allowance) == 900

        visitor = Visitor("bob", "client", Allowance(1_200, Clock()))
        for _ in range(3):
            await stopped_after(0.5, Endless(clock), visitor, everybody)
        assert left_of(visitor.allowance) == 1_050
        # The estimate also applies after a table, and never exceeds the request.
        visitor = Visitor("bob", "client", Allowance(1_200, Clock()))
        await stopped_after(1, Endless(clock, (1.0, 10)), visitor, everybody)
        await stopped_after(60, Endless(clock, (1.0, 10)), visitor, everybody)
        assert left_of(visitor.allowance) == 1_200 - 110 - 500

    asyncio.run(ask())


def test_a_search_that_is_stopped_while_it_waits_for_its_turn_costs_nothing() -> None:
    async def ask() -> None:
        clock = Clock()
        everybody = Allowance(2_000, clock, searches=0)
        visitor = Visitor("bob", "client", Allowance(1_200, clock))
        player = VisitorPlayer(cast("AsyncPlayer", Endless(clock)), visitor, everybody, 500)
        search = asyncio.create_task(player.search())
        while left_of(everybody) == 2_000:  # until it has taken its simulations
            everybody.give_back(2_000)
            await asyncio.sleep(0)
        everybody.give_back(2_000 - 500)
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        assert left_of(visitor.allowance) == 1_200
        assert left_of(everybody) == 2_000

    asyncio.run(ask())


def test_one_token_has_a_share_of_the_simulations_however_often_it_logs_in() -> None:
    async def visit() -> None:
        door = Door()
        await door.log_in("plays")
        await door.browser.get("/")
        door.came[-1].allowance.take(600)
        door.browser.cookies.clear()
        await door.log_in("plays")
        await door.browser.get("/")
        with pytest.raises(OverloadedError, match="0 are left"):
            door.came[-1].allowance.take(1)
        await door.log_in("looks")
        await door.browser.get("/")
        door.came[-1].allowance.take(600)

    asyncio.run(visit())


def test_a_token_has_less_than_all_visitors_unless_the_operator_says_otherwise(
    tmp_path: Path,
) -> None:
    settings = DashboardSettings(run_file=tmp_path, dashboard_all_simulations=900)
    assert simulations_of_one(settings) == 900
    with_login = settings.model_copy(update={"token_roles_file": tmp_path})
    assert simulations_of_one(with_login) == 450
    chosen = with_login.model_copy(update={"dashboard_simulations": 70})
    assert simulations_of_one(chosen) == 70


def test_a_token_that_logs_in_again_and_again_ends_its_own_sessions_only() -> None:
    async def visit() -> None:
        door = Door()
        await door.log_in("plays")
        sessions = [door.visitors.enter("looks", "1.2.3.4") for _ in range(1_100)]
        alive = [door.visitors.find(session) is not None for session in sessions]
        assert alive.index(True) == 1_080
        assert all(alive[1_080:])
        assert (await door.browser.get("/")).status_code == 200

    asyncio.run(visit())
