"""Waiting for another service: longer each time, said, ended by the answer or by SIGTERM."""

import asyncio
from collections.abc import Callable
from threading import Event

import numpy as np
import pytest
from numpy.typing import NDArray

from zerofleet.errors import InferenceUnavailableError, StoreFullError, StoreUnavailableError
from zerofleet.prediction import Prediction
from zerofleet.waiting import FIRST_MODEL, Backoff, PatientPredictor, StoppedError, Waits


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
        waits.retry(stop, failing(1, StoreFullError("the disk is full")))
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
    answer = waits.retry(Event(), failing(2, StoreUnavailableError("away")))
    assert answer == "rows"
    assert turns == ["", "Postgres"]  # before each of the two waits
    assert not waits


def test_a_disk_that_refuses_is_said_with_its_reason() -> None:
    said: list[str] = []
    waits = Waits(lambda: said.append(str(waits)))
    full = OSError(28, "No space left on device")
    assert waits.retry(Event(), failing(2, full), "the folder", OSError) == "rows"
    assert said[-1] == "the folder: No space left on device"


def test_a_process_is_blocked_once_it_has_waited_for_ten_seconds() -> None:
    clock = [100.0]
    waits = Waits(clock=lambda: clock[0])
    assert waits.status == "running"
    waits.begin("engine", "room in the queue of inference", "running")
    assert waits.status == "running"
    waits.begin("evaluator", "a new model", "idle")
    clock[0] += 60
    assert waits.status == "idle"
    waits.begin("store", "Postgres")
    assert waits.status == "idle"
    clock[0] += 6
    waits.begin("store", "room on the disk of Postgres")
    clock[0] += 6
    assert waits.status == "blocked"
    waits.end("store")
    assert waits.status == "idle"


class NewRun:
    """Inference that has no model yet, then cannot be reached, then answers."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._answers: list[Exception | None] = [
            InferenceUnavailableError(f"waiting for {FIRST_MODEL}"),
            InferenceUnavailableError("UNAVAILABLE: no connection"),
            None,
        ]

    async def predict(self, observations: NDArray[np.uint8]) -> Prediction:
        self._look()
        answer = self._answers.pop(0)
        if answer is not None:
            raise answer
        return Prediction(np.zeros((1, 1), np.float32), np.zeros(1, np.float32), 1)


async def test_who_asks_inference_before_the_first_model_is_idle() -> None:
    """Inference answers, so it is not what is missing."""
    clock = [100.0]
    waits = Waits(clock=lambda: clock[0])
    seen: list[tuple[str, str]] = []

    def look() -> None:
        clock[0] += 60
        seen.append((str(waits), waits.status))

    predictor = PatientPredictor(NewRun(look), waits, "engine 0", "version 3")
    await predictor.predict(np.zeros((1, 1), np.uint8))
    assert seen == [("", "running"), (FIRST_MODEL, "idle"), ("inference", "blocked")]
    assert not waits


def test_stop_ends_the_wait_of_a_thread() -> None:
    stop, waits = Event(), Waits()
    stop.set()
    with pytest.raises(StoppedError):
        waits.retry(stop, failing(1, StoreUnavailableError("away")))
    assert str(waits) == "Postgres"


def test_an_answer_comes_even_after_stop() -> None:
    stop = Event()
    stop.set()
    assert Waits().retry(stop, failing(0, OSError())) == "rows"


def test_other_errors_are_not_waited_out() -> None:
    with pytest.raises(ValueError, match="a mistake"):
        Waits().retry(Event(), failing(1, ValueError("a mistake")))


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
