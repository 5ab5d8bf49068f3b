"""Which variant is taken: what may be, what was measured, and what a measurement is worth."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import pytest

from zerofleet.models.fastest import fastest_model
from zerofleet.models.runtime import FAST_PRECISIONS
from zerofleet.prediction import ModelFile
from zerofleet.services.inference.loaded_models import LoadedModel, Precisions

ROWS = np.zeros((64, 4), np.uint8)
FILES = {
    name: ModelFile(1, name, sha256)
    for name, sha256 in (("fp32", "c"), ("int8", "a"), ("fp16", "b"))
}


class Clocked:
    """A session that takes as long as it is told, on a clock that only it moves."""

    def __init__(self, clock: list[float], seconds: list[float] | float) -> None:
        self._clock = clock
        self._seconds: Iterator[float] = iter(
            seconds if isinstance(seconds, list) else [seconds] * 100
        )
        self.rows = list[int]()

    def run(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.rows.append(len(observations))
        self._clock[0] += next(self._seconds)
        return np.zeros((len(observations), 1), np.float16), np.zeros(len(observations), np.float32)

    def paused(self) -> AbstractContextManager[object]:
        return nullcontext()


class Broken:
    def run(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        raise MemoryError("no room for it")

    def paused(self) -> AbstractContextManager[object]:
        return nullcontext()


class Answering(Clocked):
    """One that clients ask all the time, unless it is paused."""

    is_paused = False

    @contextmanager
    def paused(self) -> Generator[None]:
        self.is_paused = True
        yield
        self.is_paused = False


class Beside(Clocked):
    """One on the same device, which waits for the other's batch where there is one."""

    def __init__(self, clock: list[float], seconds: float, answering: list[Answering]) -> None:
        super().__init__(clock, seconds)
        self._answering = answering

    def run(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not all(each.is_paused for each in self._answering):
            self._clock[0] += 1.0
        return super().run(observations)


def measured(**seconds: list[float] | float) -> str:
    """Return the precision that is chosen if each one takes this long."""
    clock = [0.0]
    models = [
        LoadedModel(ModelFile(1, name, ""), (Clocked(clock, each),))
        for name, each in seconds.items()
    ]
    return fastest_model(models, ROWS, lambda: clock[0]).precision


@pytest.mark.parametrize(
    ("fp32", "int8", "taken"),
    [
        (1.0, 0.3, "int8"),
        (1.16, 1.0, "int8"),
        (1.14, 1.0, "fp32"),  # not worth its rounding
        (1.0, 1.0, "fp32"),
        (1.0, 4.0, "fp32"),
    ],
)
def test_fp32_stays_unless_another_is_clearly_faster(fp32: float, int8: float, taken: str) -> None:
    assert measured(fp32=fp32, int8=int8) == taken


def test_what_answers_meanwhile_makes_no_other_slow() -> None:
    clock = [0.0]
    answering = [Answering(clock, 1.0) for _ in range(2)]
    models = [
        LoadedModel(ModelFile(1, "fp32", ""), answering),
        LoadedModel(ModelFile(1, "fp16", ""), (Beside(clock, 0.3, answering),)),
    ]
    assert fastest_model(models, ROWS, lambda: clock[0]).precision == "fp16"
    assert not any(each.is_paused for each in answering)


def test_of_several_the_fastest() -> None:
    assert measured(fp32=1.0, int8=0.5, fp16=0.4) == "fp16"


def test_what_only_disturbed_a_run_does_not_count() -> None:
    disturbed = [9.0, 8.0, 0.3, 7.0, 6.0, 9.0]
    assert measured(fp32=[1.0] * 6, int8=disturbed) == "int8"
    assert measured(fp32=disturbed, int8=[0.28] * 6) == "fp32"


def test_the_first_run_warms_up_and_does_not_count() -> None:
    assert measured(fp32=[0.1, *[1.0] * 5], int8=[5.0, *[0.5] * 5]) == "int8"


def test_a_variant_that_does_not_run_is_not_taken() -> None:
    clock = [0.0]
    models = [
        LoadedModel(ModelFile(1, "fp32", ""), (Clocked(clock, 1.0),)),
        LoadedModel(ModelFile(1, "int8", ""), (Broken(),)),
    ]
    assert fastest_model(models, ROWS, lambda: clock[0]) is models[0]


def test_auto_takes_what_the_provider_runs() -> None:
    assert Precisions("auto", FAST_PRECISIONS["cpu"]).usable(FILES) == {"int8": FILES["int8"]}
    assert Precisions("auto", FAST_PRECISIONS["openvino"]).usable(FILES) == {"int8": FILES["int8"]}
    assert Precisions("auto", FAST_PRECISIONS["cuda"]).usable(FILES) == {"fp16": FILES["fp16"]}
    assert Precisions("auto", FAST_PRECISIONS["tensorrt"]).usable(FILES) == {"fp16": FILES["fp16"]}


def test_auto_measures_each_set_once() -> None:
    asked = list[list[str]]()

    def fastest(models: list[LoadedModel]) -> LoadedModel:
        asked.append([model.precision for model in models])
        return models[-1]

    precisions = Precisions("auto", ("int8", "fp16"), fastest)  # type: ignore[arg-type]
    models = [LoadedModel(ModelFile(1, name, ""), ()) for name in ("fp32", "int8", "fp16")]
    assert precisions.settled({}) == "fp32"
    assert precisions.settled(("int8", "fp16")) is None
    assert precisions.settle(models) == "fp16"
    assert precisions.settled(("int8", "fp16")) == "fp16"
    assert precisions.settled(("int8",)) is None
    assert precisions.settle(models[:2]) == "int8"
    assert precisions.settled(("int8",)) == "int8"
    assert asked == [["fp32", "int8", "fp16"], ["fp32", "int8"]]


def test_a_named_precision_is_taken_unmeasured() -> None:
    precisions = Precisions("fp16")
    usable = precisions.usable(FILES)
    assert usable == {"fp16": FILES["fp16"]}
    assert precisions.settled(usable) == "fp16"


def test_fp32_looks_nothing_up() -> None:
    assert Precisions("fp32").only_fp32
    assert Precisions("fp32").usable(FILES) == {}
    assert not Precisions("auto").only_fp32
