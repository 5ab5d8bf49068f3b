"""Waiting for another service: longer each time, said, ended by the answer or by SIGTERM."""

import asyncio
from collections.abc import Callable
from threading import Event

import pytest

from zerofleet.errors import StoreFullError, StoreUnavailableError
from zerofleet.waiting import Backoff, StoppedError, Waits


def failing(times: int, error: Exception) -> Callable[[], str]:
    """A call that fails so often, and then answers."""
    left = [error] * times

    def call() -> str:
        if left:
            raise left.pop()
        return "rows"

    return call


def test_room_on_a_disk_is_waited_for_by_name() -> None:
    waits, stop = Waits(), Event()
    stop.set()
    with pytest.raises(StoppedError):
        waits.insist(stop, failing(1, StoreFullError("the disk is full")))
    assert str(waits) == "room on the disk of Postgres"


def test_delays_double_up_to_the_most_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(1.0, 60.0)
    for bound in (1, 2, 4, 8, 16, 32, 60, 60):
        assert bound / 2 <= backoff.delay() <= bound
    backoff.reset()
    assert backoff.delay() <= 1.0


def test_a_thread_waits_until_the_store_answers_and_says_so() -> None:
    turns: list[str] = []
    waits = Waits(lambda: turns.append(str(waits)))
    answer = waits.insist(Event(), failing(2, StoreUnavailableError("away")))
    assert answer == "rows"
    assert turns == ["", "Postgres"]  # before each of the two waits
    assert not waits


def test_a_disk_that_refuses_is_said_with_its_reason() -> None:
    said: list[str] = []
    waits = Waits(lambda: said.append(str(waits)))
    full = OSError(28, "No space left on device")
    assert waits.insist(Event(), failing(2, full), "the folder", OSError) == "rows"
    assert said[-1] == "the folder: No space left on device"


def test_stop_ends_the_wait_of_a_thread() -> None:
    stop, waits = Event(), Waits()
    stop.set()
    with pytest.raises(StoppedError):
        waits.insist(stop, failing(1, StoreUnavailableError("away")))
    assert str(waits) == "Postgres"


def test_an_answer_comes_even_after_stop() -> None:
    stop = Event()
    stop.set()
    assert Waits().insist(stop, failing(0, OSError())) == "rows"


def test_other_errors_are_not_waited_out() -> None:
    with pytest.raises(ValueError, match="a mistake"):
        Waits().insist(Event(), failing(1, ValueError("a mistake")))


async def test_one_answer_ends_the_wait_of_no_other_coroutine() -> None:
    waits, answers = Waits(), asyncio.Event()

    def call() -> str:
        if answers.is_set():
            return "late"
        raise StoreUnavailableError("away")

    async with asyncio.TaskGroup() as group:
        cancelled = group.create_task(waits.ask_store(failing(10**6, StoreUnavailableError(""))))
        late = group.create_task(waits.ask_store(call))
        assert await waits.ask_store(failing(1, StoreUnavailableError("away"))) == "rows"
        assert str(waits) == "Postgres"
        cancelled.cancel()
        answers.set()
        assert await late == "late"
    assert not waits


async def test_a_coroutine_waits_until_the_store_answers() -> None:
    waits = Waits()
    assert await waits.ask_store(failing(2, StoreUnavailableError("away"))) == "rows"
    assert not waits
