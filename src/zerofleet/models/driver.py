"""Calls of NVIDIA's driver itself: the number of GPUs, and memory that they read directly.

ONNX Runtime's Python interface offers neither. The driver's library has the same name on every
machine with an NVIDIA GPU, whatever CUDA a wheel was built for.
"""

from __future__ import annotations

import ctypes
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
        status = getattr(self._driver, function)(*arguments)
        if status != 0:
            raise OSError(f"{function} of {_DRIVER} failed with CUDA error {status}")

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
    """GPUs that this process may use.

    Raises:
        OSError: there is no NVIDIA driver, or it does not work.
    """
    count = ctypes.c_int()
    status = _driver().cuDeviceGetCount(ctypes.byref(count))
    if status != 0:
        raise OSError(f"cuDeviceGetCount of {_DRIVER} failed with CUDA error {status}")
    return count.value


@cache
def _driver() -> ctypes.CDLL:
    driver = ctypes.CDLL(_DRIVER)
    status = driver.cuInit(0)
    if status != 0:
        raise OSError(f"cuInit of {_DRIVER} failed with CUDA error {status}")
    return driver


@cache
def _context(device: int) -> ctypes.c_void_p:
    """The context that the CUDA runtime, and so ONNX Runtime, uses on this device."""
    driver, handle, context = _driver(), ctypes.c_int(), ctypes.c_void_p()
    status = driver.cuDeviceGet(ctypes.byref(handle), device)
    if status == 0:
        status = driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), handle)
    if status != 0:
        raise OSError(f"no context on GPU {device}: CUDA error {status} of {_DRIVER}")
    return context
