"""ONNX Runtime: the parts that are used, with types, and its execution providers with options.

Only this module imports it (linted), because its wheels have telemetry, which is switched off here.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from zerofleet.errors import ConfigError
from zerofleet.models.graph import has_half_weights
from zerofleet.prediction import OBSERVATION, VariantPrecision

# Since 1.31 the import alone writes an id of the machine under ~/.cache/Microsoft/DeveloperTools
# and queues events for the maker's server, unless this is in the environment before.
os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime as ort

_ort = cast("Any", ort)

# ONNX Runtime writes this when memory is short or a call of CUDA's libraries fails. The classes of
# its errors do not tell: files that it refuses raise the same ones.
_OF_THE_MACHINE = re.compile(
    r"Failed to allocate memory|std::bad_alloc"
    r"|\b(CUDA|CUDNN|CUDNN_FE|CUBLAS|CURAND|CUFFT) failure \d"
)


ProviderName = Literal["cpu", "cuda", "tensorrt", "openvino"]


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
    """Tensors that a run reads and writes."""

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
        """Return the providers that it may run on, best first."""
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
    """Return whether an error is about this machine's memory or GPU, not about the model.

    A model that needs more memory than there is counts as the machine's failure, too: one more
    failed try costs less than rejecting a good model.
    """
    return isinstance(error, MemoryError) or _OF_THE_MACHINE.search(str(error)) is not None


@cache
def _sums_bytes_exactly() -> bool:
    """Return whether this CPU adds products of 8 bits in 32; two of them in 16 overflow.

    Without VNNI, x86 adds them in 16: an int8 model then answers fast and wrong. Exact sums cost
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
    """Return the providers that the installed ONNX Runtime was built with, by its own names."""
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

    ONNX Runtime finds the libraries of the system by itself. What it prints about missing ones is
    discarded, because ``library_fault`` reports the first one.
    """
    preload = getattr(_ort, "preload_dlls", None)
    if preload is not None:
        with contextlib.redirect_stdout(io.StringIO()):
            preload()


def library_fault(name: ProviderName) -> str:
    """Return why the library of a provider cannot be loaded; empty if it can be.

    ONNX Runtime only prints the reason, and then leaves the provider out. Call this only after it
    has tried to load the provider: the library stores a pointer to ONNX Runtime when it is loaded.
    """
    folder = Path(_ort.__file__).parent / "capi"
    try:
        ctypes.CDLL(str(folder / "libonnxruntime_providers_shared.so"), ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(folder / f"libonnxruntime_providers_{name}.so"))
    except OSError as error:
        return str(error)
    return ""


def only_errors() -> None:
    """Let ONNX Runtime print errors and no warnings, from now on."""
    _ort.set_default_logger_severity(3)


Options = dict[str, str]

ONNX_NAMES: dict[ProviderName, str] = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "openvino": "OpenVINOExecutionProvider",
}
GPUS = frozenset({"cuda", "tensorrt"})
FAST_PRECISIONS: dict[ProviderName, frozenset[VariantPrecision]] = {
    "cpu": frozenset({"int8"}),
    "openvino": frozenset({"int8"}),
    "cuda": frozenset({"fp16"}),
    "tensorrt": frozenset({"fp16"}),
}
"""Precisions that each provider may compute faster than fp32. It would translate others."""
_WHEELS: dict[ProviderName, str] = {
    "cpu": "onnxruntime",
    "cuda": "onnxruntime-gpu",
    "tensorrt": "onnxruntime-gpu",
    "openvino": "onnxruntime-openvino",
}


@dataclass(frozen=True, slots=True)
class Provider:
    """One execution provider and how it is used.

    Args:
        name: which one.
        device: number of the GPU, as ``CUDA_VISIBLE_DEVICES`` counts them.
        max_rows: most rows of a batch; on a GPU the largest of the buckets.
        cache_folder: where TensorRT keeps its engines and timings; None: nowhere, so that every
            start builds them again.
    """

    name: ProviderName = "cpu"
    device: int = 0
    max_rows: int = 1024
    cache_folder: Path | None = None

    @property
    def is_gpu(self) -> bool:
        """Whether the network runs on a GPU."""
        return self.name in GPUS

    @property
    def buckets(self) -> tuple[int, ...]:
        """Batch sizes that batches are padded to, ascending; the last is ``max_rows``.

        Each costs a session of its own. For a small network a GPU takes about as long for 64 rows
        as for one, so that the small sizes are far apart; above, each is twice the last.
        """
        sizes = [1, 4, 16, 64]
        while sizes[-1] < self.max_rows:
            sizes.append(2 * sizes[-1])
        return (*(size for size in sizes if size < self.max_rows), self.max_rows)

    def options(self, model_bytes: bytes, observation_bytes: int) -> list[tuple[str, Options]]:
        """Return the providers for ``onnxruntime.InferenceSession``, in order of preference.

        Args:
            model_bytes: TensorRT's engines are named by their hash.
            observation_bytes: bytes of one packed observation.
        """
        cpu: tuple[str, Options] = (ONNX_NAMES["cpu"], {})
        if self.name == "cuda":
            return [(ONNX_NAMES["cuda"], self._cuda(model_bytes)), cpu]
        if self.name == "tensorrt":
            tensorrt = (ONNX_NAMES["tensorrt"], self._tensorrt(model_bytes, observation_bytes))
            return [tensorrt, (ONNX_NAMES["cuda"], self._cuda(model_bytes)), cpu]
        if self.name == "openvino":
            return [(ONNX_NAMES["openvino"], _openvino()), cpu]
        return [cpu]

    def _cuda(self, model_bytes: bytes) -> Options:
        return {
            "device_id": str(self.device),
            "arena_extend_strategy": "kSameAsRequested",
            # The exhaustive search times every algorithm again for every layer and bucket, while
            # the model before is answering; models change every few minutes.
            "cudnn_conv_algo_search": "HEURISTIC",
            "cudnn_conv_use_max_workspace": "1",
            # A copy stream of its own would race with the computation.
            "do_copy_in_default_stream": "1",
            # TF32 is off for fp32 models, because variants are compared with them. It is on for
            # fp16 models: to ONNX Runtime it means any use of tensor cores. Without it, each
            # convolution in fp16 logs an error and runs unfused.
            "use_tf32": "1" if has_half_weights(model_bytes) else "0",
        }

    def _tensorrt(self, model_bytes: bytes, observation_bytes: int) -> Options:
        def shape(rows: int) -> str:
            return f"{OBSERVATION}:{rows}x{observation_bytes}"

        options = {
            "device_id": str(self.device),
            "trt_profile_min_shapes": shape(1),
            "trt_profile_opt_shapes": shape(max(1, self.max_rows // 4)),
            "trt_profile_max_shapes": shape(self.max_rows),
            # With this TensorRT may compute any layer in half: only files that were accepted so.
            "trt_fp16_enable": "1" if has_half_weights(model_bytes) else "0",
            "trt_layer_norm_fp32_fallback": "1",
            "trt_context_memory_sharing_enable": "1",
            "trt_force_sequential_engine_build": "1",
        }
        if self.cache_folder is None:
            return options
        folder = str(self.cache_folder)
        # TensorRT's own name of an engine says which layers there are and not which weights, and
        # all models of a run have the same layers: without the hash each would answer as the first.
        prefix = f"{sha256(model_bytes).hexdigest()[:32]}-{self.max_rows}"
        return options | {
            "trt_engine_cache_enable": "1",
            "trt_engine_cache_path": folder,
            "trt_engine_cache_prefix": prefix,
            "trt_timing_cache_enable": "1",
            "trt_timing_cache_path": folder,
        }


CPU = Provider()


def choose(wanted: str, offered: Sequence[str], installed: Sequence[str] = ()) -> ProviderName:
    """The provider that is meant, if the installed ONNX Runtime has it.

    Args:
        wanted: ``[inference] provider``; ``auto`` is CUDA where it is offered, else the CPU.
        offered: ``onnxruntime.get_available_providers()``.
        installed: distributions of ONNX Runtime with their versions, for the message.

    Raises:
        ConfigError: the one that is named is not offered.
    """
    if wanted == "auto":
        return "cuda" if ONNX_NAMES["cuda"] in offered else "cpu"
    for name, onnx_name in ONNX_NAMES.items():
        if name == wanted and onnx_name in offered:
            return name
        if name == wanted:
            names = " ".join(each.partition(" ")[0] for each in installed) or "onnxruntime"
            raise ConfigError(
                f"[inference] provider = '{wanted}': ONNX Runtime as installed "
                f"({', '.join(installed) or 'unknown'}) offers {', '.join(offered)}. Its wheels "
                f"replace each other: pip uninstall -y {names} && pip install {_WHEELS[name]}"
            )
    raise ConfigError(f"[inference] provider = '{wanted}': give auto, {', '.join(ONNX_NAMES)}")


def _openvino() -> Options:
    return {
        "device_type": "CPU",
        # As the file says: left alone it would compute fp32 in bf16 where the CPU can.
        "precision": "ACCURACY",
        "num_of_threads": "1",
        "num_streams": "1",
    }


_KEPT_ENGINES = 24


def prune_engines(folder: Path, kept: int = _KEPT_ENGINES) -> int:
    """Remove all but the newest of TensorRT's engines, of which each loaded model leaves one.

    Files of the same name as an engine go with it. The timings stay: every build uses them again.

    Args:
        folder: TensorRT's cache; it need not exist yet.
        kept: how many engines stay.

    Returns:
        Number of engines removed.
    """
    found = list[tuple[int, Path]]()
    for path in folder.glob("*.engine"):
        with contextlib.suppress(FileNotFoundError):  # other processes may share the folder
            found.append((path.stat().st_mtime_ns, path))
    old = [path for _, path in sorted(found, reverse=True)[kept:]]
    for path in old:
        path.unlink(missing_ok=True)
        path.with_suffix(".profile").unlink(missing_ok=True)
    return len(old)
