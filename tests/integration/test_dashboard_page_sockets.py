"""Pages that are fetched and events that no page sends, over HTTP and WebSockets, as a visitor."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import socketio

from tests.support.fork_server import Fork, preload
from zerofleet.database import Database
from zerofleet.local.processes import free_port
from zerofleet.secrets.tokens import add_token
from zerofleet.services.dashboard.gate import MOST_PAGES
from zerofleet.services.dashboard.sql_queries import KeptAnswers, QueryAnswer, add_answer_routes
from zerofleet.services.dashboard.toolkit import app
from zerofleet.services.dashboard.visitors import Allowance, Visitor

preload("zerofleet.services.dashboard.service")


class Visit:
    """One login at a dashboard."""

    def __init__(self, base: str, process: Fork) -> None:
        self.base = base
        self.process = process
        self.http = httpx.AsyncClient(base_url=base, timeout=120, headers={"origin": base})
        self._sockets: list[socketio.AsyncClient] = []

    async def fetch(self, path: str) -> str:
        """Get a page; returns the id of it."""
        answer = await self.http.get(path)
        assert answer.status_code == 200, answer.text
        [found] = set(re.findall(r"client_id['\"]: ['\"]([0-9a-f-]{36})", answer.text))
        return found

    async def join(self, page: str) -> Any:
        """Open the socket of a page; None if it is gone."""
        socket = socketio.AsyncClient(reconnection=False)
        cookies = "; ".join(f"{name}={value}" for name, value in self.http.cookies.items())
        query = f"client_id={page}&tab_id=t&document_id=d&implicit_handshake=true"
        try:
            await socket.connect(
                f"{self.base}?{query}&next_message_id=0",
                headers={"Cookie": cookies, "Origin": self.base},
                socketio_path="/_nicegui_ws/socket.io",
                transports=["websocket"],
            )
        except socketio.exceptions.ConnectionError:
            return None
        self._sockets.append(socket)
        return socket

    async def close(self) -> None:
        for socket in self._sockets:
            await socket.disconnect()
        await self.http.aclose()


@pytest.fixture
async def visit(
    tmp_path: Path, database: Database, role_url: Callable[[str], str], valkey_url: str, until: Any
) -> AsyncIterator[Visit]:
    """A viewer at a dashboard of the run ``test``."""
    run_file, tokens = tmp_path / "run.toml", tmp_path / "roles.toml"
    run_file.write_text('name = "test"\ngame = "tic_tac_toe"\n')
    token = add_token(tokens, "ann", "viewer")
    address = f"127.0.0.1:{free_port()}"
    environment = {
        "ZEROFLEET_DATABASE_URL": role_url("console"),
        "ZEROFLEET_REDIS_URL": valkey_url,
        "ZEROFLEET_DASHBOARD_ADDRESS": address,
        "ZEROFLEET_INFERENCE_ADDRESS": "127.0.0.1:1",
        "ZEROFLEET_TOKEN_ROLES_FILE": str(tokens),
    }
    process = Fork(
        "zerofleet.services.dashboard", [run_file], environment, tmp_path / "dashboard.log"
    )
    try:
        await until(lambda: '"serving"' in process.output() or process.poll() is not None)
        visit = Visit(f"http://{address}", process)
        answer = await visit.http.post("/login", data={"token": token, "to": "/"})
        assert answer.status_code == 303, process.output()
        yield visit
        await visit.close()
    finally:
        process.kill()
        process.wait()


async def test_a_login_has_a_limited_number_of_pages(visit: Visit, until: Any) -> None:
    first = await visit.fetch("/fleet")
    socket = await visit.join(first)
    scripts: list[str] = []
    socket.on("run_javascript", lambda message: scripts.append(message["code"]))
    fetched = [await visit.fetch("/fleet") for _ in range(MOST_PAGES + 2)]
    await until(lambda: not socket.connected)
    assert any("This page was closed" in code for code in scripts)
    joined = [await visit.join(page) is not None for page in fetched]
    assert joined == [False] * 2 + [True] * MOST_PAGES


async def test_what_a_visitor_sends_is_not_in_the_log(visit: Visit, until: Any) -> None:
    page = await visit.fetch("/sql")
    socket = await visit.join(page)
    before = len(visit.process.output().splitlines())
    for level in ("error", "info"):
        await socket.emit("log", {"client_id": page, "level": level, "message": "FORGED" * 1000})
    for message in ({"client_id": page, "id": 1, "args": ["{"]}, {"x": "y" * 9000}, ["z"], None):
        for event in ("event", "ack", "javascript_response", "unknown"):
            for _ in range(5):
                await socket.emit(event, message)
    # The server takes them in their order: the answer to the last one comes after all.
    assert await socket.call("handshake", {"client_id": "none"}, timeout=120) is False
    await visit.fetch("/sql")
    lines = [json.loads(line) for line in visit.process.output().splitlines()[before:]]
    assert 0 < len(lines) < 40
    assert all(len(json.dumps(line)) < 1500 for line in lines)
    assert "FORGED" not in visit.process.output()
    assert "Traceback" not in visit.process.output()


async def test_an_answer_is_served_to_its_own_login_one_file_at_a_time() -> None:
    ann, bob = (Visitor(name, "viewer", Allowance(1)) for name in ("ann", "bob"))
    answers = KeptAnswers()
    answer = QueryAnswer(["a", "b"], [True, False], [["1", "x"], ["2", None]], "", 0, 0.0)
    stored = answers.keep(answer, [0, 1], 1, ann)
    add_answer_routes(lambda: answers)

    async def get(path: str, visitor: Visitor) -> httpx.Response:
        async def inside(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "state": {"visitor": visitor}}, receive, send)

        transport = httpx.ASGITransport(inside)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return await client.get(path)

    csv = f"/sql/answer.csv?key={stored.key}"
    assert (await get(csv, ann)).text == "a,b\n1,x\n2,\n"
    assert (await get(csv, ann)).headers["content-disposition"].startswith("attachment")
    assert (await get(f"/sql/rows?key={stored.key}&page=1", ann)).json() == [["2", None]]
    for path, visitor in (
        (csv, bob),
        (f"/sql/rows?key={stored.key}&page=0", bob),
        (f"/sql/rows?key={stored.key}&page=2", ann),
        (f"/sql/rows?key={stored.key}&page=-1", ann),
        ("/sql/answer.csv?key=x", ann),
    ):
        assert (await get(path, visitor)).status_code == 404
    stored.is_downloading = True
    assert (await get(csv, ann)).status_code == 429
    answers.forget(stored)
    assert (await get(csv, ann)).status_code == 404


async def test_an_answer_needs_a_login(visit: Visit) -> None:
    assert (await visit.http.get("/sql/answer.csv?key=x")).status_code == 404
    visit.http.cookies.clear()
    script = {"sec-fetch-mode": "cors"}
    for path in ("/sql/answer.csv?key=x", "/sql/rows?key=x&page=0"):
        assert (await visit.http.get(path, headers=script)).status_code == 401
