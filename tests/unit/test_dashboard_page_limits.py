"""How many pages may be open, what their sockets may send, and what of it is logged."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any, cast

import pytest

from zerofleet.services.dashboard import gate
from zerofleet.services.dashboard.gate import (
    MOST_EVENT_CHARACTERS,
    MOST_PAGES,
    MOST_UNREAD,
    OneLineASecond,
    PageLimits,
    limit_events,
)
from zerofleet.services.dashboard.sql_page import QueryEditor
from zerofleet.services.dashboard.toolkit import Client, events, sio, ui
from zerofleet.services.dashboard.visitors import Allowance, Visitor


@pytest.fixture(autouse=True)
def no_pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """NiceGUI keeps all of this in globals."""
    monkeypatch.setattr(sio, "handlers", {"/": dict(sio.handlers["/"])})
    monkeypatch.setattr(sio, "packet_class", sio.packet_class)
    monkeypatch.setattr(sio.eio, "sockets", {})
    yield
    for client in list(Client.instances.values()):
        client.delete()


def visitor(token: str = "t") -> Visitor:
    return Visitor("ann", "viewer", Allowance(1), token)


def fetched() -> Client:
    """A page that no browser has joined yet."""
    return Client(ui.page("/x"))


def join(client: Client) -> None:
    client.tab_id = "tab"
    for handler in client.connect_handlers:
        client.safe_invoke(handler)


def is_open(client: Client) -> bool:
    return client.id in Client.instances


async def settle(limits: PageLimits) -> None:
    """Wait until the pages that must go are gone."""
    await asyncio.gather(*limits._closing)


async def test_the_oldest_page_of_a_login_goes_and_others_stay() -> None:
    limits, ann, bob = PageLimits(), visitor(), visitor()
    other = fetched()
    limits.admit(other, bob)
    pages = [fetched() for _ in range(MOST_PAGES + 3)]
    for page in pages:
        limits.admit(page, ann)
    await settle(limits)
    assert [is_open(page) for page in pages] == [False] * 3 + [True] * MOST_PAGES
    assert is_open(other)
    pages[-1].delete()  # makes room
    limits.admit(fetched(), ann)
    await settle(limits)
    assert is_open(pages[3])


async def test_a_page_whose_browser_has_left_goes_first() -> None:
    limits, ann = PageLimits(), visitor()
    pages = [fetched() for _ in range(MOST_PAGES)]
    for page in pages:
        limits.admit(page, ann)
        join(page)
    pages[7].tab_id = None
    limits.admit(fetched(), ann)
    await settle(limits)
    assert [number for number, page in enumerate(pages) if not is_open(page)] == [7]


async def test_of_all_pages_the_token_with_the_most_loses_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "MOST_PAGES_IN_ALL", 6)
    limits, alone = PageLimits(), fetched()
    limits.admit(alone, visitor("one"))
    many = [fetched() for _ in range(10)]
    for page in many:
        limits.admit(page, visitor("many"))  # a login each
    await settle(limits)
    assert is_open(alone)
    assert [is_open(page) for page in many] == [False] * 5 + [True] * 5


async def test_pages_and_sockets_without_a_browser_are_closed(
    monkeypatch: pytest.MonkeyPatch, until: Any
) -> None:
    from engineio.async_socket import AsyncSocket

    monkeypatch.setattr(gate, "JOIN_SECONDS", 0.0)
    monkeypatch.setattr(gate, "_SWEEP_SECONDS", 0.001)
    joined, left = fetched(), fetched()
    join(joined)
    sockets = {key: AsyncSocket(sio.eio, key) for key in ("shown", "unread", "alone")}
    sio.eio.sockets.update(sockets)
    monkeypatch.setattr(
        sio.manager,
        "get_participants",
        lambda _, room: [("s", "shown"), ("u", "unread")] if room == joined.id else [],
    )
    for key, number in (("shown", MOST_UNREAD), ("unread", MOST_UNREAD + 1)):
        for _ in range(number):
            sockets[key].queue.put_nowait("x")
    keeping = asyncio.create_task(PageLimits().keep_closing())
    await until(lambda: not is_open(left) and sockets["alone"].closed)
    keeping.cancel()
    assert is_open(joined)
    assert {key: each.closed for key, each in sockets.items()} == {
        "shown": False,
        "unread": True,
        "alone": True,
    }
    assert (sockets["shown"].queue.qsize(), sockets["unread"].queue.qsize()) == (MOST_UNREAD, 1)


def test_an_event_is_short_unless_it_is_an_editors() -> None:
    limit_events()
    client = fetched()
    join(client)
    taken: list[object] = []
    with client:
        field = ui.input(on_change=lambda event: taken.append(event.value))
        editor = ui.codemirror("")

    def send(element: Any, args: object) -> None:
        [listener] = [
            each.id for each in element._event_listeners.values() if each.type.startswith("update:")
        ]
        sio.handlers["/"]["event"](
            "sid",
            {
                "client_id": client.id,
                "id": element.id,
                "listener_id": listener,
                "args": [json.dumps(args)],
            },
        )

    send(field, "x" * 1000)
    with pytest.raises(ValueError, match="the event has"):
        send(field, "x" * MOST_EVENT_CHARACTERS)
    assert [len(str(value)) for value in taken] == [1000]
    send(editor, {"sections": [0, 50_000], "inserted": [["x" * 50_000]]})
    assert len(editor.value) == 50_000
    assert "log" not in sio.handlers["/"]


def test_packets_with_attachments_are_refused() -> None:
    limit_events()
    limit_events()  # NiceGUI's server is one for the whole process
    packet = sio.packet_class(encoded_packet='2["event",{}]')
    assert packet.data == ["event", {}]
    for text in ('51-["event",{}]', '599999-["event",{}]', "61-[]"):
        with pytest.raises(ValueError, match="no binary packets"):
            sio.packet_class(encoded_packet=text)


@pytest.mark.parametrize(
    "change",
    [
        {"sections": [1000, -1, -1000, 0] * 100, "inserted": []},
        {"sections": [2000, -1], "inserted": []},
        {"sections": [1000, -2], "inserted": []},
        {"sections": [1000, 5], "inserted": [["much longer"]]},
        {"sections": [1000, -1, 0, 99_001], "inserted": [[""], ["y" * 99_001]]},
        {"sections": [1000, -1] + [0, -1] * 20_000, "inserted": []},
        {"sections": [1000, True], "inserted": [["x"]]},
        {"sections": [1000], "inserted": []},
        {"sections": "x", "inserted": 5},
        {"sections": [1000, 1], "inserted": [[1]]},
        [],
        None,
    ],
)
def test_an_editor_takes_no_change_that_does_not_fit(change: object) -> None:
    client = fetched()
    with client:
        editor = QueryEditor("x" * 1000)
        event = events.GenericEventArguments(sender=editor, client=client, args=change)
        assert editor._event_args_to_value(event) == "x" * 1000


def test_an_editor_takes_a_persons_changes() -> None:
    client = fetched()
    with client:
        editor = QueryEditor("SELECT 😀 1")

        def change(sections: list[int], inserted: list[list[str]]) -> str:
            args = cast("Any", {"sections": sections, "inserted": inserted})
            event = events.GenericEventArguments(sender=editor, client=client, args=args)
            editor._send_update_on_value_change = False  # as NiceGUI does meanwhile
            editor.value = editor._event_args_to_value(event)
            return editor.value

        assert change([7, -1, 2, 3, 2, -1], [[""], ["a", "é"]]) == "SELECT a\né 1"
        assert change([12, 0], []) == ""
        assert change([0, 100_000], [["x" * 100_000]]) == "x" * 100_000


def test_of_wrong_events_one_short_line_a_second_is_logged() -> None:
    now = 0.0
    lines = OneLineASecond(lambda: now)

    def logged(error: Exception) -> str | None:
        try:
            raise error
        except ValueError as raised:
            caught = (type(raised), raised, raised.__traceback__)
        record = logging.LogRecord("n", logging.ERROR, "p", 1, "an\nevent", None, caught)
        if not lines.filter(record):
            return None
        assert (record.exc_info, record.exc_text, record.stack_info) == (None, None, None)
        return record.getMessage()

    first = logged(ValueError("wrong\x1b[2J" + "x" * 900_000))
    assert first is not None
    assert first.startswith("an: ValueError: wrong\\x1b[2Jxxx")
    assert first.endswith(")")
    assert "test_dashboard_page_limits.py:" in first
    assert len(first) < 1000
    assert [logged(ValueError("again")) for _ in range(3)] == [None] * 3
    now = 1.0
    assert (logged(ValueError("later")) or "").endswith("; 3 more were left out")
