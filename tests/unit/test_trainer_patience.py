"""Waiting for a store: said each time, ended by the answer or by SIGTERM."""

from threading import Event

import pytest

from services.trainer.patience import Patience, StoppedError
from zerofleet.errors import StoreUnavailableError


def test_an_answer_comes_back_at_once() -> None:
    said: list[str] = []
    assert Patience(Event(), lambda *words: said.extend(words))("Postgres", lambda: 7) == 7
    assert said == []


def test_repeats_until_the_store_answers_and_says_so() -> None:
    said: list[tuple[str, ...]] = []
    answers = iter([None, None, "rows"])

    def call() -> str:
        answer = next(answers)
        if answer is None:
            raise StoreUnavailableError("away")
        return answer

    assert Patience(Event(), lambda *words: said.append(words))("Postgres", call) == "rows"
    assert said == [("Postgres",)] * 2


def test_stop_ends_the_wait() -> None:
    stop = Event()

    def call() -> None:
        stop.set()
        raise StoreUnavailableError("away")

    with pytest.raises(StoppedError):
        Patience(stop, lambda *_: None)("Postgres", call)


def test_other_errors_are_not_waited_out() -> None:
    def call() -> None:
        raise ValueError("a mistake")

    with pytest.raises(ValueError, match="a mistake"):
        Patience(Event(), lambda *_: None)("Postgres", call)
