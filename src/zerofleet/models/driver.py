"""Calls of NVIDIA's driver itself: names and memory of GPUs, and memory that GPUs read directly.

ONNX Runtime's Python interface offers neither. The driver's library has the same name on every
machine with an NVIDIA GPU, whatever CUDA a wheel was built for.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache

import numpy as np
import structlog
from numpy.typing import NDArray

from zerofleet.models.runtime import Provider

_log = structlog.get_logger()

_DRIVER = "libcuda.so.1"
_PORTABLE = 1  # pinned for every context, so for whichever thread copies


class _PinnedMemory:
    """A page-locked block; it lives as long as any array over it."""

    def __init__(self, driver: ctypes.CDLL, device: int, size: int) -> None:
        self._driver = driver
        self._context = _context(device)
        address = ctypes.c_void_p()
        self._call("cuCtxPushCurrent_v2", self._context)
        try:
            self._call("cuMemHostAlloc", ctypes.byref(address), ctypes.c_size_t(size), _PORTABLE)
        finally:
            self._pop()
        self._address = address
        self.__array_interface__ = {
            "version": 3,
            "data": (address.value, False),
            "shape": (size,),
            "typestr": "|u1",
        }

    def __del__(self) -> None:
        if getattr(self, "_address", None):
            self._driver.cuCtxPushCurrent_v2(self._context)
            self._driver.cuMemFreeHost(self._address)
            self._pop()

    def _call(self, function: str, *arguments: object) -> None:
        _check(getattr(self._driver, function)(*arguments), function)

    def _pop(self) -> None:
        self._driver.cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def pinned_array(shape: tuple[int, int], provider: Provider) -> NDArray[np.uint8]:
    """An array of zeros that the provider's device copies from: page-locked for a GPU.

    Args:
        shape: rows, and bytes of each.
        provider: whose device.
    """
    if not provider.is_gpu:
        return np.zeros(shape, np.uint8)
    try:
        memory = _PinnedMemory(_driver(), provider.device, shape[0] * shape[1])
    except OSError as error:
        _log.info("host_memory_not_pinned", reason=str(error))
        return np.zeros(shape, np.uint8)
    array = np.asarray(memory).reshape(shape)
    array[:] = 0
    return array


def device_count() -> int:
    """Number of GPUs that this process may use.

    Raises:
        OSError: there is no NVIDIA driver, or it does not work.
    """
    count = ctypes.c_int()
    _check(_driver().cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount")
    return count.value


@dataclass(frozen=True, slots=True)
class Gpu:
    """Name and memory of a GPU.

    Args:
        name: product name, such as ``NVIDIA H200``.
        memory_bytes: all of its memory, in use or not.
    """

    name: str
    memory_bytes: int

    def __str__(self) -> str:
        return f"{self.name}, {self.memory_bytes / 2**30:.0f} GiB"


def gpu_of(device: int) -> Gpu:
    """Return the name and the memory of a GPU.

    Args:
        device: its number, as ``CUDA_VISIBLE_DEVICES`` counts them.

    Raises:
        OSError: there is no NVIDIA driver, it does not work, or it has no GPU of this number.
    """
    count = device_count()
    if device >= count:
        raise OSError(f"NVIDIA's driver has no GPU {device}: it has {count}, numbered from 0")
    driver, handle, memory = _driver(), ctypes.c_int(), ctypes.c_size_t()
    name = ctypes.create_string_buffer(256)
    _check(driver.cuDeviceGet(ctypes.byref(handle), device), "cuDeviceGet")
    _check(driver.cuDeviceGetName(name, len(name), handle), "cuDeviceGetName")
    _check(driver.cuDeviceTotalMem_v2(ctypes.byref(memory), handle), "cuDeviceTotalMem")
    return Gpu(name.value.decode(errors="replace"), memory.value)


@cache
def _driver() -> ctypes.CDLL:
    try:
        driver = ctypes.CDLL(_DRIVER)
    except OSError as error:
        raise OSError(
            f"NVIDIA's driver is missing ({error}): install it, and start containers with a GPU"
        ) from error
    status = driver.cuInit(0)
    if status != 0:
        raise OSError(f"NVIDIA's driver cannot be used: {_error_text(driver, status)}")
    return driver


def _check(status: int, function: str) -> None:
    """Raise ``OSError`` if a call of the driver has failed."""
    if status != 0:
        text = _error_text(_driver(), status)
        raise OSError(f"{function} of NVIDIA's driver failed: {text}")


def _error_text(driver: ctypes.CDLL, status: int) -> str:
    text = ctypes.c_char_p()
    driver.cuGetErrorString(status, ctypes.byref(text))
    words = (text.value or b"unknown error").decode(errors="replace")
    return f"{words} (CUDA error {status})"


@cache
def _context(device: int) -> ctypes.c_void_p:
    """The context that the CUDA runtime, and so ONNX Runtime, uses on this device."""
    driver, handle, context = _driver(), ctypes.c_int(), ctypes.c_void_p()
    _check(driver.cuDeviceGet(ctypes.byref(handle), device), "cuDeviceGet")
    retain = driver.cuDevicePrimaryCtxRetain
    _check(retain(ctypes.byref(context), handle), "cuDevicePrimaryCtxRetain")
    return context
