"""Where a CPU would add products of bytes inexactly, ONNX Runtime is asked for exact sums."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zerofleet.config import NetworkSection
from zerofleet.games import spec
from zerofleet.learning import export_onnx, make_network
from zerofleet.learning.export import random_positions
from zerofleet.models import runtime
from zerofleet.models.quantize import quantize_int8
from zerofleet.models.session import ModelSession

SPEC = spec("connect_four")
OPTION = "session.x64quantprecision"


@pytest.fixture(autouse=True)
def asked_again() -> Iterator[None]:
    ask = runtime._sums_bytes_exactly
    ask.cache_clear()
    yield
    ask.cache_clear()


def a_session() -> ModelSession:
    network = make_network(SPEC, NetworkSection(blocks=2, channels=16), seed=1)
    positions = random_positions(SPEC, 64, np.random.default_rng(1))
    fp32 = export_onnx(network, SPEC.observation_bytes, {})
    return ModelSession(quantize_int8(fp32, positions), SPEC)


def asks(session: ModelSession) -> bool:
    runtime_session: Any = session._session
    try:
        entry = runtime_session.get_session_options().get_session_config_entry(OPTION)
    except RuntimeError:
        return False
    return entry == "1"


@pytest.mark.parametrize(
    ("flags", "exact"),
    [
        ("fpu avx2 fma", False),
        ("fpu avx512_vnni", True),
        ("fpu avx2 avx_vnni", True),
        (None, False),
    ],
)
def test_it_is_asked_for_where_the_cpu_has_no_vnni(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str | None, exact: bool
) -> None:
    path = tmp_path / "cpuinfo"
    if flags is not None:
        path.write_text(f"model name\t: a CPU\nflags\t\t: {flags}\n")
    monkeypatch.setattr(runtime, "Path", lambda name: path if name == "/proc/cpuinfo" else None)
    assert runtime._sums_bytes_exactly() is exact
    assert asks(a_session()) is not exact


def test_exact_sums_are_what_vnni_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    if not runtime._sums_bytes_exactly():
        pytest.skip("needs a CPU with VNNI")
    observations = random_positions(SPEC, 64, np.random.default_rng(2))
    answers = [a_session().run(observations)]
    monkeypatch.setattr(runtime, "_sums_bytes_exactly", lambda: False)
    answers.append(a_session().run(observations))
    for first, second in zip(*answers, strict=True):
        np.testing.assert_array_equal(first, second)
