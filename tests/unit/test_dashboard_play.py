"""Playing on the page: the rules of a slow game hold up no other page."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from examples.domineering import Domineering
from zerofleet.client import PlayerDescription
from zerofleet.config import run_from_values
from zerofleet.games import parse_actions
from zerofleet.games.game_board import board_of
from zerofleet.games.notation import numbered_moves
from zerofleet.local.processes import free_port
from zerofleet.services.dashboard.board import Board
from zerofleet.services.dashboard.compare_page import CompareView
from zerofleet.services.dashboard.frame import Frame, Visit
from zerofleet.services.dashboard.play_page import PlayView
from zerofleet.services.dashboard.settings import DashboardSettings
from zerofleet.services.dashboard.sources import Sources
from zerofleet.services.dashboard.toolkit import Client, Element, events, ui
from zerofleet.services.dashboard.visitors import Allowance, Visitor

Until = Callable[[Callable[[], bool]], Awaitable[None]]


class WatchedGame(Domineering):
    """Notes the threads in which its rules are asked."""

    threads: ClassVar[set[int]] = set()

    def __init__(self) -> None:
        self.threads.add(threading.get_ident())
        super().__init__()

    def legal_actions(self) -> list[int]:
        self.threads.add(threading.get_ident())
        return super().legal_actions()

    def apply(self, action: int) -> None:
        self.threads.add(threading.get_ident())
        super().apply(action)


GAME = f"python:{__name__}:WatchedGame"
LINE = "b3b4 c1d1 a1a2"
DESCRIBED = PlayerDescription(GAME, 60, (2, 6, 6), "test", 1, (1,), 32, 1000, 1000)


@pytest.fixture
async def sources(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Sources]:
    """Sources none of which is up, in the loop that NiceGUI serves pages in."""
    monkeypatch.setattr("nicegui.core.loop", asyncio.get_running_loop())
    nowhere = f"127.0.0.1:{free_port()}"
    settings = DashboardSettings(
        run_file=Path("run.toml"),
        database_url=f"postgresql://{nowhere}/nothing",
        redis_url=f"redis://{nowhere}/0",
        inference_address=nowhere,
    )
    run = run_from_values({"name": "test", "game": GAME})
    async with Sources(run, settings) as opened:
        yield opened


async def visit(sources: Sources, **parameters: str) -> Visit:
    """A visit of the page that is built; the board is known, and nothing is noted yet."""
    visitor = Visitor("ann", "client", Allowance(1000), "t")
    notes = ui.element("div")
    await asyncio.to_thread(board_of, GAME)
    WatchedGame.threads.clear()
    return Visit(sources.of(visitor), sources.run, parameters, Frame(sources), notes)


def fire(element: Element, name: str, args: Any = None) -> None:
    """Do what the browser does when a visitor acts."""
    for listener in element._event_listeners.values():
        if listener.type == name:
            given = events.GenericEventArguments(sender=element, client=element.client, args=args)
            events.handle_event(listener.handler, given)


def click(client: Client, words: str) -> None:
    for each in list(client.elements.values()):
        if isinstance(each, ui.button) and each.text == words:
            fire(each, "click")


def says(client: Client, words: str) -> Callable[[], bool]:
    """Whether a label of the page has this text."""
    return lambda: any(
        isinstance(each, ui.label) and each.text == words for each in client.elements.values()
    )


def can_play(client: Client) -> Callable[[], bool]:
    """Whether each board of the page awaits an action."""
    boards = [each for each in client.elements.values() if isinstance(each, Board)]
    return lambda: all(board.props["playable"] for board in boards)


def play(client: Client, word: str) -> None:
    """Choose an action on the first board."""
    board = next(each for each in client.elements.values() if isinstance(each, Board))
    [action] = [each.action for each in board.position.actions if each.text == word]
    fire(board, "play", [action])


async def test_a_game_is_played_without_its_rules_on_the_event_loop(
    sources: Sources, until: Until
) -> None:
    with Client(ui.page("/play")) as client:
        opened = await visit(sources, side="both")
        await PlayView(opened, board_of(GAME), DESCRIBED, []).open()
        for begun in (1, 2, 3):
            words = LINE.split()[:begun]
            play(client, words[-1])
            assert not can_play(client)()  # until the next position is there
            await until(says(client, numbered_moves(GAME, words)))
            await until(can_play(client))
        click(client, "Undo")
        await until(says(client, numbered_moves(GAME, ["b3b4", "c1d1"])))
        click(client, "Resign")
        await until(says(client, "Horizontal won by resignation."))
        click(client, "New game")
        await until(says(client, "Vertical is to play."))
    assert WatchedGame.threads
    assert threading.get_ident() not in WatchedGame.threads


async def test_undo_goes_back_to_the_visitors_last_decision(sources: Sources, until: Until) -> None:
    with Client(ui.page("/play")) as client:
        opened = await visit(sources, side="second")
        actions = await asyncio.to_thread(parse_actions, GAME, LINE)
        await PlayView(opened, board_of(GAME), DESCRIBED, actions).open()
        assert says(client, numbered_moves(GAME, LINE.split()))()
        assert says(client, "Your move.")()
        click(client, "Undo")
        await until(says(client, "1.\N{NO-BREAK SPACE}b3b4"))
        click(client, "Undo")  # no decision of the visitor came earlier
        await until(can_play(client))
        assert says(client, "1.\N{NO-BREAK SPACE}b3b4")()
        click(client, "Resign")
        await until(says(client, "The model won by resignation."))
    assert threading.get_ident() not in WatchedGame.threads


async def test_models_are_compared_without_rules_on_the_event_loop(
    sources: Sources, until: Until
) -> None:
    with Client(ui.page("/compare")) as client:
        opened = await visit(sources)
        await CompareView(opened, board_of(GAME), DESCRIBED, []).open()
        assert says(client, "Start position")()
        play(client, "b3b4")
        await until(says(client, "1.\N{NO-BREAK SPACE}b3b4"))
        await until(can_play(client))
        click(client, "Back")
        await until(says(client, "Start position"))
        await until(can_play(client))
    assert WatchedGame.threads
    assert threading.get_ident() not in WatchedGame.threads
