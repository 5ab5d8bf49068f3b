"""The parts of ONNX Runtime that are used, with the types that it does not ship.

Only this module imports it (linted), because its wheels have telemetry, which is switched off here.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

# Since 1.31 the import alone writes an id of the machine under ~/.cache/Microsoft/DeveloperTools
# and queues events for the maker's server, unless this is in the environment before.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime as ort

_ort = cast("Any", ort)

# What ONNX Runtime writes when memory is short or a call of CUDA's libraries fails. The classes of
# its errors do not tell: files that it refuses raise the same ones.
_OF_THE_MACHINE = re.compile(
    r"Failed to allocate memory|std::bad_alloc"
    r"|\b(CUDA|CUDNN|CUDNN_FE|CUBLAS|CURAND|CUFFT) failure \d"
)


class Node(Protocol):
    """An input or an output."""

    name: str
    type: str
    shape: Sequence[int | str | None]


class Value(Protocol):
    """A tensor on some device."""

    def update_inplace(self, data: NDArray[Any]) -> None:
        """Copy an array of the same size into it."""
        ...

    def numpy(self) -> NDArray[Any]:
        """Its content on the host: a copy, or its own memory where that is on the host."""
        ...


class Binding(Protocol):
    """Which tensors a run reads and writes."""

    def bind_ortvalue_input(self, name: str, ortvalue: Value) -> None:
        """Read an input from there."""
        ...

    def bind_ortvalue_output(self, name: str, ortvalue: Value) -> None:
        """Write an output there."""
        ...


class OrtSession(Protocol):
    """A loaded model."""

    def get_inputs(self) -> Sequence[Node]:
        """Its inputs."""
        ...

    def get_outputs(self) -> Sequence[Node]:
        """Its outputs."""
        ...

    def get_providers(self) -> Sequence[str]:
        """What it may run on, best first."""
        ...

    def run(self, outputs: Sequence[str], inputs: Mapping[str, object]) -> Sequence[object]:
        """Run it from arrays to arrays."""
        ...

    def io_binding(self) -> Binding:
        """A binding of this session."""
        ...

    def run_with_iobinding(self, iobinding: Binding) -> None:
        """Run it on what is bound; when it returns, the outputs are written."""
        ...


def open_runtime(
    model_bytes: bytes, providers: Sequence[tuple[str, Mapping[str, str]]], threads: int
) -> OrtSession:
    """A session of ONNX Runtime.

    Args:
        model_bytes: the model.
        providers: names and options, best first.
        threads: of one run on the CPU.

    Raises:
        Exception: of a class of ONNX Runtime's own; they have no base in common.
    """
    options = _ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Threads that spin while they wait take the cores that the search needs.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.add_session_config_entry("session.inter_op.allow_spinning", "0")
    if not _sums_bytes_exactly():
        options.add_session_config_entry("session.x64quantprecision", "1")
    # Without fallback a provider that fails raises, and ONNX Runtime does not take another one.
    return _ort.InferenceSession(model_bytes, options, providers=list(providers), enable_fallback=0)


def is_machine_failure(error: Exception) -> bool:
    """Whether an error of ONNX Runtime is about this machine's memory or GPU, not about the model.

    A model that needs more memory than there is counts as the machine's failure, too: one more
    failed try costs less than rejecting a good model.
    """
    return isinstance(error, MemoryError) or _OF_THE_MACHINE.search(str(error)) is not None


@cache
def _sums_bytes_exactly() -> bool:
    """Whether this CPU adds products of 8 bits in 32, and not two of them in 16, which overflows.

    Without VNNI, x86 does the latter: an int8 model then answers fast and wrong. Exact sums cost
    about half the speed, also where they are not needed, so they are asked for there alone.
    """
    try:
        return "vnni" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False


def new_value(shape: Sequence[int], kind: type[np.generic], memory: str, device: int) -> Value:
    """A tensor with no content yet.

    Args:
        shape: its sizes.
        kind: numpy's type of its numbers.
        memory: ``cpu`` or ``cuda``.
        device: number of the GPU.
    """
    return _ort.OrtValue.ortvalue_from_shape_and_type(list(shape), kind, memory, device)


def offered_providers() -> list[str]:
    """What the installed ONNX Runtime was built with, by its own names."""
    return list(_ort.get_available_providers())


def installed_runtimes() -> list[str]:
    """The wheels of ONNX Runtime that are installed, as ``name version``: two are one too many."""
    from importlib.metadata import distributions  # imported here: loading a model does not need it

    return sorted(
        f"{each.name} {each.version}"
        for each in distributions()
        if each.name.lower().replace("_", "-").startswith("onnxruntime")
    )


def load_cuda() -> None:
    """Load CUDA's libraries from their wheels, where they were installed as such.

    ONNX Runtime finds those of the system by itself. It prints what it does not find; what fails
    for want of it afterwards says so better.
    """
    preload = getattr(_ort, "preload_dlls", None)
    if preload is not None:
        with contextlib.redirect_stdout(sys.stderr):
            preload()


def only_errors() -> None:
    """Let ONNX Runtime print errors and no warnings, from now on."""
    _ort.set_default_logger_severity(3)
